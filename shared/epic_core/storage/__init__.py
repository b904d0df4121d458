"""Storage: what a memory holds, in its file and in RAM."""
