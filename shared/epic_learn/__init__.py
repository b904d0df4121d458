"""Learning: conversations as they are, and proposals of what to remember from them, for the user to decide about."""
