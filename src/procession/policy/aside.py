"""What stands around a stream hook, under its policy: letting go, and being held back for show."""

from __future__ import annotations

import inspect
from time import monotonic
from typing import TYPE_CHECKING, Any

from .bounded import Bounded
from .circuit import REFUSED
from .guard import Failure
from .marks import copied

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .guard import Guard

__all__ = ["Aside", "GuardedFlush"]


class Aside:
    """Hands an observed hook its pieces, while the chunks go on as they came.

    What is held back for it is a copy: nobody waits for it. `held` is what stands before the hook,
    a `procession.hold.Held`.
    """

    __slots__ = ("_held", "hook")

    def __init__(self, held: Any, *, is_async: bool) -> None:
        self._held = held
        self.hook: Callable[[Any], Any] = self._awaited if is_async else self._plain

    def begin(self, step: int, *, for_object: bool = False) -> None:
        """An attempt at a step begins, `for_object`: at one that is to answer with an object."""
        self._held.begin(step, for_object=for_object)

    @property
    def sees_objects(self) -> bool:
        """Whether the hook is to be called with the leaves of objects."""
        return bool(self._held.sees_objects)

    def is_sure_of(self, id: str) -> bool:
        """Whether an object can be read of a block of text on the way: nothing is changed in it."""
        return True

    def object_text(self, args: Any, part: Any) -> Any:
        """A piece comes of the text of an object; it goes on as it is."""
        returned = self._held.object_text(args, copied(part))
        return self._nothing(returned, part) if inspect.isawaitable(returned) else part

    def object_end(self, args: Any, id: str) -> Any:
        """That text has ended."""
        returned = self._held.object_end(args, id)
        return self._nothing(returned) if inspect.isawaitable(returned) else None

    def object_value(self, args: Any, value: Any) -> Any:
        """An object that has been read: it stays what it is."""
        returned = self._held.object_value(args, value)
        seen: tuple[Any, list[Any]] = (value, [])
        return self._nothing(returned, seen) if inspect.isawaitable(returned) else seen

    def end(self, args: Any) -> Any:
        """The model's stream has ended: the hook is handed the rest, of which nothing leaves."""
        returned = self._held.end(args)
        return self._nothing(returned) if inspect.isawaitable(returned) else None

    def _plain(self, args: Any) -> Any:
        part = args.part
        args.part = copied(part)
        returned: Any = self._held.hook(args)
        args.part = part
        return self._rest(returned, args, part) if inspect.isawaitable(returned) else part

    async def _awaited(self, args: Any) -> Any:
        part = args.part
        args.part = copied(part)
        return await self._rest(self._held.hook(args), args, part)

    @staticmethod
    async def _rest(work: Awaitable[Any], args: Any, part: Any) -> Any:
        await work
        args.part = part
        return part

    @staticmethod
    async def _nothing(work: Awaitable[Any], seen: Any = None) -> Any:
        await work
        return seen


class GuardedFlush:
    """A processor's `flush` as its policy says; `check` raises for what it cannot return.

    What a failing one has kept is lost, also under `allow` and `degrade`: nobody else has it. What
    an observed one lets go of goes nowhere: the chunks have left before.
    """

    __slots__ = ("_check", "_flush", "_guard", "_run")

    def __init__(
        self,
        guard: Guard,
        run: Any,
        flush: Callable[[Any], Any],
        check: Callable[[Any], None],
    ) -> None:
        self._guard, self._run, self._flush, self._check = guard, run, flush, check

    def __call__(self, state: Any) -> Any:
        """What leaves; something to be awaited, where the processor's is."""
        try:
            given = self._guard.enter()
        except Failure:
            given = REFUSED  # what it has kept must leave, whether it is asked for more or not
        started = monotonic()
        try:
            returned = self._flush(state)
            if returned is not None and inspect.isawaitable(returned):
                return self._rest(given, started, returned)
            return self._done(given, started, returned)
        except BaseException as error:
            return self._failed(given, started, error)

    async def _rest(self, given: int, started: float, work: Awaitable[Any]) -> Any:
        timeout = self._guard.policy.timeout
        try:
            returned = await (work if timeout is None else Bounded(work, timeout))
            return self._done(given, started, returned)
        except BaseException as error:
            return self._failed(given, started, error)

    def _done(self, given: int, started: float, returned: Any) -> Any:
        if returned is not None:
            self._check(returned)
        self._guard.ended(self._run, given, started)
        return None if self._guard.policy.observe else returned

    def _failed(self, given: int, started: float, error: BaseException) -> None:
        guard, run = self._guard, self._run
        failure = guard.failure(run, given, started, error, None)
        if guard.take(run, failure, "flush") == "block" and not guard.policy.observe:
            raise guard.verdict(failure) from None
