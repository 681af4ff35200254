"""What the tests of skills and workspaces share: folders with skills, and scripted runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from procession import Agent, Tool
from procession.testing import ScriptedModel, answer, tool_call

if TYPE_CHECKING:
    from pathlib import Path


def skill_md(name: str, description: str, body: str = "Do it well.") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n"


def add_skill(root: Path, name: str, description: str = "Something", **files: str) -> Path:
    """A folder with a skill; `files` are written beside its SKILL.md."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(skill_md(name, description, f"How {name} is done."), "utf-8")
    for file, text in files.items():
        (folder / file).write_text(text, "utf-8")
    return folder


def use(name: str, **arguments: Any) -> Any:
    return answer(tool_calls=[tool_call(name, arguments)])


def reader(name: str = "read_file") -> Tool:
    """A tool that takes a path, and does nothing with it."""

    async def execute(_arguments: Any, _context: Any) -> str:
        return "read"

    return Tool(name=name, execute=execute)


class Ran:
    """One run: the prompts, what was offered, and the results of the tools."""

    def __init__(self, model: ScriptedModel, results: Any, messages: Any) -> None:
        self.offered = [call.tool_names for call in model.calls]
        self.texts = [call.text for call in model.calls]
        self.results: list[Any] = [chunk.payload.result for chunk in results]
        self.messages: list[Any] = list(messages)


async def run(*script: Any, stream: bool = False, **options: Any) -> Ran:
    """A run of a scripted model; `processors`, `tools` and `extensions` are the agent's."""
    model = ScriptedModel([*script, "done"])
    agent = Agent(
        id="a",
        model=model,
        tools=options.pop("tools", ()),
        input_processors=options.pop("processors", ()),
        extensions=options.pop("extensions", ()),
    )
    given = options.pop("given", "go")
    if not stream:
        result = await agent.generate(given, max_steps=10, **options)
        return Ran(model, result.tool_results, result.messages)
    running = await agent.stream(given, max_steps=10, **options)
    async for _ in running:
        pass
    return Ran(model, await running.tool_results, running.message_list.messages())
