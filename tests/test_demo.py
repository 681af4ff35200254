"""The terminal demo: what it shows must be what its runs did."""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from procession import Agent, APICallError, ModelError, processor
from procession.demo import SCENES, Stage, embedded, play_scenes
from procession.demo.cost import Cost, costs
from procession.demo.embedded import embedded_model
from procession.demo.holding import Blocker, Redactor, may_become
from procession.demo.overheard import Overheard
from procession.demo.redaction import ADDRESS, LABEL
from procession.demo.retry import FEEDBACK
from procession.demo.scene import Setting
from procession.demo.tool_result import DOOR_CODE
from procession.demo.tripwire import WORD
from procession.models.weights import ensure_weights
from procession.processor import HOOKS
from procession.spans import Span
from procession.testing import RecordingObserver, ScriptedModel, answer, text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def make_stage(width: int = 80, **options: Any) -> tuple[Stage, io.StringIO]:
    """A stage without a terminal, and what it writes."""
    written = io.StringIO()
    console = Console(file=written, width=width, markup=False, highlight=False, **options)
    return Stage(console), written


@pytest.fixture
def kept_weights(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The weights, fetched once and kept beside pytest's own cache."""
    cache = request.config.cache
    assert cache is not None
    folder = cache.mkdir("procession-weights")
    monkeypatch.setenv("PROCESSION_CACHE", str(folder))
    return folder


class Played:
    """Scenes as they were played: what each found, and the text that was shown."""

    def __init__(self) -> None:
        self.stage, self._written = make_stage()
        self.found: dict[str, Any] = {}
        self.observer = RecordingObserver()

    @property
    def shown(self) -> str:
        return self._written.getvalue()

    async def play(self, name: str, model: Any) -> Any:
        setting = Setting(self.stage, model, self.observer)
        self.found[name] = await SCENES[name].play(setting)
        return self.found[name]


def scripted(answers: Sequence[Any]) -> Overheard:
    return Overheard(ScriptedModel(answers))


# ── with the embedded model ────────────────────────────────────────────────────────────────────


async def test_real_answers_show_what_the_scenes_are_about(kept_weights: Path) -> None:
    await ensure_weights()
    played = Played()
    async with embedded_model(played.stage) as (model, server):
        heard = Overheard(model, is_alive=lambda: server.running)
        for name in SCENES:
            await played.play(name, heard)
        calls = len(heard.calls)
    assert played.stage.broken == []
    assert "Note:" not in played.shown
    check_hooks(played.found["hooks"])
    check_redaction(played.found["redaction"])
    check_tripwire(played.found["tripwire"])
    check_retry(played.found["retry"])
    check_tool(played.found["tool"])
    assert {"redact", "guard", "brevity", "reader"} <= played.found["cost"].keys()
    assert len(played.observer.of_kind("model")) == calls


def check_hooks(calls: list[Any]) -> None:
    order = list(dict.fromkeys(call.hook for call in calls))
    assert set(order) == set(HOOKS)
    assert order[0] == "process_input" and order[-1] == "process_output_result"
    (error,) = [call.saw for call in calls if call.hook == "process_api_error"]
    assert error.startswith("HTTP 400: ") and "temperature" in error
    assert [call.saw for call in calls if call.hook == "process_tool_result"] == [
        'add {"a": 12, "b": 30} returned 42'
    ]


def check_redaction(found: Any) -> None:
    assert ADDRESS in "".join(found.pieces).lower()
    assert not any(ADDRESS in piece.lower() for piece in found.pieces)
    got = "".join(found.delivered)
    assert LABEL in got and "example" not in got.lower() and "@" not in got
    assert got == found.kept


def check_tripwire(found: Any) -> None:
    assert found.tripwire is not None and found.tripwire.processor_id == "guard"
    said = "".join(found.pieces).lower()
    assert said.endswith(WORD)
    assert "".join(found.delivered).lower() == said.removesuffix(WORD)
    assert found.after == [] and not found.complete and found.kept == "" and found.calls == 0


def check_retry(found: Any) -> None:
    first, second = found.attempts
    assert first.finish_reason == "retry" and second.accepted
    assert len(found.said[0].split()) > 10 >= len(found.said[1].split())
    assert found.text == found.said[1]
    assert FEEDBACK in found.sent
    counts = [first.usage.total_tokens, second.usage.total_tokens]
    assert all(counts) and sum(counts) == found.usage.total_tokens


def check_tool(found: Any) -> None:
    assert [result["door_code"] for result in found.returned] == [DOOR_CODE]
    assert len(found.sent) == 2 and '"204' in found.sent[1].replace("\\", "")
    assert not any(DOOR_CODE in told for told in [*found.sent, *found.delivered, found.kept])
    assert "204" in found.text


@pytest.mark.parametrize("terminal", [True, False])
async def test_fetch_is_shown(
    terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch(progress: Any = None) -> Path:
        progress(10_000_000, 93_000_000)
        return tmp_path

    monkeypatch.setenv("PROCESSION_CACHE", str(tmp_path))
    monkeypatch.setattr(embedded, "ensure_weights", fetch)
    stage, written = make_stage(force_terminal=terminal)
    assert await embedded.fetched_weights(stage) == tmp_path
    shown = written.getvalue()
    assert "about 93 MB" in shown and "no network is needed" in shown
    assert ("10.0/93.0 MB" in shown) == terminal and ("\x1b" in shown) == terminal


async def test_a_model_that_is_ended_midway_is_an_error(kept_weights: Path) -> None:
    played = Played()
    async with embedded_model(played.stage) as (model, server):
        heard = Overheard(model, is_alive=lambda: server.running)

        async def end_it(chunk: Any) -> None:
            if chunk.type == "text-delta":
                server.stop()

        agent = Agent(id="a", model=heard)
        run = await agent.stream("Count from one to ten.", on_chunk=end_it)
        await run.consume_stream()
        assert isinstance(run.error, APICallError)
        # It is not started again behind the back of whoever watches.
        with pytest.raises(ModelError, match="has ended"):
            await played.play("redaction", heard)


# ── with a script ──────────────────────────────────────────────────────────────────────────────


async def test_scripted_scenes_say_so_and_hold() -> None:
    stage, written = make_stage()
    assert await play_scenes(stage, list(SCENES.values()), scripted=True)
    shown = written.getvalue()
    assert shown.count("SCRIPTED") == len(SCENES)
    assert all(hook in shown for hook in HOOKS)
    assert "NO " not in shown and "\x1b" not in shown


@pytest.mark.parametrize("width", [50, 60, 72, 100, 200])
async def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    stage, written = make_stage(width)
    await play_scenes(stage, list(SCENES.values()), scripted=True)
    too_wide = [line for line in written.getvalue().splitlines() if len(line.rstrip()) > width]
    assert too_wide == []


async def test_terminal_gets_colours_and_the_same_words() -> None:
    plain, written = make_stage()
    coloured, painted = make_stage(force_terminal=True, color_system="standard", no_color=False)
    for stage in (plain, coloured):
        await play_scenes(stage, [SCENES["tool"]], scripted=True)
    assert "\x1b[" in painted.getvalue()
    words = Console(file=io.StringIO()).render_str("").from_ansi(painted.getvalue()).plain
    assert words.split()[:-2] == written.getvalue().split()[:-2]  # the seconds differ


async def test_cost_alone_has_something_to_measure() -> None:
    played = Played()
    found = await played.play("cost", scripted(SCENES["cost"].script))
    assert set(found) == {"redact"}
    assert "of the time" in played.shown


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("hooks", "not called this time: process_tool_result, process_api_error"),
        ("redaction", "did not say the address"),
        ("tripwire", "did not say the password"),
        ("retry", "nothing was rejected"),
        ("tool", "did not call the tool"),
    ],
)
async def test_a_scene_whose_premise_fails_says_so(name: str, note: str) -> None:
    played = Played()
    await played.play(name, scripted(["It is a fine day."]))
    shown = " ".join(played.shown.split())
    assert "Note:" in shown and note in shown and "yes" not in shown
    assert played.stage.broken == []


async def test_second_answer_too_long_ends_without_an_answer() -> None:
    played = Played()
    found = await played.play("retry", scripted(["word " * 11]))
    assert found.text == "" and len(found.attempts) == 2
    assert "(no text)" in played.shown and played.stage.broken == []


async def test_a_false_claim_is_shown_and_remembered() -> None:
    stage, written = make_stage()
    stage.check("pigs fly", False)
    assert stage.broken == ["pigs fly"] and written.getvalue() == "  NO  pigs fly\n"


async def test_error_that_cannot_be_mended_is_not_tried_again() -> None:
    played = Played()
    model = scripted([APICallError("gone", is_retryable=True), "never asked"])
    with pytest.raises(APICallError, match="gone"):
        await played.play("hooks", model)
    assert len(model.calls) == 1
    assert "process_api_error" in played.shown


# ── its parts ──────────────────────────────────────────────────────────────────────────────────


def test_text_waits_only_while_it_may_become_the_phrase() -> None:
    assert may_become("to anna", "anna.berg@example.com") == 4
    assert may_become("to anna,", "anna.berg@example.com") == 0
    assert may_become("AN", "anna") == 2
    assert may_become("aab", "aabaab") == 3
    assert may_become("", "anna") == 0


@pytest.mark.parametrize("size", range(1, 12))
async def test_any_cutting_gives_the_same_text(size: int) -> None:
    said = "ab abc abab ABCD, abcabcdab abcdabc"
    pieces = [said[i : i + size] for i in range(0, len(said), size)]
    redact = Redactor("r", "abcd", "*")
    agent = Agent(id="a", model=ScriptedModel([answer(*pieces)]), output_processors=[redact])
    run = await agent.stream("go")
    deltas = [piece async for piece in run.text_stream]
    assert "".join(deltas) == await run.text == "ab abc abab *, abc*ab *abc"


async def test_text_blocks_are_kept_apart() -> None:
    parts = [*text("ab", id="1"), *text("cd", id="2")]
    agent = Agent(
        id="a", model=ScriptedModel([parts]), output_processors=[Redactor("r", "abcd", "*")]
    )
    assert (await agent.generate("go")).text == "abcd"


async def test_nothing_held_back_is_let_out_by_a_verdict() -> None:
    guard = Blocker("g", "abcd", "no")
    agent = Agent(
        id="a", model=ScriptedModel([answer("x a", "bc", "d")]), output_processors=[guard]
    )
    run = await agent.stream("go")
    assert [piece async for piece in run.text_stream] == ["x "]
    assert run.tripwire is not None and run.tripwire.reason == "no"


async def test_overheard_hears_what_was_said_before_any_processor() -> None:
    def shout(args: Any) -> Any:
        if args.part.type == "text-delta":
            args.part.payload.text = args.part.payload.text.upper()
        return args.part

    model = scripted([answer("a", "b")])
    agent = Agent(id="a", model=model, output_processors=[processor(process_output_stream=shout)])
    assert (await agent.generate("question?")).text == "AB"
    (call,) = model.calls
    assert "".join(call.pieces) == "ab" and call.complete and "question?" in call.sent


def test_costs_are_summed_over_hooks_and_chunks() -> None:
    def span(kind: str, **values: Any) -> Span:
        return Span(kind=kind, name="n", run_id="r", **values)

    spans = [
        span("hook", processor_id="a", seconds=1.0),
        span("chunks", processor_id="b", seconds=3.0, count=6),
        span("hook", processor_id="a", seconds=1.0),
        span("model", seconds=9.0),
    ]
    assert costs(spans) == {"b": Cost(6, 3.0), "a": Cost(2, 2.0)}
    assert list(costs(spans)) == ["b", "a"]


def test_control_characters_of_a_model_do_not_reach_the_terminal() -> None:
    stage, written = make_stage()
    line = stage.live([("a\x1b[2J", "")], [1])
    line.write("b\x1b]0;title\x07 c\r")
    line.end()
    stage.say("d\x9b31m")
    assert not {"\x1b", "\x07", "\x9b", "\r"} & set(written.getvalue())


def test_live_text_wraps_under_itself() -> None:
    stage, written = make_stage(40)
    line = stage.live([("x", "")], [3])
    for piece in ("one two", " three four", " five six se", "ven", " " + "y" * 50):
        line.write(piece)
    line.end()
    first, *more = written.getvalue().splitlines()
    assert first.startswith("  x   one two three")
    assert all(entry.startswith("      ") for entry in more)
    assert "seven" in written.getvalue()


def test_stages_are_closed_by_the_loop() -> None:
    """Nothing of a scene is left running when it has been played."""

    async def play() -> set[Any]:
        played = Played()
        await played.play("tripwire", scripted(SCENES["tripwire"].script))
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(play()) == set()
