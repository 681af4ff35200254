"""Provider options, written in camelCase, in the words of the Anthropic API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["own_options", "snake", "with_cache_control"]

Json = dict[str, Any]

_AS_IT_IS = frozenset({"schema", "inputSchema", "input_schema", "input", "inputExamples"})
"""Keys whose values are the caller's own, names inside them included."""


def own_options(provider: str, given: Mapping[str, Any] | None) -> Json:
    """Options under `anthropic`, and those under the provider's own name on top of them."""
    options: Json = {}
    for key in dict.fromkeys(("anthropic", provider)):
        found = (given or {}).get(key)
        if isinstance(found, Mapping):
            options |= cast("Mapping[str, Any]", found)
    return options


def snake(value: Any) -> Any:
    """A value with the keys of its objects in snake_case."""
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value).items()
        return {
            _snake_name(name): entry if name in _AS_IT_IS else snake(entry)
            for name, entry in entries
        }
    if isinstance(value, list):
        return [snake(entry) for entry in cast("list[Any]", value)]
    return value


def _snake_name(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def with_cache_control(block: Json, own: Json) -> Json:
    """The block, marked as the end of what is to be cached where the options say so."""
    wanted = own.get("cacheControl") or own.get("cache_control")
    return {**block, "cache_control": snake(wanted)} if wanted else block
