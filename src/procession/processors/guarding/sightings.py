"""What a guard has found, where, and what becomes of it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from msgspec import Struct

from ...errors import TripWire
from .regions import Found, Region

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...chunks import Chunk

__all__ = ["Outcome", "Place", "Sighting", "Typed", "found_in", "types_in"]

F = TypeVar("F", bound=Found)


class Typed(Found, Protocol):
    """Something found that is of a type."""

    @property
    def type(self) -> str: ...


T = TypeVar("T", bound=Typed)


class Place(Struct, frozen=True):
    """Where something was found; for a chunk there is neither message nor part (B-007)."""

    phase: str
    message_id: str | None = None
    part_index: int | None = None
    is_remembered: bool = False
    """Whether it was stored before this request, so that to refuse this one would mend nothing."""

    tool_name: str | None = None
    tool_call_id: str | None = None
    """Of what tools have given, raised or written."""

    def named(self) -> dict[str, Any]:
        """The keys of a violation's detail that say so."""
        named: dict[str, Any] = {"phase": self.phase}
        if self.message_id is not None:
            named["message_id"] = self.message_id
        if self.part_index is not None:
            named["part_index"] = self.part_index
        if self.tool_name is not None:
            named["tool_name"] = self.tool_name
        if self.tool_call_id is not None:
            named["tool_call_id"] = self.tool_call_id
        return named


class Sighting(Struct, Generic[F]):
    """The regions found in one text. `offset` is where this text begins in its block."""

    text: str
    regions: list[Region[F]]
    offset: int = 0


class Outcome(Struct):
    """What becomes of a piece of the stream."""

    text: str
    keeps_place: bool
    """Whether there is a chunk left to deliver."""
    waits: list[Awaitable[None]]
    """What is to be waited for before it goes on."""
    wire: TripWire | None = None

    async def after(self, part: Chunk | None) -> Chunk | None:
        """The chunk, once all is waited for; raises the verdict if there is one."""
        for waiting in self.waits:
            await waiting
        if self.wire is not None:
            self.wire.passing = part
            raise self.wire
        return part


def found_in(sightings: Iterable[Sighting[F]]) -> list[F]:
    """All that was found, text by text."""
    return [one for sighting in sightings for region in sighting.regions for one in region.found]


def types_in(sightings: Iterable[Sighting[T]]) -> list[str]:
    """The types of what was found, each once, in the order in which they come."""
    return list(dict.fromkeys(one.type for one in found_in(sightings)))
