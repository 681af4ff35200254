"""Embedders; each is imported when an id first asks for it."""
