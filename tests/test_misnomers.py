"""What is misspelt, or has no effect, is told: nobody should think that a guard is at work."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from procession import (
    Agent,
    APICallError,
    CachedLLMStepResponse,
    ConfigurationError,
    MessageList,
    ProcessAPIErrorResult,
    ProcessLLMRequestResult,
    ProcessorError,
    processor,
    tool,
)
from procession.processor import ERROR_HOOKS, HOOKS, INPUT_HOOKS
from procession.testing import ScriptedModel, answer, tool_call

SECRET = "555-0932"


@tool
def phone(name: str) -> str:
    """Somebody's phone number."""
    return SECRET


def agent_of(hook: str, function: Any, *, model: Any = None, id: str = "p") -> Agent:
    """An agent with one processor, in the list of its hook."""
    kind = "input" if hook in INPUT_HOOKS else "error" if hook in ERROR_HOOKS else "output"
    model = model or ScriptedModel(
        [answer("wait", tool_calls=[tool_call("phone", {"name": "x"})]), "done"]
    )
    lists: dict[str, Any] = {f"{kind}_processors": [processor(id=id, **{hook: function})]}
    return Agent(id="a", model=model, tools=[phone], **lists)


async def failure_of(agent: Agent) -> ProcessorError:
    with pytest.raises(ProcessorError) as raised:
        await agent.generate("go")
    return raised.value


# ── names of hooks ─────────────────────────────────────────────────────────────────────────────


def guard(**more: Any) -> Any:
    """A processor with a right hook, and attributes beside it."""
    return type("Guard", (), {"id": "g", "process_output_step": lambda self, args: None, **more})()


def hook(self: Any, args: Any) -> Any:
    """Never called."""


MISSPELT = [
    ("process_output_strem", "process_output_stream"),
    ("process_ouput_step", "process_output_step"),
    ("proces_input", "process_input"),
    ("process_inptu", "process_input"),
    ("process_llm_reqeust", "process_llm_request"),
    ("process_tool_results", "process_tool_result"),
    ("processOutputStream", "process_output_stream"),
    ("processAPIError", "process_api_error"),
    ("process_LLM_request", "process_llm_request"),
    ("on_violations", "on_violation"),
    ("onViolation", "on_violation"),
    ("processDataParts", "process_data_parts"),
]


@pytest.mark.parametrize(("name", "meant"), MISSPELT)
def test_a_misspelt_hook_is_refused(name: str, meant: str) -> None:
    """R-006: a name that nothing calls, beside one that is called, is no missing hook."""
    on_object = guard()
    setattr(on_object, name, hook)
    inherited = type("Own", (type(guard(**{name: hook})),), {})()
    for entry in (guard(**{name: hook}), on_object, inherited):
        for kind in ("input_processors", "output_processors"):
            for _ in range(2):  # a class that was refused once is refused again
                with pytest.raises(ConfigurationError, match=f"{name!r}.*mean {meant!r}"):
                    Agent(id="a", model=ScriptedModel("x"), **{kind: [entry]})


async def test_a_misspelt_hook_in_the_lists_of_a_call() -> None:
    """R-017: those are looked at, too."""
    agent = Agent(id="a", model=ScriptedModel("x"))
    with pytest.raises(ConfigurationError, match="process_output_stream"):
        await agent.generate("go", output_processors=[guard(process_output_strem=hook)])


def test_other_methods_are_anybodys() -> None:
    """R-006: names that are merely like a hook's, private ones, and those built upon one."""
    names = (
        *("process", "process_text", "process_output", "process_result", "process_output_text"),
        *("process_output_item", "process_input_text", "process_tool_call", "process_step"),
        *("preprocess_input", "preprocess_output_stream", "aprocess_input", "reprocess_input"),
        *("process_output_stream_v2", "process_input_2", "_process_input", "__process_inputt"),
        *("violation", "on_violation_found", "processor_index", "processed", "processes"),
    )
    entry = guard(**dict.fromkeys(names, hook))
    Agent(id="a", model=ScriptedModel("x"), output_processors=[entry])


def test_a_misspelt_keyword_of_processor() -> None:
    """The function form says the same."""
    misspelt: Any = {"process_output_strem": lambda args: None}
    with pytest.raises(ConfigurationError, match="did you mean 'process_output_stream'"):
        processor(**misspelt)
    unlike: Any = {"before_model": lambda args: None}
    with pytest.raises(ConfigurationError, match=r"before_model.*process_llm_request"):
        processor(process_input=lambda args: None, **unlike)


# ── keys of what is returned ───────────────────────────────────────────────────────────────────

KEYS = [
    ("process_input_step", {"modelsettings": {}}, "model_settings"),
    ("process_input_step", {"activeTools": []}, "active_tools"),
    ("process_input_step", {"tool": []}, "tools"),
    ("process_input", {"messages": None, "systemMessages": []}, "system_messages"),
    ("process_output_step", {"messages": None, "system_message": []}, "system_messages"),
    ("process_llm_request", {"response": {"chunks": [], "rawResponse": 1}}, "raw_response"),
]


@pytest.mark.parametrize(("name", "returned", "meant"), KEYS)
async def test_a_misspelt_key_is_refused(name: str, returned: Any, meant: str) -> None:
    """R-074, R-189: an unknown key is ignored, but not one that was meant to be known."""
    error = await failure_of(agent_of(name, lambda args: returned))
    assert f"did you mean {meant!r}?" in str(error) and error.hook == name


async def test_an_unknown_key_is_ignored_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """R-074."""
    agent = agent_of("process_input_step", lambda args: {"colour": 1}, id="odd key")
    with caplog.at_level(logging.WARNING, "procession"):
        assert (await agent.generate("go")).text == "waitdone"
    assert caplog.text.count("'colour'") == 1 and "odd key" in caplog.text


async def test_a_response_without_chunks() -> None:
    """R-094, R-189."""
    error = await failure_of(
        agent_of("process_llm_request", lambda args: {"response": {"warnings": []}})
    )
    assert "'chunks'" in str(error)


async def test_what_the_response_hook_returns_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """R-103: ignored for now, but not in silence."""
    agent = agent_of("process_llm_response", lambda args: "new text", id="rewrites")
    with caplog.at_level(logging.WARNING, "procession"):
        assert (await agent.generate("go")).text == "waitdone"
    assert caplog.text.count("rewrites") == 1 and "process_llm_response" in caplog.text


WRONG_ANSWERS = [
    ({"retry": "yes"}, "'retry' must be True or False"),
    ({"retry": 1}, "'retry' must be True or False"),
    ({"retries": True}, "without 'retry'"),
    (ProcessAPIErrorResult(retry="yes"), "'retry' must be True or False"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("returned", "words"), WRONG_ANSWERS)
async def test_wrong_answers_to_a_failed_call(
    returned: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R-111, R-117: they count as declined, and the log says what is wrong with them."""
    model = ScriptedModel([APICallError("no", status_code=400), "mended"])
    with caplog.at_level(logging.WARNING, "procession"), pytest.raises(APICallError):
        await agent_of("process_api_error", lambda args: returned, model=model).generate("go")
    assert len(model.calls) == 1 and words in caplog.text


@pytest.mark.parametrize("returned", [{}, {"retry": False}, ProcessAPIErrorResult()])
async def test_ways_to_decline(returned: Any, caplog: pytest.LogCaptureFixture) -> None:
    """R-111."""
    model = ScriptedModel([APICallError("no", status_code=400), "mended"])
    with caplog.at_level(logging.WARNING, "procession"), pytest.raises(APICallError):
        await agent_of("process_api_error", lambda args: returned, model=model).generate("go")
    assert not caplog.text


# ── what is assigned to an argument ────────────────────────────────────────────────────────────

ASSIGNED = [
    ("process_tool_result", "result", "masked", "update_tool_invocation"),
    ("process_output_result", "result", None, "return messages"),
    ("process_output_step", "text", "masked", "return messages"),
    ("process_output_step", "tool_calls", [], "return messages"),
    ("process_llm_request", "prompt", [], "return ProcessLLMRequestResult"),
]


@pytest.mark.parametrize(("name", "attribute", "value", "words"), ASSIGNED)
@pytest.mark.parametrize("later", [False, True])
async def test_assigning_to_an_argument_is_refused(
    name: str, attribute: str, value: Any, words: str, later: bool
) -> None:
    """R-148, R-093, R-189: what it was to hide would have gone on to the model and the client."""

    def assigns(args: Any) -> None:
        setattr(args, attribute, value)

    async def assigns_later(args: Any) -> None:
        assigns(args)

    model = ScriptedModel([answer("a", tool_calls=[tool_call("phone", {"name": "x"})]), "done"])
    agent = agent_of(name, assigns_later if later else assigns, model=model)
    error = await failure_of(agent)
    assert f"args.{attribute}" in str(error) and words in str(error)
    assert not any(SECRET in str(call.prompt) for call in model.calls if "tool" in name)


async def test_a_message_list_returned_does_not_make_up_for_it() -> None:
    """R-149: the list says nothing of what was assigned."""

    def assigns(args: Any) -> Any:
        args.result = "masked"
        return args.message_list

    assert "args.result" in str(await failure_of(agent_of("process_tool_result", assigns)))


async def test_a_prompt_may_be_kept_in_its_argument() -> None:
    """R-091: it is returned in the end."""

    def assigns(args: Any) -> Any:
        args.prompt = [*args.prompt, {"role": "system", "content": "Be brief."}]
        return ProcessLLMRequestResult(prompt=args.prompt)

    model = ScriptedModel("done")
    await agent_of("process_llm_request", assigns, model=model).generate("go")
    assert model.calls[0].prompt[-1]["content"] == "Be brief."


async def test_a_verdict_goes_before_what_was_assigned() -> None:
    """R-165: nothing takes the place of a verdict."""

    def aborts(args: Any) -> None:
        args.text = "masked"
        args.abort("no")

    output = await agent_of("process_output_step", aborts).generate("go")
    assert output.tripwire is not None and output.tripwire.reason == "no"


def test_an_outcome_for_an_unknown_call_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """R-338: False, and a line in the log: a mask that missed its result is no mask."""
    with caplog.at_level(logging.WARNING, "procession"):
        new = {"toolInvocation": {"toolCallId": "call-9", "result": "masked"}}
        assert MessageList().update_tool_invocation(new) is False
    assert "'call-9'" in caplog.text and "masked" not in caplog.text


# ── settings and tools ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("temprature", "temperature"),
        ("maxOutputTokens", "max_output_tokens"),
        ("topP", "top_p"),
        ("stop_sequence", "stop_sequences"),
    ],
)
async def test_a_misspelt_setting_is_refused(name: str, meant: str) -> None:
    """On the call, and where a hook chooses settings."""
    with pytest.raises(ConfigurationError, match=f"{name!r}; did you mean {meant!r}"):
        settings: Any = {name: "sk-secret"}
        await Agent(id="a", model=ScriptedModel("x")).generate("go", model_settings=settings)
    error = await failure_of(
        agent_of("process_input_step", lambda args: {"model_settings": {name: 1}})
    )
    assert repr(meant) in str(error)


async def test_settings_of_other_names_reach_the_model() -> None:
    """A model of one's own may know them."""
    model = ScriptedModel("x")
    settings: Any = {
        **{"min_p": 0.1, "top_a": 0.2, "max_tokens": 5, "repetition_penalty": 1.1},
        **{"logit_bias": {}, "temperature": 0.3},
    }
    await Agent(id="a", model=model).generate("go", model_settings=settings)
    assert model.calls[0].settings == settings


def typed(city: str) -> str:
    """A tool."""
    return city


def two(city, days):  # type: ignore[no-untyped-def]
    """A tool."""


def untyped(city):  # type: ignore[no-untyped-def]
    """A tool."""
    return city


@pytest.mark.parametrize("function", [typed, two, untyped, lambda: "x"])
async def test_a_function_in_place_of_a_list_of_tools(function: Any) -> None:
    """The error shows the list; as the agent is built, if the function tells that much."""
    with pytest.raises(ConfigurationError, match=r"tools=\["):
        await Agent(id="a", model=ScriptedModel("x"), tools=function).generate("go")


async def test_a_function_of_the_request_that_gives_tools() -> None:
    """R-016: plain or async, typed or not."""

    async def later(scope: Any) -> list[Any]:
        return [phone]

    for function in (lambda scope: [phone], later):
        model = ScriptedModel("x")
        await Agent(id="a", model=model, tools=function).generate("go")
        assert model.calls[0].tool_names == ["phone"]


def test_all_hooks_are_known() -> None:
    """R-006: a right name is no misnomer of another one."""
    entry = guard(**dict.fromkeys(HOOKS, hook), on_violation=None, process_data_parts=True)
    Agent(id="a", model=ScriptedModel("x"), output_processors=[entry])
    assert CachedLLMStepResponse(chunks=[]).chunks == []
