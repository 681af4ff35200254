"""What one measurement consists of, and the inputs that are the same for every peer.

The module that drives a peer has six functions. Four make a `Case`: `request` (W1 and W4: one
run with `size` earlier messages), `chunks` (W2: a stream of `size` chunks, one a read), `steps`
(W3: `size` tool calls, one a step, then the answer) and `wire` (W5: a stream of `size` chunks from
the provider of bench/wire.py, through the peer's own adapter). `paced` returns a function that
opens a stream from that provider at the given address (W5), `idle` one that opens a stream which
stops after its first chunk until the given event is set (W6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from types import CodeType

ANSWER = "tok " * 20
QUESTION = "hi"
DONE = "done"
IDLE_TEXTS = ("one", "two")


def history(count: int) -> list[tuple[str, str]]:
    """`count` earlier messages as (role, text), 200 characters each, no two the same."""
    return [("assistant" if i % 2 else "user", f"{i:04}".ljust(200, "x")) for i in range(count)]


def tokens(count: int) -> list[str]:
    """The texts of `count` chunks, no two the same, so that a lost or swapped one is noticed."""
    return [f"{i:04} " for i in range(count)]


class Setup(NamedTuple):
    """What to build.

    `kind` says whether the hooks are `plain`, `async`, or there are `none`; in W4 whether the
    program keeps its earlier messages (`kept`) or makes them anew for each run (`fresh`), with
    hooks of either kind. `wire` is the provider's format in W5.
    """

    processors: int
    kind: str
    size: int
    wire: str = ""


T = TypeVar("T")


def conversation(setup: Setup, make: Callable[[str, str], T]) -> Callable[[], list[T]]:
    """What gives a run its earlier messages; `make` takes role and text."""

    def fresh() -> list[T]:
        return [make(role, text) for role, text in told]

    told = history(setup.size)
    if setup.kind == "fresh":
        return fresh
    kept = fresh()
    return lambda: kept


class Hook(NamedTuple):
    """A function that has to be called `calls` times in one run, and at most `extra` times more.

    `None` is any number: a coroutine that really suspends is entered again.
    """

    code: CodeType
    calls: int
    extra: int | None = 0


class Unsupported(Exception):
    """The peer has nothing that could be measured here; the message says what is lacking."""


class Recorder:
    """Base of the models: keeps what they were asked while `log` is a list."""

    log: list[Any] | None = None


@dataclass(kw_only=True)
class Case:
    """One thing to time.

    `run` must return `expected`, every time. `texts` gives the text of each message of a request
    that `model` logged. `alone` does what the model and the reader of its output do by
    themselves, for the logged requests: what is left of `run` is the runtime's.
    """

    run: Callable[[], Awaitable[Any]]
    expected: Any
    model: Recorder
    texts: Callable[[Any], list[str]]
    hooks: Sequence[Hook] = ()
    alone: Callable[[Sequence[Any]], Awaitable[Any]] | None = None


def only(setup: Setup, kind: str, why: str) -> None:
    """Refuse a set-up whose hooks are of another kind."""
    if setup.processors and setup.kind in ("plain", "async") and setup.kind != kind:
        raise Unsupported(why)


async def relay(stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """What a user writes to look at every chunk where there is no hook for it."""
    async for item in stream:
        yield item


def relayed(stream: AsyncIterator[Any], times: int) -> AsyncIterator[Any]:
    """`stream` seen through `times` nested generators."""
    for _ in range(times):
        stream = relay(stream)
    return stream


def relay_hooks(setup: Setup) -> list[Hook]:
    """What is expected of `relayed`."""
    return [Hook(relay.__code__, setup.processors * setup.size, extra=None)]
