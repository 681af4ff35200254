"""What a run leaves behind: results of steps, of the whole run, and of `generate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from .chunks import Chunk, Usage
from .messages import Message
from .records import Record

__all__ = ["ModelCall", "OutputResult", "ResponseInfo", "StepResult", "Tripwire"]


class Tripwire(Record, kw_only=True, repr_omit_defaults=True):
    """Who stopped the run, and why (R-168)."""

    reason: str
    processor_id: str
    retry: bool = False
    metadata: Any = None


class ResponseInfo(Record, kw_only=True, repr_omit_defaults=True):
    """What is known of a model's response (R-545).

    `messages` are the assistant and tool messages of the run in model form, `db_messages` as
    stored, `ui_messages` as AI SDK v5 clients show them; all empty for a single step's response.
    """

    id: str | None = None
    timestamp: datetime | None = None
    model_id: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    db_messages: list[Message] = field(default_factory=list["Message"])
    ui_messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


class StepResult(Record, kw_only=True, repr_omit_defaults=True):
    """One step, or one rejected attempt at it (R-546).

    `finish_reason` is `retry` for a rejected attempt (R-179); `tripwire` is set when a processor
    rejected or blocked it. `from_cache` tells that the answer was a kept one and no provider was
    asked: `usage` is what it took when it was made (C-078). `tool_calls`, `tool_results`,
    `reasoning`, `sources` and `files` are chunks; `content` is the step's parts in the order they
    came, as stored.
    """

    step_number: int = 0
    step_type: str = "initial"
    text: str = ""
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    tool_calls: list[Chunk] = field(default_factory=list[Chunk])
    tool_results: list[Chunk] = field(default_factory=list[Chunk])
    reasoning: list[Chunk] = field(default_factory=list[Chunk])
    sources: list[Chunk] = field(default_factory=list[Chunk])
    files: list[Chunk] = field(default_factory=list[Chunk])
    content: list[Any] = field(default_factory=list[Any])
    warnings: list[Any] = field(default_factory=list[Any])
    request: dict[str, Any] = field(default_factory=dict[str, Any])
    response: ResponseInfo = field(default_factory=ResponseInfo)
    provider_metadata: dict[str, Any] | None = None
    tripwire: Tripwire | None = None
    from_cache: bool = False

    @property
    def reasoning_text(self) -> str | None:
        """The reasoning joined, or `None` when there is none."""
        return "".join(chunk.payload.text for chunk in self.reasoning) or None

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as the chunks that hold steps show it."""
        out = super().to_json()
        if self.reasoning:
            out["reasoningText"] = self.reasoning_text
        if not self.from_cache:
            del out["fromCache"]  # which few steps are, and only those say so
        return out

    @property
    def accepted(self) -> bool:
        """Whether the step counts: neither rejected nor blocked."""
        return self.finish_reason != "retry" and self.tripwire is None


class OutputResult(Struct, kw_only=True):
    """What `process_output_result` is told about the run (R-153)."""

    text: str
    usage: Usage
    finish_reason: str | None
    steps: list[StepResult]


class ModelCall(Struct, frozen=True, kw_only=True):
    """A call of a model that is over: what it has used, whatever became of the answer.

    `usage` is the provider's word; it is empty when the call failed or was cut off before that.
    `prompt` is what was sent, to read only; `text` is what had come of the answer, thoughts
    included. `answered` tells whether the provider accepted the call,
    `from_cache` that no provider was asked. `id` differs from that of any other call.
    """

    id: str
    run_id: str
    step_number: int
    provider: str
    model_id: str
    usage: Usage
    answered: bool
    from_cache: bool
    prompt: Sequence[Mapping[str, Any]]
    text: str
