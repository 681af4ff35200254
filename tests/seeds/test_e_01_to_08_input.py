"""E-01 to E-08: messages and the hooks in front of the model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import (
    Agent,
    Message,
    MessageContent,
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessInputStepResult,
    RequestContext,
    StepResult,
    TextPart,
    register_provider,
    tool,
)
from procession.chunks import Chunk, ToolCallPayload
from procession.testing import ScriptedModel, answer, text, tool_call
from tests.seeds.threeways import EagerModel, check_tripped, only, play, prompt_results, three_ways

USER = {"id": "u1", "role": "user", "createdAt": "2026-01-02T03:04:05.000Z"}
FILE = {"type": "file", "mimeType": "image/png", "data": "aGVsbG8="}


@tool
async def search(topic: str = "") -> str:
    """Look something up."""
    return f"found {topic}"


# ── E-01 ───────────────────────────────────────────────────────────────────────────────────────


def said(message: Message) -> str:
    """The text parts joined; only when that gives nothing, the flat text of old messages."""
    joined = "".join(part.text for part in message.content.parts if part.type == "text")
    flat = message.content.content
    return joined or (flat if isinstance(flat, str) else "")


def lookup_part() -> dict[str, Any]:
    call = {"state": "result", "toolCallId": "c1", "toolName": "search", "args": {}, "result": 1}
    return {"type": "tool-invocation", "toolInvocation": call}


@three_ways
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            {"parts": [{"type": "text", "text": "be"}, FILE, {"type": "text", "text": "low"}]},
            "below",
        ),
        ({"parts": [lookup_part()]}, ""),
        ({"parts": [], "content": "flat"}, "flat"),
        ({"content": "flat"}, "flat"),
        ({"parts": None, "content": "flat"}, "flat"),
        ({"parts": [{"type": "text", "text": "part"}], "content": "flat"}, "part"),
    ],
)
async def test_e01_reading_text(way: str, content: dict[str, Any], expected: str) -> None:
    """E-01 (R-301, R-302, R-392): parts first, then the flat text; content is never a string."""
    seen: list[Message] = []
    reader = only("process_input", lambda args: seen.extend(args.messages))
    agent = Agent(id="reader", model=ScriptedModel(["ok"]), input_processors=[reader])
    stored = {**USER, "role": "assistant", "content": {"format": 2, **content}}
    await play(way, agent, [stored, {"role": "user", "content": "a flat one"}, "and a text"])
    assert [said(message) for message in seen] == [expected, "a flat one", "and a text"]
    assert [message.text for message in seen] == [expected, "a flat one", "and a text"]
    for message in seen:
        assert isinstance(message.content, MessageContent)
        assert isinstance(message.content.parts, list)


# ── E-02 ───────────────────────────────────────────────────────────────────────────────────────


class PickModel:
    """Asks another model in step 0."""

    id = "pick-model"

    def __init__(self, model: Any) -> None:
        self.model = model

    def process_input_step(self, args: ProcessInputStepArgs) -> ProcessInputStepResult | None:
        return ProcessInputStepResult(model=self.model) if args.step_number == 0 else None


class NoTools:
    """Takes the tools away in step 0, and notes which model it was told of."""

    id = "no-tools"

    def __init__(self) -> None:
        self.models: list[Any] = []

    async def process_input_step(self, args: ProcessInputStepArgs) -> dict[str, Any]:
        self.models.append(args.model)
        return {"tool_choice": "none"} if args.step_number == 0 else {}


@three_ways
async def test_e02_overrides_flow_on(way: str) -> None:
    """E-02 (R-079, R-080, R-085): each is handed what is chosen so far, for one step."""
    # In step 0 the other model insists on a tool it was not offered, so that a step 1 follows.
    usual = ScriptedModel(["usual"], model_id="usual")
    other = ScriptedModel([answer(tool_calls=[tool_call("search")])], model_id="other")
    last = NoTools()
    agent = Agent(
        id="chained", model=usual, tools=[search], input_processors=[PickModel(other), last]
    )
    outcome = await play(way, agent, "go")
    assert outcome.text == "usual"
    assert last.models == [other, usual]
    assert (other.calls[0].tool_choice, other.calls[0].tool_names) == ("none", [])
    assert (usual.calls[0].tool_choice, usual.calls[0].tool_names) == ("auto", ["search"])

    await play(way, agent, "go", input_processors=[])
    assert (len(other.calls), len(usual.calls)) == (1, 2)
    assert (usual.calls[1].tool_choice, usual.calls[1].tool_names) == ("auto", ["search"])


# ── E-03 ───────────────────────────────────────────────────────────────────────────────────────


class Lowercase:
    """Returns copies with lower-cased text parts."""

    id = "lowercase"

    def __init__(self) -> None:
        self.handed: list[Message] = []

    async def process_input(self, args: ProcessInputArgs) -> list[Message]:
        self.handed = args.messages
        return [self.lowered(message) for message in args.messages]

    def lowered(self, message: Message) -> Message:
        parts = [
            part.replace(text=part.text.lower()) if isinstance(part, TextPart) else part
            for part in message.content.parts
        ]
        return message.replace(content=message.content.replace(parts=parts))


@three_ways
async def test_e03_lower_case_copies(way: str) -> None:
    """E-03 (R-063, R-068, R-159, R-164, R-207, R-393): copies replace, originals stay."""
    seen: list[Message] = []
    lowercase = Lowercase()
    model = ScriptedModel(["ok"])
    agent = Agent(
        id="quiet",
        model=model,
        input_processors=[
            lowercase,
            only("process_input", lambda args: seen.extend(args.messages)),
        ],
    )
    parts = [{"type": "text", "text": "HeLLo"}, FILE]
    given = Message.from_json({**USER, "content": {"format": 2, "parts": parts}, "mood": "odd"})
    outcome = await play(way, agent, given)

    written, shown = model.calls[0].prompt[0]["content"]
    assert written["text"] == "hello"
    assert (shown["type"], shown["mediaType"], shown["data"]) == ("file", "image/png", "aGVsbG8=")
    stored = outcome.messages[0]
    for message in (seen[0], stored):
        assert message.text == "hello"
        assert message.id == "u1"
        assert message.created_at == given.created_at
        assert message["mood"] == "odd"
        file = message.content.parts[1].to_json()
        assert {key: file[key] for key in FILE} == FILE
    assert [message.text for message in lowercase.handed] == ["HeLLo"]
    assert given.text == "HeLLo"
    assert [message.role for message in outcome.messages] == ["user", "assistant"]


# ── E-04, E-05, E-08 ───────────────────────────────────────────────────────────────────────────


class DynamicModel:
    """A fast model first, a strong one after tool calls, no tools late."""

    id = "dynamic-model"

    async def process_input_step(self, args: ProcessInputStepArgs) -> ProcessInputStepResult:
        if args.step_number == 0:
            return ProcessInputStepResult(model="lab/fast")
        if args.steps and args.steps[-1].tool_calls:
            return ProcessInputStepResult(model="lab/strong")
        if args.step_number > 5:
            return ProcessInputStepResult(tool_choice="none")
        return ProcessInputStepResult()


class FirstAndLast:
    """A fast model first, no tools after step 5."""

    id = "first-and-last"

    async def process_input_step(self, args: ProcessInputStepArgs) -> ProcessInputStepResult:
        if args.step_number == 0:
            return ProcessInputStepResult(model="lab/fast")
        if args.step_number > 5:
            return ProcessInputStepResult(tool_choice="none")
        return ProcessInputStepResult()


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> dict[str, ScriptedModel]:
    """Models that are found by their id, in this test only."""
    models = {
        "fast": ScriptedModel([answer(tool_calls=[tool_call("search")])], model_id="fast"),
        "strong": ScriptedModel(["strong"], model_id="strong"),
    }
    monkeypatch.setattr("procession.model._factories", {})
    register_provider("lab", models.__getitem__)
    return models


@three_ways
async def test_e04_model_per_step(way: str, lab: dict[str, ScriptedModel]) -> None:
    """E-04 (R-073, R-074, R-083, R-546): fast, then strong; the agent's own model is not asked."""
    usual = ScriptedModel(["usual"])
    agent = Agent(id="per-step", model=usual, tools=[search], input_processors=[DynamicModel()])
    outcome = await play(way, agent, "go")
    assert outcome.text == "strong"
    assert [len(lab["fast"].calls), len(lab["strong"].calls), len(usual.calls)] == [1, 1, 0]
    assert [step.response.model_id for step in outcome.steps] == ["fast", "strong"]
    assert [len(step.tool_calls) for step in outcome.steps] == [1, 0]


async def test_e04_called_directly() -> None:
    """E-04 (R-074): late, after a step without tool calls, there is nothing but the tool choice."""
    late = ProcessInputStepArgs(step_number=6, steps=[StepResult(text="so far")])
    assert await DynamicModel().process_input_step(late) == ProcessInputStepResult(
        tool_choice="none"
    )
    call = Chunk("tool-call", ToolCallPayload(tool_call_id="c1", tool_name="search"))
    after_tools = ProcessInputStepArgs(step_number=6, steps=[StepResult(tool_calls=[call])])
    assert await DynamicModel().process_input_step(after_tools) == ProcessInputStepResult(
        model="lab/strong"
    )


@three_ways
@pytest.mark.parametrize("empty", [ProcessInputStepResult(), {}, None])
async def test_e04_an_empty_result_changes_nothing(way: str, empty: Any) -> None:
    """E-04 (R-074): what is not given keeps its value."""
    model = ScriptedModel([answer(tool_calls=[tool_call("search")]), "usual"])
    agent = Agent(
        id="per-step",
        model=model,
        tools=[search],
        instructions="Be brief.",
        input_processors=[only("process_input_step", lambda args: empty)],
    )
    options: dict[str, Any] = {
        "model_settings": {"temperature": 0.5},
        "provider_options": {"example": {"effort": "low"}},
    }
    assert (await play(way, agent, "go", **options)).text == "usual"
    plain = ScriptedModel([answer(tool_calls=[tool_call("search")]), "usual"])
    await play(way, Agent(id="p", model=plain, tools=[search], instructions="Be brief."), "go")
    for call, other in zip(model.calls, plain.calls, strict=True):
        assert [entry["role"] for entry in call.prompt] == [entry["role"] for entry in other.prompt]
        assert (call.tool_choice, call.tool_names) == ("auto", ["search"])
        assert call.settings == {"temperature": 0.5}
        assert call.provider_options == {"example": {"effort": "low"}}


def check_first_and_last(fast: ScriptedModel, usual: EagerModel, outcome: Any) -> None:
    assert len(fast.calls) == 1
    assert [call.tool_names for call in usual.calls] == [["search"]] * 5 + [[]]
    assert [call.tool_choice for call in usual.calls] == ["auto"] * 5 + ["none"]
    assert [len(step.tool_calls) for step in outcome.steps] == [1] * 6 + [0]
    assert [step.step_number for step in outcome.steps] == list(range(7))
    assert (outcome.text, outcome.finish_reason) == ("Done.", "stop")


@three_ways
async def test_e05_first_and_last_step(way: str, lab: dict[str, ScriptedModel]) -> None:
    """E-05 (R-080, R-085, R-215, R-526): fast, five times the usual one, and then without tools."""
    usual = EagerModel()
    agent = Agent(id="bounded", model=usual, tools=[search], input_processors=[FirstAndLast()])
    outcome = await play(way, agent, "go", max_steps=8)
    check_first_and_last(lab["fast"], usual, outcome)


@three_ways
async def test_e05_five_steps_unless_told(way: str, lab: dict[str, ScriptedModel]) -> None:
    """E-05 (R-215, R-526): the default stops the run after five steps, with its tools run."""
    usual = EagerModel()
    agent = Agent(id="bounded", model=usual, tools=[search], input_processors=[FirstAndLast()])
    outcome = await play(way, agent, "go")
    assert len(outcome.steps) == 5
    assert outcome.finish_reason == "tool-calls"
    assert len(outcome.output.tool_results) == 5


@three_ways
async def test_e08_prepare_step(way: str, lab: dict[str, ScriptedModel]) -> None:
    """E-08 (R-075, R-210): a function does what the class of E-05 does."""

    async def prepare(args: ProcessInputStepArgs) -> Any:
        if args.step_number == 0:
            return {"model": "lab/fast"}
        if args.step_number > 5:
            return {"tool_choice": "none"}
        return None

    usual = EagerModel()
    agent = Agent(id="prepared", model=usual, tools=[search])
    outcome = await play(way, agent, "go", max_steps=8, prepare_step=prepare)
    check_first_and_last(lab["fast"], usual, outcome)


@three_ways
async def test_e08_prepare_step_comes_last(way: str, lab: dict[str, ScriptedModel]) -> None:
    """E-08 (R-022, R-079, B-390): it sees what all input processors chose."""
    log: list[Any] = []

    def choose(args: ProcessInputStepArgs) -> Any:
        log.append("processor")
        return {"model": "lab/strong", "model_settings": {"seed": 7}}

    def prepare(args: ProcessInputStepArgs) -> None:
        log.append((args.model, args.model_settings, args.processor_id))

    agent = Agent(
        id="prepared",
        model=ScriptedModel(["usual"]),
        input_processors=[only("process_input_step", choose)],
    )
    outcome = await play(way, agent, "go", prepare_step=prepare)
    assert outcome.text == "strong"
    assert log == ["processor", ("lab/strong", {"seed": 7}, "prepare-step")]
    assert lab["strong"].calls[0].settings == {"seed": 7}


@three_ways
async def test_e08_prepare_step_aborts(way: str) -> None:
    """E-08 (R-211): its abort is a verdict of `prepare-step`."""
    model = ScriptedModel(["never"])
    outcome = await play(
        way,
        Agent(id="prepared", model=model),
        "go",
        prepare_step=lambda args: args.abort("not now", metadata={"step": args.step_number}),
    )
    check_tripped(outcome, reason="not now", processor_id="prepare-step", metadata={"step": 0})
    assert model.calls == []
    if outcome.chunks is not None:
        assert outcome.kinds() == ["start", "tripwire"]


@three_ways
async def test_e08_prepare_step_raises(way: str) -> None:
    """E-08 (R-211, R-188): its exception fails the run."""
    broken = ValueError("broken")

    def prepare(args: ProcessInputStepArgs) -> None:
        raise broken

    agent = Agent(id="prepared", model=ScriptedModel(["never"]))
    outcome = await play(way, agent, "go", prepare_step=prepare)
    assert outcome.error is broken


# ── E-06 ───────────────────────────────────────────────────────────────────────────────────────


class ReasoningToThinking:
    """Retypes reasoning parts in place."""

    id = "reasoning-to-thinking"

    async def process_input_step(self, args: ProcessInputStepArgs) -> Any:
        for message in args.messages:
            if message.role != "assistant":
                continue
            for part in message.content.parts:
                if part.type == "reasoning":
                    part.type = "thinking"
        return args.message_list


@three_ways
async def test_e06_parts_are_retyped(way: str) -> None:
    """E-06 (R-034, R-077, R-357, R-394): stored under the new type, not prompted."""
    seen: list[dict[str, Any]] = []

    def look(args: ProcessInputStepArgs) -> None:
        seen.extend(
            part.to_json()
            for message in args.messages
            for part in message.content.parts
            if message.role == "assistant"
        )

    note = {"example": {"signature": "s1gn3d"}}
    thoughts = [
        {"type": "reasoning-start", "id": "r1"},
        {"type": "reasoning-delta", "id": "r1", "delta": "Let me look."},
        {"type": "reasoning-end", "id": "r1", "providerMetadata": note},
        tool_call("search", {"topic": "birds"}, id="c1"),
        {"type": "finish", "finishReason": "tool-calls", "usage": {}},
    ]
    closing = [text("A heron."), {"type": "finish", "finishReason": "stop", "usage": {}}]
    model = ScriptedModel([thoughts, closing])
    agent = Agent(
        id="thinker",
        model=model,
        tools=[search],
        input_processors=[ReasoningToThinking(), only("process_input_step", look)],
    )
    outcome = await play(way, agent, "Which bird?")
    assert outcome.text == "A heron."

    assert (seen[0]["type"], seen[0]["reasoning"]) == ("thinking", "Let me look.")
    assert seen[0]["providerMetadata"] == note
    assistant = next(entry for entry in model.calls[1].prompt if entry["role"] == "assistant")
    assert [part["type"] for part in assistant["content"]] == ["tool-call"]
    assert prompt_results(model.calls[1]) == {"c1": {"type": "text", "value": "found birds"}}

    stored = outcome.answers[0].to_json()
    kept = stored["content"]["parts"][0]
    assert (kept["type"], kept["reasoning"], kept["providerMetadata"]) == (
        "thinking",
        "Let me look.",
        note,
    )
    assert Message.from_json(stored).to_json() == stored


# ── E-07 ───────────────────────────────────────────────────────────────────────────────────────


class Words:
    """Blocks an input with a listed word, or with more words than allowed."""

    id = "words"

    def __init__(self, banned: list[str], limit: int) -> None:
        self.banned = banned
        self.limit = limit

    def process_input(self, args: ProcessInputArgs) -> None:
        found = args.messages[-1].text.split()
        if set(found) & set(self.banned):
            args.abort("banned word")
        if len(found) > self.limit:
            args.abort("too long", metadata={"limit": self.limit})


@three_ways
@pytest.mark.parametrize("on_call", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
async def test_e07_list_as_a_function(way: str, on_call: bool, is_async: bool) -> None:
    """E-07 (R-016, R-232, R-801, R-804, R-818): each request is judged by its own values."""
    made: list[Any] = []

    def processors(scope: Any) -> list[Any]:
        banned = scope.request_context.get("banned")
        made.append(banned)
        return [Words(banned or [], scope.request_context.get("limit") or 4)]

    async def processors_later(scope: Any) -> list[Any]:
        await asyncio.sleep(0)
        return processors(scope)

    listed = processors_later if is_async else processors
    agent = Agent(
        id="dynamic",
        model=ScriptedModel(["fine"]),
        input_processors=[] if on_call else listed,
    )
    options: dict[str, Any] = {"input_processors": listed} if on_call else {}
    contexts = [
        RequestContext({"banned": ["apple"]}),
        RequestContext({"banned": ["pear"], "limit": 2}),
        None,
    ]
    first, second, third = await asyncio.gather(
        *(play(way, agent, "an apple a day", request_context=c, **options) for c in contexts)
    )
    check_tripped(first, reason="banned word", processor_id="words")
    check_tripped(second, reason="too long", processor_id="words", metadata={"limit": 2})
    assert (third.text, third.tripwire) == ("fine", None)
    assert sorted(map(str, made)) == sorted(map(str, [["apple"], ["pear"], None]))

    check_tripped(
        await play(way, agent, "one two three four five", **options),
        reason="too long",
        processor_id="words",
        metadata={"limit": 4},
    )
    assert len(made) == 4
