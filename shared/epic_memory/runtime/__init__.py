"""Runtime: effects run with or without an event loop, streams, batches, threads and progress."""
