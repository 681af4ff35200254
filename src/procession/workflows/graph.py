"""Putting stages together: what fits where, and which ids there are, is checked on the way."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, cast

from ..errors import ConfigurationError, KindError
from ..keywords import check_keywords
from .mapping import mapping_step
from .schemas import check_fit
from .stages import Branch, ForEach, Loop, Parallel, Sleep, Then
from .steps import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .schemas import Schema
    from .stages import Condition, Stage
    from .workflow import Workflow

__all__ = ["Graph", "is_number"]


class Graph:
    """The stages of a workflow; `then`, `parallel` and the like add one and return the workflow."""

    __slots__ = ("_committed", "_given", "id", "input", "output", "stages")

    id: str
    input: Schema | None
    output: Schema | None

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self._given: dict[int, dict[str, Any]] = {}
        self._committed = False

    def then(self, step: Step | Workflow, **shown: Any) -> Self:
        """What comes before is the input of this step (W-090)."""
        made = self._step(step, "then")
        return self._add(Then(made), shown, made.input, made.output)

    def parallel(self, steps: Sequence[Step | Workflow], **shown: Any) -> Self:
        """These steps at the same time, with the same input; the next stage gets a dict of their
        outputs by step id (W-091). Any failure fails the stage; the first verdict ends the others.
        """
        made = [self._step(step, "parallel") for step in _several("parallel", steps)]
        for step in made:
            self._check_fit(step.input, step.id)
        return self._add(Parallel(made), shown, None, None)

    def branch(self, arms: Sequence[tuple[Condition, Step | Workflow]], **shown: Any) -> Self:
        """The first step whose condition holds: `branch([(condition, step), …])` (W-092).

        A condition gets a `StepContext`. The next stage gets a dict with the output of that step by
        its id, which is empty if no condition holds.
        """
        made: list[tuple[Condition, Step]] = []
        for arm in _several("branch", arms):
            condition, step = _pair(arm)
            made.append((condition, self._step(step, "branch")))
            self._check_fit(made[-1][1].input, made[-1][1].id)
        return self._add(Branch(self._own_id("branch"), made), shown, None, None)

    def map(self, mapping: Callable[..., Any] | Mapping[str, Any], **shown: Any) -> Self:
        """What the next stage gets: a function of the `StepContext`, or a dict of sources (W-093).

        A source is `{"step": step, "path": "a.b"}` (or several steps, of which the one that has a
        result counts), `{"init_data": True, "path": …}`, `{"value": …}`,
        `{"request_context_path": …}` or `{"fn": function}`.
        """
        return self._add(Then(mapping_step(self._own_id("mapping"), mapping)), shown, None, None)

    def dowhile(self, step: Step | Workflow, condition: Condition, **shown: Any) -> Self:
        """The step once, and again as long as the condition holds (W-095)."""
        return self._loop(step, condition, shown, until=False)

    def dountil(self, step: Step | Workflow, condition: Condition, **shown: Any) -> Self:
        """The step once, and again until the condition holds (W-095)."""
        return self._loop(step, condition, shown, until=True)

    def foreach(self, step: Step | Workflow, *, concurrency: int = 1, **shown: Any) -> Self:
        """The step for each entry of a list, so many at a time; the next stage gets the list of the
        outputs (W-096).
        """
        if type(concurrency) is not int or concurrency < 1:
            raise ConfigurationError(f"{self!r}: concurrency must be a whole number, 1 or more")
        made = self._step(step, "foreach")
        return self._add(ForEach(made, concurrency), shown, None, None)

    def sleep(self, duration: float | Callable[..., Any], **shown: Any) -> Self:
        """A pause of so many milliseconds, or of what a function gives (W-097)."""
        if not callable(duration) and not (is_number(duration) and duration >= 0):
            raise ConfigurationError(f"{self!r}: sleep takes milliseconds, a number of 0 or more")
        return self._add(Sleep(self._own_id("sleep"), duration, until=False), shown, keeps=True)

    def sleep_until(self, date: datetime | Callable[..., Any], **shown: Any) -> Self:
        """A pause until a time, or until the one that a function gives (W-097)."""
        if not callable(date) and not isinstance(date, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{self!r}: sleep_until takes a datetime")
        return self._add(Sleep(self._own_id("sleep"), date, until=True), shown, keeps=True)

    def commit(self) -> Self:
        """Fix the graph; only then can the workflow be used (W-094).

        Raises `ConfigurationError` for one without a stage, and for two steps of one id (W-075).
        """
        if not self.stages:
            raise ConfigurationError(f"{self!r} has no stages: add some before commit()")
        known: set[str] = set()
        for stage in self.stages:
            for step in stage.steps:
                if step.id in known:
                    raise ConfigurationError(
                        f"workflow {self.id!r} has two steps with the id {step.id!r}: give the "
                        f"processors distinct ids, or one of the steps another with clone_step"
                    )
                known.add(step.id)
        if self.output is not None:
            check_fit(self._last_output(), self.output, f"workflow {self.id!r}, its output")
        self._committed = True
        for index, processor in enumerate(self.processors):
            if hasattr(processor, "processor_index"):
                processor.processor_index = index
        return self

    @property
    def steps(self) -> dict[str, Step]:
        """The steps by their id, in the order of the stages."""
        return {step.id: step for stage in self.stages for step in stage.steps}

    @property
    def serialized_step_graph(self) -> list[dict[str, Any]]:
        """The stages, for a view of the graph (W-157)."""
        return [
            {**stage.describe(), **self._given[number]["shown"]}
            for number, stage in enumerate(self.stages)
        ]

    @property
    def processors(self) -> list[Any]:
        """The processors of its steps and of the workflows within, in order (M-044)."""
        found: list[Any] = []
        for step in self.steps.values():
            if step.kind == "processor":
                found.append(step.made_of)
            elif step.kind == "workflow":
                found.extend(step.made_of.processors)
        return found

    def _loop(self, step: Any, condition: Any, shown: Any, *, until: bool) -> Self:
        name = "dountil" if until else "dowhile"
        if not callable(condition):
            raise KindError(f"{self!r}: {name} takes a step and a condition, a function")
        made = self._step(step, name)
        self._check_fit(made.output, f"{made.id} ({name}, again)", made.input)
        return self._add(Loop(made, condition, until=until), shown, made.input, made.output)

    def _step(self, given: Any, where: str) -> Step:
        if self._committed:
            raise ConfigurationError(
                f"workflow {self.id!r} is committed: nothing can be added. Build another one"
            )
        if isinstance(given, Step):
            return given
        as_step: Any = getattr(given, "as_step", None)
        if isinstance(given, Graph) and as_step is not None:
            return as_step()
        raise KindError(
            f"workflow {self.id!r}: {where} takes steps, not {type(given).__name__}: make one with "
            f"create_step(…)"
        )

    def _add(
        self,
        stage: Stage,
        shown: Mapping[str, Any],
        wants: Schema | None = None,
        gives: Schema | None = None,
        *,
        keeps: bool = False,
    ) -> Self:
        check_keywords(f"workflow {self.id!r}, a stage", shown, ("id", "description", "metadata"))
        if self._committed:
            self._step(None, "a stage")
        self._check_fit(wants, stage.steps[0].id if stage.steps else "")
        self._given[len(self.stages)] = {
            "shown": dict(shown),
            "output": self._last_output() if keeps else gives,
        }
        self.stages.append(stage)
        return self

    def _last_output(self) -> Schema | None:
        if not self.stages:
            return self.input
        found: Any = self._given[len(self.stages) - 1]["output"]
        return found

    def _check_fit(self, wants: Schema | None, place: str, gives: Any = None) -> None:
        last = self._last_output() if gives is None else gives
        if gives is not None:
            last, wants = wants, gives
        check_fit(last, wants, f"workflow {self.id!r}, step {place!r}")

    def _own_id(self, kind: str) -> str:
        """An id that is the same whenever this graph is built (W-099)."""
        return f"{kind}_{self.id}_{len(self.stages)}"


def is_number(value: Any) -> bool:
    """Whether it is a number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _several(where: str, given: Any) -> list[Any]:
    if not isinstance(given, list | tuple) or not given:
        raise KindError(f"{where} takes a list that is not empty")
    return list(cast("Sequence[Any]", given))


def _pair(arm: Any) -> tuple[Any, Any]:
    if isinstance(arm, list | tuple):
        entries = list(cast("Sequence[Any]", arm))
        if len(entries) == 2 and callable(entries[0]):
            return entries[0], entries[1]
    raise KindError("branch takes a list of pairs: (condition, a function; step)")
