"""What the expected files say of the items of an answer: their types, and what is signed."""

from typing import Any

from procession.chunks import Chunk

__all__ = ["items_of"]


def items_of(chunks: list[Chunk], api: str) -> dict[str, Any]:
    """The keys that only some wire formats have."""
    if api == "generate":
        return {"signatures": _signatures(chunks)}
    if api == "messages":
        return _messages(chunks)
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


_BLOCKS = {"text-start": "text", "reasoning-start": "thinking", "tool-call": "tool_use"}


def _messages(chunks: list[Chunk]) -> dict[str, Any]:
    """Each content block by its type, and which thoughts are signed or hidden."""
    types: list[str] = []
    signatures: list[str] = []
    for chunk in chunks:
        own = _own(chunk)
        if chunk.type == "reasoning-start" and "redactedData" in own:
            types.append("redacted_thinking")
        elif chunk.type == "tool-result":
            types.append(own["resultType"])
        elif chunk.type in _BLOCKS:
            types.append(own.get("type") or _BLOCKS[chunk.type])
        elif chunk.type == "reasoning-end" and own.get("signature"):
            signatures.append(own["signature"])
    redacted = types.count("redacted_thinking")
    return {"signatures": signatures, "redacted": redacted, "itemTypes": types}


def _signatures(chunks: list[Chunk]) -> int:
    """How many parts are signed. What a call's start says, the call says again."""
    said = [_own(chunk) for chunk in chunks if not chunk.type.endswith("-start")]
    return sum(len({"thoughtSignature", "resultThoughtSignature"} & own.keys()) for own in said)


def _own(chunk: Chunk) -> dict[str, Any]:
    """What the provider says of a chunk."""
    metadata = getattr(chunk.payload, "provider_metadata", None)
    return next(iter(metadata.values()), {}) if isinstance(metadata, dict) else {}
