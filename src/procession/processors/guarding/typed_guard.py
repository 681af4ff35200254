"""Guards whose findings are of types: what they tell of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .sightings import Typed, types_in
from .text_guard import TextGuard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .sightings import Place, Sighting

__all__ = ["TypedGuard"]

T = TypeVar("T", bound=Typed)


class TypedGuard(TextGuard[T]):
    """Tells of the types of what was found and of how many places there are, never of a word of
    it (B-007, B-128, B-195)."""

    subject: ClassVar[str]
    """What a reason begins with."""
    include_detections: bool
    """Whether the reason of a block says how many there were."""

    def reason(self, sightings: Sequence[Sighting[T]]) -> str:
        """The types, and how many there were if that was asked for."""
        number = f" ({self.count(sightings)} in all)" if self.include_detections else ""
        return f"{self.subject}: {', '.join(types_in(sightings))}{number}"

    def block_metadata(self, place: Place, sightings: Sequence[Sighting[T]]) -> dict[str, Any]:
        """Which types were found where, and how many places: it reaches clients."""
        return self.detail(place, sightings)

    def detail(self, place: Place, sightings: Sequence[Sighting[T]]) -> dict[str, Any]:
        """Which types were found where, and how many places."""
        return {
            "processor_id": self.id,
            "strategy": self.strategy_at(place),
            **place.named(),
            "types": types_in(sightings),
            "count": self.count(sightings),
        }

    def count(self, sightings: Sequence[Sighting[T]]) -> int:
        """How many places there are."""
        return sum(len(sighting.regions) for sighting in sightings)
