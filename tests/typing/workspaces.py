"""Skills and workspaces, as type checkers see them."""

from pathlib import Path
from typing import Any

from procession import Agent, ProcessInputStepArgs
from procession.processors import (
    AgentsMDInjector,
    Skill,
    SkillSearchProcessor,
    SkillsProcessor,
    Workspace,
    WorkspaceInstructionsProcessor,
)

tea = Skill(name="tea", description="Make tea", instructions="Boil water.", files={"a": "b"})
no_text = Skill(name="tea", description="Make tea", instructions=5)  # type: ignore[arg-type] # a number


class Box:
    """A sandbox."""

    def instructions(self) -> str:
        """What the model has to know."""
        return "No network."


class Source:
    """Skills from a store."""

    async def list_skills(self) -> list[Skill]:
        """The skills of now."""
        return [tea]


class Reader:
    """Files that are elsewhere."""

    def path_exists(self, path: str, /) -> bool:
        """Whether it is there."""
        return True

    async def is_directory(self, path: str, /) -> bool:
        """Whether it is a directory."""
        return False

    async def read_file(self, path: str, /) -> str:
        """Its text."""
        return ""


def choose(args: ProcessInputStepArgs[Any]) -> Reader | None:
    """A reader for some requests."""
    return Reader() if args.request_context.get("remote") else None


def located(skill: Skill) -> str | None:
    """Where a skill is."""
    return skill.location


workspace = Workspace(Path("."), skills=[tea, "skills", Path("more")], sandbox=Box())
listed = SkillsProcessor(workspace=workspace, format="json", format_location=located)
searched = SkillSearchProcessor(workspace=Source(), search={"top_k": 3}, ttl=0)
told = WorkspaceInstructionsProcessor(workspace=Box())
injector = AgentsMDInjector(root="src", get_reader=choose)
agent = Agent(id="a", input_processors=[listed, searched, told, injector], extensions=[workspace])
wrong_format = SkillsProcessor(skills=[tea], format="yaml")  # type: ignore[arg-type] # no such format
no_source = SkillsProcessor(workspace=Box())  # type: ignore[arg-type] # has no skills
no_sandbox = Workspace(sandbox=Source())  # type: ignore[arg-type] # does not describe itself
