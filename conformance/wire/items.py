"""What the expected files say of the items of an answer: their types, and what is signed."""

from typing import Any

from procession.chunks import Chunk

__all__ = ["items_of"]


def items_of(chunks: list[Chunk], api: str) -> dict[str, Any]:
    """The keys that only some wire formats have."""
    return {"signatures": _signatures(chunks)} if api == "generate" else {}


def _signatures(chunks: list[Chunk]) -> int:
    """How many parts are signed. What a call's start says, the call says again."""
    said = [_own(chunk) for chunk in chunks if not chunk.type.endswith("-start")]
    return sum(len({"thoughtSignature", "resultThoughtSignature"} & own.keys()) for own in said)


def _own(chunk: Chunk) -> dict[str, Any]:
    """What the provider says of a chunk."""
    metadata = getattr(chunk.payload, "provider_metadata", None)
    return next(iter(metadata.values()), {}) if isinstance(metadata, dict) else {}
