"""A post at the gate: a processor's hook, and what stands before it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..hold import Held
from ..verdicts import verdict_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..chunks import Chunk
    from ..policy import Aside
    from ..processor import ProcessOutputStreamArgs
    from .flushing import LetsGo, StandsAtGate
    from .pipeline import Link
    from .tracks import ChunkTrack

__all__ = ["Post"]


class Post:
    """One processor's post at the gate: its hook and its argument object."""

    __slots__ = (
        "args",
        "dropped",
        "flush",
        "held",
        "hook",
        "inner",
        "is_async",
        "link",
        "position",
        "takes_data",
        "track",
    )

    def __init__(
        self,
        position: int,
        link: Link,
        args: ProcessOutputStreamArgs[Any],
        track: ChunkTrack | None,
        hook: Callable[[Any], Any],
    ) -> None:
        self.position = position
        self.link = link
        self.hook = track.watch(hook, link.is_async) if track else hook
        self.is_async = link.is_async
        self.takes_data = link.process_data_parts
        self.args = args
        self.track = track
        self.dropped: set[str] = set()
        """The types of the chunks that it let no one see."""
        self.held: Held | Aside | None = None
        """What stands before a hook with watches."""
        self.flush: LetsGo | None = None
        """What lets go of what the hook keeps on its own, or is still at work on."""
        self.inner: StandsAtGate | None = None
        """What stands there for several, with posts of their own."""

    async def outcome(self, returned: Any) -> Any:
        """What the hook has come to; raises a verdict that it gave on the way."""
        if inspect.isawaitable(returned):
            returned = await returned
        if self.args.verdict is not None:
            raise self.args.verdict
        return returned

    def let_through(self, error: BaseException) -> list[Chunk]:
        """What the hook, which has stopped with `error`, lets go of the chunk under way."""
        wire = verdict_in(error)
        if wire is None and not isinstance(error, Exception):
            return []  # the run is over
        wire, passing = wire or self.args.verdict, None
        if wire is not None:
            passing, wire.passing = wire.passing, None
        if isinstance(self.held, Held):
            return self.held.stopped(passing)
        return [] if passing is None else [passing]
