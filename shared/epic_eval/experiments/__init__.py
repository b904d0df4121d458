"""Experiments: the papers' tables and ours, each a function from a run to parts of a report."""
