"""What the expected files say of the items of an answer: their types, and what is signed."""

from typing import Any

from procession.chunks import Chunk

__all__ = ["items_of"]


def items_of(chunks: list[Chunk], api: str) -> dict[str, Any]:
    """The keys that only some wire formats have."""
    if api == "generate":
        return {"signatures": _signatures(chunks)}
    return _responses(chunks) if api == "responses" else {}


_ITEMS = {"text-start": "message", "reasoning-start": "reasoning", "tool-call": "function_call"}


def _responses(chunks: list[Chunk]) -> dict[str, Any]:
    """An item may be several blocks; what is encrypted stands at the end of its last one."""
    types: dict[Any, str] = {}
    encrypted = 0
    for chunk in chunks:
        own = _own(chunk)
        if chunk.type in _ITEMS:
            key = own.get("itemId") or len(types)
            types.setdefault(key, own.get("itemType") or _ITEMS[chunk.type])
        encrypted += chunk.type == "reasoning-end" and "reasoningEncryptedContent" in own
    return {"itemTypes": list(types.values()), "encryptedReasoning": encrypted}


def _signatures(chunks: list[Chunk]) -> int:
    """How many parts are signed. What a call's start says, the call says again."""
    said = [_own(chunk) for chunk in chunks if not chunk.type.endswith("-start")]
    return sum(len({"thoughtSignature", "resultThoughtSignature"} & own.keys()) for own in said)


def _own(chunk: Chunk) -> dict[str, Any]:
    """What the provider says of a chunk."""
    metadata = getattr(chunk.payload, "provider_metadata", None)
    return next(iter(metadata.values()), {}) if isinstance(metadata, dict) else {}
