"""A stream hook that is called for several pieces at a time: what comes of them keeps its order.

It stands between what holds pieces back and the hook. The model is listened to meanwhile, until as
many pieces as the processor's `concurrency` are under way; all else that comes waits its turn.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ..hold import WITHHELD
from .workers import begin_work, stop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ..chunks import Chunk
    from ..hold import Piece
    from ..hook_args import ProcessOutputStreamArgs
    from .run_state import RunState

    Args = ProcessOutputStreamArgs[Any]
    Hook = Callable[[Args], Any]

__all__ = ["Beside", "Place", "concurrency_of"]

_BORDERS = frozenset({"text-start", "text-end", "reasoning-start", "reasoning-end"})


def concurrency_of(processor: Any, lanes: Sequence[str]) -> int:
    """For how many pieces of an answer a processor's hook is called at a time.

    One, where a call of a tool would have to wait, and where the processor keeps chunks itself.
    """
    if "tool-arguments" in lanes or getattr(processor, "flush", None) is not None:
        return 1
    return int(getattr(processor, "concurrency", 1))


class Place(NamedTuple):
    """Where one piece can be at a time: an argument object, and the hook that is called with it."""

    args: Args
    hook: Hook


class _Item:
    """A chunk that has come and not left: a piece, with the call for it, or the border of a block,
    for which the hook is called when it leaves.
    """

    __slots__ = ("before", "part", "place", "task")

    def __init__(self, part: Chunk) -> None:
        self.part = part
        self.place: Place | None = None
        self.task: asyncio.Task[Any] | None = None
        self.before: asyncio.Task[Any] | None = None
        """The call before this one, as long as its outcome matters."""

    async def turn(self) -> None:
        """Wait until the call before this one has come to its end."""
        before = self.before
        while before is not None:
            if before.done() and not before.cancelled() and before.exception() is None:
                break
            await asyncio.wait([before])  # where that one has failed, this one is cancelled here
            await asyncio.sleep(0)
        self.before = None


class Beside:
    """Calls a hook beside the stream. It stands for a `Flush` as well: something leaves when it is
    ready, and all of it when the model's stream has ended.

    `args` and `hook` are for what is no piece. `leave(returned, part)` brings on its way what has
    come of a chunk. What a call raises is raised where its piece would leave; it ends those behind.
    """

    __slots__ = ("_args", "_free", "_hook", "_items", "_leave", "_left", "_most", "_run")

    is_beside = True

    def __init__(
        self,
        run: RunState,
        args: Args,
        hook: Hook,
        places: Sequence[Place],
        leave: Callable[[Any, Chunk], Awaitable[None]],
    ) -> None:
        self._run, self._args, self._hook, self._leave = run, args, hook, leave
        self._free = list(places)
        self._most = 3 * len(places)
        """So many chunks may be here: each piece, and two borders of blocks without any text."""
        self._items: deque[_Item] = deque()
        self._left: set[asyncio.Task[Any]] = set()
        """Calls that were cancelled and have not ended."""

    # ── coming ─────────────────────────────────────────────────────────────────────────────────

    def hook(self, args: Args) -> Any:
        """In the place of the hook."""
        part, piece = args.part, args.piece
        if piece is None and part.type not in _BORDERS:
            return self._behind_all(part) if self._items else self._hook(args)
        # Nothing of what comes now leaves before this has returned: there may be more of it.
        return WITHHELD if self._is_in(part, piece) else self._once_in(part, piece)

    def _is_in(self, part: Chunk, piece: Piece | None) -> bool:
        """Take a chunk in, if there is room for it."""
        if len(self._items) >= self._most or (piece is not None and not self._free):
            return False
        item = _Item(part)
        if piece is not None:
            self._call_for(item, piece)
        self._items.append(item)
        return True

    async def _once_in(self, part: Chunk, piece: Piece | None) -> Any:
        while not self._is_in(part, piece):
            await self._first()
            await self.when_due(self._args)
        return WITHHELD

    async def _behind_all(self, part: Chunk) -> Any:
        """For a chunk that is no piece of text: it follows all that has come before it."""
        await self(self._args)
        return await self._called(part)

    async def _called(self, part: Chunk) -> Any:
        args = self._args
        args.part, args.piece = part, None
        returned = self._hook(args)
        return await returned if inspect.isawaitable(returned) else returned

    def _call_for(self, item: _Item, piece: Piece) -> None:
        place = item.place = self._free.pop()
        item.before = next((known.task for known in reversed(self._items) if known.task), None)
        args = place.args
        args.part, args.piece, args.verdict = item.part, piece, None
        args.retry_count = self._run.retry_count
        args.take_turn = item.turn
        item.task = begin_work(self._run.interruption, self._outcome(item, place))
        item.task.add_done_callback(self._run.outbox.wake)

    async def _outcome(self, item: _Item, place: Place) -> Any:
        try:
            returned = place.hook(place.args)
            if inspect.isawaitable(returned):
                returned = await returned
            if place.args.verdict is not None:
                raise place.args.verdict
        except BaseException:
            self._cancel(behind=item)
            raise
        finally:
            item.before = None
        return returned

    # ── leaving ────────────────────────────────────────────────────────────────────────────────

    @property
    def is_set(self) -> bool:
        """Whether something is under way."""
        return bool(self._items)

    @property
    def is_due(self) -> bool:
        """Whether something can leave."""
        if not self._items:
            return False
        task = self._items[0].task
        return task is None or task.done()

    async def when_due(self, _args: Args) -> None:
        """Let leave what can."""
        while self.is_due:
            item = self._items.popleft()
            if item.place is not None:
                self._free.append(item.place)  # also after a verdict: another attempt needs it
            try:
                returned = (
                    await self._called(item.part) if item.task is None else item.task.result()
                )
            except BaseException:
                self.cancel()
                raise
            await self._leave(returned, item.part)

    async def __call__(self, args: Args) -> None:
        """Let leave all there is, each as soon as it can."""
        while self._items:
            await self._first()
            await self.when_due(args)

    async def _first(self) -> None:
        """Until the first one can leave."""
        task = self._items[0].task if self._items else None
        if task is not None and not task.done():
            await asyncio.wait([task])

    # ── the end ────────────────────────────────────────────────────────────────────────────────

    def _cancel(self, behind: _Item | None = None) -> None:
        found = behind is None
        for item in self._items:
            if found and item.task is not None and not item.task.done():
                item.task.cancel()
            found = found or item is behind

    def cancel(self) -> None:
        """What is under way leaves no more; see `stop`."""
        self._cancel()
        for item in self._items:
            if item.place is not None:
                self._free.append(item.place)
            if item.task is not None:
                self._left.add(item.task)
                item.task.add_done_callback(self._ended)
        self._items.clear()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # read, so that nobody is told it was lost

    async def stop(self) -> None:
        """What is under way leaves no more; returns when it has ended."""
        self.cancel()
        await stop(*self._left)
