"""Names as scenarios spell them (camelCase) and as the library does (snake_case)."""

import re
from collections.abc import Mapping
from typing import Any

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake(name: str) -> str:
    """`processAPIError` → `process_api_error`."""
    return _WORD.sub("_", name).lower()


def camel(name: str) -> str:
    """`max_output_tokens` → `maxOutputTokens`."""
    head, *tail = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in tail)


def snake_keys(value: Any) -> Any:
    """A copy with the keys of all mappings in snake_case."""
    if isinstance(value, Mapping):
        return {snake(key): snake_keys(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [snake_keys(entry) for entry in value]
    return value


def camel_top(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with the mapping's own keys in camelCase."""
    return {camel(key): value for key, value in mapping.items()}


def snake_top(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with the mapping's own keys in snake_case."""
    return {snake(key): value for key, value in mapping.items()}
