"""What comes into a store of vectors: names, numbers and metadata, checked and made alike."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping
from math import hypot, isfinite
from typing import Any, NamedTuple, cast

import msgspec

from ..errors import InputError
from ..records import clean_json, clean_text
from ..vector_store import VectorEntry

__all__ = [
    "Checked",
    "check_index",
    "check_limits",
    "check_name",
    "checked_entries",
    "checked_ids",
    "direction",
]

# How JSON writes a NUL, unless the backslash is itself a character of the text.
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_MOST_DIMENSIONS = 16_000
_LONGEST_ID = 500


class Checked(NamedTuple):
    """An entry as it is kept: a vector of length 1, metadata as JSON."""

    id: str
    vector: array[float]
    metadata: str


def check_name(name: Any) -> str:
    """The name of an index, which must be an identifier; else `InputError`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            "the name of an index has at most 63 letters, digits and _, and begins with no digit"
        )
    return name


def check_index(name: Any, dimension: Any, metric: Any) -> None:
    """Raise `InputError` for an index that cannot be."""
    check_name(name)
    if type(dimension) is not int or not 1 <= dimension <= _MOST_DIMENSIONS:
        raise InputError(
            f"the dimension of an index is a whole number from 1 to {_MOST_DIMENSIONS}"
        )
    if metric != "cosine":
        raise InputError("the metric of an index is 'cosine'")


def check_limits(top_k: Any, min_score: Any) -> None:
    """Raise `InputError` for limits of a query that mean nothing."""
    if type(top_k) is not int or top_k < 1:
        raise InputError("top_k must be a whole number of at least 1")
    number = isinstance(min_score, int | float) and not isinstance(min_score, bool)
    if min_score is not None and not (number and 0 <= min_score <= 1):
        raise InputError("min_score must be a number from 0 to 1, or None")


def direction(what: str, vector: Any, dimension: int) -> array[float]:
    """A vector of length 1 in single precision; `what` names it where it is none (`InputError`)."""
    try:
        numbers: array[float] = array("d", vector)
    except (TypeError, OverflowError):
        raise InputError(f"{what} must be a sequence of numbers") from None
    if len(numbers) != dimension:
        raise InputError(
            f"{what} has the dimension {len(numbers)}, but the index has {dimension}: "
            f"is it from another embedder?"
        )
    length = hypot(*numbers)
    if not isfinite(length):
        if not all(map(isfinite, numbers)):
            raise InputError(f"{what} has numbers that are not finite")
        return direction(what, [number / dimension / 2 for number in numbers], dimension)
    if not length:
        raise InputError(f"{what} has only zeros, and so no direction")
    return array("f", [number / length for number in numbers])


def checked_entries(entries: Any, dimension: int) -> list[Checked]:
    """Entries as they are kept, of those with the same id the last; `InputError` for wrong ones."""
    if not isinstance(entries, Iterable):
        raise InputError("entries must be a list of VectorEntry")
    checked: dict[str, Checked] = {}
    for number, entry in enumerate(cast("Iterable[Any]", entries)):
        if not isinstance(entry, VectorEntry):
            raise InputError(f"entry {number} is no VectorEntry, but a {type(entry).__name__}")
        entry_id = _checked_id(f"the id of entry {number}", entry.id)
        checked.pop(entry_id, None)
        checked[entry_id] = Checked(
            entry_id,
            direction(f"the vector of entry {number}", entry.vector, dimension),
            _metadata(f"the metadata of entry {number}", entry.metadata),
        )
    return list(checked.values())


def checked_ids(ids: Any) -> list[str]:
    """Ids to delete, each once; a single text is refused, for it is a sequence of letters."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InputError("ids must be a list of texts")
    return list(
        dict.fromkeys(_checked_id("each of ids", each) for each in cast("Iterable[Any]", ids))
    )


def _checked_id(what: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID:
        raise InputError(f"{what} must be a text of 1 to {_LONGEST_ID} characters")
    return _storable(value)


def _storable(text: str) -> str:
    # PostgreSQL has no NUL in its texts.
    return clean_text(text).replace("\0", "\ufffd")


def _metadata(what: str, given: Any) -> str:
    if not isinstance(given, Mapping):
        raise InputError(f"{what} must be a mapping, not a value of type {type(given).__name__}")
    try:
        encoded = msgspec.json.encode(clean_json(dict(cast("Mapping[Any, Any]", given)))).decode()
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{what} must be JSON data: {error}") from None
    return _NUL.sub("\\1\ufffd", encoded) if "\\u0000" in encoded else encoded
