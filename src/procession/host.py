"""What an application is to what it is handed to, and how it is handed over (W-155).

Whatever is registered on an `App` - an agent, a memory, a processor, a workflow and the processors
within it - may have a method `register_app(app)`, and is given the app through it. There is no
other way in: what agents and memory take from an app, they take there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Iterable

    from .spans import Observer, Span
    from .store import Store

__all__ = ["Host", "TakesApp", "Tracing", "hand_over"]


class Host(Protocol):
    """An application, as what is registered on it sees it."""

    @property
    def store(self) -> Store | None:
        """Where things are kept that have no place of their own."""
        ...

    @property
    def cache(self) -> Any:
        """What may be forgotten is kept there."""
        ...

    @property
    def logger(self) -> logging.Logger:
        """Where the application's own words go."""
        ...

    @property
    def observer(self) -> Observer | None:
        """Hears of the runs of agents that have no observer."""
        ...

    def attach(self, resource: Any, /) -> None:
        """Have something closed with the app, by its `aclose()` or `close()`, plain or async.

        If it has `start()` as well, it is started with the app. Each object counts once, and is not
        kept alive by this. What is attached first is closed last.
        """
        ...

    def met(self, agent: Any, where: str, entries: Iterable[Any], /) -> None:
        """Take note of what a function of the request has given to a call (W-153)."""
        ...


class Tracing(Protocol):
    """An observer that is shut down with the app, such as `procession.tracing.Tracing`."""

    def span(self, span: Span, /) -> None:
        """See `Observer`."""
        ...

    def flush(self) -> Awaitable[Any]:
        """Send on what has been recorded."""
        ...

    def shutdown(self) -> Awaitable[Any]:
        """Send on the rest, and let go of everything. Twice is once."""
        ...


@runtime_checkable
class TakesApp(Protocol):
    """Wants to know the app that it is registered on."""

    def register_app(self, app: Host, /) -> None:
        """Called when it is registered; once for each app, for what a call brings at its first."""
        ...


def hand_over(app: Host, entry: Any) -> None:
    """Give the app to whatever wants it."""
    take = getattr(entry, "register_app", None)
    if callable(take):
        take(app)
