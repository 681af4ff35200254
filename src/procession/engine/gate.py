"""The gate: the one place that every chunk passes on its way out.

A chunk of the model enters, is offered to `process_output_stream` of each processor in order, and
what comes out is delivered and folded into the answer. The argument objects are made once per
processor and run, and refilled; plain hooks are called, async ones awaited, absent ones left out.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ..hold import WITHHELD, Held
from ..policy import Aside, GuardedFlush, guarded_hook
from ..processor import ProcessOutputStreamArgs
from .beside import Beside, Place, concurrency_of
from .flushing import Flush, LetsGo, StandsAtGate
from .mending import mend_edited
from .pipeline import failed
from .post import Post
from .stream_parts import StreamParts, frozen_chunk
from .stream_returns import FRAMES, NOTHING, all_fitting, check, fitting
from .turns import IDLE, Turns

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from ..chunks import Chunk
    from .pipeline import Link
    from .run_state import RunState
    from .tracks import ChunkTrack

__all__ = ["PENDING", "Gate"]

_log = logging.getLogger("procession.engine")

_ALL = frozenset({"step-start", "text-delta", "step-finish"})
"""Who drops these lets nothing of a step pass."""
PENDING: Any = object()
"""What `Gate.ask` returns when there is something to wait for."""


class Gate:
    """Offers chunks to a run's stream processors and hands on what they let through."""

    __slots__ = (
        "_attempt",
        "_keeps_parts",
        "_posts",
        "_run",
        "_serving",
        "_stopped",
        "flushes",
        "for_object",
        "holds",
        "is_open",
        "is_plain",
        "late",
        "seen",
        "turns",
        "writes",
    )

    def __init__(self, run: RunState) -> None:
        self._run = run
        self.seen: list[Chunk] = []
        """Every chunk as it entered the chain (R-121); stays empty without processors."""
        self.writes = run.pipeline.process_output_stream.writes
        self.is_open = not run.pipeline.process_output_stream
        """Whether nobody stands here: chunks need not be offered."""
        self.turns = Turns()
        self.late: deque[tuple[Chunk, int, asyncio.Future[None] | None]] = deque()
        """Written chunks that wait for their turn, each with the post of its writer."""
        self._serving = False
        self._attempt = run.retry_count
        chain = run.chain_of_stream()
        self.is_plain = not any(link.is_async for link in chain)
        """Whether `ask` can be of use."""
        self._keeps_parts = any(link.looks_back for link in chain)
        self._stopped: tuple[Post, Any] | None = None
        self.flushes: list[LetsGo] = []
        """What lets go of what hooks keep on their own."""
        self.for_object = False
        """Whether the attempt that begins is to answer with an object."""
        self.holds = False
        """Whether something may be held back that is to leave when the model's stream has ended."""
        self._posts = [self._post(i, link) for i, link in enumerate(chain)]
        for post in self._posts:
            self._equip(post)

    def _post(self, position: int, link: Link) -> Post:
        args = self._args(position, link)
        observer = self._run.observer
        track = None if observer is None else observer.watch_chunks(self._run, link, args)
        return Post(position, link, args, track, self._hook(position, link, args))

    def _args(self, position: int, link: Link) -> ProcessOutputStreamArgs[Any]:
        run = self._run
        args = run.args(ProcessOutputStreamArgs, run.outbox.writer(after=position))
        args.stream_parts = StreamParts(self.seen)
        run.refill(args, link)
        return args

    def _hook(self, position: int, link: Link, args: Any) -> Callable[[Any], Any]:
        """The hook, under its policy if there is one."""
        if link.guard is None:
            return link.hook
        return guarded_hook(
            link.guard,
            self._run,
            args,
            link.hook,
            is_async=link.is_async,
            check=partial(check, self._run, link),
            make_args=lambda fallback: self._args(position, fallback),
        )

    def join(self, link: Link) -> None:
        """A processor takes its post behind all others; its hook is in the pipeline already."""
        self._posts.append(self._post(len(self._posts), link))
        self._equip(self._posts[-1])
        self.writes = self.writes or link.may_write
        self.is_open = False
        self.is_plain = self.is_plain and not link.is_async
        self._keeps_parts = self._keeps_parts or link.looks_back

    def _equip(self, post: Post) -> None:
        """Hold back what the hook looks for; ask for what it holds back itself."""
        link, run = post.link, self._run
        stand: Any = getattr(link.processor, "stand_at_gate", None)
        if stand is not None:
            standing: StandsAtGate = stand(run, post.args, post.position)
            post.hook = post.track.watch(standing.hook, True) if post.track else standing.hook
            if standing.watches:
                post.held = Held(post.hook, standing.watches, ("text", "reasoning"), awaits=True)
                post.hook = post.held.hook
            post.flush = post.inner = standing
            self.flushes.append(standing)
            self.holds = True
            return
        observed = link.guard is not None and link.guard.policy.observe
        watches, lanes = link.sought()
        counts = post.track is not None and post.track.sees_all
        if watches:
            if not observed:
                self._set_beside(post, concurrency_of(link.processor, lanes))
            disguised = None if observed else run.disguise_call
            held = Held(
                post.hook,
                watches,
                lanes,
                awaits=post.is_async,
                # Who observes wants to know of all calls.
                only_matches=getattr(link.processor, "only_matches", False) and not counts,
                disguised=disguised,
                in_turn=not isinstance(post.flush, Beside),
            )
            post.held = Aside(held, is_async=post.is_async) if observed else held
            post.hook = post.held.hook
        flush = getattr(link.processor, "flush", None)
        if flush is not None:
            if link.guard is not None:
                own = partial(check, run, link, part=NOTHING)
                flush = GuardedFlush(link.guard, run, flush, own)
            post.flush = Flush(flush, post.args, run.outbox.wake)
            self.flushes.append(post.flush)
        self.holds = self.holds or bool(watches) or flush is not None

    def first(self) -> Post:
        """The first post, of a gate that is not open."""
        return self._posts[0]

    def posts_for_objects(self) -> list[Post]:
        """Those whose hooks are called with the leaves of objects."""
        found: list[Post] = []
        for post in self._posts:
            if post.inner is not None:
                found.extend(post.inner.posts_for_objects())
            elif post.held is not None and post.held.sees_objects:
                found.append(post)
        return found

    def _set_beside(self, post: Post, most: int) -> None:
        """Have the hook called for so many pieces at a time."""
        if most < 2:
            return
        link, position, places = post.link, post.position, list[Place]()
        for _ in range(most):
            args = self._args(position, link)
            hook = self._hook(position, link, args)
            places.append(
                Place(args, post.track.watch(hook, link.is_async) if post.track else hook)
            )
        beside = Beside(self._run, post.args, post.hook, places, partial(self._leave, post))
        post.hook, post.is_async, post.flush = beside.hook, False, beside
        self.flushes.append(beside)
        self.writes = True  # what is ready is not to wait for what the rest of a read comes to

    async def _leave(self, post: Post, returned: Any, part: Chunk) -> None:
        """What has come of a chunk beside the stream goes on from there."""
        if returned is None:
            self._dropped(post, part)
        elif returned is not WITHHELD:
            several = returned if returned.__class__ in (list, tuple) else [returned]
            for chunk in all_fitting(self._run, post.link, several, part):
                await self._run.deliver_written(chunk, post.position)
        self._run.outbox.wake()

    # ── passing ────────────────────────────────────────────────────────────────────────────────

    def ask(self, chunk: Chunk) -> Any:
        """`offer` for a piece of text, where all hooks are plain and let it pass.

        `PENDING`: one of them did something else, or there is one that waits; see `finish`.
        """
        run = self._run
        self._stopped = None
        if self.turns.at != IDLE or run.retry_count != self._attempt or run.halt is not None:
            return PENDING
        if self._keeps_parts:
            self.seen.append(frozen_chunk(chunk))
        for post in self._posts:
            args = post.args
            args.part = chunk
            try:
                returned = post.hook(args)
            except BaseException as error:
                returned = _Raised(error)
            if returned is not chunk or args.verdict is not None:
                if returned is WITHHELD:
                    return None
                self._stopped = post, returned
                return PENDING
        return chunk

    async def finish(self, chunk: Chunk) -> Chunk | None:
        """`offer` for a chunk for which `ask` was not enough."""
        if self._stopped is None:
            return await self.offer(chunk)
        post, returned = self._stopped
        made = await self._made(post, returned, chunk)
        return None if made is None else await self.offer(made, after=post.position)

    async def through(self, chunk: Chunk, *, after: int = -1) -> Chunk | None:
        """`offer`, and what hooks have edited in place is mended."""
        passed = await self.offer(chunk, after=after)
        if passed is chunk and self._posts and chunk.type not in FRAMES:
            mend_edited(chunk)
        return passed

    # One frame for a chunk, not several: the loop is written out.
    async def offer(self, chunk: Chunk, *, after: int = -1) -> Chunk | None:  # noqa: C901
        """Pass a chunk through the chain, from the post behind `after`; `None`: it was dropped."""
        posts, turns = self._posts, self.turns
        if not posts:
            return chunk
        if turns.at > after:
            await turns.free(after)
        if after < 0:
            self._note(chunk)
        else:
            posts = posts[after + 1 :]
        outside = turns.at
        part: Chunk | None = chunk
        is_data = chunk.type.startswith("data-")
        for post in posts:
            if is_data and not post.takes_data:
                continue
            args = post.args
            args.part = part
            try:
                if post.is_async:
                    position = turns.at = post.position
                    returned: Any = await post.hook(args)
                    if turns.at != position:
                        await turns.free(position)  # what the hook has left behind goes first
                    if outside >= 0:
                        outside = turns.around(outside)
                    turns.at = outside
                else:
                    returned = post.hook(args)
            except BaseException as error:
                turns.at = turns.at if post.is_async else post.position
                await self._stopped_by(post, error, outside)
            if returned is not part or args.verdict is not None:
                part = await self._made(post, returned, part)
                if part is None:
                    break
                is_data = part.type.startswith("data-")
        if turns.waiting:
            turns.wake()
        if self._run.halt is not None:
            raise self._run.halt
        return part

    def _note(self, chunk: Chunk) -> None:
        """A chunk enters the chain."""
        if self._keeps_parts:
            self.seen.append(frozen_chunk(chunk))
        if self._run.retry_count != self._attempt:
            self._attempt = self._run.retry_count
            for post in self._posts:
                post.args.retry_count = self._attempt

    async def _made(self, post: Post, returned: Any, part: Chunk) -> Chunk | None:
        """Something else than the chunk offered, made to belong to this run (R-122 to R-130)."""
        if returned is WITHHELD:
            return None
        turns, position = self.turns, post.position
        outside, turns.at = turns.at, position
        try:
            returned = await _awaited(post, returned)
        except BaseException as error:
            await self._stopped_by(post, error, outside)
        try:
            if returned and returned.__class__ in (list, tuple):
                returned = await self._several(post, returned, part)
            elif returned is not None and returned is not part and returned is not WITHHELD:
                returned = fitting(self._run, post.link, returned, part)
            await turns.free(position)
        finally:
            turns.leave(position, outside)
        if returned is None:
            self._dropped(post, part)
        return None if returned is WITHHELD else returned

    async def _stopped_by(self, post: Post, error: BaseException, outside: int) -> NoReturn:
        """A hook has raised, or given its verdict: that leaves, and nobody waits for it."""
        try:
            await self._let_pass(post, error)
        finally:
            self.turns.leave(post.position, outside)
        await failed(self._run, post.link, post.args, error)

    async def _let_pass(self, post: Post, error: BaseException) -> None:
        """Of the chunk at which a hook has stopped: what it had let go of, and what its verdict
        lets pass. Where the provider has cut the text must not decide what is delivered (law 3).

        If somebody behind it gives a verdict on that, this one is never told: with smaller chunks
        it would not have been given.
        """
        args, chunks = post.args, post.let_through(error)
        verdict, args.verdict = args.verdict, None
        for chunk in chunks:
            made = fitting(self._run, post.link, chunk, NOTHING)
            await self.turns.free(post.position)
            await self._run.deliver_written(made, post.position)
        for behind in self._posts[post.position + 1 :] if self.flushes else ():
            # What it looks at was said before.
            if behind.flush is not None and behind.flush.is_beside:
                await self._release(behind, behind.flush)
        args.verdict = verdict

    def _dropped(self, post: Post, part: Chunk) -> None:
        """The likeliest mistake of a stream hook is a forgotten return: say so, once a run."""
        post.dropped.add(part.type)
        if part.type != "step-finish" or not post.dropped.issuperset(_ALL):
            return
        step = self._run.step
        if step is not None and not step.answer.text():
            _log.warning(
                "processor %r returned None from process_output_stream for every chunk of a step, "
                "so that nobody saw any: `return args.part` lets a chunk pass",
                post.link.processor_id,
            )

    async def _several(self, post: Post, returned: Sequence[Any], part: Chunk) -> Chunk:
        """Several chunks for one: the last one goes on in its place, the others before it."""
        made = all_fitting(self._run, post.link, returned, part)
        for chunk in made[:-1]:
            await self._run.deliver_written(chunk, post.position)
        return made[-1]

    # ── what is held back ──────────────────────────────────────────────────────────────────────

    def begin_attempt(self, step: int) -> None:
        """An attempt at a step begins: what is left of one before is let go by nobody."""
        for post in self._posts:
            if post.held is not None:
                post.held.begin(step, for_object=self.for_object)
            if post.flush is not None:
                post.flush.cancel()

    async def let_go(self) -> None:
        """The model's stream has ended: what is held back leaves, post by post (B-364)."""
        for post in self._posts:
            if post.held is not None:
                await self._release(post, post.held.end)
            if post.flush is not None:
                await self._release(post, post.flush)

    async def let_go_of_own(self, *, due: bool = False) -> None:
        """Hooks let go of what they keep themselves, those only whose time has come if `due`.

        Else the model's stream has broken off: what could be half a match stays behind.
        """
        for post in self._posts:
            if post.flush is not None and (post.flush.is_due or not due):
                await self._release(post, post.flush.when_due if due else post.flush)

    async def _release(self, post: Post, ask: Callable[[Any], Any]) -> None:
        """What a post lets go of on its own goes on from there."""
        turns, position = self.turns, post.position
        if turns.at > position:
            await turns.free(position)
        outside, turns.at = turns.at, position
        try:
            try:
                returned = await _awaited(post, ask(post.args))
            except BaseException as error:
                await self._let_pass(post, error)
                await failed(self._run, post.link, post.args, error)
            for chunk in returned if returned.__class__ in (list, tuple) else [returned]:
                if chunk is not None and chunk is not WITHHELD:
                    made = fitting(self._run, post.link, chunk, NOTHING)
                    await self._run.deliver_written(made, position)
            await turns.free(position)
        finally:
            turns.leave(position, outside)
        if self._run.halt is not None:
            raise self._run.halt

    @property
    def has_timers(self) -> bool:
        """Whether a hook has asked for its `flush` to be called in time."""
        return any(flush.is_set for flush in self.flushes)

    @property
    def is_due(self) -> bool:
        """Whether such a time has come."""
        return any(flush.is_due for flush in self.flushes)

    def close(self) -> None:
        """Nothing follows: no timer is left behind."""
        for post in self._posts:
            if post.flush is not None:
                post.flush.cancel()

    async def stop(self) -> None:
        """What hooks are at work on beside the stream leaves no more; returns when it has ended."""
        for flush in self.flushes:
            if flush.is_beside:
                await cast("Any", flush).stop()

    # ── one at a time ──────────────────────────────────────────────────────────────────────────

    async def let_in(self) -> None:
        """Let pass what was written while the way was taken."""
        if self._serving:
            return
        self._serving = True
        try:
            while self.late and self.late[0][1] >= self.turns.at:
                chunk, after, told = self.late.popleft()
                await self._run.deliver_written(chunk, after)
                if told is not None:
                    self._run.outbox.tell_later(told)
        finally:
            self._serving = False

    def tracks(self) -> list[ChunkTrack]:
        """What each processor did with the chunks since the last call; for the observer."""
        return [post.track.taken() for post in self._posts if post.track is not None]


async def _awaited(post: Post, returned: Any) -> Any:
    """What a hook has come to; raises what it raised, or swallowed."""
    if returned.__class__ is _Raised:
        raise returned.error
    return await post.outcome(returned)


class _Raised:
    """What a plain hook raised; telling of a verdict may have to be awaited."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error
