"""A hook of the chunk path under its policy: what it costs must be small with every chunk.

A call makes no task and, unless it waits, no timer. Under `allow` and `degrade` the chunk is marked
before the hook gets it; the messages only once it asks for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..chunks import DeltaPayload
from ..records import Record
from ..verdicts import verdict_in
from .bounded import Bounded
from .guard import Failure, standing
from .keeping import KeptMessages, watch
from .marks import Mark, copied
from .observing import Observed

if TYPE_CHECKING:
    from ..chunks import Chunk
    from .guard import Guard

__all__ = ["chunk_copy", "guarded_hook"]

Hook = Callable[[Any], Any]
Check = Callable[[Any, Any], None]
"""`check(returned, chunk)` raises when a hook cannot return that for the chunk."""


def guarded_hook(
    guard: Guard,
    run: Any,
    args: Any,
    hook: Hook,
    *,
    is_async: bool,
    check: Check,
    make_args: Callable[[Any], Any],
) -> Hook:
    """The hook, for one run, as its policy says; plain and async as it was.

    `args` is the argument object of all its calls; `make_args(link)` makes one for the fallback.
    """
    if guard.policy.observe:
        watched = _Watched(guard, run, hook, check)
        return watched.awaited if is_async else watched.plain
    guarded = _Guarded(guard, run, args, hook, check, make_args)
    return guarded.awaited if is_async else guarded.plain


class _Guarded:
    __slots__ = (
        "_check",
        "_fallback",
        "_fallback_args",
        "_guard",
        "_hook",
        "_messages",
        "_restores",
        "_run",
        "_timeout",
    )

    def __init__(
        self,
        guard: Guard,
        run: Any,
        args: Any,
        hook: Hook,
        check: Check,
        make_args: Callable[[Any], Any],
    ) -> None:
        self._guard, self._run, self._hook, self._check = guard, run, hook, check
        self._timeout = guard.policy.timeout
        self._restores = guard.restores
        self._messages = KeptMessages(args.message_list)
        self._fallback = guard.fallback
        self._fallback_args = make_args(self._fallback) if self._fallback is not None else None
        if self._restores:
            watch(args, self._messages)

    def plain(self, args: Any) -> Any:
        """For a plain hook. What has to be waited for is returned, and waited for by the gate."""
        part = args.part
        mark = _mark(part) if self._restores else None
        given, started = 0, 0.0
        try:
            given = self._guard.enter()
            if self._timeout is not None:
                started = monotonic()
            returned = self._hook(args)
            if returned is not part and returned is not None:
                if inspect.isawaitable(returned):
                    return self._rest(args, part, mark, given, started, returned)
                self._check(returned, part)
        except BaseException as error:
            return self._instead(args, part, mark, self._failure(args, given, started, error))
        self._ended(args, given, started)
        return returned

    async def awaited(self, args: Any) -> Any:
        """For an async hook."""
        part = args.part
        mark = _mark(part) if self._restores else None
        given, started = 0, 0.0
        try:
            given = self._guard.enter()
            if self._timeout is None:
                returned = await self._hook(args)
            else:
                started = monotonic()
                work = self._hook(args)
                try:
                    waits = work.send(None)
                except StopIteration as end:
                    returned = end.value
                else:
                    returned = await Bounded(work, self._timeout, begun=waits)
            if returned is not part and returned is not None:
                self._check(returned, part)
        except BaseException as error:
            instead = self._instead(args, part, mark, self._failure(args, given, started, error))
            return await instead if inspect.isawaitable(instead) else instead
        self._ended(args, given, started)
        return returned

    async def _rest(
        self,
        args: Any,
        part: Chunk,
        mark: Mark | None,
        given: int,
        started: float,
        waits: Awaitable[Any],
    ) -> Any:
        """What a plain hook has left to be waited for."""
        try:
            returned = await (waits if self._timeout is None else Bounded(waits, self._timeout))
            if returned is not part and returned is not None:
                self._check(returned, part)
        except BaseException as error:
            instead = self._instead(args, part, mark, self._failure(args, given, started, error))
            return await instead if inspect.isawaitable(instead) else instead
        self._ended(args, given, started)
        return returned

    def _ended(self, args: Any, given: int, started: float) -> None:
        guard = self._guard
        if guard.circuit is not None or started:
            guard.ended(self._run, given, started)
        if self._restores:
            self._messages.forget(args)

    def _failure(self, args: Any, given: int, started: float, error: BaseException) -> Failure:
        if isinstance(error, Failure):
            return error
        return self._guard.failure(self._run, given, started, error, args.verdict)

    def _instead(self, args: Any, part: Chunk, mark: Mark | None, failure: Failure) -> Any:
        """What is let through where the hook has failed."""
        guard, run = self._guard, self._run
        done = guard.take(run, failure)
        if done == "block":
            raise guard.verdict(failure) from None
        assert mark is not None
        self._messages.restore(run.message_id)
        mark.restore()  # last, for it was made first: the two may hold the same objects
        args.__dict__.pop("message_list", None)
        if done == "allow":
            return part
        own: Any = self._fallback_args
        if part.type.startswith("data-") and not self._fallback.process_data_parts:
            return part
        for name in ("retry_count", "piece"):
            if name in args.__dict__:
                setattr(own, name, getattr(args, name))
        own.part, own.verdict = part, None
        return self._degraded(own, part)

    async def _degraded(self, own: Any, part: Chunk) -> Any:
        """The fallback's call: its verdict is its own, its failure blocks."""
        guard, run = self._guard, self._run
        try:
            returned = self._fallback.hook(own)
            if returned is not None and inspect.isawaitable(returned):
                timeout = self._timeout
                returned = await (returned if timeout is None else Bounded(returned, timeout))
            if own.verdict is not None:
                raise own.verdict
            if returned is not part and returned is not None:
                self._check(returned, part)
        except BaseException as error:
            stop = standing(error, own.verdict or run.halt)
            if stop is None:
                raise guard.fallback_failed(run, Failure.of(error)) from None
            wire = verdict_in(stop)
            if wire is not None:
                wire.processor_id = wire.processor_id or self._fallback.processor_id
            raise stop from None
        return returned


class _Watched:
    """For an observed hook: each chunk goes on as it came."""

    __slots__ = ("_check", "_guard", "_hook", "_run")

    def __init__(self, guard: Guard, run: Any, hook: Hook, check: Check) -> None:
        self._guard, self._run, self._hook, self._check = guard, run, hook, check

    def plain(self, args: Any) -> Any:
        """For a plain hook."""
        part = args.part
        call = self._call(args)
        if call is None:
            return part
        try:
            returned: Any = self._hook(call.args)
            if returned is not None and inspect.isawaitable(returned):
                return self._rest(call, part, returned)
            self._told(call, part, returned)
        except BaseException as error:
            call.raised(error)
        return part

    async def awaited(self, args: Any) -> Any:
        """For an async hook."""
        part = args.part
        call = self._call(args)
        return part if call is None else await self._rest(call, part, self._hook(call.args))

    async def _rest(self, call: Observed, part: Chunk, waits: Awaitable[Any]) -> Any:
        try:
            self._told(call, part, await call.bounded(waits))
        except BaseException as error:
            call.raised(error)
        return part

    def _call(self, args: Any) -> Observed | None:
        call = Observed(self._guard, self._run, args)
        call.args.part = chunk_copy(args.part)
        return call if call.enter() else None

    def _told(self, call: Observed, part: Chunk, returned: Any) -> None:
        given: Any = call.args.part
        if call.args.verdict is None:
            if returned is not given and returned is not None:
                self._check(returned, chunk_copy(part))
            if returned is None:
                call.tell("drop")
            elif _content(returned) != _content(part) or call.would_change():
                call.tell("change")
        call.returned()


def _content(chunk: Any) -> Any:
    """What makes a chunk what it is; several for one are none of it."""
    if chunk.__class__ in (list, tuple):
        return _content(chunk[0]) if len(chunk) == 1 else None
    return chunk.type, chunk.payload, chunk.data, chunk.object, chunk.metadata


def _mark(chunk: Chunk) -> Mark:
    if _is_small(chunk):
        return Mark.of_pairs([(chunk, _own(chunk)), (chunk.payload, _own(chunk.payload))])
    return Mark(chunk)


def chunk_copy(chunk: Chunk) -> Chunk:
    """A copy of a chunk with a payload of its own; most are pieces of text, and quickly copied."""
    if _is_small(chunk):
        made = _own(chunk)
        made.payload = _own(chunk.payload)
        return made
    return copied(chunk)


def _is_small(chunk: Chunk) -> bool:
    """Whether it is a piece of text, and nothing else hangs on it: most are, and need no search."""
    payload = chunk.payload
    return (
        payload.__class__ is DeltaPayload
        and payload.provider_metadata is UNSET
        and payload.extra is None
        and chunk.metadata is None
        and chunk.extra is None
    )


# What `copy.copy` would call after looking for it; the look-up costs more than the copy.
_own: Callable[[Any], Any] = getattr(Record, "__copy__")  # noqa: B009
