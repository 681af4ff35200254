"""What one step may find and load: the tools `search_tools` and `load_tool` (B-320 to B-324)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from ...tools import Tool

if TYPE_CHECKING:
    from .tool_index import ToolIndex

__all__ = ["LOAD", "SEARCH", "Allows", "Phase", "ToolSearchOptions", "ToolShelf"]

SEARCH, LOAD = "search_tools", "load_tool"

Phase = Literal["search", "load", "active"]
Allows = Callable[[str, Tool, Phase], Awaitable[bool]]
"""Whether a tool may be used in a phase: `(name, tool, phase)`."""

_SHOWN = 100
"""So many characters of a name that the model made up are repeated to it."""
_SUGGESTED = 3
_NAMED = 10
"""So many tools are named to a model whose search found nothing."""
_COMPARED = 1_000
"""So many names are compared letter by letter with one that does not exist."""


class ToolSearchOptions(Struct, frozen=True, kw_only=True):
    """How tools are searched: at most `top_k` of at least `min_score`, loaded at once or not."""

    top_k: int = 5
    min_score: float = 0.0
    auto_load: bool = False


_QUERY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "Words for what the tool does, for example: weather forecast city",
        }
    },
    "required": ["query"],
}
_NAMES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "toolName": {"type": "string", "description": "The name of one tool."},
        "toolNames": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The names of several tools, loaded together.",
        },
    },
}
_SEARCH_ONLY = (
    "More tools exist than are shown. This finds those that fit some words, by name and "
    f"description. Load what you need with {LOAD}, then call it by its name."
)
_SEARCH_AND_LOAD = (
    "More tools exist than are shown. This finds and loads those that fit some words, by name and "
    "description; from your next step on you can call them by name."
)
_LOADS = f"Loads tools that {SEARCH} has found. From your next step on you can call them by name."


class ToolShelf:
    """The tools that can be found in one step, and the tools to find and load them with.

    `tools` are those that can be found, by the names they are called by; `ids` gives the name for
    the id of one that is called otherwise. `loaded` are the names loaded before this step, and
    `load` is told of more.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        *,
        ids: Mapping[str, str],
        index: Callable[[], ToolIndex],
        options: ToolSearchOptions,
        allows: Allows,
        loaded: Iterable[str],
        load: Callable[[list[str]], None],
    ) -> None:
        self._tools = tools
        self._ids = ids
        self._index = index
        self._options = options
        self._allows = allows
        self._loaded = set(loaded)
        self._load = load

    def meta_tools(self) -> dict[str, Tool]:
        """`search_tools`, and `load_tool` unless what is found is loaded at once (B-324)."""
        at_once = self._options.auto_load
        search = Tool(
            name=SEARCH,
            description=_SEARCH_AND_LOAD if at_once else _SEARCH_ONLY,
            input_schema=_QUERY,
            execute=self._search,
            takes_context=False,
        )
        if at_once:
            return {SEARCH: search}
        load = Tool(
            name=LOAD,
            description=_LOADS,
            input_schema=_NAMES,
            execute=self._load_named,
            takes_context=False,
        )
        return {SEARCH: search, LOAD: load}

    # ── searching ──────────────────────────────────────────────────────────────────────────────

    async def _search(self, arguments: Mapping[str, Any], _context: Any) -> dict[str, Any]:
        """What the model gets of a search (B-321)."""
        phases: tuple[Phase, ...] = ("search",)
        if self._options.auto_load:
            phases = ("search", "load", "active")
        hits = await self._hits(arguments["query"], phases)
        names = [name for name, _ in hits]
        if self._options.auto_load:
            self._note(names)
        results = [
            {"name": name, "description": self._tools[name].description, "score": round(score, 4)}
            for name, score in hits
        ]
        return {"results": results, "message": await self._found(names)}

    async def _hits(self, query: str, phases: tuple[Phase, ...]) -> list[tuple[str, float]]:
        hits: list[tuple[str, float]] = []
        for name, score in self._index().ranked(query):
            if score < self._options.min_score or len(hits) == self._options.top_k:
                break
            if await self._allowed(name, *phases):
                hits.append((name, score))
        return hits

    async def _found(self, names: list[str]) -> str:
        if not names:
            others = await self._first_allowed(self._tools, _NAMED)
            some = f" Some of the tools: {', '.join(others)}." if others else ""
            return (
                "No tool was found. Try other words, in the language of the tools' "
                f"descriptions.{some}"
            )
        if self._options.auto_load:
            return f"{_tools(len(names))} found and loaded: call by name from your next step on."
        return f"{_tools(len(names))} found. Load what you need with {LOAD} before you call it."

    # ── loading ────────────────────────────────────────────────────────────────────────────────

    async def _load_named(self, arguments: Mapping[str, Any], _context: Any) -> dict[str, Any]:
        """What the model gets when it loads one tool or several (B-322)."""
        one: str | None = arguments.get("toolName") or None
        several: list[str] | None = arguments.get("toolNames") or None
        if several is not None:
            return await self._load_several([*several, *([one] if one else ())])
        if one is not None:
            return await self._load_one(one)
        return {"success": False, "message": "Say which: give toolName, or toolNames for several."}

    async def _load_one(self, asked: str) -> dict[str, Any]:
        name = await self._loadable(asked)
        if name is None:
            return {"success": False, "message": await self._missing([asked]), "toolName": asked}
        known = name in self._loaded
        self._note([name])
        said = "was loaded before: call it" if known else "is loaded: call it from your next step"
        return {"success": True, "message": f"{name!r} {said}.", "toolName": name}

    async def _load_several(self, asked: list[str]) -> dict[str, Any]:
        loaded: list[str] = []
        missing: list[str] = []
        known: list[str] = []
        for entry in dict.fromkeys(asked):
            name = await self._loadable(entry)
            if name is None:
                missing.append(entry)
            elif name in self._loaded:
                known.append(name)
            elif name not in loaded:
                loaded.append(name)
        self._note([*loaded, *known])
        parts = [f"Loaded {_tools(len(loaded))}."] if loaded else []
        parts += [f"{_tools(len(known))} had been loaded before."] if known else []
        parts += [await self._missing(missing)] if missing else []
        return {
            "success": bool(loaded or known),
            "message": " ".join(parts),
            "loadedCount": len(loaded),
            "loaded": loaded,
            "notFound": missing,
            "alreadyLoaded": known,
        }

    async def _loadable(self, asked: str) -> str | None:
        """The name of the tool that `asked` stands for; `None` when it may not be loaded."""
        name = asked if asked in self._tools else self._ids.get(asked, "")
        if name in self._tools and await self._allowed(name, "load", "active"):
            return name
        return None

    async def _missing(self, asked: list[str]) -> str:
        """That tools are not there, and what may have been meant."""
        near: dict[str, None] = {}
        for name in asked[:_NAMED]:
            near.update(dict.fromkeys(await self._suggested(name[:_SHOWN])))
        shown = ", ".join(repr(name[:_SHOWN]) for name in asked[:_NAMED])
        hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"Look with {SEARCH}."
        return f"Not available: {shown}. {hint}"

    async def _suggested(self, name: str) -> list[str]:
        found = [near for near, _ in self._index().ranked(name)]
        found += get_close_matches(name, list(self._tools)[:_COMPARED], n=_SUGGESTED)
        others = [near for near in dict.fromkeys(found) if near != name]
        return await self._first_allowed(others, _SUGGESTED)

    # ── shared ─────────────────────────────────────────────────────────────────────────────────

    def _note(self, names: list[str]) -> None:
        if names:
            self._load(names)

    async def _first_allowed(self, names: Iterable[str], most: int) -> list[str]:
        """The first tools that may be shown."""
        found: list[str] = []
        for name in names:
            if len(found) == most:
                break
            if await self._allowed(name, "search"):
                found.append(name)
        return found

    async def _allowed(self, name: str, *phases: Phase) -> bool:
        for phase in phases:
            if not await self._allows(name, self._tools[name], phase):
                return False
        return True


def _tools(count: int) -> str:
    return "1 tool" if count == 1 else f"{count} tools"
