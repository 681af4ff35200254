"""The Anthropic adapter against a provider on loopback: requests, round trips, what goes wrong."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import anthropic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from procession import Agent, Message, Tool, processor, tool
from procession.errors import APICallError, MissingKeyError
from procession.model import LanguageModel, ModelRequest, resolve_model
from procession.models.anthropic import AnthropicModel

from .conftest import Exchange, Provider, head, piece, plays, refuses
from .test_anthropic_events import chunks_of, kinds, lines, meaning, only, recorded, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.chunks import Chunk

KEY = "example-key-1234567890"
Json = dict[str, Any]


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[AnthropicModel]:
    """A model behind the provider of this test, with Anthropic's own name."""
    model = AnthropicModel("example-1", base_url=provider.url, api_key=KEY)
    yield model
    await model.aclose()


def asks(text: str = "Hello", **options: Any) -> ModelRequest:
    prompt = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    return ModelRequest(prompt=prompt, settings=options.pop("settings", {}), **options)


async def answer_of(model: AnthropicModel, request: ModelRequest | None = None) -> list[Chunk]:
    async with aclosing(model.stream(request or asks())) as stream:
        return [chunk async for chunks in stream for chunk in chunks]


def in_turn(*bodies: bytes) -> Any:
    """Answers for one call after the other."""
    left = [plays([body]) for body in bodies]

    async def answer(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        await left.pop(0)(exchange, writer)

    return answer


def test_has_an_id_and_names_a_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    model = resolve_model("anthropic/example-1")
    assert isinstance(model, LanguageModel)
    assert isinstance(model, AnthropicModel)
    assert (model.provider, model.model_id) == ("anthropic", "example-1")
    with pytest.raises(MissingKeyError, match="ANTHROPIC_API_KEY"):
        asyncio.run(answer_of(model))


async def test_streams_and_sends_what_was_asked(provider: Provider, model: AnthropicModel) -> None:
    provider.answer = plays([recorded("text")])
    chunks = await answer_of(model, asks(settings={"headers": {"X-Example": "1"}}))
    assert chunks[0].type == "stream-start"
    assert chunks[0].payload.request["body"]["model"] == "example-1"
    assert text(chunks) == "Bonjour, le märchen 😀 你好"
    assert chunks[-1].type == "finish"
    (exchange,) = provider.exchanges
    assert exchange.path == "/v1/messages"
    assert KEY in (exchange.headers.get("x-api-key", "") + exchange.headers["authorization"])
    assert exchange.headers["anthropic-version"]
    assert exchange.headers["x-example"] == "1"
    assert "anthropic-beta" not in exchange.headers
    assert exchange.json == {
        "model": "example-1",
        "max_tokens": 16_384,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "stream": True,
    }


async def test_an_address_may_end_in_its_version_or_not(provider: Provider) -> None:
    for url in (provider.url, provider.url.removesuffix("/v1"), f"{provider.url}/"):
        provider.answer = plays([recorded("text")])
        model = AnthropicModel("m", base_url=url, api_key=KEY)
        await answer_of(model)
        await model.aclose()
    assert {exchange.path for exchange in provider.exchanges} == {"/v1/messages"}


async def test_betas_are_named_in_a_header_and_nowhere_else(provider: Provider) -> None:
    provider.answer = plays([recorded("text")])
    model = AnthropicModel("m", base_url=provider.url, api_key=KEY, betas=["one-2030-01-01"])
    own = {"anthropic": {"betas": ["two-2030-01-01", "one-2030-01-01"]}}
    await answer_of(model, asks(provider_options=own))
    await model.aclose()
    (exchange,) = provider.exchanges
    assert exchange.headers["anthropic-beta"] == "one-2030-01-01,two-2030-01-01"
    assert "betas" not in exchange.json


async def test_what_is_meant_for_anthropic_goes_to_no_other_address(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", f"token-{KEY}")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", f"X-Tenant: {KEY}")
    provider.answer = plays([recorded("text")])
    model = AnthropicModel("m", base_url=provider.url)
    await answer_of(model)
    await model.aclose()
    (exchange,) = provider.exchanges
    assert KEY not in str(exchange.headers)
    assert {"authorization", "x-api-key"}.isdisjoint(exchange.headers)


async def test_a_token_from_the_environment(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url.removesuffix("/v1"))
    error = {"type": "authentication_error", "message": f"bad token {KEY}"}
    provider.answer = refuses("401 Unauthorized", {"type": "error", "error": error})
    model = AnthropicModel("m", use_proxies=False)
    with pytest.raises(APICallError, match="bad token …"):
        await answer_of(model)
    await model.aclose()
    assert provider.exchanges[0].headers["authorization"] == f"Bearer {KEY}"


async def test_the_callers_own_client(provider: Provider) -> None:
    provider.answer = plays([recorded("text")])
    url = provider.url.removesuffix("/v1")
    async with anthropic.AsyncAnthropic(api_key=KEY, base_url=url) as client:
        model = AnthropicModel("m", client=client)
        assert text(await answer_of(model))
        await model.aclose()
        assert text(await answer_of(model))


@given(st.data())
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_cutting_of_the_wire_through_the_client(data: st.DataObject) -> None:
    body = recorded("thinking").replace(b"\n", b"\r\n")
    places = data.draw(st.lists(st.integers(1, len(body) - 1), max_size=12).map(sorted))
    cut = [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]

    async def read() -> list[Chunk]:
        served = Provider()
        served.answer = plays([part for part in cut if part])
        server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server:
            model = AnthropicModel("m", provider="example", base_url=url)
            try:
                return await answer_of(model)
            finally:
                await model.aclose()

    assert meaning(asyncio.run(read())[1:]) == meaning(chunks_of([recorded("thinking")]))


async def test_calls_share_a_connection(provider: Provider, model: AnthropicModel) -> None:
    provider.answer = plays([recorded("text")])
    for _ in range(3):
        await answer_of(model)
    assert [exchange.connection for exchange in provider.exchanges] == [1, 1, 1]


async def test_closing_the_stream_hangs_up(provider: Provider, model: AnthropicModel) -> None:
    ping = lines({"type": "ping"})
    provider.answer = plays([recorded("text")[:900], *[ping] * 500], pause=0.01)
    async with aclosing(model.stream(asks())) as stream:
        async for chunks in stream:
            if text(list(chunks)):
                break
    await asyncio.wait_for(provider.hung_up.wait(), 20)


async def test_without_streaming_each_block_is_one_delta(
    provider: Provider, model: AnthropicModel
) -> None:
    """R-549."""
    provider.answer = plays([recorded("thinking")])
    chunks = await answer_of(model, asks(streaming=False))
    assert kinds(chunks).count("text-delta") == kinds(chunks).count("reasoning-delta") == 1


async def test_an_answer_in_one_piece_of_json(provider: Provider, model: AnthropicModel) -> None:
    message = {
        "type": "message",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
    }
    provider.answer = refuses("200 OK", message)
    assert text(await answer_of(model)) == "Hi"
    error = {"type": "overloaded_error", "message": "Overloaded"}
    provider.answer = refuses("200 OK", {"type": "error", "error": error})
    with pytest.raises(APICallError, match="Overloaded"):
        await answer_of(model)


# ── what goes wrong ────────────────────────────────────────────────────────────────────────────


async def test_a_refused_call(provider: Provider, model: AnthropicModel) -> None:
    error = {"type": "invalid_request_error", "message": f"bad input for {KEY}"}
    provider.answer = refuses("400 Bad Request", {"type": "error", "error": error})
    with pytest.raises(APICallError) as caught:
        await answer_of(model)
    assert caught.value.message == "bad input for …"
    assert caught.value.status_code == 400
    assert not caught.value.is_retryable
    for status in ("429 Too Many Requests", "529 Overloaded"):
        provider.answer = refuses(status, {"type": "error", "error": error}, Retry_After="7")
        with pytest.raises(APICallError) as caught:
            await answer_of(model)
        assert caught.value.is_retryable
        assert caught.value.response_headers["retry-after"] == "7"


async def test_an_error_before_anything_was_said_is_raised(
    provider: Provider, model: AnthropicModel
) -> None:
    """So that the call can be made again; its status was 200."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    provider.answer = plays([lines({"type": "message_start", "message": {"id": "m"}}, error)])
    with pytest.raises(APICallError, match="Overloaded") as caught:
        await answer_of(model)
    assert caught.value.is_retryable


async def test_a_broken_answer_keeps_what_came(provider: Provider, model: AnthropicModel) -> None:
    body = recorded("text")
    provider.answer = plays([body[: body.index(b"event: message_delta")]])
    got: list[Chunk] = []
    with pytest.raises(APICallError, match="before it was complete") as caught:
        async with aclosing(model.stream(asks())) as stream:
            async for chunks in stream:
                got += chunks
    assert caught.value.is_retryable
    assert text(got).startswith("Bonjour")


async def test_a_web_page_is_no_answer(provider: Provider, model: AnthropicModel) -> None:
    async def page(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        writer.write(head(kind="text/html") + piece(b"<html>Sign in</html>") + piece(b""))

    provider.answer = page
    with pytest.raises(APICallError):
        await answer_of(model)


# ── what is sent back ──────────────────────────────────────────────────────────────────────────


@tool
def get_weather(city: str) -> str:
    """The weather."""
    return f"sunny in {city}"


@tool
def add(a: int, b: int) -> dict[str, int]:
    """Add."""
    return {"sum": a + b}


def blocks_of(name: str) -> list[Json]:
    """The content of a recorded answer as the API would give it in one piece."""
    blocks: dict[int, Json] = {}
    for event in recorded(name).split(b"\n\n")[:-1]:
        data = json.loads(event.partition(b"data: ")[2])
        if data["type"] == "content_block_start":
            blocks[data["index"]] = data["content_block"]
        elif data["type"] == "content_block_delta":
            _grow(blocks[data["index"]], data["delta"])
    for block in blocks.values():
        if isinstance(block.get("input"), str):
            block["input"] = json.loads(block["input"])
    return list(blocks.values())


def _grow(block: Json, delta: Json) -> None:
    for source, field in (("text", "text"), ("thinking", "thinking"), ("signature", "signature")):
        if source in delta:
            block[field] += delta[source]
    if "partial_json" in delta:
        block["input"] = (block["input"] or "") + delta["partial_json"]
    if "citation" in delta:
        block["citations"] = [*(block.get("citations") or []), delta["citation"]]


RESULTS = {
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "toolu_a", "content": "sunny in Lyon"},
        {"type": "tool_result", "tool_use_id": "toolu_b", "content": '{"sum":3}'},
    ],
}


async def test_the_next_step_shows_the_provider_its_thoughts_and_calls(
    provider: Provider, model: AnthropicModel
) -> None:
    """K4: through the engine, in the very form in which they came."""
    thought = recorded("thinking").split(b"event: content_block_start")[1:3]
    begun, rest = recorded("tools_interleaved").split(b"event: content_block_start", 1)
    for old, new in ((2, 4), (1, 3), (0, 2)):
        rest = rest.replace(b'"index": %d' % old, b'"index": %d' % new)
    between = b"".join(b"event: content_block_start" + block for block in thought)
    first = begun + between + b"event: content_block_start" + rest
    provider.answer = in_turn(first, recorded("text"))
    result = await Agent(id="a", model=model, tools=[get_weather, add]).generate("Weather and sum?")
    assert result.text == "I look.Bonjour, le märchen 😀 你好"
    asked = {"role": "user", "content": [{"type": "text", "text": "Weather and sum?"}]}
    answered = [*blocks_of("thinking")[:2], *blocks_of("tools_interleaved")]
    assert answered[0]["signature"] == "c2lnbmF0dXJlLTE="
    assert provider.exchanges[1].json["messages"] == [
        asked,
        {"role": "assistant", "content": answered},
        RESULTS,
    ]


async def test_a_stored_conversation_comes_back_as_the_provider_gave_it(
    provider: Provider, model: AnthropicModel
) -> None:
    """Thoughts, parallel calls, an image, the provider's own tools, after a round through JSON."""
    provider.answer = in_turn(
        recorded("tools_interleaved"), recorded("server_tools"), recorded("text")
    )
    search = {"anthropic": {"type": "web_search_20250305", "maxUses": 3}}
    tools = [get_weather, add, Tool(name="web_search", provider_options=search)]
    agent = Agent(id="a", model=model, tools=tools)
    image = {"type": "file", "mimeType": "image/png", "data": "aW1n"}
    first = await agent.generate(
        [{"role": "user", "content": [{"type": "text", "text": "See"}, image]}]
    )
    assert first.text == "I look.It is 2 km long, as planned."
    assert [source.payload.source_type for source in first.sources] == ["url", "document"]
    kept = [Message.from_json(json.loads(json.dumps(m.to_json()))) for m in first.messages]
    await agent.generate([*kept, "And now?"])
    body = provider.exchanges[2].json
    assert body["tools"][2] == {
        "name": "web_search",
        "type": "web_search_20250305",
        "max_uses": 3,
    }
    source = {"type": "base64", "media_type": "image/png", "data": "aW1n"}
    assert body["messages"] == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "See"}, {"type": "image", "source": source}],
        },
        {"role": "assistant", "content": blocks_of("tools_interleaved")},
        RESULTS,
        {"role": "assistant", "content": blocks_of("server_tools")},
        {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
    ]


async def test_thoughts_that_a_processor_changed_are_not_sent_back(
    provider: Provider, model: AnthropicModel
) -> None:
    """The API refuses signed thoughts that are not as they were, for good."""

    def masks(args: Any) -> Any:
        if args.part.type == "reasoning-delta":
            args.part.payload.text = args.part.payload.text.replace("sum", "***")
        return args.part

    provider.answer = in_turn(recorded("thinking"), recorded("text"))
    agent = Agent(id="a", model=model, output_processors=[processor(process_output_stream=masks)])
    first = await agent.generate("Sum?")
    assert first.reasoning_text == "The *** is asked — é."
    again = await agent.generate([*first.messages, "Sure?"])
    sent = provider.exchanges[1].json["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["redacted_thinking", "text"]
    assert "changed" in again.warnings[0]["message"]


async def test_structured_output_is_native(provider: Provider, model: AnthropicModel) -> None:
    """R-560."""
    said = {"type": "text", "text": '{"size": 3}'}
    message = {"type": "message", "content": [said], "stop_reason": "end_turn"}
    provider.answer = plays([lines(message)])
    schema = {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}
    result = await Agent(id="a", model=model).generate(
        "How big?", structured_output={"schema": schema}
    )
    assert result.object == {"size": 3}
    assert provider.exchanges[0].json["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {"size": {"type": "integer", "description": '{"minimum":1}'}},
            "additionalProperties": False,
        },
    }


async def test_parts_that_cannot_be_expressed_are_told(
    provider: Provider, model: AnthropicModel
) -> None:
    provider.answer = plays([recorded("text")])
    chunks = await answer_of(model, asks(settings={"seed": 1}))
    (start,) = only(chunks, "stream-start")
    assert start.warnings == [{"type": "unsupported-setting", "setting": "seed"}]
