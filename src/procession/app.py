"""`App`: agents and workflows by name, what they share, and one life for all of it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Self, cast

from .agent import Agent
from .errors import OptionError
from .host import hand_over
from .keywords import TakesOptions
from .lifetime import Known, Lifetime
from .registry import Registry, is_workflow, named_values
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    from .cache import ServerCache
    from .host import Tracing
    from .registry import RegisteredProcessor, RegisteredWorkflow
    from .spans import Observer

__all__ = ["App"]

_log = logging.getLogger("procession.app")
_CACHE = ("get", "set", "delete")
LISTS = ("input_processors", "output_processors", "error_processors")


class App(TakesOptions):
    """Holds agents and workflows by name, and what they share.

    `agents` and `workflows` are mappings of names to them, or lists. Workflows among an agent's
    processors are registered by themselves, under their ids (W-150); those that a function of the
    request gives, at the first call that it gives them to (W-153).

    - `store`: where memories keep conversations that have no storage of their own (M-021), where
      runs wait, and workflows that are suspended.
    - `cache`: a `ServerCache` for whoever asks the app for one.
    - `tracing`: hears of the runs of agents that have no observer of their own.
    - `logger`: where the app's own words go, `procession.app` unless given.

    Whatever is registered and has a method `register_app(app)` is given the app, processors within
    workflows included (W-155); see `procession.host`. An agent belongs to the app that it was
    registered on last.

    `async with app:` (or `start` and `stop`) starts what has to be started, and closes everything
    at the end: stores, caches, tracing, the connections of models. All of it also works unstarted:
    it opens with its first use then. An agent needs no app.

    Raises `ConfigurationError` for two agents or workflows that one name would stand for, both
    named (W-152), and `OptionError` for what is no agent, workflow, store or cache.
    """

    def __init__(
        self,
        *,
        agents: Mapping[str, Agent] | Iterable[Agent] = (),
        workflows: Mapping[str, Any] | Iterable[Any] = (),
        store: Store | None = None,
        cache: ServerCache | None = None,
        tracing: Tracing | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self.store = _kind_of("store", store, Store)
        self.cache = _checked_cache(cache)
        self.logger = _kind_of("logger", logger, logging.Logger) or _log
        self.tracing = _checked_tracing(tracing)
        self._registry = Registry()
        self._lifetime = Lifetime()
        self._told = Known()
        self._lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._is_running = False
        self._tracing_end = None if tracing is None else _TracingEnd(tracing)
        for shared in (self.store, self.cache):
            self.attach(shared)
        self._tell([tracing])  # what it exports to is closed behind it
        self.attach(self._tracing_end)
        for key, workflow in named_values(workflows, "workflows"):
            self._add_workflow(key, workflow)
        named = [(key, _checked_agent(agent)) for key, agent in named_values(agents, "agents")]
        for key, agent in named:
            self._registry.agents.add(key, agent, "in agents")
            self._read_lists(agent)
        # Only now: what has been refused must not have changed anybody.
        for _, workflow in self._registry.workflows:
            self._tell(_with_inner([workflow]))
        for _, agent in named:
            self._tell(_parts_of(agent))

    def __repr__(self) -> str:
        agents = ", ".join(key for key, _ in self._registry.agents)
        return f"App(agents=[{agents}])"

    # ── by name ────────────────────────────────────────────────────────────────────────────────

    @property
    def agents(self) -> dict[str, Agent]:
        """The agents by the names they were registered under."""
        return dict(self._registry.agents)

    @property
    def workflows(self) -> dict[str, Any]:
        """The workflows by name, those of the agents' lists included."""
        return dict(self._registry.workflows)

    def get_agent(self, name: str) -> Agent:
        """The agent of a name, or of an id. Raises `ConfigurationError` if there is none."""
        return self._registry.agents.get(name)

    def get_agent_by_id(self, id: str) -> Agent:
        """The agent of an id. Raises `ConfigurationError` if there is none."""
        return self._registry.agents.by_id(id)

    def get_workflow(self, name: str) -> Any:
        """The workflow of a name, or of an id. Raises `ConfigurationError` if there is none."""
        return self._registry.workflows.get(name)

    def get_workflow_by_id(self, id: str) -> Any:
        """The workflow of an id. Raises `ConfigurationError` if there is none."""
        return self._registry.workflows.by_id(id)

    def list_workflows(self) -> list[RegisteredWorkflow]:
        """All workflows, with their kind and the agents that have them in a list (W-154)."""
        return self._registry.list_workflows()

    def list_processors(self) -> list[RegisteredProcessor]:
        """The processors in the agents' lists, also those within workflows, each object once.

        With each: its hooks, and the places where it stands (W-156). What memory and other
        extensions add is not listed: see `pipeline_of` for all that a call runs.
        """
        return self._registry.list_processors()

    # ── what is registered sees this ───────────────────────────────────────────────────────────

    @property
    def observer(self) -> Observer | None:
        """Hears of the runs of agents that have no observer of their own."""
        return self.tracing

    def attach(self, resource: Any, /) -> None:
        """Have something closed with the app: what has `aclose()` or `close()`, plain or async.

        If it has `start()` as well, it is started with the app. Each object counts once, and is not
        kept alive by this. What is attached first is closed last; all else is passed over.
        """
        self._lifetime.attach(resource)

    def met(self, agent: Agent, where: str, entries: Iterable[Any], /) -> None:
        """Take note of what a function of the request has given to a call (W-153).

        Raises `ConfigurationError` for a workflow whose id stands for another one (W-152).
        """
        found = list(entries)
        if where in LISTS:
            self._registry.meet(agent, where, found)
        self._tell(_with_inner(found))

    # ── life ───────────────────────────────────────────────────────────────────────────────────

    @property
    def is_running(self) -> bool:
        """Whether it has been started, and not stopped since."""
        return self._is_running

    async def start(self) -> Self:
        """Start what has to be started: stores connect, and bring their tables up to date.

        If something cannot be started, what was begun is closed again, and its error leaves with a
        note that says what it was. Twice is once.
        """
        async with self._alone():
            if not self._is_running:
                await self._lifetime.start()
                if self._tracing_end is not None and self._tracing_end.has_ended:
                    self.logger.warning(
                        "the app's tracing was shut down when it was stopped: runs are not traced "
                        "any more; make a new App to trace again"
                    )
                self._is_running = True
        return self

    async def stop(self) -> None:
        """Close everything, last first, and wait for work behind runs; runs should have ended.

        What fails to close hinders nobody else; the first failure is raised when all is done. Being
        cancelled cuts nothing short. Twice is once. What is used afterwards opens again,
        but for tracing, which ends for good.
        """
        async with self._alone():
            self._is_running = False
            await self._lifetime.close()

    def _alone(self) -> asyncio.Lock:
        """Only one task starts or stops it at a time; each event loop has a lock of its own."""
        loop = asyncio.get_running_loop()
        if self._lock is None or self._lock[0] is not loop:
            self._lock = loop, asyncio.Lock()
        return self._lock[1]

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.stop()
        except Exception as problem:
            if error is None:
                raise
            # What the block raised is what matters.
            self.logger.warning("stopping the app failed as well: %s", type(problem).__name__)

    # ── registering ────────────────────────────────────────────────────────────────────────────

    def _add_workflow(self, key: str, workflow: Any) -> None:
        if not is_workflow(workflow) or not isinstance(getattr(workflow, "id", None), str):
            raise OptionError(f"App: workflows[{key!r}] is no workflow")
        self._registry.workflows.add(key, workflow, "in workflows")

    def _read_lists(self, agent: Agent) -> None:
        for where, entries in _fixed_lists(agent):
            self._registry.add_list(agent, where, entries)

    def _tell(self, entries: Iterable[Any]) -> None:
        """Hand the app to what has not been given it yet."""
        for entry in entries:
            if self._told.add(entry):
                hand_over(self, entry)


class _TracingEnd:
    """Tracing among what is closed with the app."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self.has_ended = False

    async def aclose(self) -> None:
        """Send on what is left, and shut it down, which is final."""
        self.has_ended = True
        await self._tracing.flush()
        await self._tracing.shutdown()


def _fixed_lists(agent: Agent) -> Iterator[tuple[str, Iterable[Any]]]:
    """The lists of an agent that are no functions of the request."""
    for where in LISTS:
        entries: Any = getattr(agent, where)
        if not callable(entries):
            yield where, entries


def _parts_of(agent: Agent) -> Iterator[Any]:
    """An agent, and all that it brings: its memory, its extensions, what stands in its lists."""
    yield agent
    if agent.memory is not None:
        yield agent.memory
    if agent.record is not None:
        yield agent.record
    yield from agent.extensions
    for _, entries in _fixed_lists(agent):
        yield from _with_inner(entries)


def _with_inner(entries: Iterable[Any]) -> list[Any]:
    """Entries of lists, the processors within them, and those that do their work when they fail."""
    found: list[Any] = []
    for entry in entries:
        inner: Iterable[Any] = getattr(entry, "processors", ()) if is_workflow(entry) else ()
        for each in (entry, *inner):
            fallback = getattr(getattr(each, "policy", None), "fallback", None)
            found.extend([each] if fallback is None else [each, fallback])
    return found


def _checked_agent(agent: Any) -> Agent:
    if not isinstance(agent, Agent):
        raise OptionError(f"App: agents must hold Agents, not {type(agent).__name__}")
    return agent


def _kind_of(name: str, value: Any, kind: type[Any]) -> Any:
    if isinstance(value, type):  # which has the methods as well
        raise OptionError(f"App: {name} is the class {value.__name__}: make one of it")
    if value is not None and not isinstance(value, kind):
        raise OptionError(f"App: {name} must be a {kind.__name__}, not {type(value).__name__}")
    return value


def _checked_cache(cache: Any) -> Any:
    if cache is not None and not all(callable(getattr(cache, name, None)) for name in _CACHE):
        raise OptionError(f"App: cache must be a ServerCache, not {type(cache).__name__}")
    return cache


def _checked_tracing(tracing: Any) -> Tracing | None:
    if tracing is None:
        return None
    wanted = ("span", "flush", "shutdown")
    if not all(callable(getattr(tracing, name, None)) for name in wanted):
        raise OptionError(
            f"App: tracing must be a Tracing, not {type(tracing).__name__}; an observer that needs "
            f"no flush() and no shutdown() goes to the agents: Agent(observer=…)"
        )
    return cast("Tracing", tracing)
