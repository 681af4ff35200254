"""Ordered processors, compiled once: for each hook the processors that have it, and THE fold.

Absent hooks cost nothing: a chain holds only processors that have the hook, with the bound method
and whether it is async already known.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from copy import copy
from functools import lru_cache
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import ConfigurationError, ProcessorError
from ..hold.piece import Piece
from ..hook_functions import check_hook
from ..logs import log_fields, one_line
from ..policy import Guard, call, observe, policy_of
from ..processor import (
    ERROR_HOOKS,
    HOOKS,
    INPUT_HOOKS,
    OUTPUT_HOOKS,
    HookArgs,
    ProcessorViolation,
    check_processors,
    in_place,
    watches_of,
)
from ..verdicts import verdict_in
from ..writing import may_look_back, may_write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..errors import TripWire
    from ..hold import Watch
    from .run_state import RunState

__all__ = ["NO_PROCESSORS", "Chain", "Link", "Pipeline", "failed", "fold", "sign", "verdict_in"]

_log = logging.getLogger("procession.engine")

_LISTS = {
    "input_processors": INPUT_HOOKS,
    "output_processors": OUTPUT_HOOKS,
    "error_processors": ERROR_HOOKS,
}


class Link:
    """One processor's place in the chain of one hook."""

    __slots__ = (
        "guard",
        "hook",
        "is_async",
        "is_within",
        "looks_back",
        "may_write",
        "name",
        "process_data_parts",
        "processor",
        "processor_id",
    )

    def __init__(self, processor: Any, name: str, *, is_within: bool = False) -> None:
        self.processor = processor
        self.processor_id: str = processor.id
        self.name = name
        self.is_within = is_within
        """Whether another one stands in the list for it: not all hooks are called then (W-041)."""
        self.hook: Callable[[Any], Any] = getattr(processor, name)
        check_hook(self.processor_id, name, self.hook)
        self.is_async = inspect.iscoroutinefunction(self.hook)
        # A plain hook on the chunk path is never worth a task: what its awaitable writes is
        # delivered when it returns.
        beside = self.is_async or name != "process_output_stream"
        self.may_write = beside and may_write(self.hook)
        self.looks_back = name == "process_output_stream" and may_look_back(self.hook)
        traits: Any = getattr(processor, "traits_of", None)
        if traits is not None:  # it stands for several, and knows what they may do
            self.may_write, self.looks_back = traits(name)
        self.process_data_parts = bool(getattr(processor, "process_data_parts", False))
        policy = policy_of(processor)
        self.guard = None if policy is None else Guard(policy, processor, name)
        if self.guard is not None:
            if self.guard.policy.fallback is not None:
                self._put_behind(self.guard.policy.fallback)
            self.guard.bare = self._bare()

    def _put_behind(self, fallback: Any) -> None:
        """The processor that does the work of this one when it fails."""
        if not callable(getattr(fallback, self.name, None)):
            raise ConfigurationError(
                f"processor {self.processor_id!r}: its fallback {fallback.id!r} has no "
                f"{self.name}, so nobody would do its work there: give it one, or use "
                f"on_error='block'"
            )
        if self.name == "process_output_stream" and getattr(fallback, "flush", None) is not None:
            raise ConfigurationError(
                f"processor {self.processor_id!r}: its fallback {fallback.id!r} has a flush, so it "
                f"keeps chunks back, which would be lost: take one that does not"
            )
        assert self.guard is not None
        link = self.guard.fallback = Link(fallback, self.name)
        self.may_write = self.may_write or link.may_write
        self.looks_back = self.looks_back or link.looks_back

    def sought(self) -> tuple[tuple[Watch, ...], Sequence[str]]:
        """What is looked for in the stream, and in which lanes: by the fallback as well.

        Arguments of tools are handed out leaf by leaf only to a processor that asks for that.
        """
        watches, lanes = watches_of(self.processor), getattr(self.processor, "lanes", ("text",))
        if self.guard is None or self.guard.fallback is None:
            return watches, lanes
        fallback: Link = self.guard.fallback
        more, others = fallback.sought()
        if more:
            own = lanes if watches else ()
            told = (lane for lane in others if lane != "tool-arguments")
            lanes = tuple(dict.fromkeys((*own, *told)))
        return ((*watches, *more) if lanes else ()), lanes

    def speaker(self, wire: TripWire) -> Any:
        """The processor whose verdict it is: this one, or the one that did its work."""
        fallback: Link | None = self.guard.fallback if self.guard is not None else None
        if fallback is not None and wire.processor_id == fallback.processor_id:
            return fallback.processor
        return self.processor

    def _bare(self) -> Link:
        """The same place without a policy."""
        made = copy(self)
        made.guard = None
        return made


class Chain(tuple[Link, ...]):
    """The links of one hook, in list order (R-015)."""

    writes: bool
    """Whether one of the hooks may write to the client while it runs."""

    @classmethod
    def of(cls, processors: Iterable[Any], name: str) -> Chain:
        """The processors that have the hook `name`."""
        chain = cls(
            Link(processor, name, is_within=is_within)
            for processor, is_within in in_place(processors, name)
            if callable(getattr(processor, name, None))
        )
        chain.writes = any(link.may_write for link in chain)
        return chain

    @classmethod
    def joined(cls, chain: Chain, last: Link) -> Chain:
        """`chain` with one more link behind it."""
        made = cls((*chain, last))
        made.writes = chain.writes or last.may_write
        return made

    @classmethod
    def single(cls, link: Link, *, writes: bool) -> Chain:
        """A chain of one link."""
        made = cls((link,))
        made.writes = writes
        return made


class Pipeline:
    """The compiled processors of an agent or a call; immutable, shared by concurrent runs."""

    __slots__ = (
        *HOOKS,
        "changes_messages",
        "closers",
        "has_error_processors",
        "is_empty",
        "lets_writers_out",
    )

    process_input: Chain
    process_input_step: Chain
    process_llm_request: Chain
    process_llm_response: Chain
    process_output_stream: Chain
    process_output_step: Chain
    process_tool_result: Chain
    process_output_result: Chain
    process_api_error: Chain
    closers: tuple[Any, ...]

    def __init__(
        self,
        input_processors: Iterable[Any],
        output_processors: Iterable[Any],
        error_processors: Iterable[Any],
    ) -> None:
        ins = check_processors(input_processors, "input_processors")
        outs = check_processors(output_processors, "output_processors")
        errors = check_processors(error_processors, "error_processors")
        for (where, names), processors in zip(_LISTS.items(), (ins, outs, errors), strict=True):
            for name in names:
                setattr(self, name, Chain.of(processors, name))
            self._warn_misplaced(processors, where)
        for processors in (ins, outs, errors):
            for index, entry in enumerate(processors):
                with suppress(AttributeError):  # it may be frozen: the index is a courtesy
                    entry.processor_index = index
        told = {id(entry): entry for entry, _ in in_place((*outs, *ins, *errors), "run_ended")}
        self.closers = tuple(
            entry for entry in told.values() if getattr(entry, "run_ended", None) is not None
        )
        """Who hears of the end of a run, each once; those of the output list first."""
        self.has_error_processors = bool(errors)
        self.changes_messages = any(getattr(self, name) for name in HOOKS)
        """Whether some hook could change the message list."""
        links = [link for name in HOOKS for link in getattr(self, name)]
        self.lets_writers_out = any(may_write(link.hook) for link in links)
        """Whether some hook could write, even long after it has returned."""
        self.is_empty = not (ins or outs or errors)

    def _warn_misplaced(self, processors: list[Any], where: str) -> None:
        at_work = {id(link.processor) for name in _LISTS[where] for link in getattr(self, name)}
        for entry in processors:
            called = {id(each) for name in _LISTS[where] for each, _ in in_place([entry], name)}
            closes = any(
                getattr(each, "run_ended", None) is not None
                for each, _ in in_place([entry], "run_ended")
            )
            if called.isdisjoint(at_work) and not closes:
                _tell_misplaced(entry.id, type(entry).__name__, where)

    def joined(self, link: Link) -> Pipeline:
        """A copy with one more processor, last in the chain of its hook."""
        made = copy(self)
        setattr(made, link.name, Chain.joined(getattr(self, link.name), link))
        made.lets_writers_out = self.lets_writers_out or link.may_write
        return made


NO_PROCESSORS = Pipeline((), (), ())


@lru_cache(maxsize=256)  # told once, though lists may be compiled with every call
def _tell_misplaced(processor_id: str, kind: str, where: str) -> None:
    """Say that a processor has no hook of its list, which is allowed, but hardly meant (R-014)."""
    _log.warning(
        "processor %r (%s) does nothing in %s: it has none of the hooks that run there (%s)",
        processor_id,
        kind,
        where,
        ", ".join(_LISTS[where]),
    )


Apply = Callable[["RunState", Link, Any, Any], None]
"""What becomes of a hook's return: called with the run, the link, its arguments and the value."""


# One frame for a hook, not several.
async def fold(  # noqa: C901
    run: RunState, chain: Chain, args: HookArgs[Any], apply: Apply
) -> None:
    """Call the hook of each processor in order; what it returns is applied before the next one.

    This is the only place that calls hooks, but for the gate, which does the same per chunk. A
    verdict leaves as `TripWire` with the processor's id, after its `on_violation` was told; any
    other exception leaves as it is.
    """
    observer, pick = run.observer, args.pick_fixed
    for link in chain:
        if link.guard is not None:
            await _under_policy(run, link, args, apply)
            continue
        run.refill(args, link)
        if args.renew is not None:
            args.renew()
        given = () if pick is None else pick(args)
        mark = None if observer is None else observer.hook_begins(run, link, args)
        try:
            returned: Any = link.hook(args)
            if link.is_async or (returned is not None and inspect.isawaitable(returned)):
                returned = await returned
            stop = args.verdict or run.halt
            if stop is not None:
                raise stop  # the hook has swallowed it
            if pick is not None and pick(args) != given:
                _refuse_assigned(link, args, given, returned)
            if returned is not None:
                _refuse_generator(link, returned)
                apply(run, link, args, returned)
        except BaseException as error:
            if observer is not None:
                observer.hook_ended(run, link, args, mark, args.verdict or error, False)
            await failed(run, link, args, error)
        if observer is not None:
            observer.hook_ended(run, link, args, mark, None, returned is not None)


async def _under_policy(run: RunState, link: Link, args: HookArgs[Any], apply: Apply) -> None:
    """One link of a chain as its policy says."""
    guard = link.guard
    assert guard is not None
    if guard.policy.observe:
        run.refill(args, link)
        if args.renew is not None:
            args.renew()

        def try_out(stand_in: Any, copies: Any, returned: Any) -> None:
            apply(stand_in, link, copies, returned)

        await observe(guard, run, args, link.hook, try_out)
        if run.halt is not None:
            raise run.halt
        return

    def work(instead: Link | None) -> Coroutine[Any, Any, None]:
        return fold(run, Chain.single(instead or guard.bare, writes=False), args, apply)

    wire = await call(guard, run, args, work)
    if wire is not None:
        await failed(run, link, args, wire)


def _refuse_assigned(
    link: Link, args: HookArgs[Any], given: tuple[Any, ...], returned: Any
) -> None:
    """What was assigned to an argument changes nothing, and what it was to hide would go on.

    A prompt may be kept there on its way to being returned.
    """
    for name, value in zip(args.fixed, given, strict=False):
        if getattr(args, name) is not value and (name != "prompt" or returned is None):
            problem = f"assigned to args.{name}, which changes nothing: {args.instead}"
            raise ProcessorError(link.processor_id, link.name, problem)


def _refuse_generator(link: Link, returned: Any) -> None:
    """A hook wrapped so that its `yield` was not seen when it was compiled has not run."""
    if isinstance(returned, GeneratorType | AsyncGeneratorType):
        problem = "returned a generator, which runs nothing: it must not have a `yield` in it"
        raise ProcessorError(link.processor_id, link.name, problem)


async def failed(run: RunState, link: Link, args: HookArgs[Any], error: BaseException) -> NoReturn:
    """A hook did not return: what it raised, or the verdict that it had given before, leaves.

    A verdict holds whatever the hook raised in its place, but a cancellation is passed on: the run
    is over then, and ends with the verdict that was noted.
    """
    wire = verdict_in(error) or args.verdict
    args.verdict = None  # it is known now, and what is written meanwhile is judged anew
    if wire is None:
        if isinstance(error, Exception):
            error.add_note(f"raised in {link.name} of processor {link.processor_id!r}")
            if _asked_no_piece(args, error):
                error.add_note(_NO_PIECE if link.sought()[0] else _NO_WATCHES)
            run.hook_error = error
        raise error
    if wire is not run.halt and wire is not run.given:  # else: told when it was given
        # A verdict raised by user code is that of the processor whose hook was running.
        sign(wire, link.processor_id, "processor")
        run.given = run.given or wire
        if isinstance(error, GeneratorExit):
            raise error  # nothing can be awaited any more
        _log_verdict(run, link, wire)
        await announce(link, wire)
    if isinstance(error, asyncio.CancelledError) and _is_cancelled():
        raise error
    raise wire from None


def _asked_no_piece(args: HookArgs[Any], error: Exception) -> bool:
    """Whether a hook has asked `args.piece` for something where there is none."""
    return (
        isinstance(error, AttributeError)
        and error.obj is None
        and error.name in Piece.__struct_fields__
        and getattr(args, "piece", args) is None
    )


_NO_WATCHES = "args.piece is None: it is there for processors with watches; see procession.hold"
_NO_PIECE = (
    "args.piece is None for chunks that hold no text of a lane, such as 'step-start' or 'finish': "
    "begin the hook with `if args.piece is None: return args.part`"
)


def _is_cancelled() -> bool:
    """Whether the task is asked to end; one that waits for a cancelled one is not."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def sign(wire: TripWire, name: str, kind: str) -> None:
    """A verdict that does not say so itself: who gave it, and that there was one."""
    wire.processor_id = wire.processor_id or name
    wire.reason = wire.reason or f"blocked by {kind} {wire.processor_id!r}"


def _log_verdict(run: RunState, link: Link, wire: TripWire) -> None:
    """Note who has aborted and why (O-070)."""
    _log.info(
        "processor %r %s in %s: %s",
        wire.processor_id,
        "asked for another attempt" if wire.retry else "aborted",
        link.name,
        one_line(wire.reason),
        extra=log_fields(wire.processor_id, run),
    )


async def announce(link: Link, wire: TripWire) -> None:
    """Tell the processor's `on_violation` of a verdict; its errors count for nothing.

    The callback is done before the verdict takes effect (R-186).
    """
    tell = getattr(link.speaker(wire), "on_violation", None)
    if tell is None:
        return
    violation = ProcessorViolation(
        processor_id=wire.processor_id or link.processor_id,
        message=wire.reason,
        detail=wire.metadata,
    )
    try:
        told = tell(violation)
        if inspect.isawaitable(told):
            await told
    except BaseException as error:
        if not isinstance(error, Exception) and verdict_in(error) is None:
            raise
