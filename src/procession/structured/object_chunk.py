"""`object` and `object-result` chunks that know more than their JSON form (R-501).

A partial object is made when it is read: kept as a copy with every piece of text, a long answer
would take the square of its length. A final one is what the answer means in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ..chunks import Chunk
from ..records import own
from .partial_json import PartialValue

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Mapping

__all__ = ["ObjectChunk", "Validated", "elements"]

_slot: Any = Chunk.__dict__["object"]
"""Where every chunk keeps its object."""


class Validated:
    """A final value: `plain` as the model wrote it, `typed` as the schema makes it."""

    __slots__ = ("plain", "typed")

    def __init__(self, plain: Any, typed: Any) -> None:
        self.plain = plain
        self.typed = typed


class ObjectChunk(Chunk):
    """A chunk whose object is a `PartialValue` or `Validated`, or a value as it is."""

    @classmethod
    def of(
        cls,
        kind: str,
        value: Any,
        *,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ObjectChunk:
        """A chunk of the agent's."""
        known = dict(metadata) if metadata else None
        return cls(kind, run_id=run_id, from_="AGENT", object=value, metadata=known)

    @property
    def object(self) -> Any:
        """The object: partial ones are plain data, made anew each time; final ones are typed."""
        held = _slot.__get__(self)
        if isinstance(held, PartialValue):
            return held.made()
        return held.typed if isinstance(held, Validated) else held

    @object.setter
    def object(self, value: Any) -> None:
        _slot.__set__(self, value)

    @property
    def held(self) -> Any:
        """What the object is made from."""
        return _slot.__get__(self)

    def own(self) -> ObjectChunk:
        """A copy that shares no list or dict of the object: readers may change theirs."""
        held = self.held
        if isinstance(held, Validated):
            held = Validated(own(held.plain), own(held.typed))
        return ObjectChunk.of(self.type, own(held), run_id=self.run_id, metadata=self.metadata)

    def to_json(self) -> dict[str, Any]:
        """Exactly the JSON form (R-503)."""
        held = self.held
        if not isinstance(held, Validated):
            return super().to_json()
        made = cast("Any", Chunk(self.type, run_id=self.run_id, from_=self.from_))
        made.object, made.metadata, made.extra = held.plain, self.metadata, self.extra
        return made.to_json()


async def elements(chunks: AsyncIterable[Chunk]) -> AsyncGenerator[Any, None]:
    """The complete elements of the list that the chunks of a run bring, one by one."""
    given = 0
    async for chunk in chunks:
        if chunk.type == "step-start":
            given = 0
        held = chunk.held if isinstance(chunk, ObjectChunk) else None
        if chunk.type == "object" and isinstance(held, PartialValue):
            for position in range(given, held.finished):
                yield held.element(position)
            given = max(given, held.finished)
        elif chunk.type == "object-result" and isinstance(held, Validated):
            found: Any = held.plain
            rest = cast("list[Any]", found)[given:] if isinstance(found, list) else []
            for element in rest:
                yield element
