"""The text of a chat completion as blocks: deltas of one kind, between a start and an end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, UnsetType

from ..chunks import BlockPayload, Chunk, DeltaPayload
from .json_values import new_prefix

if TYPE_CHECKING:
    from .half_characters import HalfCharacters

__all__ = ["TextBlocks", "plain_text"]


class TextBlocks:
    """Text, reasoning and refusals. One block is open at a time; another kind closes it."""

    __slots__ = ("_count", "_halves", "_prefix", "_provider", "id", "kind")

    def __init__(self, provider: str, halves: HalfCharacters) -> None:
        self.kind = ""
        """`text`, `reasoning` or `refusal`; empty while no block is open."""
        self.id = ""
        """The id of the open block, or of the last one."""
        self._provider = provider
        self._halves = halves
        self._prefix = new_prefix()
        self._count = 0

    def add(self, out: list[Chunk], kind: str, text: str) -> None:
        """More text of a kind."""
        text = self._halves.whole(kind, text)
        if not text:
            return
        if self.kind != kind:
            self.open(out, kind)
        out.append(_delta(kind, self.id, text))

    def close(self, out: list[Chunk], metadata: dict[str, Any] | UnsetType = UNSET) -> None:
        """End the open block, if there is one; `metadata` is what its end tells of all of it."""
        kind, self.kind = self.kind, ""
        if not kind:
            return
        lost = self._halves.end(kind)
        if lost:
            out.append(_delta(kind, self.id, lost))
        chunk_type = "reasoning-end" if kind == "reasoning" else "text-end"
        payload = BlockPayload(id=self.id, provider_metadata=metadata)
        out.append(Chunk(type=chunk_type, payload=payload))

    def open(self, out: list[Chunk], kind: str) -> None:
        """Begin a block, whether or not text follows."""
        self.close(out)
        self.kind = kind
        self.id = f"{kind}-{self._prefix}-{self._count}"
        self._count += 1
        start = BlockPayload(id=self.id)
        if kind == "refusal":
            start.provider_metadata = {self._provider: {"refusal": True}}
        chunk_type = "reasoning-start" if kind == "reasoning" else "text-start"
        out.append(Chunk(type=chunk_type, payload=start))


def _delta(kind: str, block: str, text: str) -> Chunk:
    chunk_type = "reasoning-delta" if kind == "reasoning" else "text-delta"
    return Chunk(type=chunk_type, payload=DeltaPayload(id=block, text=text))


def plain_text(value: Any) -> str:
    """The text of a string, a part with `text`, or a list of either."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        text = cast("dict[str, Any]", value).get("text")
        return text if isinstance(text, str) else ""
    if isinstance(value, list):
        return "".join(map(plain_text, cast("list[Any]", value)))
    return ""
