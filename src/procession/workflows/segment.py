"""Stages of a workflow that act as one processor: side by side, by condition, by function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import InputError, ProcessorError
from ..messages import DataPart
from ..policy.keeping import put_data
from ..processor import ProcessInputStepResult
from ..writing import may_use
from .at_gate import AtGate
from .endings import Bailed, Suspended, way_out
from .execution import Execution, SharedState
from .hosting import HookHost
from .phases import INPUT_STEP, PHASES, SETTINGS, Phase
from .stages import Branch, Parallel, Then
from .values import settled, value_of

if TYPE_CHECKING:
    from ..engine.run_state import RunState
    from ..hook_args import HookArgs
    from ..messages import Message
    from .stages import Stage
    from .steps import Step
    from .workflow import Workflow

__all__ = ["Segment"]

E = TypeVar("E", bound=Execution)


class Segment:
    """Stands in an agent's list for stages that are no processors one by one."""

    def __init__(
        self, workflow: Workflow, stages: Sequence[Stage], *, looks_back: bool = False
    ) -> None:
        self.workflow = workflow
        self._looks_back = looks_back
        """Whether a function may ask for results of steps before."""
        self.stages = tuple(stages)
        self.id = workflow.id
        self.name = workflow.name
        self._steps = [step for step in all_steps(stages) if step.kind == "processor"]
        self._functions = [*_functions(stages)]
        self.processors = [step.made_of for step in self._steps]
        self.process_data_parts = any(
            getattr(each, "process_data_parts", False) for each in self.processors
        )
        for phase in PHASES.values():
            if _has_work(self.stages, self.processors, phase):
                setattr(self, phase.hook, self._hook(phase))

    def _hook(self, phase: Phase) -> Any:
        async def hook(args: HookArgs[Any]) -> Any:
            return await self._carry_out(phase, args)

        return hook

    async def _carry_out(self, phase: Phase, args: HookArgs[Any]) -> Any:
        """One call of a hook: the stages on copies, of which the last one's is put in place."""
        host = HookHost(phase, args, keeps=self._looks_back)
        live = args.message_list
        known, running = live.ids(), live.find(args.run.message_id)
        stored = {*map(id, _data(running))}
        value = host.fork(value_of(phase, args, live))
        execution = self.execution(args, host, value)
        returned = await self.passed(execution, value, self.stages)
        self.check(phase, returned)
        outcome = cast("Mapping[str, Any]", returned)
        written = [part for part in _data(running) if id(part) not in stored]
        changed = self._put_in_place(phase, live, outcome, known)
        running = live.find(args.run.message_id)
        if written and running is not None:
            put_data(live, running, written)
        if phase.name == INPUT_STEP:
            return _chosen(args, outcome)
        return live if changed else None

    def traits_of(self, hook: str) -> tuple[bool, bool]:
        """Whether something within may write to the client in this hook, or look back at earlier
        chunks.
        """
        links = [link for step in self._steps if (link := step.link(hook)) is not None]
        writes = any(link.may_write for link in links) or any(map(_may_write, self._functions))
        return writes, any(link.looks_back for link in links)

    def stand_at_gate(self, run: RunState, args: Any, position: int) -> AtGate:
        """What stands at a run's gate for the stages."""
        return AtGate(self, run, args, position)

    def execution(self, args: HookArgs[Any], host: Any, value: Any, kind: type[E] = Execution) -> E:
        """A pass through the stages, in the run that the arguments belong to."""
        run = args.run
        return kind(
            self.workflow,
            value,
            run_id=args.run_id,
            request_context=args.request_context,
            interruption=run.interruption,
            host=host,
            state=SharedState(None, {}),
            abort_signal=args.abort_signal,
            tracing_context=args.tracing_context,
            writer=args.writer,
        )

    async def passed(self, execution: Execution, value: Any, stages: Sequence[Stage]) -> Any:
        """What the stages come to; nobody could resume one that suspends itself (W-069)."""
        try:
            return await execution.stages(stages, value)
        except BaseException as error:
            out = way_out(error)
            if isinstance(out, Bailed):
                return out.value
            if not isinstance(out, Suspended):
                raise
        raise ProcessorError(
            self.id,
            cast("Any", execution.host).phase.hook,
            "a step of the workflow suspends itself, which nothing could resume here: ask before "
            "the agent is called, or have a tool wait for approval",
        )

    def check(self, phase: Phase, outcome: Any) -> None:
        """Raise unless the last stage has given the value of a processor step (W-061)."""
        if isinstance(outcome, Mapping):
            given = cast("Mapping[str, Any]", outcome)
            if given.get("phase") == phase.name:
                return
            held = "a mapping with the keys " + (", ".join(map(str, list(given)[:5])) or "(none)")
        else:
            held = type(outcome).__name__
        raise ProcessorError(
            self.id,
            phase.hook,
            f"what the workflow gives must be the value of a processor step with phase "
            f"{phase.name!r}, and is {held}. After parallel or branch, choose one with "
            f".map(lambda context: context.input_data['processor:…'])",
        )

    def _put_in_place(self, phase: Phase, live: Any, outcome: Any, known: Any) -> bool:
        messages = outcome.get("message_list")
        try:
            twin = settled(phase, outcome, live if messages is None else messages)
        except (InputError, TypeError) as error:
            raise ProcessorError(self.id, phase.hook, f"gave what is no message: {error}") from None
        return live.follow(twin, known)


def _data(message: Message | None) -> list[DataPart]:
    parts = () if message is None else message.content.parts
    return [part for part in parts if isinstance(part, DataPart)]


def _chosen(args: Any, outcome: Mapping[str, Any]) -> ProcessInputStepResult | None:
    """The settings of the step that were changed (W-062)."""
    changes = {
        name: outcome[name]
        for name in SETTINGS
        if name in outcome and _differs(getattr(args, name), outcome[name])
    }
    return ProcessInputStepResult(**changes) if changes else None


def _differs(one: Any, other: Any) -> bool:
    if one is other:
        return False
    try:
        return bool(one != other)
    except Exception:  # what cannot be compared was put there by a step
        return True


def all_steps(stages: Sequence[Stage]) -> Iterator[Step]:
    """The steps of stages, and those of the workflows within."""
    for stage in stages:
        for step in stage.steps:
            if step.kind == "workflow":
                yield from all_steps(step.made_of.stages)
            else:
                yield step


def _functions(stages: Sequence[Stage]) -> Iterator[Any]:
    """What of the user's is called besides processors: functions, agents, tools."""
    for stage in stages:
        yield from stage.functions
        for step in stage.steps:
            if step.kind == "workflow":
                yield from _functions(step.made_of.stages)
            elif step.kind != "processor":
                yield step.execute


def _may_write(function: Any) -> bool:
    return may_use(function, _WRITING)


_WRITING = frozenset({"writer", "_execution"})


def _has_work(stages: Sequence[Stage], processors: Sequence[Any], phase: Phase) -> bool:
    """Whether something could happen in a phase: with nothing but processors without its hook, side
    by side, and mappings that choose one of them, nothing can.
    """
    if not processors or any(callable(getattr(each, phase.hook, None)) for each in processors):
        return True
    return not all(_only_chooses(stage) for stage in stages)


def _only_chooses(stage: Stage) -> bool:
    if isinstance(stage, Branch) or not isinstance(stage, Then | Parallel):
        return False
    return all(step.kind in ("processor", "mapping") for step in stage.steps)
