"""One module for each peer: the same four pieces of work, through the peer's public API."""
