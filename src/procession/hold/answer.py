"""The text of an answer that is to be an object, held back leaf by leaf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..chunks import Chunk, DeltaPayload
from .arguments import WITHHELD
from .lane import bare
from .leafwise import Leafwise, Root
from .prose import ProseReader
from .written import ANSWER, Written, collect

if TYPE_CHECKING:
    from .lane import Rules
    from .leafwise import Work

__all__ = ["TEXTS", "AnswerText"]

TEXTS = frozenset({"text-start", "text-delta", "text-end"})


class AnswerText:
    """Holds back the leaves of the JSON in a text, and the words around it.

    The JSON is written anew, always the same way; the words stay as they are.
    """

    __slots__ = ("_blocks", "_leaves", "_written")

    def __init__(self, rules: Rules) -> None:
        self._leaves = Leafwise(rules, ANSWER, of_object=True)
        self._blocks: dict[str, Root] = {}
        self._written: Written | None = None
        """What is being written, while the hook is called with leaves."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held back."""
        return all(block.is_empty for block in self._blocks.values())

    def clear(self) -> None:
        """Forget what is held back, and what has left."""
        self._blocks.clear()
        self._leaves.unsure.clear()
        self._written = None
        assert self._leaves.settled is not None
        self._leaves.settled.clear()

    def is_sure_of(self, id: str) -> bool:
        """Whether what is found in a block of text as JSON are leaves that the hook has seen."""
        return id not in self._leaves.unsure

    def stop(self, passing: Chunk | None) -> bool:
        """As `Arguments.stop`."""
        written, self._written = self._written, None
        if written is not None:
            written.stop(passing)
        return written is not None

    def takes(self, part: Chunk) -> bool:
        """Whether a chunk of a block of text is more than to be passed."""
        if part.type == ANSWER.chunk:
            return bool(part.payload.text)
        return part.type == "text-end" and part.payload.id in self._blocks

    def work(self, part: Chunk, results: list[Any]) -> Work:
        """What is to be done for such a chunk.

        What comes of it becomes part of `results`, as it comes.
        """
        id = part.payload.id
        if part.type != ANSWER.chunk:
            yield from self.block_ends(id, results)
            collect(results, (yield part, None))
            return results
        block = self._blocks.get(id)
        if block is None:
            block = self._blocks[id] = Root(id, bare(part), ProseReader())
        return (yield from self._delta(block, part, results))

    def block_ends(self, id: str, results: list[Any]) -> Work:
        """What is left of a block leaves."""
        block = self._blocks.pop(id, None)
        if block is not None:
            written = self._written = Written(ANSWER, block.model, results, block.said)
            yield from self._leaves.rest(block, written)
            self._written = None
            written.close()
        return results

    def last(self, results: list[Any]) -> Work:
        """The stream has ended: what is left of blocks that have not."""
        for id in list(self._blocks):
            yield from self.block_ends(id, results)
        return results

    def value(self, value: Any) -> Work:
        """The object that has been read, as the hook leaves it, in a list with what else it makes
        of it. Leaves that have left just so are not shown again.
        """
        results: list[Any] = []
        root = Root("object", Chunk(ANSWER.chunk, DeltaPayload(id="object", text="")))
        written = Written(ANSWER, root.model, results)
        made = yield from self._leaves.rewritten(root, value, written)
        return [(made, results)]

    def _delta(self, block: Root, part: Chunk, results: list[Any]) -> Work:
        said = block.said
        written = self._written = Written(ANSWER, part, results, said)
        yield from self._leaves.events(block, block.reader.feed(part.payload.text), written)
        self._written = None
        if written.close():
            block.said = []
        elif _says_more(part):
            said.append(part)
        return results or [WITHHELD]


def _says_more(part: Chunk) -> bool:
    payload = part.payload
    return not (
        payload.provider_metadata is UNSET
        and part.metadata is None
        and payload.extra is None
        and part.extra is None
    )
