"""Remembered text within a system message: between tags that it cannot close itself."""

from __future__ import annotations

__all__ = ["block"]


def block(name: str, text: str) -> str:
    """`text` as the content of an element; what looks like its end is taken apart."""
    inside = text.strip().replace(f"</{name}", f"< /{name}")
    return f"<{name}>\n{inside}\n</{name}>"
