"""What records of the log carry besides their words (O-071).

Loggers are named `procession.` and the area: `engine`, `processors`, `memory`, … Nothing above
debug level repeats what messages say, but for the reason of a verdict, which clients are told too.
"""

from __future__ import annotations

from typing import Any

__all__ = ["log_fields", "one_line"]

LONGEST = 300


def log_fields(processor_id: str | None = None, run: Any = None) -> dict[str, Any]:
    """The `extra` of a record: `run_id`, `trace_id` and `processor_id`, each `None` if unknown.

    `run` is a run's state, or what a hook of it was given.
    """
    span: Any = getattr(getattr(run, "tracing_context", None), "current_span", None)
    return {
        "run_id": getattr(run, "run_id", None),
        "trace_id": span.trace_id if getattr(span, "is_valid", False) else None,
        "processor_id": processor_id,
    }


def one_line(text: object) -> str:
    """A text as it stands in a log: in one line, of 300 characters at most."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"
