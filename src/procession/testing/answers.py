"""What a scripted model is to answer, written briefly."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from ..chunks import Usage
from ..errors import ConfigurationError
from .parts import Part, as_error, as_part

__all__ = ["Answer", "Script", "answer", "text", "tool_call"]


class Answer(Struct, kw_only=True):
    """One answer of a model: the parts it streams, or the error the call fails with.

    `warnings` come with the start of the stream; `delay` (seconds) passes before anything comes.
    """

    parts: Sequence[Part] = ()
    warnings: Sequence[Any] = ()
    delay: float = 0.0
    error: Exception | None = None


Script = str | Exception | Answer | Sequence[Any]
"""What stands for an answer: a text, an exception, an `Answer`, or a list of stream parts.

The list may hold lists (what `text` returns); they are flattened.
"""


def text(*deltas: str, id: str = "t1") -> list[dict[str, Any]]:
    """A block of text in provider form: start, one delta for each of `deltas`, end."""
    return [
        {"type": "text-start", "id": id},
        *({"type": "text-delta", "id": id, "delta": delta} for delta in deltas),
        {"type": "text-end", "id": id},
    ]


_call_ids = itertools.count(1)


def tool_call(
    name: str, args: Mapping[str, Any] | str | None = None, *, id: str | None = None
) -> dict[str, Any]:
    """A call of tool `name`. `args` may be JSON text, broken JSON included.

    Without `id` each call gets one of its own, as providers give them (R-534).
    """
    return {
        "type": "tool-call",
        "toolCallId": id or f"call-{next(_call_ids)}",
        "toolName": name,
        "input": args if isinstance(args, str) else json.dumps(dict(args or {})),
    }


def answer(
    *deltas: str,
    tool_calls: Sequence[Mapping[str, Any]] = (),
    finish_reason: str | None = None,
    usage: Usage | Mapping[str, Any] | None = None,
    warnings: Sequence[Any] = (),
    delay: float = 0.0,
) -> Answer:
    """A whole answer: a text in pieces, then tool calls, then the finish.

    The reason is `tool-calls` when there are calls, else `stop`. Usage, unless given, is three
    input tokens and one output token for each delta and call.
    """
    reason = finish_reason or ("tool-calls" if tool_calls else "stop")
    counted = usage or Usage(input_tokens=3, output_tokens=len(deltas) + len(tool_calls))
    parts: list[Part] = [
        *(text(*deltas) if deltas else ()),
        *tool_calls,
        {"type": "finish", "finishReason": reason, "usage": counted},
    ]
    return Answer(parts=parts, warnings=warnings, delay=delay)


def as_answer(script: Script) -> Answer:
    """The `Answer` that `script` stands for; raises `ConfigurationError` for anything else."""
    if isinstance(script, Answer):
        return script
    if isinstance(script, str):
        return answer(script)
    if isinstance(script, Exception):
        return Answer(error=as_error(script))
    if isinstance(script, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        return Answer(parts=[as_part(part) for part in _flat(script)])
    raise ConfigurationError(
        f"an answer is a text, an exception, an Answer or a list of parts, not {script!r:.60}"
    )


def _flat(parts: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for part in parts:
        found.extend(cast("list[Any]", part) if isinstance(part, list) else [part])
    return found
