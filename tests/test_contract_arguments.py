"""What each hook is told, and what comes of the hooks around the model call."""

from __future__ import annotations

from typing import Any

import pytest

from procession import (
    AbortController,
    Agent,
    APICallError,
    CachedLLMStepChunk,
    CachedLLMStepResponse,
    MessageList,
    ProcessLLMRequestResult,
    Tool,
    ToolInvocationPart,
    tool,
)
from procession.processor import HOOKS, INPUT_HOOKS, OUTPUT_HOOKS
from procession.testing import ScriptedModel, answer, tool_call
from tests.seeds.threeways import only, play, three_ways

READ = (
    "abort",
    "abort_signal",
    "message_list",
    "messages",
    "request_context",
    "retry_count",
    "run_id",
    "send_signal",
    "state",
    "system_messages",
    "tracing_context",
    "writer",
)

OF_ITS_OWN = {
    "process_input": (),
    "process_input_step": (
        *("step_number", "steps", "model", "tool_choice", "active_tools", "tools"),
        *("provider_options", "model_settings", "structured_output"),
    ),
    "process_llm_request": ("prompt", "model", "step_number", "steps"),
    "process_llm_response": (
        *("chunks", "model", "step_number", "steps", "from_cache", "warnings"),
        *("request", "raw_response"),
    ),
    "process_api_error": ("error", "step_number", "steps"),
    "process_output_stream": ("part", "stream_parts"),
    "process_output_step": (
        *("step_number", "finish_reason", "provider_metadata", "tool_calls", "text"),
        *("usage", "steps"),
    ),
    "process_tool_result": (
        *("step_number", "tool_name", "tool_call_id", "args", "result"),
        *("provider_executed", "steps"),
    ),
    "process_output_result": ("result",),
}


@tool
async def look(topic: str = "") -> str:
    """Look something up."""
    return "seen"


def looking() -> ScriptedModel:
    return ScriptedModel([answer(tool_calls=[tool_call("look")]), "Seen."])


def lists(hook: str, *processors: Any) -> dict[str, Any]:
    kind = "input" if hook in INPUT_HOOKS else "output" if hook in OUTPUT_HOOKS else "error"
    return {f"{kind}_processors": list(processors)}


async def told(way: str, hook: str, read: Any, **options: Any) -> list[Any]:
    """What `read` makes of the arguments at each call of the hook."""
    found: list[Any] = []

    def note(args: Any) -> Any:
        found.append(read(args))
        return getattr(args, "part", None)

    model = looking()
    if hook == "process_api_error":
        model = ScriptedModel([APICallError("no", status_code=400)])
    agent = Agent(id="a", model=model, tools=[look], instructions="Be brief.")
    await play(way, agent, "go", **lists(hook, only(hook, note, id="notes")), **options)
    assert found
    return found


# ── section 3 ──────────────────────────────────────────────────────────────────────────────────


@three_ways
@pytest.mark.parametrize("hook", HOOKS)
async def test_every_argument_can_be_read(way: str, hook: str) -> None:
    """R-008: what does not apply is `None`; no documented attribute fails."""

    def read(args: Any) -> dict[str, Any]:
        return {name: getattr(args, name) for name in (*READ, *OF_ITS_OWN[hook])}

    for values in await told(way, hook, read):
        assert values["state"] == {}  # nothing of the runtime's own
        assert values["retry_count"] == 0
        assert values["tracing_context"] is None
        assert values["abort_signal"] is None
        assert callable(values["send_signal"])
        assert callable(values["abort"])
        assert (values["writer"] is None) == (hook == "process_input")
        if hook == "process_llm_response":
            assert values["message_list"] is None
        else:
            assert isinstance(values["message_list"], MessageList)


@three_ways
@pytest.mark.parametrize("hook", HOOKS)
async def test_the_callers_signal_is_handed_on(way: str, hook: str) -> None:
    """R-032, R-234."""
    controller = AbortController()
    found = await told(way, hook, lambda args: args.abort_signal, abort_signal=controller.signal)
    assert all(signal is controller.signal for signal in found)
    assert controller.signal.aborted is False


@three_ways
@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook != "process_llm_response"])
async def test_lists_are_copies_messages_are_live(way: str, hook: str) -> None:
    """R-033, R-034, R-036: changing a list that was handed out changes nothing by itself."""

    def spoil(args: Any) -> Any:
        args.messages.clear()
        args.system_messages.append({"role": "system", "content": "Be long."})
        for message in args.system_messages:
            message["content"] = "spoilt"
        return [message.text for message in args.message_list.get.all.db()]

    found = await told(way, hook, spoil)
    assert all(texts[0] == "go" for texts in found)


@three_ways
@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook != "process_llm_response"])
async def test_what_messages_holds(way: str, hook: str) -> None:
    """R-038: all but system messages, those of the call's context too; at the end the response."""

    def read(args: Any) -> list[str]:
        return [message.role for message in args.messages]

    context = [{"role": "user", "content": "background"}]
    first = (await told(way, hook, read, context=context))[0]
    expected = {
        "process_output_result": ["assistant"],
        "process_output_step": ["user", "user", "assistant"],
        "process_tool_result": ["user", "user", "assistant"],
    }
    assert first == expected.get(hook, ["user", "user"])


@three_ways
async def test_values_when_nothing_was_given(way: str) -> None:
    """R-072."""

    def read(args: Any) -> Any:
        given = (args.active_tools, args.provider_options, args.structured_output)
        return (args.tool_choice, list(args.tools), given, args.model.model_id)

    found = await told(way, "process_input_step", read)
    assert found == [("auto", ["look"], (None, None, None), "mock-1")] * 2


@three_ways
async def test_step_values_are_plain(way: str) -> None:
    """R-235: texts and lists that the hook may use unguarded."""

    def read(args: Any) -> Any:
        assert isinstance(args.tool_calls or [], list)
        return (args.text, [(len(s.tool_calls), len(s.tool_results)) for s in args.steps])

    found = await told(way, "process_output_step", read)
    assert found == [("", [(1, 0)]), ("Seen.", [(1, 1), (0, 0)])]


@three_ways
async def test_the_call_while_its_result_is_judged(way: str) -> None:
    """R-143, R-144, R-147: still in state `call`, in the step that made it."""

    def read(args: Any) -> Any:
        (part,) = [p for p in args.messages[-1].parts if isinstance(p, ToolInvocationPart)]
        call = part.tool_invocation
        return (call.state, args.step_number, args.tool_name, args.result, args.provider_executed)

    assert await told(way, "process_tool_result", read) == [("call", 0, "look", "seen", None)]


# ── process_input, process_input_step ──────────────────────────────────────────────────────────


@three_ways
async def test_two_part_return(way: str) -> None:
    """R-065, R-087: all system messages are replaced; what equals a tagged one keeps its tag."""
    model = ScriptedModel(["ok"])

    def replace(args: Any) -> Any:
        kept = [m for m in args.system_messages if m["content"] == "The caller's."]
        system = [*kept, {"role": "system", "content": "Be long."}]
        return {"messages": args.messages, "system_messages": system}

    tags: list[list[str]] = []

    def read(args: Any) -> None:
        tags.append([m["content"] for m in args.message_list.get_system_messages("user-provided")])

    agent = Agent(
        id="a",
        model=model,
        instructions="Be brief.",
        input_processors=[only("process_input", replace), only("process_input", read, id="reads")],
    )
    await play(way, agent, "go", system="The caller's.")
    systems = [e["content"] for e in model.calls[0].prompt if e["role"] == "system"]
    assert systems == ["Be long.", "The caller's."]
    assert tags == [["The caller's."]]


@three_ways
async def test_message_changes_of_a_step_stay(way: str) -> None:
    """R-081, R-086: those to messages stay, those to system messages end with the step."""
    model = looking()

    def change(args: Any) -> None:
        if args.step_number == 0:
            args.message_list.add({"role": "user", "content": "Mind the gap."}, "input")
            args.message_list.add_system("For this step.")
            args.message_list.add_system("For this step, tagged.", "mine")

    agent = Agent(
        id="a", model=model, tools=[look], input_processors=[only("process_input_step", change)]
    )
    outcome = await play(way, agent, "go")
    first, second = (call.text for call in model.calls)
    assert "Mind the gap." in first and "Mind the gap." in second
    assert "For this step." in first and "For this step, tagged." in first
    assert "For this step" not in second
    assert "Mind the gap." in [message.text for message in outcome.messages]


@three_ways
async def test_values_are_replaced_as_a_whole(way: str) -> None:
    """R-080, R-082: no merging, and for the step only."""
    model = looking()
    other = Tool(name="other", description="Another.")

    def change(args: Any) -> Any:
        if args.step_number == 1:
            return None
        return {
            "model_settings": {"seed": 1},
            "provider_options": {"example": {"b": 2}},
            "tools": {**args.tools, "other": other},
        }

    agent = Agent(
        id="a", model=model, tools=[look], input_processors=[only("process_input_step", change)]
    )
    options: dict[str, Any] = {
        "model_settings": {"temperature": 0.5},
        "provider_options": {"example": {"a": 1}},
    }
    await play(way, agent, "go", **options)
    first, second = model.calls
    assert (first.settings, first.provider_options) == ({"seed": 1}, {"example": {"b": 2}})
    assert (first.tool_names, second.tool_names) == (["look", "other"], ["look"])
    assert second.settings == {"temperature": 0.5}
    assert second.provider_options == {"example": {"a": 1}}


# ── process_llm_request, process_llm_response ──────────────────────────────────────────────────


@three_ways
async def test_the_prompt_is_a_copy(way: str) -> None:
    """R-092, R-093: mutating it does nothing, returning it counts for this call only."""
    model = looking()
    seen: list[Any] = []

    def spoil(args: Any) -> None:
        args.prompt[0]["content"][0]["text"] = "spoilt"
        args.prompt.append({"role": "user", "content": [{"type": "text", "text": "more"}]})

    def replace(args: Any) -> Any:
        seen.append([entry["role"] for entry in args.prompt])
        if args.step_number:
            return None
        args.prompt[0]["content"][0]["text"] = "replaced"
        return {"prompt": args.prompt}

    def read(args: Any) -> None:
        seen.append(args.prompt[0]["content"][0]["text"])

    agent = Agent(
        id="a",
        model=model,
        tools=[look],
        input_processors=[
            only("process_llm_request", spoil, id="one"),
            only("process_llm_request", replace, id="two"),
            only("process_llm_request", read, id="three"),
        ],
    )
    outcome = await play(way, agent, "go")
    assert seen == [["user"], "replaced", ["user", "assistant", "tool"], "go"]
    assert [call.prompt[0]["content"][0]["text"] for call in model.calls] == ["replaced", "go"]
    assert outcome.messages[0].text == "go"


def stored(text: str) -> list[dict[str, Any]]:
    return [
        {"type": "text-start", "payload": {"id": "t1"}},
        {"type": "text-delta", "payload": {"id": "t1", "text": text}},
        {"type": "text-end", "payload": {"id": "t1"}},
        {
            "type": "finish",
            "payload": {
                "stepResult": {"reason": "stop"},
                "output": {"usage": {"inputTokens": 7, "outputTokens": 2}},
            },
        },
    ]


RESPONSES: list[Any] = [
    lambda chunks: {"response": {"chunks": chunks}},
    lambda chunks: {"response": CachedLLMStepResponse(chunks=chunks, warnings=[{"type": "w"}])},
    lambda chunks: ProcessLLMRequestResult(
        response=CachedLLMStepResponse(
            chunks=[CachedLLMStepChunk(chunk["type"], chunk["payload"]) for chunk in chunks]
        )
    ),
]


@three_ways
@pytest.mark.parametrize("form", RESPONSES)
async def test_a_response_instead_of_a_call(way: str, form: Any) -> None:
    """R-094 to R-096, R-101, R-104: replayed like a live one; the first response wins."""
    log: list[Any] = []
    model = ScriptedModel(["never"])

    class Caching:
        def __init__(self, id: str, text: str) -> None:
            self.id = id
            self.text = text

        def process_llm_request(self, args: Any) -> Any:
            args.state["asked"] = True
            log.append(self.id)
            return form(stored(self.text))

        def process_llm_response(self, args: Any) -> None:
            assert args.state == {"asked": True}
            kinds = [chunk.type for chunk in args.chunks]
            log.append((self.id, args.from_cache, kinds[-4:], args.model is model))

    seen: list[str] = []

    def shout(args: Any) -> Any:
        seen.append(args.part.type)
        if args.part.type == "text-delta":
            return args.part.replace(
                payload=args.part.payload.replace(text=args.part.payload.text.upper())
            )
        return args.part

    agent = Agent(
        id="a",
        model=model,
        input_processors=[Caching("first", "kept"), Caching("second", "other")],
        output_processors=[only("process_output_stream", shout)],
    )
    outcome = await play(way, agent, "go")
    assert (outcome.text, outcome.finish_reason, model.calls) == ("KEPT", "stop", [])
    assert outcome.output.usage.total_tokens == 9
    kinds = ["text-start", "text-delta", "text-end", "finish"]
    assert log == ["first", "second", ("first", True, kinds, True), ("second", True, kinds, True)]
    assert seen == ["step-start", *kinds, "step-finish"]
    assert [message.text for message in outcome.messages] == ["go", "KEPT"]


@three_ways
async def test_no_response_hook_after_a_failed_call(way: str) -> None:
    """R-106, R-136: nor the one for steps."""
    called: list[str] = []
    agent = Agent(
        id="a",
        model=ScriptedModel([APICallError("no", status_code=400)]),
        input_processors=[only("process_llm_response", lambda args: called.append("response"))],
        output_processors=[only("process_output_step", lambda args: called.append("step"))],
    )
    outcome = await play(way, agent, "go")
    assert isinstance(outcome.error, APICallError)
    assert called == []


@three_ways
async def test_result_hook_after_a_failed_call(way: str) -> None:
    """R-061: it runs then, too, and is told why the run ended."""
    seen: list[Any] = []
    agent = Agent(
        id="a",
        model=ScriptedModel([APICallError("no", status_code=400)]),
        output_processors=[
            only("process_output_result", lambda args: seen.append(args.result.finish_reason))
        ],
    )
    await play(way, agent, "go")
    assert seen == ["error"]


#


@three_ways
@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook != "process_api_error"])
@pytest.mark.parametrize("later", [False, True])
async def test_exceptions_of_hooks(way: str, hook: str, later: bool) -> None:
    """R-108, R-133, R-157, R-187, R-188, R-553: one `error` chunk, the last; awaiting raises."""
    broken = ZeroDivisionError("broken")

    def fail(args: Any) -> None:
        raise broken

    async def fail_later(args: Any) -> None:
        raise broken

    agent = Agent(
        id="a",
        model=looking(),
        tools=[look],
        **lists(hook, only(hook, fail_later if later else fail)),
    )
    outcome = await play(way, agent, "go")
    assert outcome.error is broken
    if hook == "process_input":
        assert outcome.chunks is None
    elif outcome.chunks is not None:
        kinds = outcome.kinds()
        assert (kinds[-1], kinds.count("error")) == ("error", 1)
        assert outcome.chunks[-1].payload.error is broken
        form = outcome.chunks[-1].to_json()["payload"]["error"]
        assert (form["name"], form["message"]) == ("ZeroDivisionError", "broken")
        assert "finish" not in kinds
        if hook == "process_output_result":
            assert kinds[-2] == "step-finish"


@pytest.mark.parametrize(
    "name", ["text", "usage", "steps", "finish_reason", "tool_calls", "response", "total_usage"]
)
async def test_every_value_raises(name: str) -> None:
    """R-553: whichever is awaited; `status` and `error` can be read."""
    broken = ZeroDivisionError("broken")

    def fail(args: Any) -> None:
        raise broken

    agent = Agent(
        id="a",
        model=ScriptedModel(["An answer"]),
        output_processors=[only("process_output_result", fail)],
    )
    run = await agent.stream("go")
    with pytest.raises(ZeroDivisionError):
        await getattr(run, name)
    assert (run.status, run.error) == ("failed", broken)
    await run.consume_stream()
    with pytest.raises(ZeroDivisionError):
        await run.get_full_output()
