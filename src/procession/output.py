"""What a finished run amounts to: the accessors of the stream object and the output of `generate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .results import FullOutput, StepResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from .run_state import RunState

__all__ = ["VALUES", "full_output", "gathered"]


def gathered(run: RunState, name: str) -> list[Any]:
    """What the accepted steps hold under `name`, in one list (R-544)."""
    return [item for result in _counting(run) for item in getattr(result, name)]


def _counting(run: RunState) -> list[StepResult]:
    """Accepted steps, and one the caller cut off; nothing rejected or blocked."""
    return [result for result in run.all_steps if result.accepted]


def _last(run: RunState, name: str, absent: Any) -> Any:
    return getattr(run.all_steps[-1], name) if run.all_steps else absent


VALUES: dict[str, Callable[[RunState], Any]] = {
    "text": lambda run: run.text,
    "usage": lambda run: run.usage,
    "total_usage": lambda run: run.usage,
    "finish_reason": lambda run: run.finish_reason,
    "steps": lambda run: list(run.all_steps),
    "tool_calls": lambda run: gathered(run, "tool_calls"),
    "tool_results": lambda run: gathered(run, "tool_results"),
    "reasoning": lambda run: gathered(run, "reasoning"),
    "reasoning_text": lambda run: (
        "".join(chunk.payload.text for chunk in gathered(run, "reasoning")) or None
    ),
    "sources": lambda run: gathered(run, "sources"),
    "files": lambda run: gathered(run, "files"),
    "warnings": lambda run: list(run.warnings),
    "response": lambda run: run.response(),
    "request": lambda run: _last(run, "request", {}),
    "provider_metadata": lambda run: _last(run, "provider_metadata", None),
}
"""The awaitable values of the stream object, by name (R-539)."""


def full_output(run: RunState) -> FullOutput:
    """The output of `generate` (R-548)."""
    values = {name: read(run) for name, read in VALUES.items()}
    return FullOutput(
        **values,
        run_id=run.run_id,
        messages=run.message_list.messages(),
        remembered_messages=run.message_list.get.remembered.db(),
        tripwire=run.tripwire,
        error=run.error,
        status=run.status,
    )
