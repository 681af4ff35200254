"""Scene: what each processor cost, from the spans that the observer was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from .redaction import SCENE as REDACTION
from .scene import Scene, Setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..spans import Span

__all__ = ["SCENE", "Cost", "costs"]


class Cost(Struct):
    """Calls of one processor's hooks, and the seconds they took in all."""

    calls: int = 0
    seconds: float = 0.0


def costs(spans: Sequence[Span]) -> dict[str, Cost]:
    """The cost of each processor, the dearest first."""
    found: dict[str, Cost] = {}
    for span in spans:
        if span.processor_id is None or span.kind not in ("hook", "chunks"):
            continue
        cost = found.setdefault(span.processor_id, Cost())
        cost.calls += span.count
        cost.seconds += span.seconds
    return dict(sorted(found.items(), key=lambda item: -item[1].seconds))


async def play(setting: Setting) -> dict[str, Cost]:
    """A table of what has run so far; something is run first if nothing has."""
    stage, spans = setting.stage, setting.observer.spans
    if not spans:
        await REDACTION.play(setting)
        stage.blank()
    stage.say("Measured by the observer in all runs above: time spent in the hooks themselves.")
    stage.blank()
    found = costs(spans)
    head = [("processor", "dim"), ("calls", "dim"), ("total", "dim"), ("per call", "dim")]
    stage.columns(_right(head), WIDTHS)
    for name, cost in found.items():
        row = [(name, "cyan"), (str(cost.calls), ""), (_millis(cost.seconds), "")]
        stage.columns(_right([*row, (_micros(cost.seconds / cost.calls), "")]), WIDTHS)
    stage.blank()
    processors = sum(cost.seconds for cost in found.values())
    models = [span for span in spans if span.kind == "model"]
    waited = sum(span.seconds for span in models)
    stage.columns(_right([("all processors", "bold"), *_sum(found), ("", "")]), WIDTHS)
    stage.columns(
        _right([("the model", "bold"), (str(len(models)), ""), (_millis(waited), ""), ("", "")]),
        WIDTHS,
    )
    if waited:
        share = 100 * processors / (processors + waited)
        stage.say(f"Processors took {share:.3f} % of the time.", "bold")
    return found


WIDTHS = [15, 6, 12]


def _sum(found: dict[str, Cost]) -> list[tuple[str, str]]:
    calls = sum(cost.calls for cost in found.values())
    seconds = sum(cost.seconds for cost in found.values())
    return [(str(calls), ""), (_millis(seconds), "")]


def _right(cells: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Numbers stand to the right in their columns."""
    first, *middle, (last, style) = cells
    widths = [*WIDTHS[1:], 10]
    aligned = zip([*middle, (last, style)], widths, strict=True)
    return [first, *((text.rjust(width), look) for (text, look), width in aligned)]


def _millis(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def _micros(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs"


SCENE = Scene(
    name="cost",
    title="cost: what the processors took of the time",
    play=play,
    script=REDACTION.script,
)
