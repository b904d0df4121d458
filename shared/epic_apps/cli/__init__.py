"""Command line `epic`: its commands, the files and folders it reads, and the demo."""
