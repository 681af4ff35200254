"""Scene: what each processor cost, from the spans that the observer was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from .redaction import SCENE as REDACTION
from .scene import Scene, Setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..spans import Span
    from .stage import Stage

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
    _row(stage, "dim", "processor", "calls", "total", "per call")
    for name, cost in found.items():
        each = cost.seconds / cost.calls
        _row(stage, "cyan", name, str(cost.calls), _time(cost.seconds), _time(each, digits=3))
    stage.blank()
    all_of_them = Cost(
        calls=sum(cost.calls for cost in found.values()),
        seconds=sum(cost.seconds for cost in found.values()),
    )
    models = [span.seconds for span in spans if span.kind == "model"]
    _row(stage, "bold", "all processors", str(all_of_them.calls), _time(all_of_them.seconds))
    _row(stage, "bold", "the model", str(len(models)), _time(sum(models)))
    share = 100 * all_of_them.seconds / (all_of_them.seconds + sum(models))
    stage.say(f"Processors took {share:.3f} % of the time.", "bold")
    return found


def _row(stage: Stage, style: str, name: str, *numbers: str) -> None:
    """A name to the left, numbers to the right in their columns."""
    stage.put(f"  {name:<15}", style)
    widths = (6, 12, 12)[: len(numbers)]
    spaced = (f"{number:>{width}}" for number, width in zip(numbers, widths, strict=True))
    stage.put("".join(spaced) + "\n")


def _time(seconds: float, *, digits: int = 2) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.{digits}f} ms"


SCENE = Scene(
    name="cost",
    title="cost: what the processors took of the time",
    play=play,
    script=REDACTION.script,
)
