"""The chunks that frame a run: start, step-start, step-finish, finish, abort, error, tripwire."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..chunks import (
    AbortPayload,
    Chunk,
    ErrorPayload,
    FinishPayload,
    Payload,
    StartPayload,
    StepOutcome,
    StepOutput,
    StepStartPayload,
    TripwirePayload,
    Usage,
)
from ..conversation.core_messages import to_model
from ..conversation.prompt_memo import plain_copy
from ..policy import in_metadata

if TYPE_CHECKING:
    from ..errors import TripWire
    from ..results import StepResult
    from .run_state import RunState
    from .step import Step

__all__ = [
    "abort_chunk",
    "error_chunk",
    "finish_chunk",
    "start_chunk",
    "step_finish_chunk",
    "step_start_chunk",
    "tripwire_chunk",
]


def frame(run: RunState, kind: str, payload: Payload) -> Chunk:
    """A chunk of the engine's own."""
    return Chunk(kind, payload, run.run_id, "AGENT")


def start_chunk(run: RunState) -> Chunk:
    """`start`."""
    return frame(run, "start", StartPayload(id=run.agent_id, message_id=run.message_id))


def step_start_chunk(run: RunState, step: Step) -> Chunk:
    """`step-start`; without a time on replay."""
    payload = StepStartPayload(
        message_id=run.message_id,
        request=step.request_info,
        warnings=step.warnings,
        started_at=UNSET if step.from_cache else int(time.time() * 1000),
    )
    return frame(run, "step-start", payload)


def step_finish_chunk(run: RunState, step: Step, result: StepResult) -> Chunk:
    """`step-finish`, also of an attempt that does not count (R-178).

    The text of a rejected attempt is what it had delivered: the deltas have left.
    """
    outcome = StepOutcome(
        reason=result.finish_reason,
        is_continued=step.continues,
        warnings=result.warnings or UNSET,
        raw_reason=step.answer.raw_reason or UNSET,
    )
    if step.wire is not None:
        outcome.retry_reason = step.wire.reason
        outcome.retry_processor_id = step.wire.processor_id or UNSET
    payload = FinishPayload(
        message_id=run.message_id,
        step_result=outcome,
        metadata=_metadata(step) | in_metadata(run, step.number),
        output=StepOutput(
            text=step.answer.text() if result.finish_reason == "retry" else result.text,
            tool_calls=list(result.tool_calls),
            usage=result.usage,
            steps=list(run.steps),
            object=_object_of(run),
        ),
        messages=MessagesView(run, at_once=_may_change(run, step)),
    )
    return frame(run, "step-finish", payload)


def _may_change(run: RunState, step: Step) -> bool:
    """Whether a hook may edit messages in place after this step."""
    pipeline = run.pipeline
    return bool(pipeline.process_output_result) or (step.continues and pipeline.changes_messages)


def finish_chunk(run: RunState) -> Chunk:
    """`finish`: the run's reason and summed usage, the last step's text and calls (R-507)."""
    last = run.step
    result = run.all_steps[-1] if run.all_steps else None
    payload = FinishPayload(
        message_id=run.message_id,
        step_result=StepOutcome(
            reason=run.finish_reason,
            is_continued=False,
            warnings=run.warnings or UNSET,
            raw_reason=(last and last.answer.raw_reason) or UNSET,
        ),
        metadata=(_metadata(last) if last else {}) | in_metadata(run),
        output=StepOutput(
            text=result.text if result else "",
            tool_calls=list(result.tool_calls) if result else [],
            usage=run.usage if run.usage.total_tokens is not None else _none_used(run.usage),
            steps=list(run.all_steps),
            object=_object_of(run),
        ),
        messages=MessagesView(run),
        response=ResponseView(run),
    )
    return frame(run, "finish", payload)


def _object_of(run: RunState) -> Any:
    """The object, where there is one."""
    made = run.object_result
    return UNSET if made is None or run.is_void else made.to_json().get("object", UNSET)


def _none_used(usage: Usage) -> Usage:
    return usage + Usage(input_tokens=0, output_tokens=0, total_tokens=0)


def _metadata(step: Step) -> dict[str, Any]:
    answer = step.answer
    found: dict[str, Any] = {
        "id": answer.response_id,
        "timestamp": answer.timestamp,
        "modelId": answer.model_id,
        "headers": step.headers,
        "modelMetadata": {
            "modelId": step.model_id,
            "modelVersion": "v2",
            "modelProvider": step.provider,
        },
        "request": step.request_info,
    }
    if answer.provider_metadata is not None:
        found["providerMetadata"] = answer.provider_metadata
    return found


def abort_chunk(run: RunState) -> Chunk:
    """`abort`."""
    return frame(run, "abort", AbortPayload())


def error_chunk(run: RunState, error: BaseException) -> Chunk:
    """`error`."""
    return frame(run, "error", ErrorPayload(error=error))


def tripwire_chunk(run: RunState, wire: TripWire) -> Chunk:
    """`tripwire`; `retry` and `metadata` only when set (R-166)."""
    payload = TripwirePayload(
        reason=wire.reason,
        processor_id=wire.processor_id or "",
        retry=True if wire.retry else UNSET,
        metadata=UNSET if wire.metadata is None else wire.metadata,
    )
    return frame(run, "tripwire", payload)


class MessagesView(Mapping[str, Any]):
    """`messages` of a finish chunk: `all`, `user`, `nonUser` as model messages, made when read.

    Nearly nobody reads them, and making them costs as much as the history is long. The list is
    the one of the moment the chunk was made; the running message's parts are kept beside it. Where
    a hook may yet edit messages in place, the prompt of the moment is kept instead (`at_once`).
    """

    __slots__ = ("_entries", "_messages", "_parts", "_response_id")

    def __init__(self, run: RunState, *, at_once: bool = False) -> None:
        self._entries = run.message_list.provider_prompt() if at_once else None
        self._messages = run.message_list.held()
        self._response_id = run.message_id
        running = run.message_list.find(run.message_id)
        self._parts = running.content.parts.copy() if running else []

    def _all(self) -> list[dict[str, Any]]:
        if self._entries is not None:
            return plain_copy([e for e in self._entries if e["role"] != "system"])
        then = [
            m.replace(content=m.content.replace(parts=self._parts))
            if m.id == self._response_id
            else m
            for m in sorted(self._messages, key=lambda m: m.created_at)
        ]
        return to_model(then)

    def __getitem__(self, key: str) -> Any:
        if key == "all":
            return self._all()
        if key == "user":
            return [entry for entry in self._all() if entry["role"] == "user"]
        if key == "nonUser":
            return [entry for entry in self._all() if entry["role"] != "user"]
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(("all", "user", "nonUser"))

    def __len__(self) -> int:
        return 3


class ResponseView(Mapping[str, Any]):
    """`response` of the `finish` chunk (R-507), made when it is read."""

    __slots__ = ("_run",)
    _KEYS = (
        ("id", "id"),
        ("timestamp", "timestamp"),
        ("modelId", "model_id"),
        ("headers", "headers"),
        ("messages", "messages"),
        ("uiMessages", "ui_messages"),
    )

    def __init__(self, run: RunState) -> None:
        self._run = run

    def __getitem__(self, key: str) -> Any:
        return getattr(self._run.response(), dict(self._KEYS)[key])

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._KEYS))

    def __len__(self) -> int:
        return len(self._KEYS)
