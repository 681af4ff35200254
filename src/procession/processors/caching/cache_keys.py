"""Under which key a response is kept (C-040 to C-051)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...records import plain

__all__ = ["CacheKeyInputs", "CachedModel", "build_response_cache_key", "model_of"]

PREFIX = "procession:response"
_VERSION = 1
"""Part of what is hashed: entries of another version are not found."""
_DIGITS, _SCOPE_DIGITS = 32, 12

_OWN = "mastra"
"""Where the library's own notes stand among provider options."""


class CachedModel(Struct, frozen=True, kw_only=True):
    """Which model is asked. `spec_version` is that of the interface it is called through."""

    provider: str
    model_id: str
    spec_version: str = "v2"


class CacheKeyInputs(Struct, frozen=True, kw_only=True):
    """What a key is made of: all that changes the answer of a step, as far as it is known here.

    `prompt` is plain data, as the model would be sent it: `json.dumps` takes it (R-398). Tools and
    settings are no part of it (C-042).
    """

    agent_id: str
    scope: str | None
    model: CachedModel
    prompt: list[dict[str, Any]]
    step_number: int

    def replace(self, **changes: Any) -> CacheKeyInputs:
        """A copy with some fields changed."""
        return replace(self, **changes)


def build_response_cache_key(inputs: CacheKeyInputs, **changes: Any) -> str:
    """The key that `ResponseCache` uses by itself, with some of the inputs changed (C-046).

    It holds the agent's id and digests. The same inputs give the same key on any machine; the order
    of keys in mappings does not matter, that of lists does.
    """
    if changes:
        inputs = inputs.replace(**changes)
    model, scope = inputs.model, inputs.scope
    hashed = _digest(
        [
            _VERSION,
            inputs.agent_id,
            scope,
            inputs.step_number,
            [model.provider, model.model_id, model.spec_version],
            _without_notes(inputs.prompt),
        ]
    )
    scoped = [] if scope is None else [_digest(["scope", scope])[:_SCOPE_DIGITS]]
    return ":".join([PREFIX, inputs.agent_id, *scoped, hashed[:_DIGITS]])


def model_of(model: Any) -> CachedModel:
    """What a key says of a model object; models need not have more than these two names."""
    return CachedModel(
        provider=str(getattr(model, "provider", "")), model_id=str(getattr(model, "model_id", ""))
    )


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value)).hexdigest()


def _canonical(value: Any) -> bytes:
    """The same bytes for the same content. Binary data counts as what it is in base64."""
    try:
        return msgspec.json.encode(value, enc_hook=_as_text, order="deterministic")
    except (TypeError, ValueError, OverflowError):  # keys of several kinds, lone surrogates
        return json.dumps(plain(value), sort_keys=True).encode()


def _as_text(value: Any) -> Any:
    """What has no JSON form of its own: an address as an object is the address."""
    return str(value)


def _without_notes(prompt: list[dict[str, Any]]) -> list[Any]:
    """The prompt without the library's notes, which may change from call to call (C-041)."""
    return [_entry(entry) if isinstance(entry, dict) else entry for entry in prompt]  # pyright: ignore[reportUnnecessaryIsInstance]


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    content = entry.get("content")
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        if any(isinstance(part, dict) and "providerOptions" in part for part in parts):
            entry = {**entry, "content": [_bare(part) for part in parts]}
    return _bare(entry)


def _bare(part: Any) -> Any:
    if not isinstance(part, dict) or "providerOptions" not in part:
        return cast("Any", part)
    mapping = cast("dict[str, Any]", part)
    options = mapping["providerOptions"]
    if not isinstance(options, Mapping) or _OWN not in options:
        return mapping
    given = cast("Mapping[str, Any]", options)
    left = {name: value for name, value in given.items() if name != _OWN}
    made = {**mapping, "providerOptions": left}
    if not left:
        del made["providerOptions"]
    return made
