"""Processors that ask a model for a verdict, and what they have in common."""
