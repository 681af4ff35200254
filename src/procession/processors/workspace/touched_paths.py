"""The paths that tool calls have touched, as their arguments tell (B-343)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from .skill_tools import READ

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...messages import Message, ToolInvocation

__all__ = ["completed_calls", "paths_in"]

_TELLING = ("path", "file", "dir", "folder", "cwd")
"""An argument with one of these in its name holds paths."""
_LONGEST = 1_024
_MOST_PATHS = 20
_MOST_VALUES = 1_000
"""So many values of a call's arguments are looked at."""


def completed_calls(messages: Sequence[Message]) -> Iterator[ToolInvocation]:
    """The calls that have a result, newest first; files of skills are not in the directories."""
    for message in reversed(messages):
        for part in reversed(message.content.parts):
            call: Any = getattr(part, "tool_invocation", None)
            if part.type != "tool-invocation" or call is None or call.state != "result":
                continue
            if call.tool_name != READ:
                yield call


def paths_in(arguments: Any) -> list[str]:
    """The paths in the arguments of a call, each once, in order; the first twenty."""
    found: dict[str, None] = {}
    waiting: list[tuple[bool, Any]] = [(False, arguments)]
    for _ in range(_MOST_VALUES):
        if not waiting or len(found) == _MOST_PATHS:
            break
        tells, value = waiting.pop()
        if isinstance(value, Mapping):
            inner = cast("Mapping[Any, Any]", value).items()
            waiting += [(_tells(key), item) for key, item in reversed(list(inner))]
        elif isinstance(value, list):
            waiting += [(tells, item) for item in reversed(cast("list[Any]", value))]
        elif tells and isinstance(value, str) and _is_path(value):
            found[value] = None
    return list(found)


def _tells(name: Any) -> bool:
    return isinstance(name, str) and any(word in name.lower() for word in _TELLING)


def _is_path(text: str) -> bool:
    if not text or len(text) > _LONGEST or "://" in text:
        return False
    return text.isprintable()
