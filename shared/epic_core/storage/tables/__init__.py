"""Repositories: one module for each table of the file."""
