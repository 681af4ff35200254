"""`Workspace` and `WorkspaceInstructionsProcessor`: B-340, B-342, R-019, R-233."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from procession import InputError, OptionError
from procession.errors import ConfigurationError
from procession.processor import processor
from procession.processors import (
    AgentsMDInjector,
    Skill,
    SkillSearchProcessor,
    SkillsProcessor,
    Workspace,
    WorkspaceInstructionsProcessor,
)
from tests.processors.working import add_skill, reader, run, use

if TYPE_CHECKING:
    from pathlib import Path

TEA = Skill(name="brew-tea", description="Make tea", instructions="Boil water.")


class Box:
    """A sandbox."""

    def instructions(self) -> str:
        return "Commands run in a box without a network.\n"


# ── what the model is told ─────────────────────────────────────────────────────────────────────


def test_attributes() -> None:
    """B-002."""
    found = WorkspaceInstructionsProcessor(workspace=Workspace(sandbox=Box()))
    assert found.id == "workspace-instructions-processor"


@pytest.mark.parametrize("stream", [False, True])
async def test_each_step_is_told_of_the_paths_and_the_sandbox(stream: bool, tmp_path: Path) -> None:
    """B-342."""
    (tmp_path / "skills").mkdir()
    workspace = Workspace(tmp_path, sandbox=Box(), skills=["skills"])
    found = WorkspaceInstructionsProcessor(workspace=workspace)
    got = await run(use("read_file"), stream=stream, processors=[found], tools=[reader()])
    assert len(got.texts) == 2
    for text in got.texts:
        assert text.count(str(workspace.root)) == 1
        assert "Skills are in: skills." in text
        assert "Commands run in a box without a network." in text


async def test_a_description_of_ones_own(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, description="Files are in ./data.")
    got = await run(processors=[WorkspaceInstructionsProcessor(workspace=workspace)])
    assert got.texts == ["Files are in ./data.\ngo"]


async def test_any_object_that_describes_itself() -> None:
    """Plain or async; nothing is added when it has nothing to say."""

    class Remote:
        text: Any = "At example.com."

        async def instructions(self) -> Any:
            return self.text

    remote = Remote()
    found = WorkspaceInstructionsProcessor(workspace=remote)
    assert (await run(processors=[found])).texts == ["At example.com.\ngo"]
    remote.text = " "
    assert (await run(processors=[found])).texts == ["go"]
    remote.text = None
    with pytest.raises(ConfigurationError, match="must give a text, not NoneType"):
        await run(processors=[found])


def test_a_workspace_that_says_nothing() -> None:
    """B-014."""
    wrong: Any = object()
    with pytest.raises(OptionError, match=r"workspace must have a method instructions\(\)"):
        WorkspaceInstructionsProcessor(workspace=wrong)


# ── what it brings to an agent ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_with_a_workspace_needs_no_processors(stream: bool, tmp_path: Path) -> None:
    """B-340, B-342: both are added by themselves."""
    add_skill(tmp_path / "skills", "zip", "Make archives")
    workspace = Workspace(tmp_path, skills=["skills", TEA])
    got = await run(use("load_skill", skillName="zip"), stream=stream, extensions=[workspace])
    assert got.results[0]["instructions"] == "How zip is done."
    for text in got.texts:
        assert str(workspace.root) in text
        assert "<location>skills/zip/SKILL.md</location>" in text and "brew-tea" in text


async def test_what_it_adds_survives_lists_of_the_call(tmp_path: Path) -> None:
    """R-019."""
    workspace = Workspace(tmp_path, skills=[TEA])
    got = await run(extensions=[workspace], input_processors=[])
    assert "brew-tea" in got.texts[0] and str(workspace.root) in got.texts[0]


async def test_only_what_there_is() -> None:
    """B-340, B-342: no skills, no list of them; no files and no sandbox, no description."""
    skills = await run(extensions=[Workspace(skills=[TEA])])
    box = await run(extensions=[Workspace(sandbox=Box())])
    assert skills.offered == [["load_skill"]] and "workspace" not in skills.texts[0]
    assert box.offered == [[]] and "<available_skills>" not in box.texts[0]


async def test_who_searches_skills_gets_no_list() -> None:
    """B-341: unless he adds one himself."""
    workspace = Workspace(skills=[TEA])
    search = SkillSearchProcessor(workspace=workspace)
    alone = await run(extensions=[workspace], processors=[search])
    both = await run(
        extensions=[workspace], processors=[search, SkillsProcessor(workspace=workspace)]
    )
    assert alone.texts == ["go"] and "<available_skills>" in both.texts[0]


async def test_ones_own_processor_takes_the_place_of_the_automatic_one() -> None:
    """R-021."""
    workspace = Workspace(skills=[TEA])
    own = SkillsProcessor(workspace=workspace, format="markdown")
    got = await run(extensions=[workspace], processors=[own])
    assert "## Available skills" in got.texts[0] and "<available_skills>" not in got.texts[0]


async def test_what_they_note_of_a_run_is_json(tmp_path: Path) -> None:
    """R-571: else a run that waits could not be kept as it is."""
    workspace = Workspace(tmp_path, skills=[TEA])
    (tmp_path / "AGENTS.md").write_text("Rules.", "utf-8")
    found: list[Any] = [
        SkillsProcessor(workspace=workspace),
        SkillSearchProcessor(workspace=workspace),
        WorkspaceInstructionsProcessor(workspace=workspace),
        AgentsMDInjector(root=tmp_path),
    ]
    states: dict[str, Any] = {}

    def spy(id: str) -> Any:
        """Processors of one id share a state."""
        note: Any = lambda args: states.update({id: args.state})  # noqa: E731
        return processor(id=id, process_input_step=note)

    spies = [spy(one.id) for one in found]
    calls = [use("read_file", path="x"), use("read_file", path="x"), use("read_file")]
    await run(*calls, processors=[*found, *spies], tools=[reader()])
    assert json.loads(json.dumps(states)) == states
    assert states["agents-md-injector"] and states["skills-processor"] and states["skill-search"]


# ── files and options ──────────────────────────────────────────────────────────────────────────


async def test_reading(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "notes").mkdir(parents=True)
    (root / "notes" / "a.md").write_text("hello", "utf-8")
    (tmp_path / "secret").write_text("SECRET", "utf-8")
    (root / "link").symlink_to(tmp_path / "secret")
    workspace = Workspace(root)
    assert workspace.root == root.resolve()
    assert await workspace.read_text("notes/a.md") == "hello"
    for path in ("../secret", str(tmp_path / "secret"), "link", "notes", "none"):
        with pytest.raises(InputError) as raised:
            await workspace.read_text(path)
        assert "SECRET" not in str(raised.value)
    without = Workspace(skills=[TEA])
    assert without.root is None and without.instructions() == ""
    with pytest.raises(InputError, match="without a root"):
        await without.read_text("a")


def test_a_root_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert Workspace(tmp_path / "link").root == (tmp_path / "real").resolve()


async def test_skills_of_several_kinds(tmp_path: Path) -> None:
    add_skill(tmp_path / "a", "zip")
    add_skill(tmp_path, "tar")
    workspace = Workspace(tmp_path, skills=[TEA, "a", tmp_path / "tar"])
    found = await workspace.list_skills()
    assert [skill.name for skill in found] == ["brew-tea", "tar", "zip"]
    assert [skill.location for skill in found] == [None, "tar/SKILL.md", "a/zip/SKILL.md"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give root, skills or sandbox"),
        ({"root": "missing"}, "root names no directory"),
        ({"root": 5}, "root must be the path of a directory, not int"),
        ({"root": ".", "skills": ["missing"]}, "each of skills names no directory"),
        ({"root": ".", "skills": [".."]}, "each of skills must be within the workspace's root"),
        ({"root": ".", "skills": ["/"]}, "each of skills must be within the workspace's root"),
        ({"root": ".", "skills": "skills"}, "skills must be a list"),
        ({"sandbox": object()}, r"sandbox must have a method instructions\(\)"),
        ({"root": ".", "description": 5}, "description must be a text"),
        ({"sandbox": Box(), "description": "x"}, "description is what is told of root"),
        ({"root": ".", "skill": []}, "has no option 'skill'; did you mean 'skills'"),
    ],
)
def test_options_that_cannot_be_used(
    options: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-014."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=f"^Workspace:? {said}"):
        Workspace(**options)
