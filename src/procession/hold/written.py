"""What is written of a JSON text whose leaves a hook was called with: JSON, and other chunks."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..chunks import Chunk
from .lane import merged
from .piece import LaneKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["ANSWER", "ARGUMENTS", "Shape", "Written", "collect"]


class Shape(Struct, frozen=True):
    """How a JSON text comes: in which chunks, in which field of their payload, in which lane."""

    chunk: str
    field: str
    kind: LaneKind


ARGUMENTS = Shape("tool-call-delta", "args_text_delta", "tool-arguments")
ANSWER = Shape("text-delta", "text", "text")


def collect(results: list[Any], returned: Any) -> None:
    """Note what a hook has returned for one of several pieces."""
    if returned and returned.__class__ in (list, tuple):
        results.extend(returned)
    elif returned is not None:
        results.append(returned)


class Written:
    """What is written in place of a chunk. It becomes part of `results`.

    `said`: chunks of which nothing was written, and that say more than their text.
    """

    __slots__ = ("_json", "_part", "_said", "_shape", "as_json", "results")

    def __init__(
        self, shape: Shape, part: Chunk, results: list[Any], said: Sequence[Chunk] = ()
    ) -> None:
        self._shape = shape
        self._part = part
        self._said = said
        self._json: list[str] = []
        self.results = results
        self.as_json: Callable[[str], str] | None = None
        """How the text is written that the hook is being called with; `None`: it is not."""

    def add(self, json: str) -> None:
        self._json.append(json)

    def taken(self, returned: Any) -> str:
        """The text that a hook returned; other chunks go before what follows."""
        found: list[Any] = []
        collect(found, returned)
        texts: list[str] = []
        for chunk in found:
            if isinstance(chunk, Chunk) and chunk.type == self._shape.chunk:
                texts.append(getattr(chunk.payload, self._shape.field))
            else:
                self.close()
                self.results.append(chunk)
        return "".join(texts)

    def close(self) -> bool:
        """What has been written becomes a chunk, if there is anything."""
        json = "".join(self._json)
        self._json.clear()
        if not json:
            return False
        if self._said:
            chunk = merged([*self._said, self._part])
            self._said = ()
        else:
            chunk = copy(self._part)
            chunk.payload = copy(chunk.payload)
        setattr(chunk.payload, self._shape.field, json)
        self.results.append(chunk)
        return True

    def stop(self, passing: Chunk | None) -> None:
        """The hook lets no more pass than this of the text that it is being called with."""
        text = self.taken(passing)
        if self.as_json is not None:
            self.add(self.as_json(text))
        self.close()
