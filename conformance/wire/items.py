"""What the expected files say of the items of an answer: their types, and what is signed."""

from typing import Any

from procession.chunks import Chunk

__all__ = ["items_of"]


def items_of(chunks: list[Chunk], api: str) -> dict[str, Any]:
    """The keys that only some wire formats have."""
    return {}
