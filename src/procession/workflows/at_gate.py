"""Stages of a workflow in a stream: each processor step stands at a gate of its own."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, cast

from ..errors import TripWire
from ..processor import watches_of
from .branches import NOT_YET
from .journal import without_number
from .pace import PIECES, Pace, text_size
from .phases import OUTPUT_STREAM, PHASES
from .stages import Branch, Parallel
from .step_gate import StepGate
from .stream_pass import StreamPass
from .values import StepValue, chunks_in, forked
from .words import Words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..chunks import Chunk
    from ..engine.run_state import RunState
    from ..hook_args import ProcessOutputStreamArgs
    from ..message_list import MessageList
    from .execution import Execution
    from .segment import Segment
    from .stages import Stage
    from .steps import Step

__all__ = ["AtGate"]

_PHASE = PHASES[OUTPUT_STREAM]
Path = tuple[str, ...]


class AtGate:
    """One run's chunks on their way through the stages of a segment.

    It stands for what lets go of chunks as well: what steps keep leaves through the stages behind
    them. Where steps run side by side, a chunk leaves when all of them have let its place pass.
    """

    __slots__ = (
        "_args",
        "_at",
        "_gates",
        "_known",
        "_pace",
        "_position",
        "_run",
        "_segment",
        "watches",
    )

    def __init__(
        self, segment: Segment, run: RunState, args: ProcessOutputStreamArgs[Any], position: int
    ) -> None:
        self._segment = segment
        self._run = run
        self._args = args
        self._position = position
        self._gates: dict[Path, StepGate] = {}
        self._at = 0
        """How many places have come."""
        self._known: Mapping[str, Any] | None = None
        """The messages there were when one was copied, with the chunk that is on its way."""
        paced = any(isinstance(stage, Parallel) for stage in _all_stages(segment.stages))
        self._pace = Pace() if paced else None
        looks = any(watches_of(processor) for processor in segment.processors)
        self.watches = (Words(),) if looks else ()

    # ── a chunk ────────────────────────────────────────────────────────────────────────────────

    async def hook(self, args: ProcessOutputStreamArgs[Any]) -> Any:
        """In the place of a hook: what leaves of this chunk, and of those before."""
        part, self._known = args.part, None
        value = self._value(args, part, self._at)
        value.at = self._at = self._at + text_size(part)
        try:
            outcome = await self._passed(value, self._segment.stages)
        except TripWire as wire:
            wire.passing = None  # of what one branch has let pass others have not said their word
            raise
        messages = outcome.known_list
        if messages is not None and self._known is not None:
            self._run.message_list.follow(messages, self._known)
        chunks = self._in_step(self._chunks(outcome, part))
        return chunks[0] if len(chunks) == 1 else chunks or None

    def _value(self, args: ProcessOutputStreamArgs[Any], part: Chunk | None, low: int) -> StepValue:
        value = StepValue(
            phase=OUTPUT_STREAM,
            part=part,
            stream_parts=args.stream_parts,
            state=args.state,
            retry_count=args.retry_count,
        )
        value = forked(_PHASE, value, self._list)
        value.low, value.at, value.exact = low, self._at, True
        return value

    def _list(self) -> MessageList:
        """The run's messages, which somebody is about to copy."""
        live = self._run.message_list
        if self._known is None:
            self._known = live.ids()
        return live

    async def _passed(
        self, value: StepValue, stages: Sequence[Stage], path: Path = ()
    ) -> StepValue:
        execution: Execution = self._execution(value)
        execution.path = path
        outcome = await self._segment.passed(execution, value, stages)
        self._segment.check(_PHASE, outcome)
        found = outcome if isinstance(outcome, StepValue) else StepValue(outcome)
        return found

    def _execution(self, value: Any) -> StreamPass:
        return self._segment.execution(self._args, self, value, StreamPass)

    def _chunks(self, outcome: StepValue, part: Chunk | None) -> list[tuple[int, Chunk]]:
        """The chunks of an outcome, each with the place that has to have passed everywhere."""
        chunks = chunks_in(outcome)
        # What has come back as it was is the chunk itself: nothing of it needs to be looked at.
        same = part is not None and len(chunks) == 1 and chunks[0] == part
        return [(outcome.need or self._at, part if same else chunk) for chunk in chunks]  # pyright: ignore[reportReturnType]

    def _in_step(self, chunks: list[tuple[int, Chunk]]) -> list[Chunk]:
        """What may leave."""
        if self._pace is None:
            return [chunk for _, chunk in chunks]
        return self._pace.passed(chunks, [gate.low(self._at) for gate in self._gates.values()])

    # ── the steps ──────────────────────────────────────────────────────────────────────────────

    def fork(self, value: Any) -> StepValue:
        """The value with a chunk of its own, and its place in the stream."""
        made = forked(_PHASE, value, self._list)
        if isinstance(value, StepValue):
            made.low, made.at, made.exact = value.low, value.at, value.exact
        return made

    @property
    def phase(self) -> Any:
        """The phase of all this."""
        return _PHASE

    async def call(self, step: Step, value: Any, path: Path) -> Any:
        """What the processor's hook makes of the chunk: one, several, or none of it yet."""
        if value.get("part") is None:
            return value
        gate = self._gate(step, tuple(map(without_number, path)))
        if gate is None:
            return value
        return await gate.offer(value if isinstance(value, StepValue) else self.fork(value))

    def ask(self, step: Step, value: StepValue, path: Path) -> Any:
        """As `call`, where the hook is plain and lets a piece of text pass; else `NOT_YET`."""
        if value["part"].type not in PIECES or self._segment.workflow.retries_of(step)[0]:
            return NOT_YET
        gate = self._gate(step, path)
        return value if gate is None else gate.ask(value)

    def _gate(self, step: Step, path: Path) -> StepGate | None:
        """The gate of a step; none, if its processor has no such hook."""
        gate = self._gates.get(path)
        if gate is None:
            link = step.link(_PHASE.hook)
            if link is None:
                return None
            writer = cast("Any", self._args.writer)
            gate = self._gates[path] = StepGate(self._run, link, writer, self._at)
        return gate

    # ── letting go ─────────────────────────────────────────────────────────────────────────────

    async def __call__(self, _args: Any) -> list[Chunk]:
        """The model's stream has ended: all there is leaves, step by step."""
        chunks = await self._let_go(self._segment.stages, (), due=False)
        if self._pace is None:
            return [chunk for _, chunk in chunks]
        return self._pace.passed([(0, chunk) for _, chunk in chunks], ())

    async def when_due(self, _args: Any) -> list[Chunk]:
        """What leaves before that, because its time has come."""
        return self._in_step(await self._let_go(self._segment.stages, (), due=True))

    async def _let_go(
        self, stages: Sequence[Stage], path: Path, *, due: bool
    ) -> list[tuple[int, Chunk]]:
        found: list[tuple[int, Chunk]] = []
        for number, stage in enumerate(stages):
            for step in stage.steps:
                for value in await self._of_step(step, path, due=due):
                    found.extend(await self._onward(stages[number:], step, value, path))
        return found

    async def _of_step(self, step: Step, path: Path, *, due: bool) -> list[StepValue]:
        """What a step lets go of, each chunk as the value that it has come to."""
        inner = (*path, step.id)
        if step.kind == "workflow":
            left = await self._let_go(step.made_of.stages, inner, due=due)
            return [self._value(self._args, chunk, 0) for _, chunk in left]
        gate = self._gates.get(inner)
        if gate is None:
            return []
        return [self._value(self._args, chunk, 0) for chunk in await gate.let_go(due=due)]

    async def _onward(
        self, stages: Sequence[Stage], step: Step, value: StepValue, path: Path
    ) -> list[tuple[int, Chunk]]:
        """The rest of the stages for what a step of the first one has let go of."""
        stage, rest = stages[0], stages[1:]
        given: Any = value
        if isinstance(stage, Parallel | Branch):
            nothing = StepValue(value)
            nothing["part"] = None
            siblings = stage.steps if isinstance(stage, Parallel) else (step,)
            given = {each.id: value if each is step else copy(nothing) for each in siblings}
        execution = self._execution(value)
        execution.path = path
        if not rest:
            outcome = given
        else:
            outcome = await self._segment.passed(execution, given, rest)
        if path:
            return [(self._at, chunk) for chunk in chunks_in(outcome)]
        self._segment.check(_PHASE, outcome)
        return self._chunks(StepValue(outcome), None)

    @property
    def is_set(self) -> bool:
        """Whether a step within has set a timer, or is at work beside the stream."""
        return any(gate.gate.has_timers for gate in self._gates.values())

    @property
    def is_due(self) -> bool:
        """Whether the time of one has come."""
        return any(gate.gate.is_due for gate in self._gates.values())

    @property
    def is_beside(self) -> bool:
        """Whether hooks within are at work beside the stream."""
        return any(gate.is_beside for gate in self._gates.values())

    def cancel(self) -> None:
        """Another attempt begins, or nothing follows: what is kept is let go by nobody."""
        for gate in self._gates.values():
            gate.begin(self._at)
        if self._pace is not None:
            self._pace.clear()

    async def stop(self) -> None:
        """Nothing is at work beside the stream any more when this returns."""
        for gate in self._gates.values():
            await gate.gate.stop()

    def posts_for_objects(self) -> list[Any]:
        """The posts within that look at objects: these pass all of them, one after the other."""
        self._open_all(self._segment.stages, ())
        found: list[Any] = []
        for gate in self._gates.values():
            for post in gate.gate.posts_for_objects():
                own = copy(post)
                own.position = self._position
                found.append(own)
        return found

    def _open_all(self, stages: Sequence[Stage], path: Path) -> None:
        for stage in stages:
            for step in stage.steps:
                inner = (*path, step.id)
                if step.kind == "workflow":
                    self._open_all(step.made_of.stages, inner)
                elif step.kind == "processor":
                    self._gate(step, inner)


def _all_stages(stages: Sequence[Stage]) -> Any:
    for stage in stages:
        yield stage
        for step in stage.steps:
            if step.kind == "workflow":
                yield from _all_stages(step.made_of.stages)
