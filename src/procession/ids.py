"""Ids of runs, messages and signals: random UUIDs (version 4), as the reference writes them."""

from __future__ import annotations

from os import urandom

__all__ = ["new_id"]


def new_id() -> str:
    """A random UUID as text; the same as `str(uuid4())`, at a third of its price."""
    text = urandom(16).hex()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"
