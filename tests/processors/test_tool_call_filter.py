"""`ToolCallFilter`: B-300 to B-305, G-E."""

import json
import logging
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import Agent, Tool, tool
from procession.errors import InputError
from procession.processor import ProcessLLMRequestArgs, processor
from procession.processors import ToolCallFilter
from procession.testing import ScriptedModel, answer, hook_args, tool_call

Prompt = list[dict[str, Any]]


@tool
async def search(q: str) -> str:
    """Search."""
    return f"found {q}"


@tool
async def weather(city: str) -> dict[str, Any]:
    """Weather."""
    return {"city": city, "temp": 21}


@tool(to_model_output=lambda result: {"type": "text", "value": f"{len(result)} rows"})
async def report(n: int) -> str:
    """Report."""
    return "row " * n


def call(name: str, id: str, result: Any = "ok", **more: Any) -> dict[str, Any]:
    invocation = {
        "state": "result",
        "toolCallId": id,
        "toolName": name,
        "args": {"q": id},
        "result": result,
    }
    return {"type": "tool-invocation", "toolInvocation": invocation, **more}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def message(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "content": {"format": 2, "parts": list(parts)}, "id": f"{role}-{parts}"}


STEP = {"type": "step-start"}
HISTORY = [
    message("user", said("earlier question")),
    message(
        "assistant",
        said("I will look"),
        call("search", "h1", "search result"),
        STEP,
        call("weather", "h2", {"temp": 1}),
        said("It is 1"),
    ),
    message("user", said("new question")),
]


def filtered(messages: Any, **options: Any) -> Prompt | None:
    args = hook_args(ProcessLLMRequestArgs, messages=messages)
    returned = ToolCallFilter(**options).process_llm_request(args)
    return None if returned is None else returned["prompt"]


def outline(prompt: Prompt | None) -> list[str]:
    """Each entry as role and parts: texts, names of calls, and of results with `=`."""
    made: list[str] = []
    for entry in prompt or []:
        if isinstance(entry["content"], str):
            continue
        words = [
            part.get("text")
            or ("=" if part["type"] == "tool-result" else "") + part.get("toolName", part["type"])
            for part in entry["content"]
        ]
        made.append(f"{entry['role']}: {', '.join(words)}")
    return made


def test_all_tools_by_default() -> None:
    """B-301, B-304: the messages keep their texts."""
    assert outline(filtered(HISTORY)) == [
        "user: earlier question",
        "assistant: I will look",
        "assistant: It is 1",
        "user: new question",
    ]


def test_a_list_removes_these_names() -> None:
    """B-301."""
    assert outline(filtered(HISTORY, exclude=["search", "unknown"])) == [
        "user: earlier question",
        "assistant: I will look",
        "assistant: weather",
        "tool: =weather",
        "assistant: It is 1",
        "user: new question",
    ]


def test_nothing_removed_is_nothing_returned() -> None:
    """B-301, B-304."""
    assert filtered(HISTORY, exclude=[]) is None
    assert filtered(HISTORY, exclude=["other"]) is None
    assert filtered("hello") is None
    assert filtered(HISTORY, filter_after_tool_steps=2) is None


def test_messages_left_empty_disappear() -> None:
    """B-304."""
    messages = [HISTORY[0], message("assistant", call("search", "1")), HISTORY[2]]
    assert outline(filtered(messages)) == ["user: earlier question", "user: new question"]


def test_a_thought_goes_with_the_call_it_led_to() -> None:
    """B-304: providers refuse a thought that nothing follows."""
    thought = {"type": "reasoning", "reasoning": "hm", "details": []}
    parts = [thought, call("search", "1"), STEP, thought, call("weather", "2"), thought, said("so")]
    messages = [HISTORY[0], message("assistant", *parts), HISTORY[2]]
    assert outline(filtered(messages, exclude=["search"])) == [
        "user: earlier question",
        "assistant: hm, weather",
        "tool: =weather",
        "assistant: hm, so",
        "user: new question",
    ]


def test_of_parallel_calls_each_goes_with_its_result() -> None:
    """B-304."""
    parts = [call("search", "1"), call("weather", "2"), call("search", "3")]
    prompt = filtered([HISTORY[0], message("assistant", *parts), HISTORY[2]], exclude=["search"])
    assert outline(prompt)[1:3] == ["assistant: weather", "tool: =weather"]


def test_calls_of_the_provider_go_with_their_results() -> None:
    """B-304: both stand in the answer."""
    parts = [call("web_search", "1", providerExecuted=True), said("so"), call("weather", "2")]
    messages = [HISTORY[0], message("assistant", *parts), HISTORY[2]]
    assert outline(filtered(messages, exclude=["web_search"]))[1:] == [
        "assistant: so, weather",
        "tool: =weather",
        "user: new question",
    ]
    assert "web_search" not in json.dumps(filtered(messages))


def test_the_same_id_twice_is_two_calls() -> None:
    """B-304: some providers count from one with each answer."""
    parts = [call("search", "call_0"), STEP, call("weather", "call_0")]
    prompt = filtered([HISTORY[0], message("assistant", *parts), HISTORY[2]], exclude=["search"])
    assert outline(prompt)[1:3] == ["assistant: weather", "tool: =weather"]


def test_the_same_id_twice_in_one_answer() -> None:
    """B-304: the results come in the order of the calls."""
    parts = [call("search", "x", "first"), call("weather", "x", "second")]
    prompt = filtered([HISTORY[0], message("assistant", *parts), HISTORY[2]], exclude=["search"])
    assert outline(prompt)[1:3] == ["assistant: weather", "tool: =weather"]
    assert "second" in json.dumps(prompt) and "first" not in json.dumps(prompt)


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_the_most_recent_steps_stay(kept: int) -> None:
    """B-303: history counts like the current run."""
    parts = [call("search", "1"), STEP, call("weather", "2"), call("search", "3"), STEP]
    parts += [call("report", "4"), said("end")]
    prompt = filtered(
        [HISTORY[0], message("assistant", *parts), HISTORY[2]], filter_after_tool_steps=kept
    )
    steps = ["assistant: search", "assistant: weather, search", "assistant: report"]
    if kept == 3:
        assert prompt is None
    else:
        calls = [line for line in outline(prompt) if line in steps]
        assert calls == steps[3 - kept :]


def test_results_that_came_with_the_request_are_not_history() -> None:
    """B-302: a client's tool has just answered, and the model is asked to go on from there."""
    messages = [*HISTORY, message("assistant", call("pick", "1"), STEP, call("pick", "2"))]
    assert outline(filtered(messages)) == [
        "user: earlier question",
        "assistant: I will look",
        "assistant: It is 1",
        "user: new question",
        "assistant: pick",
        "tool: =pick",
        "assistant: pick",
        "tool: =pick",
    ]
    assert outline(filtered(messages, filter_after_tool_steps=0))[-1] == "user: new question"


# ── in runs ────────────────────────────────────────────────────────────────────────────────────

LOOP = [
    answer(tool_calls=[tool_call("search", {"q": "a"}), tool_call("weather", {"city": "A"})]),
    answer("hm", tool_calls=[tool_call("search", {"q": "b"})]),
    "done",
]


async def prompts(*, script: Any = LOOP, messages: Any = HISTORY, **options: Any) -> Any:
    """What the model was sent, and the messages at the end."""
    model = ScriptedModel(script)
    agent = Agent(
        id="a",
        model=model,
        tools=[search, weather, report],
        input_processors=[ToolCallFilter(**options)],
    )
    result = await agent.generate(messages)
    return [outline(recorded.prompt) for recorded in model.calls], result


async def test_history_stays_filtered_at_every_step_and_the_loop_whole() -> None:
    """B-302."""
    sent, _ = await prompts()
    history = [
        "user: earlier question",
        "assistant: I will look",
        "assistant: It is 1",
        "user: new question",
    ]
    first = ["assistant: search, weather", "tool: =search, =weather"]
    second = ["assistant: hm, search", "tool: =search"]
    assert sent == [history, history + first, history + first + second]


@pytest.mark.parametrize("kept", [0, 1, 2])
async def test_the_loop_is_filtered_too_on_demand(kept: int) -> None:
    """B-303: `filterAfterToolSteps` of the guide; at every step the most recent ones stay."""
    sent, result = await prompts(filter_after_tool_steps=kept)
    last = sent[-1]
    assert sum("tool:" in line for line in last) == kept
    if kept == 1:
        assert last[-2:] == ["assistant: hm, search", "tool: =search"]
        assert "assistant: weather" in sent[0]  # the last of the history survives
    if kept == 0:
        assert last[-1] == "assistant: hm"
    assert result.text.endswith("done")


async def test_a_call_of_history_with_an_id_of_this_run_is_history() -> None:
    """B-302: ids that a provider gives again with each request."""
    script = [answer(tool_calls=[tool_call("search", {"q": "a"}, id="h1")]), "done"]
    sent, _ = await prompts(script=script)
    assert sent[-1][-3:] == ["user: new question", "assistant: search", "tool: =search"]
    assert sum("search" in line for line in sent[-1]) == 2


async def test_messages_keep_what_is_not_sent() -> None:
    """B-300."""
    _, result = await prompts(filter_after_tool_steps=0)
    names = [
        part.tool_invocation.tool_name
        for held in result.messages
        for part in held.parts
        if part.type == "tool-invocation"
    ]
    assert names == ["search", "weather", "search", "weather", "search"]


@pytest.mark.parametrize("reminded", [False, True])
async def test_a_clients_answer_reaches_the_model(reminded: bool) -> None:
    """B-302: and is still there when more steps follow, or a reminder does."""

    async def remind(args: Any) -> None:
        if reminded and args.step_number == 0:
            await args.send_signal({"type": "reactive", "contents": "Be brief."})

    pick = Tool(name="pick", description="Pick.")
    asks = [answer(tool_calls=[tool_call("pick", id="p1")])]
    goes_on = [answer(tool_calls=[tool_call("search", {"q": "a"})]), "done"]
    first, then = ScriptedModel(asks), ScriptedModel(goes_on)
    processors = [processor(id="reminder", process_input_step=remind), ToolCallFilter()]
    options: Any = {"tools": [pick, search], "input_processors": processors}
    history = (await Agent(id="a", model=first, **options).generate("go")).messages
    outcome = {"type": "tool-result", "toolCallId": "p1", "toolName": "pick", "output": "red"}
    given = [message.to_json() for message in history]
    given.append({"role": "tool", "content": [outcome]})
    await Agent(id="a", model=then, **options).generate(given)
    for recorded in then.calls:
        lines = outline(recorded.prompt)
        assert any("reminder" in line for line in lines) == reminded
        lines = [line for line in lines if "reminder" not in line]
        assert lines[:3] == ["user: go", "assistant: pick", "tool: =pick"]
    assert outline(then.calls[-1].prompt)[-1] == "tool: =search"


async def test_a_call_that_waited_for_approval_counts_as_this_runs() -> None:
    """B-302, B-304."""

    @tool(require_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = ScriptedModel([answer(tool_calls=[tool_call("pay", {"amount": 1}, id="c1")]), "done"])
    agent = Agent(id="a", model=model, tools=[pay], input_processors=[ToolCallFilter()])
    run = await agent.stream(HISTORY)
    async for _ in run:
        pass
    resumed = await agent.approve_tool_call(run_id=run.run_id, tool_call_id="c1")
    async for _ in resumed:
        pass
    assert outline(model.calls[-1].prompt)[-2:] == ["assistant: pay", "tool: =pay"]
    assert "search" not in json.dumps(model.calls[-1].prompt)


# ── preserve_model_output ──────────────────────────────────────────────────────────────────────


async def reported(tool_name: str, args: dict[str, Any]) -> list[Any]:
    model = ScriptedModel([answer(tool_calls=[tool_call(tool_name, args)]), "seen"])
    agent = Agent(id="a", model=model, tools=[report, search])
    result = await agent.generate("report")
    return [held.to_json() for held in result.messages]


async def test_the_output_made_for_the_model_stays_as_text() -> None:
    """B-305: `preserveModelOutput` of the guide."""
    history = [*await reported("report", {"n": 5}), HISTORY[2]]
    sent, _ = await prompts(script=["ok"], messages=history, preserve_model_output=True)
    assert len(sent[0]) == 4
    assert sent[0][1].startswith("assistant: ") and sent[0][2] == "assistant: seen"
    assert "report" in sent[0][1] and "20 rows" in sent[0][1] and "row row" not in sent[0][1]
    sent, _ = await prompts(script=["ok"], messages=history)
    assert sent[0][1] == "assistant: seen"


async def test_results_without_such_an_output_go_entirely() -> None:
    """B-305."""
    history = [*await reported("search", {"q": "x"}), HISTORY[2]]
    sent, _ = await prompts(script=["ok"], messages=history, preserve_model_output=True)
    assert sent[0] == ["user: report", "assistant: seen", "user: new question"]


@pytest.mark.parametrize(
    ("output", "left"),
    [
        ({"type": "text", "value": "20 rows"}, "20 rows"),
        ({"type": "json", "value": {"a": "é"}}, '{"a":"é"}'),
        ({"type": "content", "value": [{"type": "text", "text": "x"}, {"type": "media"}]}, "x"),
        ({"type": "content", "value": [{"type": "media", "data": "AAAA"}]}, None),
        ({"type": "error-text", "value": "broken"}, None),
        ({"type": "text", "value": ""}, None),
        ("odd", None),
    ],
)
def test_forms_of_outputs(output: Any, left: str | None) -> None:
    """B-305."""
    metadata = {"mastra": {"modelOutput": output}}
    made = call("report", "1", "raw", providerMetadata=metadata)
    prompt = filtered(
        [HISTORY[0], message("assistant", made), HISTORY[2]], preserve_model_output=True
    )
    lines = outline(prompt)
    if left is None:
        assert len(lines) == 2
    else:
        assert len(lines) == 3 and "report" in lines[1] and lines[1].endswith(left)
        assert "raw" not in lines[1]


# ── laws ───────────────────────────────────────────────────────────────────────────────────────

PARTS = st.one_of(
    st.just(said("text")),
    st.just(STEP),
    st.just({"type": "reasoning", "reasoning": "hm", "details": []}),
    st.tuples(st.sampled_from(["a", "b", "c"]), st.booleans()),
)


@given(
    st.lists(st.one_of(st.just(None), st.lists(PARTS, max_size=6)), max_size=6),
    st.sampled_from([None, (), ("a",), ("a", "b")]),
    st.sampled_from([None, 0, 1, 2]),
)
def test_pairs_are_never_split(turns: Any, exclude: Any, kept: int | None) -> None:
    """B-304, G-E: whatever the history, the prompt is balanced, and all else is as it was."""
    messages: list[Any] = []
    for turn in turns:
        if turn is None:
            messages.append(message("user", said(f"q{len(messages)}")))
            continue
        parts = [
            call(part[0], f"{len(messages)}.{n}", providerExecuted=part[1] or None)
            if isinstance(part, tuple)
            else part
            for n, part in enumerate(turn)
        ]
        messages.append({**message("assistant", *parts), "id": str(len(messages))})
    messages.append({**message("user", said("end")), "id": "end"})
    args = hook_args(ProcessLLMRequestArgs, messages=messages)
    before = json.dumps(args.prompt)
    returned = ToolCallFilter(exclude=exclude, filter_after_tool_steps=kept).process_llm_request(
        args
    )
    assert json.dumps(args.prompt) == before
    prompt = args.prompt if returned is None else returned["prompt"]
    parts = [part for entry in prompt for part in entry["content"]]
    calls = Counter(part["toolCallId"] for part in parts if part["type"] == "tool-call")
    results = Counter(part["toolCallId"] for part in parts if part["type"] == "tool-result")
    assert calls == results
    assert all(entry["content"] for entry in prompt)
    texts = [p for e in json.loads(before) for p in e["content"] if p["type"] == "text"]
    assert [part for part in parts if part["type"] == "text"] == texts
    names = {part["toolName"] for part in parts if part["type"] == "tool-call"}
    if kept in (None, 0):
        assert not names & ({"a", "b", "c"} if exclude is None else set(exclude))


def test_the_cost_of_a_step_is_in_proportion_to_the_prompt() -> None:
    """Law 7: no pairing by search, which would take minutes for so many calls."""
    args = hook_args(ProcessLLMRequestArgs, messages=HISTORY)
    first, *_, last = args.prompt
    calls = [
        {"role": role, "content": [{"type": kind, "toolCallId": str(n), "toolName": "search"}]}
        for n in range(60_000)
        for role, kind in (("assistant", "tool-call"), ("tool", "tool-result"))
    ]
    args.prompt = [first, *calls, last]
    for kept, left in ((None, 2), (30_000, 60_002)):
        changed = ToolCallFilter(filter_after_tool_steps=kept).process_llm_request(args)
        assert changed is not None
        assert len(changed["prompt"]) == left


# ── options ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("exclude", "search"),
        ("exclude", [1]),
        ("filter_after_tool_steps", -1),
        ("filter_after_tool_steps", True),
        ("filter_after_tool_steps", 1.5),
        ("preserve_model_output", "yes"),
    ],
)
def test_a_wrong_option_is_named(option: str, value: Any) -> None:
    """B-014."""
    wrong: dict[str, Any] = {option: value}
    with pytest.raises(InputError, match=option):
        ToolCallFilter(**wrong)


def test_prompts_of_other_hooks_are_read_with_care() -> None:
    """B-304: half a pair goes as well, and what is no list stays."""
    orphan = {"type": "tool-result", "toolCallId": "x", "toolName": "search", "output": None}
    prompt: Prompt = [
        {"role": "user", "content": [said("q")]},
        {"role": "assistant", "content": "a text"},
        {"role": "assistant", "content": [None, "odd", said("t")]},
        {"role": "tool", "content": [orphan]},
        {"role": "user", "content": [said("q")]},
    ]
    args = hook_args(ProcessLLMRequestArgs, prompt=prompt)
    assert ToolCallFilter().process_llm_request(args) == {"prompt": prompt[:3] + prompt[4:]}


@pytest.mark.parametrize(
    ("exclude", "told"),
    [
        (["weathr", "search"], "exclude has 'weathr', but no tool is called so; did you mean 'wea"),
        (["Weather"], "did you mean 'weather'?"),
        (["weather", "search"], ""),
        (["gone_since"], ""),  # a tool of another agent, or of an earlier day
        (None, ""),
    ],
)
async def test_a_misspelt_tool_is_told_once(
    exclude: list[str] | None, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B-301: it would leave out nothing, and nobody would notice."""
    processor = ToolCallFilter(exclude=exclude)
    agent = Agent(
        id="a", model=ScriptedModel(["ok"]), tools=[weather, search], input_processors=[processor]
    )
    with caplog.at_level(logging.WARNING):
        await agent.generate("Hi")
        await agent.generate("Hi")
    assert told in caplog.text
    assert caplog.text.count("did you mean") == bool(told)
