"""The stages of a workflow: what is executed after what, and with what (W-090 to W-099)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import InputError
from .branches import NOT_YET, side_by_side
from .context import StepContext

if TYPE_CHECKING:
    from .execution import Execution
    from .steps import Step

__all__ = ["Branch", "ForEach", "Loop", "Parallel", "Sleep", "Stage", "Then", "asked"]

Condition = Callable[[StepContext], Any]


async def asked(function: Callable[[Any], Any], context: StepContext) -> Any:
    """What a function of the user's gives, plain or async."""
    returned = function(context)
    return await returned if inspect.isawaitable(returned) else returned


async def asked_with(function: Callable[[Any], Any], told: Any) -> Any:
    """What a callback gives, plain or async."""
    return await asked(function, told)


class Stage(Protocol):
    """One stage."""

    @property
    def steps(self) -> Sequence[Step]:
        """The steps it may execute."""
        ...

    @property
    def functions(self) -> Sequence[Callable[..., Any]]:
        """The functions of the user's that it calls itself."""
        ...

    async def run(self, execution: Execution, value: Any) -> Any:
        """Its output for an input."""
        ...

    def describe(self) -> dict[str, Any]:
        """Its entry in the graph (W-157)."""
        ...


class Then:
    """One step: a step of the user's, or a mapping."""

    functions = ()

    def __init__(self, step: Step) -> None:
        self.step = step
        self.steps = (step,)

    async def run(self, execution: Execution, value: Any) -> Any:
        return await execution.step(self.step, value)

    def describe(self) -> dict[str, Any]:
        if self.step.kind == "mapping":
            return {"type": "mapping", "id": self.step.id}
        return {"type": "step", "step": described(self.step)}


class Parallel:
    """Several steps at the same time, with the same input (W-091)."""

    functions = ()

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)

    async def run(self, execution: Execution, value: Any) -> Any:
        inputs = [execution.fork(value) for _ in self.steps]
        found = {s.id: execution.at_once(s, v) for s, v in zip(self.steps, inputs, strict=True)}
        left = [n for n, step in enumerate(self.steps) if found[step.id] is NOT_YET]
        if left:
            work = [execution.step(self.steps[n], inputs[n]) for n in left]
            for number, output in zip(left, await side_by_side(execution, work), strict=True):
                found[self.steps[number].id] = output
        return found

    def describe(self) -> dict[str, Any]:
        steps = [{"type": "step", "step": described(step)} for step in self.steps]
        return {"type": "parallel", "steps": steps}


class Branch:
    """The first step whose condition holds (W-092)."""

    def __init__(self, id: str, arms: Sequence[tuple[Condition, Step]]) -> None:
        self.id = id
        self.arms = tuple(arms)
        self.steps: tuple[Step, ...] = tuple(step for _, step in arms)
        self.functions = tuple(condition for condition, _ in arms)

    async def run(self, execution: Execution, value: Any) -> Any:
        async def chosen() -> int:
            for number, (condition, _) in enumerate(self.arms):
                if await asked(condition, StepContext(execution, value)):
                    return number
            return -1

        number: int = await execution.decided(self.id, chosen)
        if number < 0:
            return {}
        step = self.steps[number]
        return {step.id: await execution.step(step, value)}

    def describe(self) -> dict[str, Any]:
        return {
            "type": "conditional",
            "steps": [{"type": "step", "step": described(step)} for step in self.steps],
            "serializedConditions": [
                {"id": f"{step.id}-condition", "fn": named(condition)}
                for condition, step in self.arms
            ],
        }


class Loop:
    """A step again and again: until a condition holds, or as long as it does (W-095)."""

    def __init__(self, step: Step, condition: Condition, *, until: bool) -> None:
        self.step = step
        self.steps = (step,)
        self.condition = condition
        self.functions = (condition,)
        self.until = until

    async def run(self, execution: Execution, value: Any) -> Any:
        count = 0
        while True:
            count += 1
            value = await execution.step(self.step, value, number=count)
            context = StepContext(execution, value)
            context.iteration_count = count

            async def holds(context: StepContext = context) -> bool:
                return bool(await asked(self.condition, context))

            if await execution.decided(f"{self.step.id}-condition", holds, count) is self.until:
                return value
            await asyncio.sleep(0)  # a loop of plain functions must not shut others out

    def describe(self) -> dict[str, Any]:
        return {
            "type": "loop",
            "loopType": "dountil" if self.until else "dowhile",
            "step": described(self.step),
            "serializedCondition": {
                "id": f"{self.step.id}-condition",
                "fn": named(self.condition),
            },
        }


class ForEach:
    """A step for each entry of a list, so many at a time; results in their order (W-096)."""

    functions = ()

    def __init__(self, step: Step, concurrency: int) -> None:
        self.step = step
        self.steps = (step,)
        self.concurrency = concurrency

    async def run(self, execution: Execution, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            kind = type(value).__name__
            raise InputError(f"foreach({self.step.id!r}) needs a list as its input, not {kind}")
        entries: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        room = asyncio.Semaphore(self.concurrency)

        async def one(number: int, entry: Any) -> Any:
            async with room:
                output = await execution.step(self.step, entry, number=number, within=len(entries))
                execution.progress(self.step, number, len(entries))
                return output

        return await side_by_side(execution, [one(n, e) for n, e in enumerate(entries)])

    def describe(self) -> dict[str, Any]:
        return {
            "type": "foreach",
            "step": described(self.step),
            "opts": {"concurrency": self.concurrency},
        }


class Sleep:
    """A pause, or a time to wait for (W-097)."""

    steps = ()

    def __init__(self, id: str, wait: Any, *, until: bool) -> None:
        self.id = id
        self.wait = wait
        self.until = until
        self.functions = (wait,) if callable(wait) else ()

    async def run(self, execution: Execution, value: Any) -> Any:
        async def end() -> float:
            wait: Any = self.wait
            if callable(wait):
                wait = await asked(wait, StepContext(execution, value))
            return _seconds(self.id, wait, until=self.until)

        ends = await execution.decided(self.id, end)
        await asyncio.sleep(max(0.0, ends - datetime.now(UTC).timestamp()))
        return value

    def describe(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "sleepUntil" if self.until else "sleep", "id": self.id}
        if callable(self.wait):
            return {**entry, "fn": named(self.wait)}
        if self.until:
            return {**entry, "date": self.wait.isoformat()}
        return {**entry, "duration": self.wait}


def _seconds(id: str, wait: Any, *, until: bool) -> float:
    """The time at which a pause ends, in seconds since 1970."""
    if until:
        if not isinstance(wait, datetime):
            raise InputError(f"{id}: sleep_until needs a datetime, not {type(wait).__name__}")
        return wait.timestamp()
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not wait >= 0:
        raise InputError(f"{id}: sleep needs milliseconds, a number of 0 or more")
    return datetime.now(UTC).timestamp() + wait / 1000


def named(function: Callable[..., Any]) -> str:
    """How a function is called in the graph."""
    return getattr(function, "__name__", type(function).__name__)


def described(step: Step) -> dict[str, Any]:
    """A step in the graph, with the graph of the workflow that it may be."""
    entry: dict[str, Any] = {"id": step.id, "kind": step.kind}
    if step.description:
        entry["description"] = step.description
    if step.metadata:
        entry["metadata"] = dict(step.metadata)
    graph: Mapping[str, Any] | None = getattr(step.made_of, "serialized_step_graph", None)
    if step.kind == "workflow" and graph is not None:
        entry["component"] = "WORKFLOW"
        entry["serializedStepFlow"] = graph
    return entry
