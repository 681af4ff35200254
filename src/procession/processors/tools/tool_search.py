"""`ToolSearchProcessor`: a large library of tools, of which the model sees what it has loaded."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct

from ...errors import ConfigurationError
from ...processor import ProcessInputStepResult
from ...request_context import MASTRA_RESOURCE_ID_KEY, MASTRA_THREAD_ID_KEY, RequestContext
from ...tools import Tool, tool_map
from ..builtin import BuiltIn
from ..option_checks import callback, flag, mapping_of, number, one_of, whole
from .loaded_tools import LoadedTools, ToolSearchStats, named_in
from .tool_index import ToolIndex
from .tool_shelf import LOAD, SEARCH, Phase, ToolSearchOptions, ToolShelf

if TYPE_CHECKING:
    from ...policy import Policy
    from ...processor import ProcessInputStepArgs, ProcessorViolation

__all__ = ["ToolFilterArgs", "ToolSearchProcessor"]

_log = logging.getLogger("procession.processors")

_NO_THREAD = "default"
_TAG = "tool-search"


class ToolFilterArgs(Struct, frozen=True, kw_only=True):
    """What the `filter` of a `ToolSearchProcessor` is asked about.

    `phase` is `search` (may it be found?), `load` (may it be loaded?) or `active` (may a loaded
    one be called in this step?).
    """

    tool_name: str
    tool: Tool
    request_context: RequestContext
    phase: Phase


class ToolSearchProcessor(BuiltIn):
    """Offers `search_tools` and `load_tool` in place of a whole library of tools (B-320 to B-329).

    `tools` are the library: a mapping from the names that the model calls them by, or a list. A
    tool that was loaded is offered from the next step on, and in later runs of the thread.

    `search` has `top_k` (how many hits), `min_score` and `auto_load` (hits are loaded at once).
    `storage="in-memory"` remembers per thread and resource what is loaded, until it is not used for
    `ttl` milliseconds (0: until the process ends), of the 10,000 threads used last, and requests
    without a thread share one: give each conversation its own. `"context"` goes by the results in
    the messages. `filter` is asked, plain or async, about each tool and phase; when it raises, the
    answer is no. With `include_resolved_tools` the request's own tools are searched as well,
    instead of being offered. With `inject_catalog` a system message lists all there are.

    Raises `ConfigurationError` in a run whose tools are called like one of the two, and at once
    for such a tool in `tools`; `OptionError` for an option that cannot be used.
    """

    fixed_id = "tool-search"
    name = "Tool Search Processor"

    def __init__(
        self,
        *,
        tools: Mapping[str, Tool] | Iterable[Tool],
        search: Mapping[str, Any] | None = None,
        include_resolved_tools: bool = False,
        inject_catalog: bool = False,
        storage: Literal["in-memory", "context"] = "in-memory",
        ttl: float = 3_600_000,
        filter: Callable[[ToolFilterArgs], Any] | None = None,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=on_violation, policy=policy)
        owner = type(self).__name__
        self._library, self._ids = _library(tools)
        self._options = _search_options(owner, search)
        self._takes_resolved = flag(owner, "include_resolved_tools", include_resolved_tools)
        self._shows_catalog = flag(owner, "inject_catalog", inject_catalog)
        in_memory = one_of(owner, "storage", storage, ("in-memory", "context")) == "in-memory"
        forgets_after = number(owner, "ttl", ttl) / 1000
        self._memory = LoadedTools(forgets_after) if in_memory else None
        self._filter = callback(owner, "filter", filter)
        self._index = ToolIndex(self._library)

    # ── the hook ───────────────────────────────────────────────────────────────────────────────

    async def process_input_step(self, args: ProcessInputStepArgs[Any]) -> ProcessInputStepResult:
        """The tools of this step: those of the agent, the two to search with, the loaded ones."""
        for name in (SEARCH, LOAD):
            if name in args.tools:
                raise ConfigurationError(_taken(name))
        withheld = self._withheld(args)
        findable = {**self._library, **withheld}
        others = {name: tool for name, tool in args.tools.items() if name not in withheld}
        loaded = self._loaded(args)
        allows = partial(self._allows, args.request_context)
        shelf = ToolShelf(
            findable,
            ids=self._ids,
            index=(lambda: ToolIndex(findable)) if withheld else (lambda: self._index),
            options=self._options,
            allows=allows,
            loaded=loaded,
            load=self._loader(args),
        )
        meta = shelf.meta_tools()
        active = {
            name: findable[name]
            for name in loaded
            if name in findable and name not in others
            if await allows(name, findable[name], "active")
        }
        if self._shows_catalog:
            await self._show_catalog(args, findable)
        result = ProcessInputStepResult(tools={**others, **meta, **active})
        if args.active_tools:
            # They choose among the agent's own tools: an empty list still means none at all.
            own = [name for name in args.active_tools if name in others]
            result.active_tools = list(dict.fromkeys([*own, *meta, *active]))
        return result

    def _withheld(self, args: ProcessInputStepArgs[Any]) -> dict[str, Tool]:
        """The request's own tools that are to be found instead of being offered (B-328).

        What may not be used in this step cannot be found, and what has to be used is offered.
        """
        if not self._takes_resolved:
            return {}
        allowed, forced = args.active_tools, _forced(args.tool_choice)
        return {
            name: tool
            for name, tool in args.tools.items()
            if name != forced and (allowed is None or name in allowed)
        }

    async def _allows(self, context: RequestContext, name: str, tool: Tool, phase: Phase) -> bool:
        """What the filter says (B-327). A verdict and a cancellation are no answer: they pass."""
        if self._filter is None:
            return True
        asked = ToolFilterArgs(tool_name=name, tool=tool, request_context=context, phase=phase)
        try:
            said = self._filter(asked)
            return bool(await said if inspect.isawaitable(said) else said)
        except Exception as error:
            _log.warning(
                "processor %r: filter raised %s in phase %r; tool %r counts as not allowed",
                *(self.id, type(error).__name__, phase, name),
            )
            return False

    async def _show_catalog(
        self, args: ProcessInputStepArgs[Any], tools: Mapping[str, Tool]
    ) -> None:
        """List what can be found, in a system message of this step (B-329, R-086)."""
        lines = [
            # One line for each, whatever a description says.
            f"- {name}: {' '.join(tool.description.split())}"
            for name, tool in tools.items()
            if await self._allows(args.request_context, name, tool, "search")
        ]
        if lines:
            how = f"found and loaded with {SEARCH}"
            if not self._options.auto_load:
                how = f"loaded by name with {LOAD}"
            args.message_list.add_system("\n".join([f"Tools that can be {how}:", *lines]), _TAG)

    # ── what is loaded ─────────────────────────────────────────────────────────────────────────

    def _loaded(self, args: ProcessInputStepArgs[Any]) -> list[str]:
        if self._memory is not None:
            return self._memory.of(_thread(args), _resource(args))
        loading = SEARCH if self._options.auto_load else LOAD
        return named_in(args.messages, frozenset((loading, LOAD)))

    def _loader(self, args: ProcessInputStepArgs[Any]) -> Callable[[list[str]], None]:
        if self._memory is None:
            return _in_the_result
        return partial(self._memory.add, _thread(args), resource=_resource(args))

    def clear_state(self, thread_id: str = _NO_THREAD) -> None:
        """Forget what is loaded in a thread, whichever resource has it (B-325).

        Without effect with `storage="context"` (B-326).
        """
        if self._memory is not None:
            self._memory.clear(thread_id)

    def clear_all_state(self) -> None:
        """Forget what is loaded in all threads; without effect with `storage="context"`."""
        if self._memory is not None:
            self._memory.clear()

    def get_state_stats(self) -> ToolSearchStats:
        """In how many threads tools are loaded, and the time of the oldest use (B-325)."""
        if self._memory is None:
            return {"thread_count": 0, "oldest_access_time": None}
        return self._memory.stats()

    def cleanup_now(self) -> int:
        """Forget threads that were not used for `ttl`; how many. It also happens by itself."""
        return 0 if self._memory is None else self._memory.clean_up()


def _in_the_result(_names: list[str]) -> None:
    """With `storage="context"` the result that names a tool is what loads it."""


def _thread(args: ProcessInputStepArgs[Any]) -> str:
    return args.request_context.get(MASTRA_THREAD_ID_KEY) or _NO_THREAD


def _resource(args: ProcessInputStepArgs[Any]) -> str | None:
    return args.request_context.get(MASTRA_RESOURCE_ID_KEY) or None


def _forced(choice: Any) -> str | None:
    """The tool that the model has to call, if it is a certain one."""
    return (
        cast("Mapping[str, Any]", choice).get("toolName") if isinstance(choice, Mapping) else None
    )


def _library(
    tools: Mapping[str, Tool] | Iterable[Tool],
) -> tuple[dict[str, Tool], dict[str, str]]:
    """The tools by the names they are called by, and these names by the tools' own ids."""
    named = tool_map(tools)
    for name in (SEARCH, LOAD):
        if name in named:
            raise ConfigurationError(_taken(name))
    return named, _ids(cast("Mapping[str, Any]", tools) if isinstance(tools, Mapping) else named)


def _ids(tools: Mapping[str, Any]) -> dict[str, str]:
    """The names of tools by their own names, where they are called otherwise."""
    found: dict[str, str] = {}
    for name, entry in tools.items():
        own = getattr(entry, "name", name)
        if own != name:
            found.setdefault(own, name)
    return found


def _taken(name: str) -> str:
    return (
        f"a tool is called {name!r}, which is the name of a tool of ToolSearchProcessor: rename "
        "it, and use one ToolSearchProcessor per agent"
    )


def _search_options(owner: str, given: Any) -> ToolSearchOptions:
    options = mapping_of(owner, "search", given, ToolSearchOptions.__struct_fields__)
    usual = ToolSearchOptions()
    return ToolSearchOptions(
        top_k=whole(owner, "search.top_k", options.get("top_k", usual.top_k), least=1),
        min_score=number(owner, "search.min_score", options.get("min_score", usual.min_score)),
        auto_load=flag(owner, "search.auto_load", options.get("auto_load", usual.auto_load)),
    )
