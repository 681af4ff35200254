"""`SkillsProcessor`: B-340. Skills as values and in folders."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, OptionError
from procession.errors import ConfigurationError
from procession.processor import ProcessInputStepArgs, processor
from procession.processors import Skill, SkillSearchProcessor, SkillsProcessor
from procession.processors.workspace import skill_library
from procession.processors.workspace.skill import LONGEST_DESCRIPTION
from procession.testing import ScriptedModel, hook_args
from tests.processors.working import add_skill, reader, run, skill_md, use

if TYPE_CHECKING:
    from pathlib import Path

PDF = Skill(
    name="pdf",
    description="Fill in PDF forms",
    instructions="Use the form tool.",
    files={"references/forms.md": "All about forms."},
)
TEA = Skill(name="brew-tea", description="Make <tea>\nfor two", instructions="Boil water.")
TOOLS = ["load_skill", "read_skill_file"]


def listed(*skills: Any, **options: Any) -> SkillsProcessor:
    return SkillsProcessor(skills=skills, **options)


async def text_of(found: SkillsProcessor, step: int = 0, state: Any = None) -> str:
    """The system message of one step."""
    args = hook_args(ProcessInputStepArgs, step_number=step, state={} if state is None else state)
    await found.process_input_step(args)
    told = args.message_list.get_system_messages("skills")
    assert len(told) <= 1
    return told[0]["content"] if told else ""


# ── the list ───────────────────────────────────────────────────────────────────────────────────


def test_attributes() -> None:
    """B-002."""
    found = listed(PDF)
    assert (found.id, found.name, found.on_violation) == (
        "skills-processor",
        "Skills Processor",
        None,
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_the_model_is_told_of_all_skills_by_name(stream: bool, tmp_path: Path) -> None:
    """B-340: name, description and location, one system message in each step."""
    add_skill(tmp_path, "zip", "Make archives")
    found = listed(PDF, tmp_path, TEA)
    got = await run(use("load_skill", skillName="pdf"), stream=stream, processors=[found])
    for text in got.texts:
        assert text.count("<available_skills>") == 1
        places = [text.index(f"<name>{name}</name>") for name in ("brew-tea", "pdf", "zip")]
        assert places == sorted(places)
        assert "<description>Fill in PDF forms</description>" in text
        assert f"<location>{tmp_path / 'zip' / 'SKILL.md'}</location>" in text
    assert got.offered == [TOOLS] * 2


async def test_xml_is_escaped_and_each_value_on_one_line() -> None:
    """B-340: a description ends neither its element nor its line."""
    assert "<description>Make &lt;tea&gt; for two</description>" in await text_of(listed(TEA))
    markdown = await text_of(listed(TEA, format="markdown"))
    assert "- **brew-tea**: Make <tea> for two\n" in markdown


async def test_json() -> None:
    """B-340."""
    text = await text_of(listed(TEA, PDF, format="json", format_location=lambda s: f"at:{s.name}"))
    parsed = json.loads(text.splitlines()[0])
    assert parsed["available_skills"] == [
        {"name": "brew-tea", "description": "Make <tea> for two", "location": "at:brew-tea"},
        {"name": "pdf", "description": "Fill in PDF forms", "location": "at:pdf"},
    ]


async def test_markdown_with_a_location() -> None:
    """B-340: `format_location` may give the place, or nothing."""
    there = Skill(name="a", description="b", instructions="c", location="/skills/a")
    assert "- **a**: b (/skills/a)\n" in await text_of(listed(there, format="markdown"))
    hidden = listed(there, format="markdown", format_location=lambda _skill: None)
    assert "- **a**: b\n" in await text_of(hidden)


async def test_without_skills_nothing_is_added(tmp_path: Path) -> None:
    got = await run(processors=[listed(tmp_path)], tools=[reader()])
    assert got.texts == ["go"] and got.offered == [["read_file"]]


async def test_active_tools_choose_among_the_agents_own() -> None:
    own = [reader("a"), reader("b")]
    some = await run(processors=[listed(PDF)], tools=own, active_tools=["a"])
    none = await run(processors=[listed(PDF)], tools=own, active_tools=[])
    assert some.offered == [["a", *TOOLS]] and none.offered == [[]]


async def test_a_long_list_is_told_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    many = [Skill(name=f"s{n}", description="d", instructions="") for n in range(1_000)]
    found = listed(*many)
    with caplog.at_level(logging.WARNING, "procession"):
        assert (await text_of(found)).count("<skill>") == 1_000
        await text_of(found)
    (record,) = caplog.records
    assert "lists 1000 skills" in record.message and "SkillSearchProcessor" in record.message


# ── the tools ──────────────────────────────────────────────────────────────────────────────────


async def test_a_skill_is_loaded_and_its_files_are_read(tmp_path: Path) -> None:
    folder = add_skill(tmp_path, "zip", "Make archives")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "pack.py").write_text("print(1)\n", "utf-8")
    got = await run(
        use("load_skill", skillName="zip"),
        use("read_skill_file", skillName="zip", path="scripts/pack.py"),
        use("load_skill", skillName=" pdf "),
        use("read_skill_file", skillName="pdf", path="references/forms.md"),
        processors=[listed(PDF, tmp_path)],
    )
    loaded, script, value, reference = got.results
    assert loaded["success"] is True and loaded["files"] == ["scripts/pack.py"]
    assert loaded["instructions"] == "How zip is done."
    assert script == {"success": True, "skillName": "zip", "content": "print(1)\n"}
    assert (value["instructions"], value["files"]) == (PDF.instructions, ["references/forms.md"])
    assert reference["content"] == "All about forms."


@pytest.mark.parametrize("path", ["../../secret", "/etc/passwd", "link", "none", "bytes", "huge"])
async def test_what_is_no_file_of_the_skill_is_not_read(path: str, tmp_path: Path) -> None:
    """The run goes on: the model is told what is wrong, and what there is."""
    folder = add_skill(tmp_path / "skills", "zip", readme="hi")
    (tmp_path / "secret").write_text("SECRET", "utf-8")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "bytes").write_bytes(b"\xff\xfeSECRET")
    (folder / "huge").write_text("SECRET" * 30_000)
    asked = use("read_skill_file", skillName="zip", path=path)
    got = await run(asked, processors=[listed(tmp_path / "skills")])
    (result,) = got.results
    assert result["success"] is False and "readme" in result["message"]
    assert "SECRET" not in json.dumps(got.texts)


async def test_a_value_has_only_the_files_it_was_given() -> None:
    got = await run(
        use("read_skill_file", skillName="pdf", path="x"),
        use("read_skill_file", skillName="brew-tea", path="x"),
        processors=[listed(PDF, TEA)],
    )
    assert "It has references/forms.md." in got.results[0]["message"]
    assert "It has no files." in got.results[1]["message"]


async def test_no_tool_for_files_where_there_are_none() -> None:
    assert (await run(processors=[listed(TEA)])).offered == [["load_skill"]]


async def test_an_unknown_skill() -> None:
    got = await run(
        use("load_skill", skillName="pfd"),
        use("read_skill_file", skillName="x" * 500, path="y"),
        processors=[listed(PDF)],
    )
    near, far = got.results
    assert near == {
        "success": False,
        "message": "There is no skill 'pfd'. Did you mean 'pdf'?",
    }
    assert far["success"] is False and len(far["message"]) < 200


@pytest.mark.parametrize("name", TOOLS)
async def test_a_tool_of_the_users_with_the_same_name(name: str) -> None:
    """Neither of the two is hidden by the other in silence."""
    with pytest.raises(ConfigurationError, match=f"'{name}'.*SkillsProcessor: rename"):
        await run(processors=[listed(PDF)], tools=[reader(name)])


async def test_a_skill_may_be_called_like_a_tool() -> None:
    skill = Skill(name="read_file", description="How to read", instructions="Slowly.")
    got = await run(
        use("load_skill", skillName="read_file"),
        use("read_file"),
        processors=[listed(skill)],
        tools=[reader()],
    )
    assert [got.results[0]["instructions"], got.results[1]] == ["Slowly.", "read"]


@pytest.mark.parametrize("search_first", [False, True])
async def test_beside_a_search_both_kinds_of_skills_are_found(search_first: bool) -> None:
    """B-341: who adds both has both, whatever skills each of them has, in any order."""
    both: list[Any] = [listed(PDF), SkillSearchProcessor(skills=[TEA])]
    got = await run(
        use("load_skill", skillName="pdf"),
        use("load_skill", skillName="brew-tea"),
        use("read_skill_file", skillName="pdf", path="references/forms.md"),
        processors=both[::-1] if search_first else both,
    )
    assert got.results[0]["instructions"] == PDF.instructions
    assert got.results[1]["success"] is True and "# Skill: brew-tea" in got.texts[-1]
    assert got.results[2]["content"] == "All about forms."


async def test_two_lists_of_skills() -> None:
    """R-191: they share a state, and each keeps what is its own."""
    got = await run(
        use("load_skill", skillName="pdf"),
        use("load_skill", skillName="brew-tea"),
        processors=[listed(PDF), listed(TEA)],
    )
    assert [result["success"] for result in got.results] == [True, True]
    assert got.texts[0].count("<available_skills>") == 2


# ── folders ────────────────────────────────────────────────────────────────────────────────────


async def test_a_directory_may_be_a_skill_itself(tmp_path: Path) -> None:
    folder = add_skill(tmp_path, "zip")
    add_skill(folder, "inner")
    text = await text_of(listed(folder))
    assert "<name>zip</name>" in text and "inner" not in text
    got = await run(
        use("read_skill_file", skillName="zip", path="inner/SKILL.md"), processors=[listed(folder)]
    )
    assert "How inner is done" in got.results[0]["content"]


BAD = {
    "no front matter": "# Title\nSECRET",
    "no end": "---\nname: x\nSECRET",
    "no description": "---\nname: SECRET\n---\n",
    "a name that is none": "---\nname: 'a\tSECRET'\ndescription: d\n---\n",
    "a list for a description": "---\ndescription: [SECRET]\n---\n",
    "no text": "\xff\xfe",
    "too large": skill_md("a", "SECRET" * 30_000),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
async def test_a_bad_skill_is_left_out_and_told_once(
    content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are there, and the log has no word of the file."""
    add_skill(tmp_path, "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "SKILL.md").write_bytes(content.encode("latin-1"))
    (tmp_path / "no-skill").mkdir()
    (tmp_path / "file.txt").write_text("no folder")
    found = listed(tmp_path)
    with caplog.at_level(logging.WARNING, "procession"):
        assert (await text_of(found)).count("<skill>") == 1
        assert "<name>good</name>" in await text_of(found)
    (record,) = caplog.records
    assert "bad" in record.message and "is left out" in record.message
    assert "SECRET" not in record.message.replace("Skill 'SECRET'", "")


async def test_a_link_out_of_the_directory_is_no_skill(tmp_path: Path) -> None:
    add_skill(tmp_path / "elsewhere", "evil")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "evil").symlink_to(tmp_path / "elsewhere" / "evil")
    folder = tmp_path / "skills" / "half"
    folder.mkdir()
    (folder / "SKILL.md").symlink_to(tmp_path / "elsewhere" / "evil" / "SKILL.md")
    assert await text_of(listed(tmp_path / "skills")) == ""


async def test_the_folder_names_a_skill_that_does_not(tmp_path: Path) -> None:
    (tmp_path / "zip").mkdir()
    (tmp_path / "zip" / "SKILL.md").write_text("---\ndescription: Archives\n---\n")
    assert "<name>zip</name>" in await text_of(listed(tmp_path))


async def test_of_two_with_one_name_the_first_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_skill(tmp_path / "one", "zip", "The first")
    add_skill(tmp_path / "two", "zip", "The second")
    found = listed(tmp_path / "one", tmp_path / "two")
    with caplog.at_level(logging.WARNING, "procession"):
        for _ in range(2):
            text = await text_of(found)
            assert "The first" in text and "The second" not in text
    (record,) = caplog.records
    assert "two skills are called 'zip'" in record.message


async def test_a_long_description_is_cut() -> None:
    skill = Skill(name="a", description="x" * 5_000, instructions="")
    assert len(skill.description) == LONGEST_DESCRIPTION and skill.description.endswith("…")


async def test_files_are_read_again_when_they_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that has not changed is read once; a folder that goes or comes is noticed."""
    read: list[str] = []
    kept = skill_library.front_matter
    monkeypatch.setattr(skill_library, "front_matter", lambda text: read.append(text) or kept(text))
    folder = add_skill(tmp_path, "zip", "Old words")
    add_skill(tmp_path, "tar")
    found = listed(tmp_path)
    for _ in range(3):
        assert "Old words" in await text_of(found)
    assert len(read) == 2
    (folder / "SKILL.md").write_text(skill_md("zip", "New words"), "utf-8")
    assert "New words" in await text_of(found)
    assert len(read) == 3
    (folder / "SKILL.md").unlink()
    add_skill(tmp_path, "rar", "More")
    text = await text_of(found)
    assert "zip" not in text and "<name>rar</name>" in text and "<name>tar</name>" in text


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_run_looks_once_unless_told_otherwise(blocking: bool, tmp_path: Path) -> None:
    """B-340: `blocking_refresh`."""
    add_skill(tmp_path, "zip")

    def write(args: Any) -> None:
        if args.step_number == 0:
            add_skill(tmp_path, "late")

    found = listed(tmp_path, blocking_refresh=blocking)
    writer = processor(process_input_step=write)
    got = await run(use("load_skill", skillName="zip"), processors=[found, writer])
    assert ("<name>late</name>" in got.texts[1]) is blocking
    again = await run(processors=[found])
    assert "<name>late</name>" in again.texts[0]


async def test_a_directory_that_has_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "skills"
    add_skill(folder, "zip")
    found = listed(folder, TEA)
    for where in (tmp_path / "away", folder):
        other = folder if where != folder else tmp_path / "away"
        other.rename(where)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "procession"):
            texts = [await text_of(found) for _ in range(2)]
        assert ["zip" in text for text in texts] == [where == folder] * 2
        assert all("brew-tea" in text for text in texts)
        assert len(caplog.records) == (where != folder)


async def test_a_thousand_skills_in_folders(tmp_path: Path) -> None:
    for number in range(1_000):
        add_skill(tmp_path, f"skill-{number:04}", f"What number {number} does")
    found = listed(tmp_path)
    assert (await text_of(found)).count("<skill>") == 1_000
    assert (await text_of(found)).count("<skill>") == 1_000


async def test_many_runs_at_the_same_time(tmp_path: Path) -> None:
    add_skill(tmp_path, "zip")
    found = listed(tmp_path, TEA)
    got = await asyncio.gather(
        *(run(use("load_skill", skillName="zip"), processors=[found]) for _ in range(20))
    )
    assert all(one.results[0]["success"] for one in got)


# ── options ────────────────────────────────────────────────────────────────────────────────────


class Source:
    """Skills from elsewhere."""

    def __init__(self, *skills: Any) -> None:
        self.skills = skills

    async def list_skills(self) -> list[Any]:
        return list(self.skills)


async def test_skills_from_a_source_of_ones_own() -> None:
    found = SkillsProcessor(workspace=Source(PDF, TEA))
    text = await text_of(found)
    assert text.index("brew-tea") < text.index("pdf")
    wrong = SkillsProcessor(workspace=Source("pdf"))
    with pytest.raises(ConfigurationError, match=r"list_skills\(\) .* must give skills, not str"):
        await text_of(wrong)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give either workspace or skills"),
        ({"skills": [PDF], "workspace": Source()}, "give either workspace or skills"),
        ({"workspace": object()}, r"workspace must have a method list_skills\(\)"),
        ({"skills": PDF}, "skills must be a list"),
        ({"skills": "skills"}, "skills must be a list"),
        ({"skills": 5}, "skills must be a list"),
        ({"skills": [5]}, "each of skills must be the path of a directory, not int"),
        ({"skills": ["missing"]}, "each of skills names no directory"),
        ({"skills": [PDF, PDF]}, "two of skills are called 'pdf'"),
        ({"skills": [PDF], "format": "yaml"}, "format must be 'xml' or 'json' or 'markdown'"),
        ({"skills": [PDF], "format_location": 5}, "format_location must be callable"),
        ({"skills": [PDF], "blocking_refresh": 1}, "blocking_refresh must be True or False"),
        ({"skills": [PDF], "formatt": "xml"}, r"has no option 'formatt'; did you mean 'format'"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, Any], said: str) -> None:
    """B-014."""
    with pytest.raises(OptionError, match=f"^SkillsProcessor:? {said}"):
        SkillsProcessor(**options)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": ""}, "the name of a skill"),
        ({"name": "a\nb"}, "the name of a skill"),
        ({"name": "x" * 65}, "the name of a skill"),
        ({"name": "</skill>"}, "the name of a skill"),
        ({"name": 5}, "the name of a skill"),
        ({"description": " "}, "description must be a text that says something"),
        ({"description": 5}, "description must be a text"),
        ({"instructions": 5}, "instructions must be a text"),
        ({"location": 5}, "location must be a text"),
        ({"files": ["a"]}, "files must be a mapping"),
        ({"files": {"a": 5}}, "files must be texts"),
        ({"body": "a"}, "has no option 'body'"),
    ],
)
def test_skills_that_cannot_be_used(changed: dict[str, Any], said: str) -> None:
    """B-014."""
    given: Any = {"name": "a", "description": "b", "instructions": "c", **changed}
    with pytest.raises(OptionError, match=f"^Skill.*{said}"):
        Skill(**given)


async def test_reading_leaves_the_event_loop_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No directory is listed in the thread of the loop."""
    add_skill(tmp_path, "zip")
    found = listed(tmp_path)
    loop_thread = threading.get_ident()
    seen: set[int] = set()
    kept = os.scandir
    monkeypatch.setattr(os, "scandir", lambda *args: seen.add(threading.get_ident()) or kept(*args))
    model = ScriptedModel([use("load_skill", skillName="zip"), "done"])
    await Agent(id="a", model=model, input_processors=[found]).generate("go")
    assert seen and loop_thread not in seen
