"""Adapters for language models; each is imported when a model id first asks for it."""
