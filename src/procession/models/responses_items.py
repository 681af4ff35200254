"""The items of an answer under way: messages and reasoning, turned into blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..chunks import BlockPayload, Chunk, DeltaPayload
from .json_values import mappings, new_prefix, word
from .responses_sources import source_chunk

if TYPE_CHECKING:
    from .half_characters import HalfCharacters
    from .responses_wire import Item

__all__ = ["Blocks", "MessageItem", "ReasoningItem"]


class Blocks:
    """Makes the blocks of one answer."""

    __slots__ = ("_count", "_prefix", "halves", "provider")

    def __init__(self, provider: str, halves: HalfCharacters) -> None:
        self.provider = provider
        self.halves = halves
        self._prefix = new_prefix()
        self._count = 0

    def open(self, out: list[Chunk], kind: str, meta: Item) -> str:
        """Begin a block of `text` or `reasoning`; its id."""
        block = f"{kind}-{self._prefix}-{self._count}"
        self._count += 1
        payload = BlockPayload(id=block, provider_metadata=self._own(meta))
        out.append(Chunk(type=f"{kind}-start", payload=payload))
        return block

    def add(self, out: list[Chunk], kind: str, block: str, text: str) -> None:
        """More text of an open block."""
        text = self.halves.whole(block, text)
        if text:
            self._delta(out, kind, block, text)

    def close(self, out: list[Chunk], kind: str, block: str, meta: Item) -> None:
        """End a block."""
        lost = self.halves.end(block)
        if lost:
            self._delta(out, kind, block, lost)
        payload = BlockPayload(id=block, provider_metadata=self._own(meta))
        out.append(Chunk(type=f"{kind}-end", payload=payload))

    def _delta(self, out: list[Chunk], kind: str, block: str, text: str) -> None:
        out.append(Chunk(type=f"{kind}-delta", payload=DeltaPayload(id=block, text=text)))

    def _own(self, meta: Item) -> Any:
        return {self.provider: meta} if meta else UNSET


class MessageItem:
    """A message: each of its texts and refusals is a block."""

    __slots__ = ("_annotated", "_blocks", "_meta", "_seen", "_seen_part", "block")

    def __init__(self, blocks: Blocks, item: Item, after: str) -> None:
        self.block = ""
        """The id of the open block; empty while none is."""
        self._blocks = blocks
        self._meta = _identity(item, after)
        if word(item.get("phase")):
            self._meta["phase"] = item["phase"]
        self._seen: set[Any] = set()  # the parts whose text has come
        self._seen_part: Any = None
        self._annotated: dict[Any, int] = {}

    def add(self, out: list[Chunk], index: Any, text: str, *, refusal: bool = False) -> None:
        """More of the message's part at `index`."""
        if not self.block or self._seen_part != index:
            self.close(out)
            self._seen_part = index
            self._seen.add(index or 0)
            meta = {**self._meta, "refusal": True} if refusal else self._meta
            self.block = self._blocks.open(out, "text", meta)
        self._blocks.add(out, "text", self.block, text)

    def annotate(self, out: list[Chunk], index: Any, annotation: Item) -> None:
        """A source of the part at `index`."""
        self._annotated[index or 0] = self._annotated.get(index or 0, 0) + 1
        source = source_chunk(self._blocks.provider, annotation)
        if source is not None:
            out.append(source)

    def close(self, out: list[Chunk]) -> None:
        """End the open block, if there is one."""
        if self.block:
            self._blocks.close(out, "text", self.block, {})
            self.block = ""

    def done(self, out: list[Chunk], item: Item) -> None:
        """The message is complete; what no event brought is in `item`."""
        for index, part in enumerate(mappings(item.get("content"))):
            refusal = word(part.get("refusal"))
            text = refusal or word(part.get("text"))
            if text and index not in self._seen:
                self.add(out, index, text, refusal=bool(refusal))
            for annotation in mappings(part.get("annotations"))[self._annotated.get(index, 0) :]:
                self.annotate(out, index, annotation)
        self.close(out)


class ReasoningItem:
    """Reasoning: a block for each part of its summary, or of its text where that is shown.

    There is one at least, for what must be sent back: the encrypted reasoning stands at the end of
    the last block, as the complete item has it.
    """

    __slots__ = ("_at", "_block", "_blocks", "_meta", "_seen")

    def __init__(self, out: list[Chunk], blocks: Blocks, item: Item) -> None:
        self._blocks = blocks
        self._meta = _identity(item, "")
        if item.get("type") != "reasoning":
            self._meta["itemType"] = item.get("type")
        self._seen: set[tuple[str, int]] = set()
        self._at: tuple[str, int] | None = None
        self._block = blocks.open(out, "reasoning", self._meta)

    def add(self, out: list[Chunk], kind: str, index: Any, text: str) -> None:
        """More of the part of this kind (`summary` or `content`) at `index`."""
        at = (kind, index or 0)
        if self._at != at:
            if self._at is not None:
                self._blocks.close(out, "reasoning", self._block, self._part_meta())
                self._block = self._blocks.open(out, "reasoning", self._meta)
            self._at = at
            self._seen.add(at)
        self._blocks.add(out, "reasoning", self._block, text)

    def done(self, out: list[Chunk], item: Item) -> None:
        """The reasoning is complete; what no event brought is in `item`."""
        for kind in ("summary", "content"):
            for index, part in enumerate(mappings(item.get(kind))):
                text = word(part.get("text"))
                if text and (kind, index) not in self._seen:
                    self.add(out, kind, index, text)
        meta = self._part_meta()
        if word(item.get("encrypted_content")):
            meta = {**meta, "reasoningEncryptedContent": item["encrypted_content"]}
        self._blocks.close(out, "reasoning", self._block, meta)

    def _part_meta(self) -> Item:
        if self._at is not None and self._at[0] == "content":
            return {**self._meta, "reasoningText": True}
        return self._meta


def _identity(item: Item, after: str) -> Item:
    """What is needed to send the item back."""
    meta: Item = {}
    if word(item.get("id")):
        meta["itemId"] = item["id"]
    if after:
        meta["afterReasoning"] = after
    return meta
