"""Which processors a call has: the lists of the agent or the call, and what extensions add."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ..errors import ConfigurationError
from ..extension import Around, Opening, check_extensions, joined
from ..options import ID, is_id
from ..processor import check_processors
from ..request_context import MASTRA_RESOURCE_ID_KEY, MASTRA_THREAD_ID_KEY, RequestContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..agent import Agent
    from ..extension import Extension
    from ..options import RequestScope

__all__ = [
    "LISTS",
    "around_of",
    "arounds_of",
    "combined",
    "extensions_of",
    "identity",
    "own_list",
    "own_lists",
    "resolved",
]

LISTS = ("input_processors", "output_processors", "error_processors")


def identity(options: Mapping[str, Any]) -> tuple[RequestContext, str | None, str | None]:
    """The request context, and the ids of thread and resource (R-809, R-816)."""
    asked = options.get("request_context")
    memory: Mapping[str, Any] | None = options.get("memory")
    if not asked and not memory:
        return RequestContext(), None, None
    context = asked if isinstance(asked, RequestContext) else RequestContext(asked)
    memory = memory or {}
    thread: Any = memory.get("thread")
    if isinstance(thread, Mapping):
        thread = cast("Mapping[str, Any]", thread).get("id")
    thread = context.get(MASTRA_THREAD_ID_KEY) or thread
    resource = context.get(MASTRA_RESOURCE_ID_KEY) or memory.get("resource")
    ids: dict[str, str] = {}
    for key, name, value in (
        (MASTRA_THREAD_ID_KEY, "thread", thread),
        (MASTRA_RESOURCE_ID_KEY, "resource", resource),
    ):
        if value and not is_id(value):
            kind = type(value).__name__
            raise ConfigurationError(
                f"the id of the {name}, in memory or request_context, must be {ID}; got {kind}"
            )
        if value:
            ids[key] = value
    return context.for_run(ids), ids.get(MASTRA_THREAD_ID_KEY), ids.get(MASTRA_RESOURCE_ID_KEY)


async def resolved(value: Any, scope: RequestScope) -> Any:
    """A value, or what a function of the request makes of it."""
    if inspect.isroutine(value) or (callable(value) and not isinstance(value, type)):
        if not hasattr(value, "stream"):  # a model object may be callable too
            value = value(scope)
    return await value if inspect.isawaitable(value) else value


async def own_lists(
    agent: Agent, options: Mapping[str, Any], scope: RequestScope
) -> list[list[Any]]:
    """The user's own three lists. `None` for a list means that it was not given (R-017)."""
    return [await own_list(agent, kind, options.get(kind), scope) for kind in LISTS]


async def own_list(agent: Agent, kind: str, asked: Any, scope: RequestScope) -> list[Any]:
    """One of them: what the call asks for, else the agent's."""
    configured = getattr(agent, kind)
    entries = await resolved(configured if asked is None else asked, scope)
    checked = check_processors(entries, kind)
    if asked is None and callable(configured) and agent.app is not None:
        agent.app.met(agent, kind, checked)
    return checked


async def extensions_of(agent: Agent, scope: RequestScope) -> Sequence[Extension]:
    """The agent's extensions, its memory first, which may be a function of the request (M-025)."""
    memory = agent.memory
    if memory is None:
        return agent.extensions
    if not hasattr(memory, "extend"):
        memory = await resolved(memory, scope)
        if memory is None:
            return agent.extensions
        if agent.app is not None:
            agent.app.met(agent, "memory", [memory])
    return check_extensions((memory, *agent.extensions))


async def arounds_of(extensions: Sequence[Extension], opening: Opening) -> list[Around]:
    """What each extension adds to the run."""
    return [await around_of(extension, opening) for extension in extensions]


async def around_of(extension: Any, opening: Opening) -> Around:
    """What one extension adds to the run."""
    added = extension.extend(opening)
    added = await added if inspect.isawaitable(added) else added
    if isinstance(added, Around):
        return added
    raise ConfigurationError(
        f"extension {type(extension).__name__}: extend() must give an Around, "
        f"not {type(added).__name__}"
    )


def combined(lists: Sequence[Sequence[Any]], arounds: Sequence[Around]) -> list[list[Any]]:
    """The three lists as they run: what extensions add stands around the user's own."""
    inputs, outputs, errors = map(list, lists)
    for added in arounds:
        inputs = joined(added.before_input, inputs, added.after_input)
        outputs = joined(added.before_output, outputs, added.after_output)
    automatic = [entry for added in arounds for entry in added.error]
    return [inputs, outputs, joined((), errors, automatic)]
