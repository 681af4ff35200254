"""Models of pydantic-ai, asked by an agent of ours: its own test models play the provider."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import exceptions
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingPart,
    DeltaToolCall,
    FunctionModel,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from procession import Agent, APICallError, ConfigurationError, Message, tool
from procession.errors import ModelError
from procession.model import LanguageModel, ModelRequest, resolve_model
from procession.models.bridge import bridge
from procession.models.bridge_prompt import messages_of
from procession.testing import collect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.chunks import Chunk


@tool
def add(a: int) -> int:
    """Add one."""
    return a + 1


class Played:
    """A model that plays what each call is to stream, and keeps what it was asked."""

    def __init__(self, *answers: list[Any]) -> None:
        self.asked: list[list[ModelMessage]] = []
        self.infos: list[AgentInfo] = []
        self._answers = list(answers)
        self.model = FunctionModel(stream_function=self._stream, model_name="played-1")

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        self.asked.append(list(messages))
        self.infos.append(info)
        for piece in self._answers.pop(0):
            if isinstance(piece, Exception):
                raise piece
            yield piece


def asks(**request: Any) -> ModelRequest:
    prompt = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    return ModelRequest(**{"prompt": prompt, "settings": {}, **request})


async def answer_of(model: Any, **request: Any) -> list[Chunk]:
    async with aclosing(bridge(model).stream(asks(**request))) as stream:
        return [chunk async for chunks in stream for chunk in chunks]


def of(chunks: list[Chunk], kind: str) -> list[Any]:
    return [chunk.payload for chunk in chunks if chunk.type == kind]


def test_a_bridged_model_is_a_language_model() -> None:
    model = bridge("test")
    assert isinstance(model, LanguageModel)
    assert (model.provider, model.model_id) == ("test", "test")


def test_an_id_names_the_model_there() -> None:
    model = resolve_model("pydantic-ai/test")
    assert (model.provider, model.model_id) == ("test", "test")


@pytest.mark.parametrize("name", ["nothing", "nobody:x"])
def test_an_unknown_name_is_told(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        bridge(name)


def test_a_missing_key_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        bridge("openai:gpt-5")


@pytest.mark.parametrize("streamed", [True, False])
async def test_one_line_and_it_runs_tools(streamed: bool) -> None:
    """pydantic-ai's own test model calls every tool once, then tells what they said."""
    agent = Agent(id="a", model=bridge(TestModel()), tools=[add])
    if streamed:
        stream = await agent.stream("Hi")
        await collect(stream.full_stream)
        result: Any = await stream.get_full_output()
    else:
        result = await agent.generate("Hi")
    assert result.text == '{"add":1}'
    (call,) = result.tool_calls
    assert (call.payload.tool_name, call.payload.args) == ("add", {"a": 0})
    assert result.finish_reason == "stop"
    assert result.total_usage.output_tokens


async def test_a_text_comes_in_pieces() -> None:
    chunks = await answer_of(Played(["Hel", "lo ", "you"]).model)
    assert [chunk.type for chunk in chunks] == [
        "stream-start",
        "text-start",
        "text-delta",
        "text-delta",
        "text-delta",
        "text-end",
        "response-metadata",
        "finish",
    ]
    assert [payload.text for payload in of(chunks, "text-delta")] == ["Hel", "lo ", "you"]


async def test_calls_that_grow_side_by_side() -> None:
    chunks = await answer_of(
        Played(
            [
                {0: DeltaToolCall(name="add", json_args='{"a"', tool_call_id="c1")},
                {1: DeltaToolCall(name="add", json_args='{"a": ', tool_call_id="c2")},
                {0: DeltaToolCall(json_args=": 1}")},
                {1: DeltaToolCall(json_args="2}")},
            ]
        ).model
    )
    calls = [(call.tool_call_id, call.args) for call in of(chunks, "tool-call")]
    assert calls == [("c1", {"a": 1}), ("c2", {"a": 2})]
    pieces: dict[str, str] = {}
    for piece in of(chunks, "tool-call-delta"):
        pieces[piece.tool_call_id] = pieces.get(piece.tool_call_id, "") + piece.args_text_delta
    assert pieces == {"c1": '{"a": 1}', "c2": '{"a": 2}'}
    (finish,) = of(chunks, "finish")
    assert finish.step_result.reason == "tool-calls"


async def test_thoughts_go_back_with_their_signature() -> None:
    """Stored and loaded in between, byte-exact (G-K)."""
    thinking = {0: DeltaThinkingPart(content="Hm.")}
    signed = {0: DeltaThinkingPart(signature="a+/=é")}
    call = {1: DeltaToolCall(name="add", json_args='{"a": 1}', tool_call_id="c1")}
    played = Played([thinking, signed, call], ["Two."], ["Yes."])
    agent = Agent(id="a", model=bridge(played.model), tools=[add], instructions="Be brief.")
    stream = await agent.stream("One and one?")
    result = await stream.get_full_output()
    assert (result.text, result.reasoning_text) == ("Two.", "Hm.")
    stored = json.dumps([message.to_json() for message in result.messages])
    loaded = [Message.from_json(record) for record in json.loads(stored)]
    again = await agent.stream([*loaded, "Sure?"])
    assert (await again.get_full_output()).text == "Yes."
    for messages in played.asked[1:]:
        asked, answered, returned = messages[:3]
        assert [type(part) for part in asked.parts] == [SystemPromptPart, UserPromptPart]
        thought, called = answered.parts
        assert isinstance(thought, ThinkingPart) and isinstance(called, ToolCallPart)
        assert (thought.content, thought.signature) == ("Hm.", "a+/=é")
        assert (called.tool_name, called.args, called.tool_call_id) == ("add", {"a": 1}, "c1")
        (outcome,) = returned.parts
        assert isinstance(outcome, ToolReturnPart)
        assert (outcome.content, outcome.tool_call_id, outcome.outcome) == (2, "c1", "success")


async def test_tools_that_the_provider_executed() -> None:
    played = Played(
        [
            {0: NativeToolCallPart("web_search", {"q": "x"}, tool_call_id="s1")},
            {1: NativeToolReturnPart("web_search", {"found": 1}, tool_call_id="s1")},
            "So.",
        ],
        ["Yes."],
    )
    agent = Agent(id="a", model=bridge(played.model))
    stream = await agent.stream("Search.")
    result = await stream.get_full_output()
    (call,), (outcome,) = result.tool_calls, result.tool_results
    assert (call.payload.tool_name, call.payload.args) == ("web_search", {"q": "x"})
    assert (outcome.payload.result, outcome.payload.provider_executed) == ({"found": 1}, True)
    assert result.text == "So."
    again = await agent.stream([*result.messages, "Sure?"])
    await again.get_full_output()
    kinds = [type(part).__name__ for part in played.asked[1][1].parts]
    assert kinds == ["NativeToolCallPart", "NativeToolReturnPart", "TextPart"]


async def test_what_is_known_of_the_answer_is_told() -> None:
    usage = RequestUsage(input_tokens=3, output_tokens=5, cache_read_tokens=2)
    usage.details = {"reasoning_tokens": 4}
    response = ModelResponse(
        parts=[TextPart("Hi")],
        usage=usage,
        model_name="real-1",
        finish_reason="length",
        provider_response_id="r1",
        provider_details={"finish_reason": "MAX", "tier": "low"},
    )
    model = FunctionModel(lambda messages, info: response, model_name="real-1")
    chunks = await answer_of(model, streaming=False)
    (finish,), (metadata,) = of(chunks, "finish"), of(chunks, "response-metadata")
    assert (finish.step_result.reason, finish.step_result.raw_reason) == ("length", "MAX")
    counts = finish.output.usage
    assert (counts.input_tokens, counts.output_tokens, counts.total_tokens) == (3, 5, 8)
    assert (counts.reasoning_tokens, counts.cached_input_tokens) == (4, 2)
    assert finish.metadata["providerMetadata"]["function"]["tier"] == "low"
    assert (metadata.id, metadata.model_id) == ("r1", "real-1")


async def test_settings_have_its_names() -> None:
    played = Played(["Hi"])
    settings: Any = {"max_output_tokens": 9, "temperature": 0.5, "headers": {"x-a": "1"}}
    settings["max_retries"] = 3
    options = {"pydantic-ai": {"anthropicThinking": {"type": "enabled"}}}
    model = bridge(played.model, settings={"top_p": 0.1, "temperature": 1.0})
    request = asks(settings=settings, provider_options=options)
    async with aclosing(model.stream(request)) as stream:
        assert [chunks async for chunks in stream]
    assert played.infos[0].model_settings == {
        "max_retries": 0,
        "top_p": 0.1,
        "temperature": 0.5,
        "max_tokens": 9,
        "extra_headers": {"x-a": "1"},
        "anthropic_thinking": {"type": "enabled"},
    }


async def test_tools_and_the_choice_among_them() -> None:
    played = Played(["Hi"])
    choice = {"type": "tool", "toolName": "add"}
    await answer_of(played.model, tools=[add.definition()], tool_choice=choice)
    info = played.infos[0]
    assert [(t.name, t.description) for t in info.function_tools] == [("add", "Add one.")]
    assert info.function_tools[0].parameters_json_schema["required"] == ["a"]
    assert info.model_settings == {"max_retries": 0, "tool_choice": ["add"]}


@pytest.mark.parametrize("native", [True, False])
async def test_an_answer_of_a_schema(native: bool) -> None:
    """Bound where the model can be, told otherwise."""
    played = Played(['{"a": 1}'])
    played.model = FunctionModel(
        stream_function=played.model.stream_function,
        profile={"supports_json_schema_output": native},  # type: ignore[arg-type]
    )
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    await answer_of(played.model, response_format={"type": "json", "schema": schema})
    parameters = played.infos[0].model_request_parameters
    assert parameters.output_object is not None
    assert parameters.output_object.json_schema["properties"] == schema["properties"]
    assert parameters.output_mode == ("native" if native else "prompted")
    assert ('"a"' in (played.infos[0].instructions or "")) is not native


async def test_json_without_a_schema_is_a_warning() -> None:
    chunks = await answer_of(Played(["{}"]).model, response_format={"type": "json"})
    (start,) = of(chunks, "stream-start")
    assert start.warnings == [{"type": "unsupported-setting", "setting": "responseFormat"}]


BODY = {"error": {"message": "no such thing", "code": "x"}}


@pytest.mark.parametrize(
    ("error", "kind", "status", "retryable", "message"),
    [
        (exceptions.ModelHTTPError(400, "m", BODY), APICallError, 400, False, "no such thing"),
        (exceptions.ModelHTTPError(503, "m", BODY), APICallError, 503, True, "no such thing"),
        (exceptions.ModelHTTPError(429, "m", "busy"), APICallError, 429, True, "busy"),
        (exceptions.ModelConnectionError("m", "gone"), APICallError, None, True, "gone"),
        (exceptions.UnexpectedModelBehavior("odd"), ModelError, ..., ..., "odd"),
        (exceptions.UserError("set a key"), ConfigurationError, ..., ..., "set a key"),
    ],
)
async def test_errors_are_ours(
    error: Exception, kind: type[Exception], status: Any, retryable: Any, message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        await answer_of(Played([error]).model)
    if status is not ...:
        assert (caught.value.status_code, caught.value.is_retryable) == (status, retryable)  # type: ignore[attr-defined]
    assert caught.value.__cause__ is error


async def test_retry_after_is_kept() -> None:
    error = exceptions.ModelHTTPError(
        429, "m", BODY, headers={"Retry-After": "7", "set-cookie": "s"}
    )
    with pytest.raises(APICallError) as caught:
        await answer_of(Played([error]).model)
    headers = caught.value.response_headers or {}
    assert headers["retry-after"] == "7"
    assert "set-cookie" not in headers


async def test_a_reader_who_leaves_closes_the_stream() -> None:
    closed: list[bool] = []

    async def endless(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        try:
            while True:
                yield "la "
        finally:
            closed.append(True)

    stream = await Agent(id="a", model=bridge(FunctionModel(stream_function=endless))).stream("Hi")
    async with aclosing(stream.text_stream) as texts:
        assert await anext(texts) == "la "
    await stream.aclose()
    assert closed == [True]


def test_files_and_failed_tools_in_a_prompt() -> None:
    def file(media: str, data: Any) -> dict[str, Any]:
        return {"type": "file", "mediaType": media, "data": data}

    asked, answered, returned = messages_of(
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look."},
                    file("image/*", "aGk="),
                    file("image/*", "https://example.com/a.png"),
                ],
            },
            {"role": "assistant", "content": "Hm."},
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "c1",
                        "toolName": "add",
                        "output": {"type": "error-text", "value": "no"},
                    }
                ],
            },
            {"role": "user", "content": "And?"},
        ],
        "test",
    )
    (prompt,) = asked.parts
    assert isinstance(prompt, UserPromptPart)
    text, image, address = prompt.content
    assert text == "Look."
    assert isinstance(image, BinaryContent) and isinstance(address, ImageUrl)
    assert (image.data, image.media_type) == (b"hi", "image/jpeg")
    assert address.media_type == "image/png"
    assert answered.parts == [TextPart("Hm.")]
    failed, again = returned.parts
    assert isinstance(failed, ToolReturnPart) and isinstance(again, UserPromptPart)
    assert (failed.outcome, failed.content) == ("failed", "no")
