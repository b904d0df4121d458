"""The pipeline: the stages of a memory, one module for each step."""
