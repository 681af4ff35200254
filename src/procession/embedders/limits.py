"""How much of a text is embedded, and how texts are put together for one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["LONGEST", "batches", "check_whole", "cut"]

LONGEST = 8_000
"""Characters: about what fits into one call of the larger embedders, in any script."""


def check_whole(owner: str, option: str, value: Any) -> int:
    """`value`, which must be a whole number of at least 1; else `OptionError`."""
    if type(value) is not int or value < 1:
        raise OptionError(f"{owner}: {option} must be a whole number of at least 1")
    return value


def cut(texts: Sequence[str], most: int | None) -> list[str]:
    """The beginnings of the texts, of at most so many characters."""
    return [text[:most] for text in texts]


def batches(texts: Sequence[str], *, count: int, size: int) -> Iterator[Sequence[str]]:
    """The texts in order, at most `count` at a time, and at most `size` bytes unless it is one."""
    begin = used = 0
    for index, text in enumerate(texts):
        length = len(text.encode())
        if index > begin and (index - begin == count or used + length > size):
            yield texts[begin:index]
            begin, used = index, 0
        used += length
    if begin < len(texts):
        yield texts[begin:]
