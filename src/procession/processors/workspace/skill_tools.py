"""The tools by which a model gets at skills: load one, read a file of it, search for some."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...errors import ConfigurationError, InputError
from ...processor import ProcessInputStepResult
from ...tools import Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ...processor import ProcessInputStepArgs
    from ..tools.tool_index import ToolIndex
    from .skill import Skill

__all__ = [
    "LOAD",
    "READ",
    "SEARCH",
    "SearchShelf",
    "SkillSearchOptions",
    "SkillShelf",
    "SkillTool",
    "earlier_tools",
    "offered",
]

SEARCH, LOAD, READ = "search_skills", "load_skill", "read_skill_file"

_SHOWN = 100
"""So many characters of a name that the model made up are repeated to it."""
_SUGGESTED = 3
_NAMED = 10
"""So many skills are named to a model whose search found nothing."""
_COMPARED = 1_000
"""So many names are compared letter by letter with one that does not exist."""


class SkillTool(Tool, kw_only=True):
    """A tool of these processors, which is told from one of the user's by its class."""


class SkillSearchOptions(Struct, frozen=True, kw_only=True):
    """How skills are searched: at most `top_k` of at least `min_score`."""

    top_k: int = 5
    min_score: float = 0.0


def _schema(**descriptions: str) -> dict[str, Any]:
    fields = {name: {"type": "string", "description": text} for name, text in descriptions.items()}
    return {"type": "object", "properties": fields, "required": list(descriptions)}


_NAME = "The name of the skill."
_SCHEMAS = {
    SEARCH: _schema(query="Words for what is to be done, for example: fill in a form"),
    LOAD: _schema(skillName=_NAME),
    READ: _schema(skillName=_NAME, path="The path of the file, as the skill names it."),
}
_DESCRIPTIONS = {
    SEARCH: (
        "Skills are instructions for certain kinds of work. This finds those that fit some words, "
        f"by name and description. Load what you need with {LOAD}."
    ),
    LOAD: "Gives you the instructions of a skill. Load one before you do what it is for.",
    READ: "Gives you the text of a file that belongs to a skill, such as a reference or a script.",
}


class SkillShelf:
    """The skills of one step, and the tools for them.

    `earlier` are the tools of a processor before this one: what is no skill here may be one there.
    """

    def __init__(self, skills: Collection[Skill], earlier: Mapping[str, Tool]) -> None:
        self.skills = {skill.name: skill for skill in skills}
        self._earlier = earlier

    def tools(self) -> dict[str, SkillTool]:
        """`load_skill`, and `read_skill_file` where a skill may have files."""
        tools = {LOAD: _tool(LOAD, self._load)}
        if any(skill.has_files for skill in self.skills.values()):
            tools[READ] = _tool(READ, self._read)
        return tools

    async def _load(self, arguments: Mapping[str, Any], context: Any) -> Any:
        asked: str = arguments["skillName"]
        skill = self.skills.get(asked.strip())
        if skill is None:
            return await self._elsewhere(LOAD, arguments, context)
        return {"success": True, **self.given(skill), "files": await skill.file_names()}

    def given(self, skill: Skill) -> dict[str, Any]:
        """What the model gets when it loads a skill."""
        return {
            "message": f"This is how {skill.name!r} is done.",
            "skillName": skill.name,
            "instructions": skill.instructions,
        }

    async def _read(self, arguments: Mapping[str, Any], context: Any) -> Any:
        asked: str = arguments["skillName"]
        skill = self.skills.get(asked.strip())
        if skill is None:
            return await self._elsewhere(READ, arguments, context)
        try:
            content = await skill.read(arguments["path"])
        except InputError as error:
            names = await skill.file_names()
            there = f" It has {', '.join(names[:_NAMED])}." if names else " It has no files."
            return {"success": False, "message": f"{error}.{there}", "skillName": skill.name}
        return {"success": True, "skillName": skill.name, "content": content}

    async def _elsewhere(self, tool: str, arguments: Mapping[str, Any], context: Any) -> Any:
        earlier = self._earlier.get(tool)
        if earlier is not None:
            return await earlier.run(arguments, context)
        asked: str = arguments["skillName"]
        near = self.near(asked)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        return {"success": False, "message": f"There is no skill {asked[:_SHOWN]!r}.{hint}"}

    def near(self, asked: str) -> list[str]:
        """The skills whose names are nearly the one asked for."""
        names = list(self.skills)[:_COMPARED]
        return get_close_matches(asked[:_SHOWN], names, n=_SUGGESTED)


class SearchShelf(SkillShelf):
    """Skills that are found by a search; what is loaded is told to `load`."""

    def __init__(
        self,
        skills: Collection[Skill],
        earlier: Mapping[str, Tool],
        *,
        index: ToolIndex,
        options: SkillSearchOptions,
        load: Callable[[list[str]], None],
    ) -> None:
        super().__init__(skills, earlier)
        self._index = index
        self._options = options
        self._note = load

    def tools(self) -> dict[str, SkillTool]:
        """`search_skills` before the others."""
        return {SEARCH: _tool(SEARCH, self._search), **super().tools()}

    async def _search(self, arguments: Mapping[str, Any], _context: Any) -> dict[str, Any]:
        hits = [
            {"name": name, "description": self.skills[name].description, "score": round(score, 4)}
            for name, score in self._index.ranked(arguments["query"])[: self._options.top_k]
            if score >= self._options.min_score
        ]
        return {"results": hits, "message": self._found(len(hits))}

    def _found(self, count: int) -> str:
        if count:
            return f"{count} found. Load what you need with {LOAD} before you do what it is for."
        some = ", ".join(list(self.skills)[:_NAMED])
        return (
            "No skill was found. Try other words, in the language of the skills' descriptions. "
            f"Some of the skills: {some}."
        )

    def given(self, skill: Skill) -> dict[str, Any]:
        """That the instructions are there from the next step on."""
        self._note([skill.name])
        said = f"{skill.name!r} is loaded: from your next step on you have its instructions."
        return {"message": said, "skillName": skill.name}

    def near(self, asked: str) -> list[str]:
        """Those that the search finds, too."""
        found = [name for name, _ in self._index.ranked(asked)]
        return list(dict.fromkeys([*found, *super().near(asked)]))[:_SUGGESTED]


def _tool(name: str, execute: Callable[[Any, Any], Any]) -> SkillTool:
    return SkillTool(
        name=name,
        description=_DESCRIPTIONS[name],
        input_schema=_SCHEMAS[name],
        execute=execute,
        takes_context=False,
    )


def earlier_tools(
    owner: str, args: ProcessInputStepArgs[Any], names: Collection[str]
) -> dict[str, Tool]:
    """The tools of these names that a processor of skills has added before.

    Raises `ConfigurationError` for one that is the user's own: it would not be called any more.
    """
    found = {name: args.tools[name] for name in names if name in args.tools}
    for name, tool in found.items():
        if not isinstance(tool, SkillTool):
            raise ConfigurationError(
                f"a tool is called {name!r}, which is the name of a tool of {owner}: rename it"
            )
    return found


def offered(args: ProcessInputStepArgs[Any], tools: Mapping[str, Tool]) -> ProcessInputStepResult:
    """The step with these tools beside its own.

    `active_tools` choose among the agent's own: an empty list still means none at all.
    """
    result = ProcessInputStepResult(tools={**args.tools, **tools})
    if args.active_tools:
        result.active_tools = list(dict.fromkeys([*args.active_tools, *tools]))
    return result
