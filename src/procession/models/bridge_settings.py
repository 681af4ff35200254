"""The settings of a call, under pydantic-ai's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

    from ..model import ModelRequest

__all__ = ["settings_of"]

_NAMES = {"max_output_tokens": "max_tokens", "headers": "extra_headers"}
_OURS = {"max_retries"}  # the engine makes failed calls again


def settings_of(
    request: ModelRequest, always: Mapping[str, Any], model: Model
) -> tuple[ModelSettings, list[dict[str, Any]]]:
    """The settings, and warnings about what has no place among them."""
    settings: dict[str, Any] = {}
    if "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0  # each try of ours would be several of theirs
    settings |= always
    for name, value in request.settings.items():
        if value is not None and name not in _OURS:
            settings[_NAMES.get(name, name)] = value
    if request.tools and request.tool_choice != "auto":
        choice = request.tool_choice
        settings["tool_choice"] = choice if isinstance(choice, str) else [choice["toolName"]]
    options = (request.provider_options or {}).get("pydantic-ai")
    if isinstance(options, Mapping):
        given = cast("Mapping[str, Any]", options)
        settings |= {re.sub("[A-Z]", _lower, name): value for name, value in given.items()}
    warnings: list[dict[str, Any]] = []
    wanted = request.response_format
    if wanted is not None and wanted.get("schema") is None:
        warnings.append({"type": "unsupported-setting", "setting": "responseFormat"})
    return cast("ModelSettings", settings), warnings


def _lower(found: re.Match[str]) -> str:
    return f"_{found[0].lower()}"
