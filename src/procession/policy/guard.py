"""A hook under a policy: whether it is called, what its failure comes to, and who is told.

Everything here is made for one hook of one processor, with the pipeline, and shared by runs; what
belongs to a call is in its variables. `engine.pipeline` calls the hook itself and says how.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from ..engine.interruption import Interrupted
from ..errors import ConfigurationError, ProcessorError, TripWire
from ..logs import log_fields
from ..verdicts import verdict_in
from .bounded import Bounded, TimedOut
from .circuit import REFUSED
from .events import note
from .keeping import KeptArguments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..hook_args import HookArgs
    from .circuit import Circuit
    from .events import RunOfEvents
    from .options import Policy

__all__ = ["Failure", "Guard", "RunOfGuard", "call", "standing"]

_log = logging.getLogger("procession.policy")

_REASONS = {
    "error": "processor {!r} failed",
    "timeout": "processor {!r} did not answer in time",
    "circuit-open": "processor {!r} has kept failing and is not asked for a while",
}
_ACTIONS = {"block": "blocked", "allow": "bypassed", "degrade": "degraded"}


class RunOfGuard(Protocol):
    """What is needed of a run, besides its events."""

    halt: BaseException | None
    given: TripWire | None
    message_id: str


class Failure(Exception):
    """Inside the policy only: a call that has failed. `kind` and `error` are those of an event."""

    def __init__(self, kind: str, cause: BaseException | None = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.error = None if cause is None else type(cause).__name__
        self.cause = cause

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The failure that an exception is."""
        return cls("timeout") if isinstance(error, TimedOut) else cls("error", error)


def standing(error: BaseException, stop: BaseException | None) -> BaseException | None:
    """What leaves a call that raised, whatever its policy; `None` when it is for the policy.

    A verdict stands, and `stop`, which is one that was given before or somebody else's failure. A
    stop of the run is nobody's failure: it is passed on, before all. So is a `ConfigurationError`:
    a processor that cannot work as it is set up is to be mended, not bypassed (B-021).
    """
    wire = verdict_in(error)
    if wire is not None:
        return wire
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is None or task.cancelling():
            return error
    elif not isinstance(error, Exception) or isinstance(error, Interrupted | ConfigurationError):
        return stop if isinstance(error, ConfigurationError) and stop is not None else error
    return stop


class Guard:
    """The policy of one hook of one processor."""

    __slots__ = (
        "bare",
        "circuit",
        "fallback",
        "hook",
        "names_only",
        "policy",
        "processor_id",
    )

    def __init__(self, policy: Policy, processor: Any, hook: str) -> None:
        self.policy = policy
        self.processor_id: str = processor.id
        self.hook = hook
        self.names_only = getattr(processor, "names_only", False) is True
        """Whether the metadata of its verdicts are a built-in's: names, and no text (B-007)."""
        self.circuit: Circuit | None = policy.circuit_of(processor)
        self.bare: Any = None
        """The link of the hook without its policy."""
        self.fallback: Any = None
        """The link of the fallback, where there is one."""

    @property
    def restores(self) -> bool:
        """Whether what a failing hook has changed must be put back."""
        return self.policy.on_error != "block" and not self.policy.observe

    def enter(self) -> int:
        """The pass of a call; raises `Failure` when the processor is not to be asked."""
        if self.circuit is None:
            return 0
        given = self.circuit.enter()
        if given == REFUSED:
            raise Failure("circuit-open")
        return given

    def ended(self, run: Any, given: int, started: float) -> None:
        """A call came to its end, by a return or by a verdict."""
        timeout = self.policy.timeout
        if timeout is not None and monotonic() - started > timeout:
            note(run, self.processor_id, self.hook, action="late", kind="timeout")
            if self.circuit is not None:
                self.circuit.failed(given)
        elif self.circuit is not None:
            self.circuit.succeeded(given)

    def failure(
        self, run: RunOfGuard, given: int, started: float, error: BaseException, stop: Any
    ) -> Failure:
        """What a call that raised comes to; raises `error` or `stop` when it is no failure.

        `stop` is a verdict of the call, or what somebody else has raised about something written:
        it stands, whatever was raised in its place.
        """
        stop = standing(error, stop or run.halt)
        if stop is error and verdict_in(error) is None:
            if self.circuit is not None:
                self.circuit.left(given)
            raise error
        if stop is not None:
            self.ended(run, given, started)
            raise stop from None
        if self.circuit is not None:
            self.circuit.failed(given)
        return Failure.of(error)

    def take(self, run: RunOfEvents, failure: Failure, hook: str = "") -> str:
        """Tell of a failure; returns what is to be done: `block`, `allow` or `degrade`."""
        on_error = self.policy.on_error
        observed = self.policy.observe
        first = note(
            run,
            self.processor_id,
            hook or self.hook,
            action="observed" if observed else _ACTIONS[on_error],
            kind=failure.kind,
            would=on_error if observed else None,
            error=failure.error,
        )
        if first:
            self._log(run, failure, self.processor_id)
        return on_error

    def fallback_failed(self, run: RunOfEvents, failure: Failure) -> TripWire:
        """Tell of the fallback's failure; returns the verdict that it is."""
        name = self.fallback.processor_id
        self._log(run, failure, name)
        note(run, name, self.hook, action="blocked", kind=failure.kind, error=failure.error)
        return self.verdict(failure, name)

    def _log(self, run: RunOfEvents, failure: Failure, processor_id: str) -> None:
        """Say what went wrong, for whoever is to mend it."""
        if failure.kind == "circuit-open":
            return  # it was said when the breaker was still closed
        cause = failure.cause
        _log.warning(
            "processor %r failed in %s, and its policy applies: %s",
            processor_id,
            self.hook,
            # Our own words say what to mend; those of others may hold what is not for logs.
            cause if isinstance(cause, ProcessorError) else failure.error or failure.kind,
            extra=log_fields(processor_id, run),
        )

    def verdict(self, failure: Failure, processor_id: str | None = None) -> TripWire:
        """The verdict that a failure is under `block`."""
        name = processor_id or self.processor_id
        return TripWire(
            _REASONS[failure.kind].format(name),
            metadata={"processor_id": name, "error": True, "kind": failure.kind},
            processor_id=name,
        )


async def call(
    guard: Guard, run: Any, args: HookArgs[Any], work: Callable[[Any], Awaitable[None]]
) -> TripWire | None:
    """Call a hook under its policy; returns the verdict of a failure that blocks.

    `work(None)` calls the hook and applies what it returns, `work(fallback)` does so for another
    link. A verdict, a cancellation and what is raised by others leave as they are.
    """
    kept = KeptArguments(args, run.step) if guard.restores else None
    try:
        await _call(guard, run, args, work, kept)
    except Failure as failure:
        done = guard.take(run, failure)
        if done == "block":
            return guard.verdict(failure)
        assert kept is not None
        kept.restore(run.message_id)
    else:
        return None
    if done == "allow":
        return None
    return await _degraded(guard, run, args, work)


async def _call(
    guard: Guard,
    run: Any,
    args: HookArgs[Any],
    work: Callable[[Any], Awaitable[None]],
    kept: KeptArguments | None,
) -> None:
    timeout, before = guard.policy.timeout, run.given
    try:
        given = guard.enter()
        started = 0.0 if timeout is None else monotonic()
        try:
            await (work(None) if timeout is None else Bounded(work(None), timeout))
        except BaseException as error:
            raise guard.failure(run, given, started, error, _given(run, args, before)) from None
        guard.ended(run, given, started)
    finally:
        if kept is not None:
            kept.let_go()


async def _degraded(
    guard: Guard, run: Any, args: HookArgs[Any], work: Callable[[Any], Awaitable[None]]
) -> TripWire | None:
    """The fallback's call: its verdict is its own, its failure blocks."""
    timeout, before = guard.policy.timeout, run.given
    waits = work(guard.fallback)
    try:
        await (waits if timeout is None else Bounded(waits, timeout))
    except BaseException as error:
        stop = standing(error, _given(run, args, before) or run.halt)
        if stop is not None:
            raise stop from None
        return guard.fallback_failed(run, Failure.of(error))
    return None


def _given(run: Any, args: HookArgs[Any], before: TripWire | None) -> TripWire | None:
    """The verdict that a hook has given, though telling of it may have been cut short."""
    return args.verdict or (None if run.given is before else run.given)
