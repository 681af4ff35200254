"""What stands in front of the hook of a processor with watches: one for each run and processor."""

from __future__ import annotations

import inspect
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from .answer import TEXTS, AnswerText
from .arguments import WITHHELD, Arguments
from .lane import Lane, Rules
from .piece import Piece
from .written import collect

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from ..chunks import Chunk
    from ..hook_args import ProcessOutputStreamArgs
    from .piece import LaneKind, Watch

    Args = ProcessOutputStreamArgs[Any]
    Work = Generator[tuple[Chunk, Piece | None], Any, list[Any]]
    """Yields what the hook is called with, is sent what it returned; returns what came of it."""

__all__ = ["WITHHELD", "Held"]

_PIECES: dict[str, LaneKind] = {"text-delta": "text", "reasoning-delta": "reasoning"}
_BORDERS = {
    "text-start": "text-delta",
    "text-end": "text-delta",
    "reasoning-start": "reasoning-delta",
    "reasoning-end": "reasoning-delta",
}
_CALLS = frozenset({"tool-call-delta", "tool-call-input-streaming-end", "tool-call"})


class Held:
    """Calls a hook with what its watches let go; keeps the rest.

    `hook` is what the engine calls in the hook's place, `end` when the model's stream has ended.
    Nothing that is held back leaves in any other way. `in_turn`: the hook says at once what becomes
    of a piece; else leaves cannot be put together again.
    """

    __slots__ = (
        "_answer",
        "_arguments",
        "_awaits",
        "_calm",
        "_hook",
        "_lanes",
        "_look_behind",
        "_object",
        "_open",
        "_results",
        "_rules",
        "_said",
        "_splits",
        "_step",
        "hook",
    )

    def __init__(
        self,
        hook: Callable[[Any], Any],
        watches: Sequence[Watch],
        lanes: Sequence[str],
        *,
        awaits: bool,
        only_matches: bool = False,
        disguised: Callable[[str, Any, Any], None] | None = None,
        in_turn: bool = True,
    ) -> None:
        self._hook = hook
        self._awaits = awaits
        self.hook: Callable[[Any], Any] = self._awaited if awaits else self._plain
        self._rules = Rules(watches)
        self._calm = self._rules.calm if only_matches else None
        """With `only_matches`: what tells of most texts that there is nothing in them."""
        self._splits, self._look_behind = self._rules.splits, self._rules.look_behind
        self._open: dict[str, dict[str, Lane]] = {
            kind: {} for kind, lane in _PIECES.items() if lane in lanes
        }
        """The lanes under way, by the type of their chunks and the id of their block."""
        self._lanes: list[Lane] = []
        """All that have not been let go, in the order in which they began."""
        self._arguments = Arguments(self._rules, disguised) if "tool-arguments" in lanes else None
        by_leaves = in_turn and "text" in lanes and self._rules.takes_apart
        self._object = AnswerText(self._rules) if by_leaves else None
        """Holds back the text of objects that are asked for."""
        self._answer: AnswerText | None = None
        """The same, while the answer is to be one."""
        self._said: list[tuple[int, str, str]] = []
        """With the unit `end`: what was said, each with its step and the kind of its lane."""
        self._step = 0
        self._results: list[Any] = []
        """What has come of the chunk that is being worked on, where the hook is called more than
        once for it."""

    def begin(self, step: int, *, for_object: bool = False) -> None:
        """An attempt at a step begins, `for_object`: at one that is to answer with an object.

        What one before has left is forgotten.
        """
        self._step = step
        if self._object is not None:
            self._object.clear()
            self._answer = self._object if for_object else None
            if for_object:
                self._open.pop("text-delta", None)
            else:
                self._open.setdefault("text-delta", {})
        self._results = []
        self._lanes.clear()
        for lanes in self._open.values():
            lanes.clear()
        if self._arguments is not None:
            self._arguments.clear()
        self._said = [entry for entry in self._said if entry[0] < step]

    def kept(self) -> dict[tuple[str, str], int] | None:
        """How many characters are held back of each lane, by the type of its chunks and its id;
        `None` where something else is.
        """
        leaves = (self._arguments, self._answer)
        if any(each is not None and not each.is_empty for each in leaves):
            return None
        if self._rules.waits_for_end and self._lanes:
            return None
        found: dict[tuple[str, str], int] = {}
        for kind, lanes in self._open.items():
            for id, lane in lanes.items():
                if not lane.is_empty:
                    found[kind, id] = lane.size
        return found

    # ── calling the hook ───────────────────────────────────────────────────────────────────────

    def _plain(self, args: Args) -> Any:
        """In the place of a plain hook."""
        part = args.part
        lanes = self._open.get(part.type)
        if lanes is None:
            work = self._work(part)
            if work is not None:
                return self._done(args, work)
            args.piece = None
            return self._hook(args)
        work = self._let_in(args, part, lanes)
        if work is None:
            return self._hook(args)
        return self._done(args, work) if isinstance(work, GeneratorType) else work

    async def _awaited(self, args: Args) -> Any:
        """In the place of an async hook."""
        part = args.part
        lanes = self._open.get(part.type)
        if lanes is None:
            work = self._work(part)
            if work is not None:
                return await self._continued(args, work)
            args.piece = None
            return await self._hook(args)
        work = self._let_in(args, part, lanes)
        if work is None:
            return await self._hook(args)
        return await self._continued(args, work) if isinstance(work, GeneratorType) else work

    # One frame, not several: every piece of text comes by here.
    def _let_in(  # noqa: C901
        self, args: Args, part: Chunk, lanes: dict[str, Lane]
    ) -> Work | Chunk | None:
        """A piece of text comes; `None`: the hook is to be called with what is in `args` now; the
        chunk, or `WITHHELD`: it is not called.
        """
        payload = part.payload
        new = payload.text
        lane = lanes.get(payload.id)
        if lane is None or lane.closing is not None:
            lane = self._lane(part)
        if not new:
            args.piece = None
            return None
        if (
            lane.came_in
            or payload.provider_metadata is not UNSET
            or part.metadata is not None
            or payload.extra is not None
            or part.extra is not None
        ):
            lane.note(part, len(new))
        elif self._calm is not None:
            text = lane.held + new
            found = self._calm(text)
            if found is not None and found.end(2) == len(text):
                point = found.end(1)
                lane.held = text[point:]
                if not point:
                    return WITHHELD
                payload.text = released = text[:point]
                lane.passed_by.append(released)
                return part
        if lane.seen < len(lane.passed_by):
            lane.catch_up()
        released = lane.take(new)
        if not released:
            return WITHHELD
        if self._splits:
            self._results = []
            return self._leaving(lane, released, self._results, part)
        args.piece = Piece(
            released, lane.before, lane.kind, lane.id, False, passed_by=lane.passed_by
        )
        look = self._look_behind
        if look:
            if look <= len(released):
                lane.before = released[-look:]
            else:
                lane.leave(released)
        if lane.came_in:
            carrier = lane.carrier(len(released))
            if carrier is not None:
                args.part = part = carrier
                payload = part.payload
        if payload.text is not released:
            payload.text = released
        return None

    def end(self, args: Args) -> Any:
        """The model's stream has ended: whatever is left leaves, as if a hook had returned it."""
        self._results = []
        work = self._last(self._results)
        return self._continued(args, work) if self._awaits else self._done(args, work)

    def stopped(self, passing: Chunk | None) -> list[Chunk]:
        """The hook has raised, or given its verdict: what it had let go of before, of the same
        chunk, and what it lets pass of the piece at which it did.
        """
        results, self._results = self._results, []
        leaves = (self._arguments, self._object)
        if not any(held is not None and held.stop(passing) for held in leaves):
            collect(results, passing)
        return [result for result in results if result is not WITHHELD]

    def _done(self, args: Args, work: Work) -> Any:
        """Call a plain hook as often as `work` wants; an awaitable that it returns is waited for
        in what this returns.
        """
        try:
            args.part, args.piece = next(work)
            while True:
                returned = self._hook(args)
                if args.verdict is not None:
                    return returned
                if returned is not None and inspect.isawaitable(returned):
                    return self._continued(args, work, returned)
                args.part, args.piece = work.send(returned)
        except StopIteration as end:
            self._results = []
            return _outcome(end.value)

    async def _continued(self, args: Args, work: Work, returned: Any = WITHHELD) -> Any:
        try:
            if returned is WITHHELD:
                args.part, args.piece = next(work)
                returned = self._hook(args)
            while True:
                if inspect.isawaitable(returned):
                    returned = await returned
                if args.verdict is not None:
                    return returned
                args.part, args.piece = work.send(returned)
                returned = self._hook(args)
        except StopIteration as end:
            self._results = []
            return _outcome(end.value)

    # ── text and reasoning ─────────────────────────────────────────────────────────────────────

    def _lane(self, part: Chunk) -> Lane:
        kind, id = part.type, part.payload.id
        lane = self._open[kind][id] = Lane(self._rules, _PIECES[kind], id, part)
        self._lanes.append(lane)
        return lane

    def _leaving(
        self,
        lane: Lane,
        text: str,
        results: list[Any],
        part: Chunk | None = None,
        *,
        is_last: bool = False,
    ) -> Work:
        """Let go of `text`, portion by portion."""
        if lane.seen < len(lane.passed_by):
            lane.catch_up()
        portions = lane.portions(text)
        for number, portion in enumerate(portions, 1):
            chunk = lane.carrier(len(portion))
            if chunk is None:
                chunk = part if part is not None and number == len(portions) else lane.fresh()
            chunk.payload.text = portion
            before = self._all_said(lane) if self._rules.keeps_all else lane.before
            last = is_last and number == len(portions)
            piece = Piece(portion, before, lane.kind, lane.id, last, passed_by=lane.passed_by)
            returned = yield chunk, piece
            lane.leave(portion)
            if self._rules.keeps_all:
                self._said.append((self._step, lane.kind, portion))
            collect(results, returned)
        return results

    def _all_said(self, lane: Lane) -> str:
        return "".join(text for _, kind, text in self._said if kind == lane.kind)

    def _work(self, part: Chunk) -> Work | None:
        """What is to be done for a chunk that is no piece of text; `None`: nothing but pass it."""
        kind = part.type
        if self._answer is not None and kind in TEXTS:
            if not self._answer.takes(part):
                return None
            self._results = []
            return self._answer.work(part, self._results)
        piece = _BORDERS.get(kind)
        if piece is not None and piece in self._open:
            lane = self._open[piece].get(part.payload.id)
            if lane is not None and not (kind.endswith("-start") and lane.closing is None):
                self._results = []  # a block that has begun cannot begin again: it goes on
                return self._border(part, lane, self._results)
        elif kind in _CALLS and self._arguments is not None:
            self._results = []
            return self._arguments.work(part, self._results)
        return None

    def _border(self, part: Chunk, lane: Lane, results: list[Any]) -> Work:
        """A block ends; or begins again, while its end has to wait."""
        begins = part.type.endswith("-start")
        if self._rules.waits_for_end:
            if begins:
                self._lane(lane.fresh()).opening = part
            else:
                lane.closing = part
            return [WITHHELD]
            yield  # a generator all the same
        del self._open[_BORDERS[part.type]][lane.id]
        self._lanes.remove(lane)
        if not lane.is_empty:
            yield from self._leaving(lane, lane.rest(), results, is_last=True)
        collect(results, (yield part, None))
        return results

    def _last(self, results: list[Any]) -> Work:
        lanes, self._lanes = self._lanes, []
        for open_lanes in self._open.values():
            open_lanes.clear()
        for lane in lanes:
            if lane.opening is not None:
                collect(results, (yield lane.opening, None))
            if not lane.is_empty:
                yield from self._leaving(lane, lane.rest(), results, is_last=True)
            if lane.closing is not None:
                collect(results, (yield lane.closing, None))
        if self._answer is not None:
            yield from self._answer.last(results)
        if self._arguments is not None:
            yield from self._arguments.last(results)
        return results

    # ── objects that were made of the answer ───────────────────────────────────────────────────

    @property
    def sees_objects(self) -> bool:
        """Whether the hook is to be called with the leaves of objects."""
        return self._object is not None

    def is_sure_of(self, id: str) -> bool:
        """Whether the object can be read of a block of text on the way, as the hook has left it:
        what is found in it are leaves that the hook has seen.
        """
        return self._object is None or self._object.is_sure_of(id)

    def object_text(self, args: Args, part: Chunk) -> Any:
        """A piece comes of the text of an object, which another one has written than the answer."""
        return self._of_object(args, lambda held, results: held.work(part, results))

    def object_end(self, args: Args, id: str) -> Any:
        """That text has ended, whose block has this id: what is held back of it leaves."""
        return self._of_object(args, lambda held, results: held.block_ends(id, results))

    def object_value(self, args: Args, value: Any) -> Any:
        """An object that has been read: itself or another one, and what else there is to deliver.

        The hook is called with those of its leaves that have not left in its text just so.
        """
        return self._of_object(args, lambda held, _: held.value(value))

    def _of_object(self, args: Args, do: Callable[[AnswerText, list[Any]], Work]) -> Any:
        assert self._object is not None
        self._results = []
        work = do(self._object, self._results)
        return self._continued(args, work) if self._awaits else self._done(args, work)


def _outcome(results: list[Any]) -> Any:
    """What several calls of a hook have come to, as if it had returned it for one chunk."""
    if len(results) > 1:
        return [result for result in results if result is not WITHHELD] or WITHHELD
    return results[0] if results else None
