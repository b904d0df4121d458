"""Token table of twenty-one languages, for epic-memory's encoder "multilingual"."""
