"""The Responses adapter against a provider on loopback: requests, round trips, what goes wrong."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from procession import Agent, Message, Tool, tool
from procession.errors import APICallError, MissingKeyError
from procession.model import LanguageModel, ModelRequest, resolve_model
from procession.models.responses import OpenAIResponsesModel

from .conftest import Exchange, Provider, head, piece, plays, refuses
from .test_responses_events import calls, chunks_of, kinds, lines, meaning, recorded, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.chunks import Chunk

KEY = "example-key-1234567890"
Json = dict[str, Any]


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[OpenAIResponsesModel]:
    """A model behind the provider of this test, with OpenAI's own name."""
    model = OpenAIResponsesModel("gpt-5", base_url=provider.url, api_key=KEY)
    yield model
    await model.aclose()


def asks(text: str = "Hello", **options: Any) -> ModelRequest:
    prompt = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    return ModelRequest(prompt=prompt, settings=options.pop("settings", {}), **options)


async def answer_of(
    model: OpenAIResponsesModel, request: ModelRequest | None = None
) -> list[Chunk]:
    async with aclosing(model.stream(request or asks())) as stream:
        return [chunk async for chunks in stream for chunk in chunks]


def in_turn(*bodies: bytes) -> Any:
    """Answers for one call after the other."""
    left = [plays([body]) for body in bodies]

    async def answer(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        await left.pop(0)(exchange, writer)

    return answer


def test_has_an_id_and_names_a_missing_key() -> None:
    model = resolve_model("openai-responses/gpt-5")
    assert isinstance(model, LanguageModel)
    assert isinstance(model, OpenAIResponsesModel)
    assert (model.provider, model.model_id) == ("openai", "gpt-5")
    with pytest.raises(MissingKeyError, match="OPENAI_API_KEY"):
        asyncio.run(answer_of(model))


async def test_streams_and_sends_what_was_asked(
    provider: Provider, model: OpenAIResponsesModel
) -> None:
    provider.answer = plays([recorded("text")])
    chunks = await answer_of(model, asks(settings={"headers": {"X-Example": "1"}}))
    assert chunks[0].type == "stream-start"
    assert chunks[0].payload.request["body"]["model"] == "gpt-5"
    assert text(chunks) == "Bonjour, le märchen 😀 你好"
    assert chunks[-1].type == "finish"
    (exchange,) = provider.exchanges
    assert exchange.path == "/v1/responses"
    assert exchange.headers["authorization"] == f"Bearer {KEY}"
    assert exchange.headers["x-example"] == "1"
    assert exchange.json["input"] == [{"role": "user", "content": "Hello"}]


@given(st.data())
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_cutting_of_the_wire_through_the_client(data: st.DataObject) -> None:
    body = recorded("hosted").replace(b"\n", b"\r\n")
    places = data.draw(st.lists(st.integers(1, len(body) - 1), max_size=12).map(sorted))
    cut = [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]

    async def read() -> list[Chunk]:
        served = Provider()
        served.answer = plays([part for part in cut if part])
        server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server:
            model = OpenAIResponsesModel("m", provider="example", base_url=url)
            try:
                return await answer_of(model)
            finally:
                await model.aclose()

    assert meaning(asyncio.run(read())[1:]) == meaning(chunks_of([recorded("hosted")]))


async def test_calls_share_a_connection(provider: Provider, model: OpenAIResponsesModel) -> None:
    provider.answer = plays([recorded("text"), b"data: [DONE]\n\n"])
    for _ in range(3):
        await answer_of(model)
    assert [exchange.connection for exchange in provider.exchanges] == [1, 1, 1]


async def test_closing_the_stream_hangs_up(provider: Provider, model: OpenAIResponsesModel) -> None:
    body = recorded("text")
    begun = body[: body.index(b"jour") + 20]
    provider.answer = plays([begun, *[b": on\n\n"] * 500], pause=0.01)
    async with aclosing(model.stream(asks())) as stream:
        async for chunks in stream:
            if text(list(chunks)):
                break
    await asyncio.wait_for(provider.hung_up.wait(), 20)


async def test_an_answer_in_one_piece_of_json(
    provider: Provider, model: OpenAIResponsesModel
) -> None:
    item = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}
    whole = {"object": "response", "id": "r", "status": "completed", "output": [item]}
    provider.answer = refuses("200 OK", whole)
    chunks = await answer_of(model)
    assert text(chunks) == "Hi"
    assert chunks[-1].payload.step_result.reason == "stop"
    assert chunks[1].payload.id == "r"


async def test_without_streaming_each_block_is_one_delta(
    provider: Provider, model: OpenAIResponsesModel
) -> None:
    provider.answer = plays([recorded("text")])
    chunks = await answer_of(model, asks(streaming=False))
    deltas = [chunk.payload.text for chunk in chunks if chunk.type == "text-delta"]
    assert deltas == ["Bonjour, le märchen 😀 你好"]


async def test_a_refused_call(provider: Provider, model: OpenAIResponsesModel) -> None:
    error = {"message": f"bad input for {KEY}", "type": "invalid_request_error", "param": "input"}
    provider.answer = refuses("400 Bad Request", {"error": error})
    with pytest.raises(APICallError, match="bad input for …") as caught:
        await answer_of(model)
    assert caught.value.status_code == 400
    assert not caught.value.is_retryable
    provider.answer = refuses("429 Too Many Requests", {"error": error}, Retry_After="7")
    with pytest.raises(APICallError) as caught:
        await answer_of(model)
    assert caught.value.is_retryable
    assert caught.value.response_headers["retry-after"] == "7"


async def test_an_error_before_anything_was_said_is_raised(
    provider: Provider, model: OpenAIResponsesModel
) -> None:
    """So that the call can be made again."""
    error = {"code": "rate_limit_exceeded", "message": "Slow down"}
    begun = {"type": "response.created", "response": {"id": "r", "model": "m"}}
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
    provider.answer = plays([lines(begun, failed)])
    with pytest.raises(APICallError, match="Slow down") as caught:
        await answer_of(model)
    assert caught.value.is_retryable


async def test_a_broken_answer_keeps_what_came(
    provider: Provider, model: OpenAIResponsesModel
) -> None:
    body = recorded("text")
    provider.answer = plays([body[: body.index(b"response.completed") - 10]])
    got: list[Chunk] = []
    with pytest.raises(APICallError, match="before it was complete") as caught:
        async with aclosing(model.stream(asks())) as stream:
            async for chunks in stream:
                got += chunks
    assert caught.value.is_retryable
    assert text(got).startswith("Bonjour")


async def test_a_web_page_is_no_answer(provider: Provider, model: OpenAIResponsesModel) -> None:
    async def page(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        writer.write(head(kind="text/html") + piece(b"<html>Sign in</html>") + piece(b""))

    provider.answer = page
    with pytest.raises(APICallError):
        await answer_of(model)


@tool
def get_weather(city: str) -> str:
    """The weather."""
    return f"sunny in {city}"


@tool
def add(a: int, b: int) -> dict[str, int]:
    """Add."""
    return {"sum": a + b}


CALLS = [
    {
        "type": "reasoning",
        "id": "rs_02",
        "summary": [],
        "encrypted_content": "c2VjcmV0",
    },
    {
        "type": "function_call",
        "id": "fc_a",
        "call_id": "call_a",
        "name": "get_weather",
        "arguments": '{"city":"Lyon"}',
    },
    {
        "type": "function_call",
        "id": "fc_b",
        "call_id": "call_b",
        "name": "add",
        "arguments": '{"a":1,"b":2}',
        "namespace": "sums",
    },
    {"type": "function_call_output", "call_id": "call_a", "output": "sunny in Lyon"},
    {"type": "function_call_output", "call_id": "call_b", "output": '{"sum":3}'},
]


async def test_the_next_step_shows_the_provider_its_reasoning_and_calls(
    provider: Provider, model: OpenAIResponsesModel
) -> None:
    """K4: through the engine, in the very form in which they came."""
    provider.answer = in_turn(recorded("tools_interleaved"), recorded("text"))
    result = await Agent(id="a", model=model, tools=[get_weather, add]).generate("Weather and sum?")
    assert result.text == "Bonjour, le märchen 😀 你好"
    first, second = (exchange.json for exchange in provider.exchanges)
    assert first["store"] is second["store"] is False
    assert second["include"] == ["reasoning.encrypted_content"]
    assert second["input"] == [{"role": "user", "content": "Weather and sum?"}, *CALLS]


async def stored_and_loaded(messages: list[Message]) -> list[Message]:
    return [Message.from_json(json.loads(json.dumps(m.to_json()))) for m in messages]


async def test_a_stored_conversation_comes_back_as_the_provider_gave_it(
    provider: Provider, model: OpenAIResponsesModel
) -> None:
    """Reasoning, parallel calls, an image, provider-run tools, after a round through JSON."""
    provider.answer = in_turn(
        recorded("tools_interleaved"), recorded("hosted"), recorded("text"), recorded("text")
    )
    docs = {"openai": {"type": "mcp", "serverLabel": "docs"}}
    tools = [get_weather, add, Tool(name="docs", provider_options=docs)]
    agent = Agent(id="a", model=model, tools=tools)
    image = {"type": "file", "mimeType": "image/png", "data": "aW1n"}
    first = await agent.generate(
        [{"role": "user", "content": [{"type": "text", "text": "See"}, image]}]
    )
    assert first.text == "It is sunny."
    kept = await stored_and_loaded(first.messages)
    await agent.generate([*kept, "And now?"])
    sent = provider.exchanges[2].json["input"]
    assert sent[0]["content"] == [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "image_url": "data:image/png;base64,aW1n"},
    ]
    assert sent[1:6] == CALLS
    answered = json.loads(recorded("hosted").rpartition(b"data: ")[2])["response"]["output"]
    expected = [{**item} for item in answered]
    assert [_comparable(item) for item in sent[6:-1]] == [_comparable(item) for item in expected]
    assert sent[-1] == {"role": "user", "content": "And now?"}


def _comparable(item: Json) -> Json:
    """Without what says nothing: token probabilities, and how arguments are spaced."""
    item = dict(item)
    if item["type"] == "message":
        item["content"] = [{**p, "logprobs": []} for p in item["content"]]
    if isinstance(item.get("arguments"), str):
        item["arguments"] = json.loads(item["arguments"])
    return item


async def test_a_hook_that_drops_reasoning_takes_the_ids_that_need_it(
    provider: Provider, model: OpenAIResponsesModel
) -> None:
    class Forgets:
        id = "forgets"

        def process_output_stream(self, args: Any) -> Any:
            return None if args.part.type.startswith("reasoning") else args.part

    provider.answer = in_turn(recorded("tools_interleaved"), recorded("text"))
    agent = Agent(id="a", model=model, tools=[get_weather, add], output_processors=[Forgets()])
    await agent.generate("Go")
    items = provider.exchanges[1].json["input"]
    assert [item.get("id") for item in items] == [None, None, "fc_b", None, None]


async def test_calls_the_caller_answers_by_the_tools_own_function(
    provider: Provider, model: OpenAIResponsesModel
) -> None:
    provider.answer = in_turn(recorded("client_tools"), recorded("text"))
    seen: list[Any] = []

    def runs(answer: Any) -> Any:
        async def execute(arguments: Any, context: Any) -> Any:
            seen.append(arguments)
            return answer

        return execute

    def image(result: Any) -> Any:
        media = {"type": "media", "data": result, "mediaType": "image/png"}
        return {"type": "content", "value": [media]}

    def own(**options: Any) -> Any:
        return {"openai": options}

    computer = Tool(
        name="screen",
        execute=runs("aW1n"),
        to_model_output=image,
        provider_options=own(type="computer_use_preview", environment="linux"),
    )
    shout = Tool(name="shout", execute=runs("HI"), provider_options=own(type="custom"))
    docs = Tool(
        name="docs", execute=runs(True), provider_options=own(type="mcp", serverLabel="docs")
    )
    await Agent(id="a", model=model, tools=[computer, shout, docs]).generate("Go")
    assert [sorted(arguments) for arguments in seen] == [
        ["action"],
        ["input"],
        ["arguments", "name", "server_label"],
    ]
    items = provider.exchanges[1].json["input"]
    assert items[1]["pending_safety_checks"][0]["id"] == "sc_1"
    assert items[4:] == [
        {
            "type": "computer_call_output",
            "call_id": "call_c",
            "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,aW1n"},
        },
        {"type": "custom_tool_call_output", "call_id": "call_d", "output": "HI"},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_01", "approve": True},
    ]


async def test_partial_output_of_a_failed_answer_is_marked(
    provider: Provider, model: OpenAIResponsesModel
) -> None:
    provider.answer = plays([recorded("failed")])
    stream = await Agent(id="a", model=model).stream("Hi")
    chunks = [chunk async for chunk in stream.full_stream]
    assert "error" in kinds(chunks)
    assert await stream.finish_reason == "error"
    assert await stream.text == "So "
    assert calls(chunks) == []
