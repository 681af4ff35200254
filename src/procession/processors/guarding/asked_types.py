"""The types that a judge is asked to look for, as its instructions name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["named"]


def named(types: Iterable[str], meanings: Mapping[str, str]) -> str:
    """A list of the types, with what they mean where that is known."""
    return "\n".join(
        f"- {kind}: {meanings[kind]}" if kind in meanings else f"- {kind}" for kind in types
    )
