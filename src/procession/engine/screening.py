"""Bringing an object past the guards of a run before anybody gets to see it.

What the model answers passes them as text, leaf by leaf. The object that is read of it at the end
may say more than that, and what another model makes of the answer is no text of the run's: both
pass here, at the posts of the gate and in their order.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn

from ..chunks import Chunk, DeltaPayload
from ..hold import WITHHELD
from ..verdicts import verdict_in
from .pipeline import failed
from .stream_returns import fitting_part

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from .post import Post
    from .run_state import RunState

__all__ = ["Screen", "ScreenedText"]

_numbers = count()
"""Each text of an object has an id of its own: what is held back of one that has broken off stays
there."""


class Screen:
    """The guards of a run that look at objects."""

    __slots__ = ("_run",)

    def __init__(self, run: RunState) -> None:
        self._run = run

    async def value(self, value: Any) -> Any:
        """An object as they leave it: itself, if they change nothing. Raises their verdicts."""
        for post in self._run.gate.posts_for_objects():
            held: Any = post.held
            try:
                value, others = await self.asked(post, held.object_value, value)
            except _Stopped as stopped:
                await self.fail(post, stopped)
            for chunk in others:
                made = fitting_part(self._run, post.link, chunk)
                await self._run.deliver_written(made, post.position)
        return value

    def is_sure_of(self, id: str) -> bool:
        """Whether the object can be read of a block of text while it comes."""
        posts = self._run.gate.posts_for_objects()
        return all(post.held is None or post.held.is_sure_of(id) for post in posts)

    def text(self) -> ScreenedText:
        """The text of an object that is about to come."""
        return ScreenedText(self, self._run, f"object-{next(_numbers)}")

    async def asked(self, post: Post, ask: Callable[[Any, Any], Any], given: Any) -> Any:
        """What a hook makes of what it is given; raises `_Stopped`. Nothing else passes it now."""
        run = self._run
        turns, position = run.gate.turns, post.position
        if turns.at > position:
            await turns.free(position)
        outside, turns.at = turns.at, position
        try:
            return await post.outcome(ask(post.args, given))
        except BaseException as error:
            passing, verdict = post.let_through(error), post.args.verdict
            post.args.verdict = None  # what it lets pass is on its way first
            raise _Stopped(error, passing, verdict) from None
        finally:
            turns.leave(position, outside)
            if run.gate.late:
                await run.gate.let_in()

    async def fail(self, post: Post, stopped: _Stopped) -> NoReturn:
        """Raise what a hook has stopped with; who makes light of it can write no more."""
        post.args.verdict = stopped.verdict
        try:
            await failed(self._run, post.link, post.args, stopped.error)
        except BaseException as error:
            wire = verdict_in(error)
            if wire is not None or isinstance(error, Exception):
                self._run.halt = wire or error
            raise


class ScreenedText:
    """The text of one object, as it comes and as guards leave it."""

    __slots__ = ("_id", "_posts", "_run", "_screen")

    def __init__(self, screen: Screen, run: RunState, id: str) -> None:
        self._screen = screen
        self._run = run
        self._id = id
        self._posts = run.gate.posts_for_objects()

    async def feed(self, text: str) -> AsyncGenerator[str, None]:
        """What may be seen now; raises a verdict behind what may be seen before it."""
        if not self._posts or not text:
            yield text
            return
        async for passed in self._from(0, self._chunk(text)):
            yield passed

    @property
    def is_sure(self) -> bool:
        """Whether the object can be read of it while it comes."""
        return self._screen.is_sure_of(self._id)

    async def end(self) -> AsyncGenerator[str, None]:
        """What was held back."""
        for number, post in enumerate(self._posts):
            held: Any = post.held
            async for passed in self._at(number, held.object_end, self._id):
                yield passed

    async def _from(self, number: int, chunk: Chunk) -> AsyncGenerator[str, None]:
        """Bring a chunk past the posts from `number` on."""
        if chunk.type != "text-delta":
            await self._run.deliver_written(chunk, self._posts[number - 1].position)
        elif number == len(self._posts):
            yield chunk.payload.text
        else:
            held: Any = self._posts[number].held
            async for passed in self._at(number, held.object_text, chunk):
                yield passed

    async def _at(self, number: int, ask: Any, given: Any) -> AsyncGenerator[str, None]:
        post, stopped = self._posts[number], None
        returned: Any
        try:
            returned = await self._screen.asked(post, ask, given)
        except _Stopped as error:
            stopped, returned = error, error.passing
        several: Any = returned if returned.__class__ in (list, tuple) else [returned]
        for made in several:
            if made is not None and made is not WITHHELD:
                chunk = fitting_part(self._run, post.link, made)
                async for passed in self._from(number + 1, chunk):
                    yield passed
        if stopped is not None:
            await self._screen.fail(post, stopped)

    def _chunk(self, text: str) -> Chunk:
        payload = DeltaPayload(id=self._id, text=text)
        return Chunk("text-delta", payload, run_id=self._run.run_id, from_="AGENT")


class _Stopped(BaseException):
    """A hook has raised `error`, or given its verdict; what it lets pass before."""

    def __init__(self, error: BaseException, passing: list[Chunk], verdict: Any) -> None:
        super().__init__()
        self.error = error
        self.passing = passing
        self.verdict = verdict
