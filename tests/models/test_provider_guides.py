"""What the guides say of providers: their table, and that one string changes the model."""

from __future__ import annotations

import asyncio
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from procession.models import local
from procession.models.compatible import PROVIDERS, Site
from tests.loopback import TEXT, providers_on_loopback
from tests.test_docs import read_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from procession.models.local_server import LocalServer

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
GROUP = "procession.providers"
LOCAL = '"local/smollm2"'
NAMED = {
    "openai": "openai/gpt-5",
    "openai-responses": "openai-responses/gpt-5",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "google": "google/gemini-2.5-flash",
    **{name: f"{name}/example-1" for name in PROVIDERS},
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The paths of the calls that providers on loopback have answered."""
    with providers_on_loopback(monkeypatch) as paths:
        yield paths


def run_example(model: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the README's example with a real model prints, with another id in it."""
    (body,) = [block.body for block in read_blocks(README) if LOCAL in block.body]
    assert body.count(LOCAL) == 1
    exec(compile(body.replace(LOCAL, repr(model)), "README.md", "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize("provider", NAMED)
def test_one_string_of_the_example_names_another_provider(
    provider: str, calls: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_example(NAMED[provider], capsys) == TEXT.lower()
    (path,) = calls
    assert provider not in PROVIDERS or path.startswith(f"/{provider}/v1/")


def test_one_string_of_the_example_names_a_model_of_pydantic_ai(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_example("pydantic-ai/test", capsys) == "success (no tool calls)"


async def test_the_example_runs_as_it_is(
    llama: LocalServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local, "shared_server", lambda: llama)
    said = await asyncio.to_thread(run_example, "local/smollm2", capsys)
    assert said
    assert said == said.lower()


def test_each_kind_of_provider_is_in_the_readme() -> None:
    ours = [e.name for e in distribution("procession").entry_points if e.group == GROUP]
    assert set(ours) == {*NAMED, "local", "pydantic-ai", "openai-compatible"}
    kinds = set(ours) - set(PROVIDERS) - {"openai-compatible"}
    assert {name for name in kinds if f"`{name}/" not in README} == set()


# ── the table of the compatible providers ──────────────────────────────────────────────────────

THOUGHTS = {
    None: "not sent",
    "thinking": "as thinking parts",
    "reasoning_details": "as `reasoning_details`, records unchanged",
}


def row(name: str, site: Site) -> str:
    """The row of the table that says how this provider differs."""
    keys = " or ".join(f"`{variable}`" for variable in site.keys)
    thoughts = THOUGHTS.get(site.dialect.thoughts, f"as `{site.dialect.thoughts}`")
    always = ", also empty" if site.dialect.thoughts_always else ""
    cells = [f"`{name}/…`", keys + (" (optional)" if site.keyless else ""), thoughts + always]
    return f"| {' | '.join([*cells, '; '.join(differences(site))])} |"


def differences(site: Site) -> Iterator[str]:
    dialect = site.dialect
    if site.keyless:
        yield f"at `{site.url}`"
    if dialect.refused:
        ours = {"stop": "stop_sequences"}
        names = sorted(ours.get(name, name) for name in dialect.refused)
        yield f"left out: {', '.join(f'`{name}`' for name in names)}"
    if "required" not in dialect.tool_choices:
        yield "no forced tool calls" if not dialect.names_tool else "no `tool_choice` `required`"
    if not dialect.json_schema:
        yield "schemas are told, not enforced"
    if dialect.short_call_ids:
        yield "call ids of nine characters"
    if not site.fetches:
        yield "images go as data"


def test_the_table_says_how_each_provider_differs() -> None:
    guide = (ROOT / "docs" / "providers" / "compatible.md").read_text("utf-8")
    rows = [line for line in guide.splitlines() if "/…` | " in line]
    assert rows == [row(name, PROVIDERS[name]) for name in sorted(PROVIDERS)]


def test_each_page_of_a_provider_is_linked() -> None:
    folder = ROOT / "docs" / "providers"
    index = (folder / "README.md").read_text("utf-8")
    pages = {path.name for path in folder.glob("*.md")} - {"README.md"}
    assert {page for page in pages if f"({page})" not in index} == set()
