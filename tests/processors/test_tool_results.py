"""What tools give, raise and write, past guards that are asked to look at it: `tool_results`."""

from __future__ import annotations

from typing import Any

import pytest

from procession import Agent, Policy, tool
from procession.errors import OptionError
from procession.processors import PIIDetector, RegexFilterProcessor, RegexRule
from procession.testing import ScriptedModel, answer, tool_call
from procession.tools import ToolContext

CARD = "4111 1111 1111 1111"
RULES = [RegexRule("secret", "s[0-9]{3}", "[S]")]


def regex(**options: Any) -> RegexFilterProcessor:
    """A filter that looks for `s123` and the like."""
    return RegexFilterProcessor(rules=RULES, **{"strategy": "redact", **options})


@tool
async def give(pin: str, context: ToolContext) -> dict[str, Any]:
    """Give, and write, what nobody is to see."""
    await context.writer.custom({"type": "data-note", "data": {"text": f"note {pin} s123"}})
    await context.writer.write({"text": f"wrote s456 {CARD}"})
    return {"s789": ["has s123", 7], "card": 4111111111111111, "text": f"is {CARD}"}


@tool
def fail(pin: str) -> str:
    """Say too much."""
    raise ValueError(f"no such pin {pin}: s123, {CARD}")


class Played:
    """A run in which a tool is called, and all that came of it."""

    def __init__(self, guards: list[Any], called: Any = give, pin: str = "s999") -> None:
        self.told: list[Any] = []
        for one in guards:
            one.on_violation = self.told.append
        call = tool_call(called.name, {"pin": pin})
        self.model = ScriptedModel([answer(tool_calls=[call]), "Done."])
        self.agent = Agent(id="a", model=self.model, tools=[called], output_processors=guards)

    async def play(self) -> Played:
        run = await self.agent.stream("go")
        self.chunks = [chunk.to_json() async for chunk in run.full_stream]
        self.messages = [message.to_json() for message in run.message_list.get.response.db()]
        self.tripwire: Any = run.tripwire
        self.prompt = str(self.model.calls[1].prompt) if len(self.model.calls) > 1 else None
        return self

    def of(self, kind: str) -> list[Any]:
        return [chunk for chunk in self.chunks if chunk["type"] == kind]

    @property
    def all(self) -> str:
        """Everything that anybody was told."""
        return f"{self.chunks} {self.messages} {self.prompt}"


@pytest.mark.parametrize("guard", [regex, PIIDetector])
def test_without_the_option_there_is_no_hook(guard: Any) -> None:
    """B-001: the engine finds what an object has."""
    assert not hasattr(guard(), "process_tool_result")
    assert not guard().process_data_parts
    assert callable(guard(tool_results=True).process_tool_result)


async def test_results_by_rules() -> None:
    """R-142, R-148: leaf by leaf, keys too, for the model, the client and the store."""
    seen = await Played([regex(tool_results=True)]).play()
    result = {"[S]": ["has [S]", 7], "card": 4111111111111111, "text": f"is {CARD}"}
    assert [chunk["payload"]["result"] for chunk in seen.of("tool-result")] == [result]
    assert "has [S]" in (seen.prompt or "")
    for secret in ("s123", "s456", "s789", "s999"):
        assert secret not in seen.all
    detail = next(v.detail for v in seen.told if v.detail["phase"] == "process_tool_result")
    assert detail["tool_name"] == "give"
    assert [entry["rule"] for entry in detail["redactions"]] == ["secret", "secret"]


async def test_results_by_detection() -> None:
    """B-129: found locally, numbers too."""
    heard: list[Any] = []
    guard = PIIDetector(tool_results=True, on_detection=heard.append)
    seen = await Played([guard]).play()
    assert "4111" not in seen.all
    assert [chunk["payload"]["result"]["card"] for chunk in seen.of("tool-result")] == [
        "************1111"
    ]
    assert [d.value for event in heard for d in event.detection_result.detections].count(CARD) == 2


async def test_what_a_tool_writes() -> None:
    """R-195: data chunks and what `write` delivers."""
    seen = await Played([regex(tool_results=True)]).play()
    assert [chunk["data"] for chunk in seen.of("data-note")] == [{"text": "note [S] [S]"}]
    output = [chunk["payload"]["output"] for chunk in seen.of("tool-output")]
    assert output == [{"text": f"wrote [S] {CARD}"}]
    untold = await Played([regex()]).play()
    assert [chunk["data"] for chunk in untold.of("data-note")] == [{"text": "note s999 s123"}]


async def test_block() -> None:
    """B-234: nothing of the step is stored, and the model is not asked again."""
    seen = await Played([regex(strategy="block", tool_results=True)], quiet, "0").play()
    assert seen.tripwire.metadata["phase"] == "process_tool_result"
    assert seen.tripwire.metadata["tool_name"] == "quiet"
    assert "s123" not in seen.all
    assert seen.prompt is None
    assert len(seen.told) == 1


@tool
def quiet(pin: str) -> list[str]:
    """Give a secret, and nothing else."""
    return ["s123", "fine"]


async def test_block_does_not_touch_clean_results() -> None:
    seen = await Played([PIIDetector(strategy="block", tool_results=True)], called=quiet).play()
    assert seen.tripwire is None


async def test_warn_and_filter() -> None:
    """B-005: told, and not changed. What holds something is left out, and its place stays."""
    warned = await Played([regex(strategy="warn", tool_results=True)], called=quiet).play()
    assert [c["payload"]["result"] for c in warned.of("tool-result")] == [["s123", "fine"]]
    assert any(v.detail.get("tool_name") == "quiet" for v in warned.told)
    guard = PIIDetector(strategy="filter", tool_results=True)
    filtered = await Played([guard]).play()
    [result] = [chunk["payload"]["result"] for chunk in filtered.of("tool-result")]
    assert result == {"s789": ["has s123", 7], "card": "", "text": ""}
    assert filtered.of("tool-output") == []
    assert "4111" not in filtered.all


@pytest.mark.parametrize("options", [{}, {"tool_results": True}])
async def test_an_error_does_not_carry_an_argument_out(options: dict[str, Any]) -> None:
    """G-W2, R-530: to the client, to the store or to the model."""
    seen = await Played([regex(**options)], called=fail).play()
    [chunk] = seen.of("tool-error")
    assert chunk["payload"]["args"] == {"pin": "[S]"}
    assert chunk["payload"]["error"]["message"] == f"no such pin [S]: [S], {CARD}"
    assert "no such pin [S]" in (seen.prompt or "")
    for secret in ("s123", "s999"):
        assert secret not in seen.all
    assert seen.tripwire is None


async def test_an_error_that_is_blocked() -> None:
    guard = PIIDetector(strategy="block", tool_results=True)
    seen = await Played([guard], called=fail).play()
    assert seen.tripwire.metadata["tool_name"] == "fail"
    assert "4111" not in seen.all
    unasked = await Played([PIIDetector(strategy="block")], called=fail).play()
    assert unasked.tripwire is None


async def test_what_is_observed_is_not_changed() -> None:
    guard = regex(tool_results=True, policy=Policy(observe=True))
    seen = await Played([guard], called=fail).play()
    assert seen.of("tool-error")[0]["payload"]["error"]["message"].startswith("no such pin s999")
    assert "no such pin s999" in str(seen.messages)


async def test_two_guards_in_a_row() -> None:
    """R-146: the second sees what the first has left."""
    guards = [regex(tool_results=True), PIIDetector(tool_results=True)]
    seen = await Played(guards).play()
    for secret in ("s123", "s456", "s789", "s999", "4111"):
        assert secret not in seen.all


def test_on_the_input_side_there_are_no_results() -> None:
    with pytest.raises(OptionError, match="tool_results is for the output side"):
        regex(phase="input", tool_results=True)
    unfit: Any = 1
    with pytest.raises(OptionError, match="PIIDetector: tool_results must be"):
        PIIDetector(tool_results=unfit)
