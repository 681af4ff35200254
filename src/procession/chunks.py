"""What a run's stream is made of: chunks, their payloads, and token usage.

A chunk has a `type`, and either a `payload`, or `data` (types that begin with `data-`), or `object`
(partial and final structured values). The JSON form is the reference's (R-500 to R-503). Chunks of
unknown types pass through everything unchanged (R-505).
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

from msgspec import UNSET, UnsetType, field

from .errors import InputError
from .records import Record, error_form, parse_time, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "PAYLOAD_TYPES",
    "Chunk",
    "ChunkType",
    "Payload",
    "Usage",
]


class Usage(Record, kw_only=True):
    """Token counts of one model call, or summed over several (R-521). Unknown counts are `None`.

    `raw` is what the provider sent, of the last call.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    raw: Any = None

    def __post_init__(self) -> None:
        if (
            self.total_tokens is None
            and self.input_tokens is not None
            and self.output_tokens is not None
        ):
            self.total_tokens = self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """The sum; a field counts where it is known."""
        total = Usage(raw=other.raw if other.raw is not None else self.raw)
        for name, mine, theirs in zip(_COUNTS, _counts(self), _counts(other), strict=True):
            if mine is not None or theirs is not None:
                setattr(total, name, (mine or 0) + (theirs or 0))
        return total


_COUNTS = tuple(name for name in Usage.__struct_fields__ if name not in ("raw", "extra"))
_counts = attrgetter(*_COUNTS)


class Payload(Record, kw_only=True):
    """What a chunk carries.

    Attributes are snake_case; `payload["toolCallId"]` is `payload.tool_call_id` (R-502). Fields
    that this version does not know stand in `extra`, and are read by JSON key.
    """

    def to_json(self) -> dict[str, Any]:
        """The JSON form. A field that was set to `None` is written; an absent one is not."""
        out: dict[str, Any] = {}
        for key, name in self.names().items():
            value = getattr(self, name)
            if value is not UNSET:
                out[key] = plain(value)
        if self.extra:
            out.update(plain(self.extra))
        return out


class UnknownPayload(Payload, kw_only=True):
    """What a chunk of a type carries that this version does not know: all of it is in `extra`.

    It is read by JSON key or by attribute. (Known payloads do without: a class with `__getattr__`
    is slow to read, whatever is read of it.)
    """

    def __getattr__(self, name: str) -> Any:
        # Only reached for names that are no fields.
        extra = self.extra
        if extra is not None and name in extra:
            return extra[name]
        raise AttributeError(f"this {type(self).__name__} has no {name!r}")


Meta = dict[str, Any] | UnsetType


class StartPayload(Payload, kw_only=True):
    """`start`: the run began. `id` is the agent's id."""

    id: str
    message_id: str


class StepStartPayload(Payload, kw_only=True):
    """`step-start`: the provider accepted a call. `started_at` is epoch milliseconds."""

    message_id: str
    request: dict[str, Any] = field(default_factory=dict[str, Any])
    warnings: list[Any] = field(default_factory=list[Any])
    started_at: int | UnsetType = UNSET


class ModelStartPayload(Payload, kw_only=True):
    """`stream-start`: a model's first chunk; what it knows when the provider has accepted.

    Never delivered: the engine makes `step-start` of it. `request` is `{body?}`, `headers` the
    response's, `answered_by` the model itself, where it is one of several that were asked.
    """

    warnings: list[Any] = field(default_factory=list[Any])
    request: dict[str, Any] = field(default_factory=dict[str, Any])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    raw_response: Any = None
    answered_by: Any = UNSET


class ResponseMetadataPayload(Payload, kw_only=True):
    """`response-metadata`: what the provider calls its response; for processors only."""

    id: str | UnsetType = UNSET
    model_id: str | UnsetType = UNSET
    timestamp: Any = UNSET


class BlockPayload(Payload, kw_only=True, gc=False):
    """`text-start`, `text-end`, `reasoning-start`, `reasoning-end`: the borders of a block."""

    id: str
    provider_metadata: Meta = UNSET
    signature: str | UnsetType = UNSET


class DeltaPayload(Payload, kw_only=True, gc=False):
    """`text-delta`, `reasoning-delta`: a piece of the text of block `id`."""

    id: str
    text: str
    provider_metadata: Meta = UNSET


class SourcePayload(Payload, kw_only=True):
    """`source`: where an answer comes from; `source_type` is `url` or `document`."""

    id: str
    source_type: str
    title: str | UnsetType | None = UNSET
    url: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    filename: str | UnsetType = UNSET
    provider_metadata: Meta = UNSET


class FilePayload(Payload, kw_only=True):
    """`file`: a generated file, `data` as base64 text or bytes."""

    data: Any
    mime_type: str
    base64: str | UnsetType = UNSET
    filename: str | UnsetType = UNSET
    provider_metadata: Meta = UNSET


class ToolInputStartPayload(Payload, kw_only=True):
    """`tool-call-input-streaming-start`: a call's arguments begin to arrive."""

    tool_call_id: str
    tool_name: str
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: Meta = UNSET
    dynamic: bool | UnsetType = UNSET


class ToolInputDeltaPayload(Payload, kw_only=True, gc=False):
    """`tool-call-delta`: a piece of a call's arguments, as JSON text."""

    tool_call_id: str
    args_text_delta: str
    tool_name: str | UnsetType = UNSET


class ToolInputEndPayload(Payload, kw_only=True, gc=False):
    """`tool-call-input-streaming-end`: the arguments are complete."""

    tool_call_id: str


class ToolCallPayload(Payload, kw_only=True):
    """`tool-call`: the model asks for a tool. `args` is absent when its JSON was broken (R-531)."""

    tool_call_id: str
    tool_name: str
    args: Any = UNSET
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: Meta = UNSET


class ToolResultPayload(Payload, kw_only=True):
    """`tool-result`: what a tool returned."""

    tool_call_id: str
    tool_name: str
    result: Any
    args: Any = UNSET
    is_error: bool | UnsetType = UNSET
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: Meta = UNSET


class ToolErrorPayload(Payload, kw_only=True):
    """`tool-error`: a tool raised, or could not be run."""

    tool_call_id: str
    tool_name: str
    error: Any
    args: Any = UNSET
    provider_executed: bool | UnsetType = UNSET
    provider_metadata: Meta = UNSET


class ToolOutputPayload(Payload, kw_only=True):
    """`tool-output`: what a running tool wrote with `writer.write`."""

    tool_call_id: str
    output: Any
    tool_name: str | UnsetType = UNSET


class ToolApprovalPayload(Payload, kw_only=True):
    """`tool-call-approval`: a call waits to be allowed, with these arguments (R-570).

    `resume_schema` is the JSON Schema of the answer.
    """

    tool_call_id: str
    tool_name: str
    args: Any = UNSET
    resume_schema: Any = UNSET


class ToolSuspendedPayload(Payload, kw_only=True):
    """`tool-call-suspended`: a tool has put its own call off until it is given data (R-572)."""

    tool_call_id: str
    tool_name: str
    args: Any = UNSET
    suspend_payload: Any = None
    resume_schema: Any = UNSET


class ToolDeniedPayload(Payload, kw_only=True):
    """`tool-output-denied`: a call was not allowed, so it did not run (R-571)."""

    tool_call_id: str
    tool_name: str
    args: Any = UNSET
    reason: str | UnsetType = UNSET


class StepOutcome(Payload, kw_only=True):
    """Why a step ended, and whether another step or attempt follows (R-510)."""

    reason: str | None
    is_continued: bool | UnsetType = UNSET
    warnings: list[Any] | UnsetType = UNSET
    raw_reason: str | UnsetType = UNSET
    retry_reason: str | UnsetType = UNSET
    retry_processor_id: str | UnsetType = UNSET


class StepOutput(Payload, kw_only=True):
    """What a step (or, in `finish`, the run) produced (R-508, R-509)."""

    usage: Usage
    text: str | UnsetType = UNSET
    tool_calls: list[Any] | UnsetType = UNSET
    steps: list[Any] | UnsetType = UNSET
    object: Any = UNSET


class FinishPayload(Payload, kw_only=True):
    """`step-finish`, `finish`, and the model's own `finish` (R-507).

    The model's own has `step_result.reason`, `output.usage` and `metadata` only.
    """

    step_result: StepOutcome
    output: StepOutput
    message_id: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    messages: Any = UNSET
    response: Any = UNSET


class ErrorPayload(Payload, kw_only=True):
    """`error`: the exception itself; dumped as `{name, message, …}` (R-503)."""

    error: Any


class AbortPayload(Payload, kw_only=True):
    """`abort`: the caller stopped the run. Empty."""


class TripwirePayload(Payload, kw_only=True):
    """`tripwire`: a processor stopped the run (R-166). `metadata` is the processor's own value."""

    reason: str
    processor_id: str
    retry: bool | UnsetType = UNSET
    metadata: Any = UNSET


PAYLOAD_TYPES: dict[str, type[Payload]] = {
    "start": StartPayload,
    "step-start": StepStartPayload,
    "stream-start": ModelStartPayload,
    "response-metadata": ResponseMetadataPayload,
    "text-start": BlockPayload,
    "text-delta": DeltaPayload,
    "text-end": BlockPayload,
    "reasoning-start": BlockPayload,
    "reasoning-delta": DeltaPayload,
    "reasoning-end": BlockPayload,
    "source": SourcePayload,
    "file": FilePayload,
    "tool-call-input-streaming-start": ToolInputStartPayload,
    "tool-call-delta": ToolInputDeltaPayload,
    "tool-call-input-streaming-end": ToolInputEndPayload,
    "tool-call": ToolCallPayload,
    "tool-result": ToolResultPayload,
    "tool-error": ToolErrorPayload,
    "tool-output": ToolOutputPayload,
    "tool-call-approval": ToolApprovalPayload,
    "tool-call-suspended": ToolSuspendedPayload,
    "tool-output-denied": ToolDeniedPayload,
    "step-finish": FinishPayload,
    "finish": FinishPayload,
    "error": ErrorPayload,
    "abort": AbortPayload,
    "tripwire": TripwirePayload,
}
"""The payload class of each chunk type of the core set (R-504)."""


class Chunk(Record):
    """One element of a run's stream.

    `payload` is a `Payload` for the types of `PAYLOAD_TYPES` and for unknown ones, `None` for
    `data-*` and `object` chunks. `run_id` and `from_` are filled in by the engine. A delivered
    chunk is never changed afterwards (R-511).
    """

    type: str
    payload: Any = None
    run_id: str | None = None
    from_: str | None = field(default=None, name="from")
    data: Any = UNSET
    id: str | UnsetType = UNSET
    transient: bool | UnsetType = UNSET
    object: Any = UNSET
    metadata: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Exactly the JSON form (R-503)."""
        out = super().to_json()
        for key, value in (("data", self.data), ("object", self.object)):
            if value is None:
                out[key] = None
        return out

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """A chunk from its JSON form; unknown types and keys are kept."""
        kind = data.get("type")
        if not isinstance(kind, str) or not kind:
            raise InputError(f"a chunk needs a type; keys given: {sorted(map(str, data))}")
        payload = data.get("payload")
        if isinstance(payload, dict):
            data = {**data, "payload": payload_from_json(kind, payload)}  # pyright: ignore[reportUnknownArgumentType]
        return super().from_json(data)


ChunkType = Chunk
"""The reference's name for the type of a chunk."""


def payload_from_json(kind: str, data: dict[str, Any]) -> Payload:
    """The payload of a chunk of type `kind` from its JSON form."""
    cls = PAYLOAD_TYPES.get(kind, UnknownPayload)
    if cls is FinishPayload:
        return _finish_from_json(data)
    if cls is ResponseMetadataPayload and isinstance(data.get("timestamp"), str):
        data = {**data, "timestamp": parse_time(data["timestamp"])}
    return cls.from_json(data)


def _finish_from_json(data: dict[str, Any]) -> FinishPayload:
    output: dict[str, Any] = dict(data.get("output") or {})
    usage: Any = output.get("usage") or {}
    output["usage"] = usage if isinstance(usage, Usage) else Usage.from_json(usage)
    outcome: dict[str, Any] = {"reason": None, **(data.get("stepResult") or {})}
    return FinishPayload.from_json(
        {
            **data,
            "stepResult": StepOutcome.from_json(outcome),
            "output": StepOutput.from_json(output),
        }
    )


def text_of(chunks: Iterable[Chunk]) -> str:
    """The text of all text deltas, joined byte-exactly."""
    return "".join(chunk.payload.text for chunk in chunks if chunk.type == "text-delta")


__all__ += ["error_form", "payload_from_json", "text_of"]
__all__ += [cls.__name__ for cls in dict.fromkeys(PAYLOAD_TYPES.values())]
__all__ += ["StepOutcome", "StepOutput"]
