"""A gate for one processor step: what it watches is held back as it would be in an agent's list."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

from ..engine.gate import PENDING, Gate
from ..engine.pipeline import Chain
from ..hold import Held
from .branches import NOT_YET
from .pace import Kept, Span
from .values import StepValue, as_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..chunks import Chunk
    from ..engine.pipeline import Link
    from ..engine.run_state import RunState

__all__ = ["StepGate"]


class _StepPipeline:
    """What the gate of a step needs of a pipeline."""

    def __init__(self, chain: Chain) -> None:
        self.process_output_stream = chain


class _StepOutbox:
    """What hooks within write leaves behind the whole segment."""

    def __init__(self, writer: Any, wake: Callable[..., None]) -> None:
        self._writer = writer
        self.wake = wake

    def writer(self, after: int = -1) -> Any:
        """The writer of the segment."""
        return self._writer


class StepRun:
    """A run as the gate of one step sees it: what comes out of it is gathered; all else is the
    run's.
    """

    __slots__ = ("_run", "gate", "out", "outbox", "pipeline", "value")

    _run: RunState
    gate: Gate
    out: list[Chunk]
    outbox: _StepOutbox
    pipeline: _StepPipeline
    value: StepValue | None

    def __init__(self, run: RunState, link: Link, writer: Any) -> None:
        put = object.__setattr__
        put(self, "_run", run)
        put(self, "out", [])
        put(self, "value", None)
        put(self, "outbox", _StepOutbox(writer, run.outbox.wake))
        chain = Chain.single(link, writes=link.may_write)
        put(self, "pipeline", _StepPipeline(chain))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in StepRun.__slots__:
            object.__setattr__(self, name, value)
        else:
            setattr(self._run, name, value)

    def chain_of_stream(self) -> Chain:
        """The step alone."""
        return self.pipeline.process_output_stream

    def args(self, kind: type[Any], writer: Any = None) -> Any:
        """Arguments whose message list is that of the value on its way."""
        made = self._run.args(kind, writer)
        made.__dict__.pop("message_list", None)
        made.__dict__["step_run"] = self
        made.__class__ = _of_step(kind)
        return made

    def asks_gate_for_object(self) -> bool:
        """Whether the attempt under way is to answer with an object."""
        return self._run.gate.for_object

    async def deliver_written(self, chunk: Chunk, after: int) -> None:
        """A chunk that the step has let go of before the one that takes the place of its chunk."""
        passed = await self.gate.through(chunk, after=after)
        if passed is not None:
            self.out.append(passed)


class _ListOfValue:
    """`message_list`: that of the value, which is copied when it is asked for."""

    def __get__(self, args: Any, _owner: Any) -> Any:
        if args is None:
            return self
        run: StepRun = args.__dict__["step_run"]
        return run.message_list if run.value is None else run.value["message_list"]


@cache
def _of_step(kind: type[Any]) -> type[Any]:
    own = {"message_list": _ListOfValue(), "__module__": kind.__module__}
    return type(kind.__name__, (kind,), own)


class StepGate:
    """The gate of one step of one run, and where what it keeps stood in the stream."""

    __slots__ = ("_asked", "_held", "_kept", "_run", "gate", "is_beside")

    def __init__(self, run: RunState, link: Link, writer: Any, at: int) -> None:
        self._run = StepRun(run, link, writer)
        self.gate = self._run.gate = Gate(cast("Any", self._run))
        self._kept = Kept(at)
        self._asked: tuple[int | None] | None = None
        """Of a value that was asked about, and is to be offered: what `_take` gave."""
        post = self.gate.first()
        self._held = post.held if isinstance(post.held, Held) else None
        self.is_beside = post.flush is not None and post.flush.is_beside
        self.begin(at)

    def begin(self, at: int) -> None:
        """An attempt begins: what one before has left is forgotten."""
        self._kept = Kept(at)
        self._run.out, self._asked = [], None
        self.gate.for_object = self._run.asks_gate_for_object()
        self.gate.begin_attempt(self._run.step_number)

    async def offer(self, value: StepValue) -> StepValue:
        """The value with what the step lets go of: a chunk, several, or none."""
        part, asked = value["part"], self._asked
        if asked is None:
            before = self._take(value)
            passed = await self.gate.through(part)
        else:
            before, self._asked = asked[0], None
            passed = await self.gate.finish(part)
        return self._made(value, passed, before)

    def ask(self, value: StepValue) -> Any:
        """As `offer`, where the hook is plain and lets a piece of text pass; else `NOT_YET`: then
        the same value is to be offered.
        """
        if not self.gate.is_plain or self._run.out:
            return NOT_YET
        before = self._take(value)
        passed = self.gate.ask(value["part"])
        if passed is PENDING:
            self._asked = (before,)
            return NOT_YET
        return self._made(value, passed, before)

    def _take(self, value: StepValue) -> int | None:
        """A value comes; from where on something may be kept already."""
        before = self.low(value.low)
        self._run.value = value
        if self._held is not None:
            self._kept.came(value["part"], Span(value.low, value.at, value.exact))
        return before

    def _made(self, value: StepValue, passed: Chunk | None, before: int | None) -> StepValue:
        run, part = self._run, value["part"]
        chunks, run.out = run.out, []
        if passed is not None:
            chunks.append(passed)
        made = StepValue(value)
        made.make_list = value.make_list
        made["part"] = as_part(chunks)
        made.at = made.need = value.at
        made.low, made.exact = value.low, value.exact and passed is part
        if self._held is not None or self.is_beside:
            made.low = value.low if before is None else min(before, value.low)
            made.exact = False
            made.need = self._high(chunks, value.at)
        return made

    def low(self, at: int) -> int | None:
        """From where on the step may keep something; `None`: it keeps nothing."""
        if self._held is None:
            return None
        spans = self._spans(at)
        if spans is None:
            return self._kept.idle
        return min((span.low for span in spans.values()), default=None)

    def _spans(self, at: int) -> Any:
        assert self._held is not None
        left = None if self.is_beside and self.gate.has_timers else self._held.kept()
        return self._kept.spans(left, at)

    def _high(self, chunks: list[Any], at: int) -> int:
        """Up to where the text of these chunks may have stood."""
        if self._held is None:
            return at
        spans = self._spans(at)
        if not chunks or spans is None:
            return at
        lanes = [(c.type, c.payload.id) if hasattr(c.payload, "id") else None for c in chunks]
        return max(spans[lane].high if lane in spans else at for lane in lanes)

    async def let_go(self, *, due: bool) -> list[Chunk]:
        """What the step keeps, all of it, or that for which the time has come."""
        run = self._run
        run.value = None
        if due:
            await self.gate.let_go_of_own(due=True)
        else:
            await self.gate.let_go()
        chunks, run.out = run.out, []
        return chunks
