"""What something was before a hook had it in hand, to put it back in place; and copies of it.

Containers and records are put back themselves, the same objects: others hold on to them.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from ..memo import PromptMemo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Mark", "copied"]

Pair = tuple[Any, Any]


class Mark:
    """Values as they were: their dicts, lists, sets and records, however deep."""

    __slots__ = ("_pairs",)

    def __init__(self, *values: Any) -> None:
        self._pairs: list[Pair] = []
        for value in values:
            self.add(value)

    @classmethod
    def of_pairs(cls, pairs: list[Pair]) -> Mark:
        """A mark of values of which copies were made already."""
        made = cls()
        made._pairs = pairs
        return made

    def add(self, value: Any) -> None:
        """Mark one more value. What is nested deeper than Python can follow is left out."""
        try:
            _mark(value, self._pairs)
        except RecursionError:
            pass

    def add_shallow(self, value: Any) -> None:
        """Mark a list or a dict, but not what stands in it."""
        self._pairs.append((value, value.copy()))

    def restore(self) -> None:
        """Put everything back to what it was when it was marked."""
        for live, kept in self._pairs:
            if isinstance(live, list):
                live[:] = kept
            elif isinstance(live, dict | set):
                live.clear()
                cast("Any", live).update(kept)
            else:
                for name in live.__struct_fields__:
                    setattr(live, name, getattr(kept, name))


def _mark(value: Any, pairs: list[Pair]) -> None:
    take = _TAKERS.get(value.__class__)
    if take is not None:
        take(value, pairs)
    elif isinstance(value, Struct):
        _mark_struct(value, pairs)


def _mark_dict(value: dict[Any, Any], pairs: list[Pair]) -> None:
    pairs.append((value, value.copy()))
    _mark_all(value.values(), pairs)


def _mark_list(value: list[Any], pairs: list[Pair]) -> None:
    pairs.append((value, value.copy()))
    _mark_all(value, pairs)


def _mark_all(values: Iterable[Any], pairs: list[Pair]) -> None:
    for inner in values:
        if inner.__class__ not in _LEAVES:
            _mark(inner, pairs)


def _mark_set(value: set[Any], pairs: list[Pair]) -> None:
    pairs.append((value, value.copy()))


def _mark_struct(value: Any, pairs: list[Pair]) -> None:
    changes, values_of = _shape(value.__class__)
    if changes:
        pairs.append((value, value.__copy__()))
    for inner in values_of(value):
        if inner.__class__ not in _LEAVES:
            _mark(inner, pairs)


@cache
def _shape(cls: type[Struct]) -> tuple[bool, Callable[[Any], tuple[Any, ...]]]:
    """Whether a `Struct` can be changed, and what reads all of its fields at once."""
    names = cls.__struct_fields__
    first = names[:1]  # `attrgetter` of a single name gives no tuple
    values_of = attrgetter(*names, *first) if names else _nothing
    return not cls.__struct_config__.frozen, values_of


def _nothing(_value: Any) -> tuple[Any, ...]:
    return ()


_LEAVES = frozenset({str, int, float, bool, bytes, type(None), UnsetType, datetime, PromptMemo})
"""Classes of values that hold nothing a hook could change; most values are of one of these."""


_TAKERS: dict[type[Any], Callable[[Any, list[Pair]], None]] = {
    dict: _mark_dict,
    list: _mark_list,
    tuple: _mark_all,
    set: _mark_set,
}


def copied(value: Any) -> Any:
    """A copy that shares no dict, list, set or record; what is none of these stays what it is."""
    cls = value.__class__
    if cls is dict:
        return {key: copied(inner) for key, inner in value.items()}
    if cls is list:
        return [copied(inner) for inner in value]
    if cls is tuple:
        return tuple([copied(inner) for inner in value])
    if cls is set:
        return set(value)
    if isinstance(value, Struct):
        made: dict[str, Any] = {}
        for name in cls.__struct_fields__:
            inner = getattr(value, name)
            own = copied(inner)
            if own is not inner:
                made[name] = own
        return replace(value, **made)
    return value
