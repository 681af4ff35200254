"""The model of a recorded run, again: what it said then, for the same questions (X9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ..chunks import Chunk
from ..errors import APICallError, InputError, ModelError
from ..records import plain

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from ..model import ModelRequest
    from .recorded_run import RecordedModelCall, RecordedRun

__all__ = ["RecordedModel"]

_SHOWN = 60


class RecordedModel:
    """A `LanguageModel` that answers as the model of a recorded run did, without a network or keys.

    `calls` counts the calls it was given. See `RecordedRun.model`.
    """

    def __init__(self, run: RecordedRun, *, strict: bool = True) -> None:
        self._answers = [call for call in run.calls if not call.from_cache]
        self._strict = strict
        self._run_id = run.run_id
        self.calls = 0
        if any(call.chunks is None for call in self._answers):
            raise InputError(
                f"run {run.run_id!r} was recorded without the chunks of its model, so it cannot "
                f"answer again: record it with Recorder(…, raw=True)"
            )
        first = self._answers[0] if self._answers else None
        self._names = (
            ("recorded", run.run_id) if first is None else (first.provider, first.model_id)
        )

    @property
    def provider(self) -> str:
        """The provider's name, as it was recorded."""
        return self._names[0]

    @property
    def model_id(self) -> str:
        """The model's id, as it was recorded."""
        return self._names[1]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Chunk], None]:
        """Answer the next call; raises `ModelError` when it is not the one that was recorded."""
        number = self.calls
        self.calls += 1
        if number >= len(self._answers):
            raise self._differs(number, f"it made {len(self._answers)} calls of the model")
        call = self._answers[number]
        if self._strict:
            problem = _difference(call, request)
            if problem is not None:
                raise self._differs(number, problem)
        for _, chunk in call.chunks or ():
            yield [Chunk.from_json(chunk)]
        if call.error is not None:
            raise _failure(call.error)
        if not any(chunk["type"] == "finish" for _, chunk in call.chunks or ()):
            raise self._differs(number, "this answer was cut off, and nobody knows the rest of it")

    def _differs(self, number: int, problem: str) -> ModelError:
        return ModelError(
            f"call {number} of the model is not as in recorded run {self._run_id!r}: {problem}"
        )


def _difference(call: RecordedModelCall, request: ModelRequest) -> str | None:
    """Where a request differs from the recorded one: the place, and no words."""
    then, now = call.prompt, plain(request.prompt)
    for place, (one, other) in enumerate(zip(then, now, strict=False)):
        if one != other and not _is_cut(one, other):
            return f"entry {place} of the prompt ({one.get('role')}) says something else now"
    if len(then) != len(now):
        return f"the prompt had {len(then)} entries, and has {len(now)} now"
    tools = [definition.name for definition in request.tools]
    if sorted(call.tools) != sorted(tools):
        return f"the tools were {_names(call.tools)}, and are {_names(tools)} now"
    return None


def _names(names: Sequence[str]) -> str:
    return (", ".join(sorted(names)) or "none")[:_SHOWN]


def _is_cut(one: Any, other: Any) -> bool:
    """Whether a recorded value is as much of another one as a recording holds."""
    if isinstance(one, str) and isinstance(other, str):
        begun, mark, more = one.rpartition("… (")
        return one == other or bool(
            mark and more.endswith(" characters more)") and other.startswith(begun)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        said, now = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return said.keys() == now.keys() and all(_is_cut(said[key], now[key]) for key in said)
    if isinstance(one, list) and isinstance(other, list):
        entries, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(entries) == len(others) and all(map(_is_cut, entries, others))
    return one == other


def _failure(form: dict[str, Any]) -> Exception:
    message = str(form.get("message") or form.get("name"))
    status = form.get("statusCode")
    if status is None and "isRetryable" not in form:
        return ModelError(message)
    return APICallError(
        message, status_code=status, is_retryable=bool(form.get("isRetryable", False))
    )
