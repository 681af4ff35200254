"""The gate: the one place that every chunk passes on its way out.

A chunk of the model enters, is offered to `process_output_stream` of each processor in order, and
what comes out is delivered and folded into the answer. The argument objects are made once per
processor and run, and refilled; plain hooks are called, async ones awaited, absent ones left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, overload

from .chunks import Chunk, payload_from_json
from .errors import ProcessorError
from .pipeline import failed
from .processor import ProcessOutputStreamArgs
from .records import Record
from .tracks import ChunkTrack

if TYPE_CHECKING:
    from .pipeline import Link
    from .run_state import RunState

__all__ = ["Gate"]

AGENT = "AGENT"


class StreamParts(Sequence[Chunk]):
    """`stream_parts`: one growing list, shared by all processors, that cannot be written to."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks

    @overload
    def __getitem__(self, index: int) -> Chunk: ...
    @overload
    def __getitem__(self, index: slice) -> list[Chunk]: ...
    def __getitem__(self, index: int | slice) -> Chunk | list[Chunk]:
        return self._chunks[index]

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self._chunks)


class _Post:
    """One processor's post at the gate: its hook and its argument object."""

    __slots__ = ("args", "hook", "is_async", "link", "takes_data", "track")

    def __init__(
        self, link: Link, args: ProcessOutputStreamArgs[Any], track: ChunkTrack | None
    ) -> None:
        self.link = link
        self.hook = track.watch(link.hook, link.is_async) if track else link.hook
        self.is_async = link.is_async
        self.takes_data = link.process_data_parts
        self.args = args
        self.track = track


class Gate:
    """Offers chunks to a run's stream processors and hands on what they let through."""

    __slots__ = ("_posts", "_run", "_run_id", "is_open", "seen", "writes")

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._run_id = run.run_id
        self.seen: list[Chunk] = []
        """Every chunk as it entered the chain (R-121); stays empty without processors."""
        self.writes = run.pipeline.process_output_stream.writes
        self.is_open = not run.pipeline.process_output_stream
        """Whether nobody stands here: chunks need not be offered."""
        self._posts = [self._post(i, link) for i, link in enumerate(run.chain_of_stream())]

    def _post(self, position: int, link: Link) -> _Post:
        run = self._run
        args = run.args(ProcessOutputStreamArgs)
        args.stream_parts = StreamParts(self.seen)
        args.writer = run.outbox.writer(after=position)
        run.refill(args, link)
        track = ChunkTrack(link.processor_id) if run.observer else None
        return _Post(link, args, track)

    async def offer(self, chunk: Chunk, *, after: int = -1) -> Chunk | None:
        """Pass a chunk through the chain, from the post behind `after`; `None`: it was dropped."""
        run = self._run
        posts = self._posts
        if not posts:
            return chunk
        if after < 0:
            self.seen.append(_frozen(chunk))
        else:
            posts = posts[after + 1 :]
        is_data = chunk.type.startswith("data-")
        part = chunk
        for post in posts:
            if is_data and not post.takes_data:
                continue
            args = post.args
            args.part = part
            args.retry_count = run.retry_count
            try:
                returned: Any = post.hook(args)
                if post.is_async:
                    returned = await returned
                if args.verdict is not None:
                    raise args.verdict
            except BaseException as error:
                await self._failed(post, error)
            if returned is not part:
                made = None if returned is None else await self._made(post, returned, chunk)
                if made is None:
                    return None
                part = made
                is_data = part.type.startswith("data-")
        if run.verdict is not None:
            raise run.verdict
        return part

    async def _failed(self, post: _Post, error: BaseException) -> NoReturn:
        try:
            await failed(self._run, post.link, post.args, error)
        finally:
            post.args.verdict = None  # the object is used again, in another attempt

    async def _made(self, post: _Post, returned: Any, original: Chunk) -> Chunk | None:
        """Another chunk than the one offered, made to belong to this run (R-122, R-129, R-130)."""
        if returned.__class__ is not Chunk and inspect.isawaitable(returned):
            try:
                returned = await returned
            except BaseException as error:
                await self._failed(post, error)
            if returned is None:
                return None
        if not isinstance(returned, Chunk):
            raise ProcessorError(
                post.link.processor_id,
                "process_output_stream",
                f"must return a chunk, or None to drop it, not {type(returned).__name__}",
            )
        payload: Any = returned.payload
        if payload.__class__ is dict:
            returned.payload = payload_from_json(returned.type, payload)
        if not returned.type.startswith("data-"):
            returned.run_id = returned.run_id or self._run_id
            returned.from_ = returned.from_ or original.from_ or AGENT
        return returned

    def tracks(self) -> list[ChunkTrack]:
        """What each processor did with the chunks since the last call; for the observer."""
        return [post.track.taken() for post in self._posts if post.track is not None]


def _frozen(chunk: Chunk) -> Chunk:
    """The chunk as it is now: processors may change the one they are handed in place."""
    kept = _copied(chunk)
    if kept.payload is not None:
        kept.payload = _copied(kept.payload)
    return kept


# What `copy.copy` would call after looking for it; the look-up costs more than the copy.
_copied: Callable[[Any], Any] = getattr(Record, "__copy__")  # noqa: B009
