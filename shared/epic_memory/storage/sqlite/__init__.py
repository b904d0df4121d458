"""SQLite layer: connections, the database with its checks, and files on disk."""
