"""The user's mask, for every text of a recording before it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

__all__ = ["masked", "masked_chunks"]

Mask = Callable[[str], str]

_NAMES = frozenset(
    {
        *("type", "role", "id", "kind", "name", "line", "part", "toolCallId", "processorId"),
        *("state", "status", "outcome", "finishReason", "startedAt", "runId", "agentId"),
    }
)
"""What stands under these keys are names and no texts."""
_PIECE = {"text-delta": "text", "reasoning-delta": "text", "tool-call-delta": "argsTextDelta"}


def masked(value: Any, mask: Mask | None) -> Any:
    """JSON data with each text masked."""
    if mask is None or value is None:
        return value
    if isinstance(value, str):
        return _of_text(value, mask)
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {
            key: entry if key in _NAMES and isinstance(entry, str) else masked(entry, mask)
            for key, entry in pairs
        }
    if isinstance(value, list):
        return [masked(entry, mask) for entry in cast("list[Any]", value)]
    return value


def _of_text(text: str, mask: Mask) -> str:
    try:
        made: Any = mask(text)
    except Exception as error:
        return f"(the mask raised {type(error).__name__})"
    if isinstance(made, str):
        return made
    return f"(the mask gave {type(made).__name__} and no text)"


def masked_chunks(chunks: list[list[Any]], mask: Mask | None) -> list[list[Any]]:
    """Chunks with their texts masked as wholes: where they were cut must not matter.

    What has changed thereby stands in the first piece of its block.
    """
    if mask is None:
        return chunks
    blocks: dict[tuple[str, Any], list[dict[str, Any]]] = {}
    others: list[list[Any]] = []
    for at, chunk in chunks:
        payload = chunk.get("payload")
        name = _PIECE.get(chunk["type"])
        if name is None or not isinstance(payload, dict):
            others.append([at, masked(chunk, mask)])
            continue
        piece = {**chunk, "payload": dict(cast("dict[str, Any]", payload))}
        lane = (chunk["type"], piece["payload"].get("id") or piece["payload"].get("toolCallId"))
        blocks.setdefault(lane, []).append(piece["payload"])
        others.append([at, piece])
    for (kind, _), pieces in blocks.items():
        name = _PIECE[kind]
        whole = "".join(piece.get(name, "") for piece in pieces)
        made = masked(whole, mask)
        if made != whole:
            for number, piece in enumerate(pieces):
                piece[name] = "" if number else made
    return others
