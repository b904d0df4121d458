"""Repositories of the tables in a memory's file."""
