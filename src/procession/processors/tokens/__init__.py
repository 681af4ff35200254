"""Keeping prompts and answers within a number of tokens."""
