"""Grammar of preferences: cues, phrases, statements, and the walk over them. Private to the parser."""
