"""What happened during a run, for whoever wants to know: spans, and the observer they go to.

The engine makes spans only when an observer listens; without one the chunk path takes no time
stamps at all. A span tells what was done and how long it took, never what a text said.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

__all__ = ["Observer", "Span"]


class Span(Struct, kw_only=True):
    """One thing that happened.

    `kind` is `hook`, `chunks`, `model`, `tool` or `policy`. `name` is the hook, the model id
    or the tool. `seconds` is how long it took (wall time). `outcome` is one of `ok`, `changed`,
    `dropped`, `tripped`, `retry`, `failed`; of kind `policy` the action of a `PolicyEvent`
    (`blocked`, `bypassed`, `degraded`, `late`, `observed`), told when it happens the first time in
    an attempt. A span of kind `chunks` sums up one processor's
    `process_output_stream` over one attempt: `count` calls, of which `changed` and `dropped`.
    `detail` holds a few plain values, such as the reason of a tripwire.
    """

    kind: str
    name: str
    run_id: str
    processor_id: str | None = None
    step_number: int | None = None
    attempt: int = 0
    seconds: float = 0.0
    outcome: str = "ok"
    count: int = 1
    changed: int = 0
    dropped: int = 0
    detail: dict[str, Any] | None = None


class Observer(Protocol):
    """Receives spans as they end. Called in the run's own task: return quickly, never raise."""

    def span(self, span: Span, /) -> None:
        """Take note of a finished span."""
        ...
