"""`SkillSearchProcessor`: B-341."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from procession import OptionError, RequestContext
from procession.errors import ConfigurationError
from procession.processors import Skill, SkillSearchProcessor, Workspace
from procession.processors.tools import loaded_tools as clock
from tests.processors.working import add_skill, reader, run, skill_md, use

if TYPE_CHECKING:
    from pathlib import Path

PDF = Skill(
    name="pdf-forms",
    description="Fill in PDF forms",
    instructions="Use the form tool.",
    files={"forms.md": "All about forms."},
)
TEA = Skill(name="brew-tea", description="Make tea for two", instructions="Boil water.")
FORM = Skill(name="biaoge", description="填写 PDF 表格并保存", instructions="先打开表格。")
SLIDES = Skill(name="slides", description="プレゼン資料を作成する", instructions="短く。")
ALL = [PDF, TEA, FORM, SLIDES]
META = ["search_skills", "load_skill", "read_skill_file"]


def searched(*skills: Any, **options: Any) -> SkillSearchProcessor:
    return SkillSearchProcessor(skills=skills or ALL, **options)


def thread(id: str, resource: str = "r") -> dict[str, Any]:
    return {"memory": {"thread": id, "resource": resource}}


def test_attributes() -> None:
    """B-002, B-341."""
    found = searched()
    assert (found.id, found.name) == ("skill-search", "Skill Search Processor")
    assert found.provides_skill_discovery == "on-demand"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_loaded_skill_stands_in_the_system_messages_from_the_next_step(
    stream: bool,
) -> None:
    """B-341: in each step after, and in none before."""
    got = await run(
        use("search_skills", query="fill a form"),
        use("load_skill", skillName="pdf-forms"),
        use("read_file"),
        stream=stream,
        processors=[searched()],
        tools=[reader()],
    )
    assert got.offered == [["read_file", *META]] * 4
    told = "# Skill: pdf-forms\n\nUse the form tool."
    assert [text.count(told) for text in got.texts] == [0, 0, 1, 1]
    found, loaded, _ = got.results
    assert found["results"][0]["name"] == "pdf-forms"
    assert set(found["results"][0]) == {"name", "description", "score"}
    assert loaded["success"] is True and loaded["files"] == ["forms.md"]
    assert "instructions" not in loaded


async def test_nothing_is_listed_before_it_is_looked_for() -> None:
    """B-341: that is what it is for."""
    got = await run(processors=[searched()])
    assert got.texts == ["go"]


@pytest.mark.parametrize(
    ("query", "name"),
    [("表格", "biaoge"), ("PDF 表格", "biaoge"), ("資料作成", "slides"), ("TEA", "brew-tea")],
)
async def test_words_of_any_script(query: str, name: str) -> None:
    """B-341, as B-321."""
    got = await run(use("search_skills", query=query), processors=[searched()])
    assert got.results[0]["results"][0]["name"] == name


async def test_top_k_and_min_score() -> None:
    """B-341."""
    asked = use("search_skills", query="pdf forms tea")
    three = (await run(asked, processors=[searched()])).results[0]["results"]
    assert len(three) == 3
    one = await run(asked, processors=[searched(search={"top_k": 1})])
    assert one.results[0]["results"] == three[:1]
    least = three[1]["score"]
    two = await run(asked, processors=[searched(search={"min_score": least - 0.0001})])
    assert two.results[0]["results"] == three[:2]


async def test_no_hit() -> None:
    """B-341, as B-321: an empty list and a message."""
    got = await run(use("search_skills", query="zebra"), processors=[searched()])
    (result,) = got.results
    assert result["results"] == []
    assert "No skill was found" in result["message"] and "brew-tea" in result["message"]


async def test_an_unknown_skill() -> None:
    got = await run(
        use("load_skill", skillName="pdf form"),
        use("load_skill", skillName="zebra"),
        processors=[searched()],
    )
    assert "Did you mean 'pdf-forms'" in got.results[0]["message"]
    assert got.results[1] == {"success": False, "message": "There is no skill 'zebra'."}


async def test_loaded_skills_stay_with_their_thread_and_resource() -> None:
    """B-341, as B-323 and B-325."""
    found = searched()
    await run(use("load_skill", skillName="brew-tea"), processors=[found], **thread("t-1"))
    mine = await run(processors=[found], **thread("t-1"))
    others = await run(processors=[found], **thread("t-2"))
    strangers = await run(processors=[found], **thread("t-1", "someone else"))
    assert "Boil water." in mine.texts[0]
    assert "Boil water." not in others.texts[0] + strangers.texts[0]


async def test_the_ids_of_the_request_context_count() -> None:
    found = searched()
    ids = RequestContext({"mastra__threadId": "t-1"})
    await run(use("load_skill", skillName="brew-tea"), processors=[found], request_context=ids)
    assert found.get_state_stats()["thread_count"] == 1
    found.clear_state("t-1")
    assert found.get_state_stats()["thread_count"] == 0


async def test_the_state_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """B-341: those of B-325, and `dispose`."""
    found = searched(ttl=1_000)
    for id in ("a", "b", None):
        more = thread(id) if id else {}
        await run(use("load_skill", skillName="brew-tea"), processors=[found], **more)
    stats = found.get_state_stats()
    assert stats["thread_count"] == 3 and stats["oldest_access_time"] is not None
    found.clear_state()
    found.clear_state("a")
    assert found.get_state_stats()["thread_count"] == 1
    now = clock.time.monotonic()
    monkeypatch.setattr(clock.time, "monotonic", lambda: now + 2)
    assert found.cleanup_now() == 1
    for forget in (found.clear_all_state, found.dispose):
        await run(use("load_skill", skillName="brew-tea"), processors=[found])
        forget()
        assert found.get_state_stats() == {"thread_count": 0, "oldest_access_time": None}
    got = await run(use("search_skills", query="tea"), processors=[found])
    assert got.results[0]["results"][0]["name"] == "brew-tea"


async def test_a_loaded_skill_says_what_its_file_says_now(tmp_path: Path) -> None:
    """What has gone is not told of, and what is new is found."""
    folder = add_skill(tmp_path, "zip", "Make archives")
    found = searched(tmp_path)
    first = await run(use("load_skill", skillName="zip"), processors=[found])
    assert "How zip is done." in first.texts[-1]
    (folder / "SKILL.md").write_text(skill_md("zip", "Pack", "In another way."), "utf-8")
    second = await run(use("search_skills", query="pack"), processors=[found])
    assert "In another way." in second.texts[0] and "How zip" not in second.texts[0]
    assert second.results[0]["results"][0]["name"] == "zip"
    (folder / "SKILL.md").unlink()
    add_skill(tmp_path, "tar")
    third = await run(processors=[found])
    assert third.texts == ["go"]


async def test_without_skills_nothing_is_offered(tmp_path: Path) -> None:
    got = await run(processors=[searched(tmp_path)], tools=[reader()])
    assert got.offered == [["read_file"]]


async def test_a_thousand_skills() -> None:
    many = [Skill(name=f"s{n}", description=f"number {n}", instructions="x") for n in range(1_000)]
    got = await run(
        use("search_skills", query="number 777"),
        use("load_skill", skillName="s777"),
        processors=[searched(*many)],
    )
    assert got.results[0]["results"][0]["name"] == "s777"
    assert len(got.results[0]["results"]) == 5
    assert len(json.dumps(got.texts[0])) < 100


async def test_one_search_per_agent() -> None:
    with pytest.raises(ConfigurationError, match="one SkillSearchProcessor per agent"):
        await run(processors=[searched(PDF), searched(TEA)])


@pytest.mark.parametrize("name", META)
async def test_a_tool_of_the_users_with_the_same_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{name}'.*SkillSearchProcessor: rename"):
        await run(processors=[searched()], tools=[reader(name)])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give either workspace or skills"),
        ({"skills": ALL, "search": 5}, "search must be a mapping, not int"),
        ({"skills": ALL, "search": {"topK": 5}}, "search has no option 'topK'; did you mean"),
        ({"skills": ALL, "search": {"top_k": 0}}, "search.top_k must be a whole number"),
        ({"skills": ALL, "search": {"min_score": -1}}, "search.min_score must be a number"),
        ({"skills": ALL, "ttl": -1}, "ttl must be a number of at least 0"),
        ({"skills": ALL, "blocking_refresh": "no"}, "blocking_refresh must be True or False"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, Any], said: str) -> None:
    """B-014."""
    with pytest.raises(OptionError, match=f"^SkillSearchProcessor: {said}"):
        SkillSearchProcessor(**options)


async def test_the_skills_of_a_workspace(tmp_path: Path) -> None:
    """B-341: `workspace`."""
    add_skill(tmp_path / "skills", "zip", "Make archives")
    found = SkillSearchProcessor(workspace=Workspace(tmp_path, skills=["skills"]))
    got = await run(use("search_skills", query="archives"), processors=[found])
    assert got.results[0]["results"][0]["name"] == "zip"
