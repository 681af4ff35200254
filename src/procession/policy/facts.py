"""What an event may say of a verdict's metadata: which strategy, types and rules, and no text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard, cast

__all__ = ["Facts", "as_detail", "facts_in"]

Facts = tuple[tuple[str, "str | tuple[str, ...]"], ...]
"""Names and values, as part of a key."""

_LONGEST = 64
_MOST = 20


def facts_in(metadata: Any) -> Facts | None:
    """The facts in the metadata of a built-in's verdict (B-007); `None` where there are none.

    Only names are taken: of the strategy, of types, and of rules that have matched.
    """
    if not isinstance(metadata, Mapping):
        return None
    said = cast("Mapping[str, Any]", metadata)
    matches = said.get("matches")
    rules: Any = None
    if isinstance(matches, list):
        rules = [
            cast("Mapping[str, Any]", match).get("rule")
            for match in cast("list[Any]", matches)
            if isinstance(match, Mapping)
        ]
    found: list[tuple[str, str | tuple[str, ...]]] = []
    strategy = said.get("strategy")
    if _is_name(strategy):
        found.append(("strategy", strategy))
    for key, names in (("types", said.get("types")), ("rules", rules)):
        if isinstance(names, list | tuple):
            good = dict.fromkeys(name for name in cast("list[Any]", names) if _is_name(name))
            if good:
                found.append((key, tuple(good)[:_MOST]))
    return tuple(found) or None


def as_detail(facts: Facts | None) -> dict[str, Any] | None:
    """Facts as an event shows them."""
    if facts is None:
        return None
    return {name: list(value) if isinstance(value, tuple) else value for name, value in facts}


def _is_name(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST
