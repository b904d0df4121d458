"""Storage of a memory's contents, in its file and in RAM."""
