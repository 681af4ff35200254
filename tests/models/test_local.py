"""The embedded model, for real: a llama.cpp server in a child process, and what it answers."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import httpx2
import openai
import pytest

from procession.chunks import BlockPayload, Chunk, DeltaPayload
from procession.errors import APICallError, ModelError, UnknownModelError
from procession.model import LanguageModel, ModelRequest, ToolDefinition
from procession.models.chat_prompt import chat_messages
from procession.models.local import LocalModel, local_model
from procession.models.local_server import LocalServer
from procession.models.local_tools import (
    BoundAnswer,
    call_schema,
    offered_tools,
    spoken_prompt,
)
from procession.models.openai import OpenAIChatModel

from .conftest import plays

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from .conftest import Provider


def tool(name: str, description: str, **properties: Any) -> ToolDefinition:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolDefinition(name=name, description=description, input_schema=schema)


WEATHER = tool("get_weather", "Tells the weather in a city.", city={"type": "string"})
NUMBER = {"type": "number"}
ADD = tool("add", "Adds two numbers.", a=NUMBER, b=NUMBER)


def asks(text: str, **options: Any) -> ModelRequest:
    settings = {"temperature": 0.0, "max_output_tokens": 80, **options.pop("settings", {})}
    prompt = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    return ModelRequest(prompt=prompt, settings=settings, **options)  # type: ignore[arg-type]


async def answer_of(model: LanguageModel, request: ModelRequest) -> list[Chunk]:
    async with aclosing(model.stream(request)) as stream:
        return [chunk async for chunks in stream for chunk in chunks]


def text(chunks: list[Chunk]) -> str:
    return "".join(chunk.payload.text for chunk in chunks if chunk.type == "text-delta")


def calls(chunks: list[Chunk]) -> list[tuple[str, Any]]:
    return [(c.payload.tool_name, c.payload.args) for c in chunks if c.type == "tool-call"]


@pytest.fixture
async def model(llama: LocalServer) -> AsyncIterator[LocalModel]:
    model = LocalModel(server=llama)
    yield model
    await model.aclose()


@pytest.fixture
async def chat(llama: LocalServer) -> AsyncIterator[OpenAIChatModel]:
    """The plain adapter, pointed at the real server."""
    chat = OpenAIChatModel(
        llama.model, provider="llama", base_url=llama.base_url, api_key=llama.api_key
    )
    yield chat
    await chat.aclose()


async def ask_server(llama: LocalServer, path: str, **body: Any) -> Any:
    headers = {"Authorization": f"Bearer {llama.api_key}"}
    async with httpx2.AsyncClient(trust_env=False, headers=headers) as client:
        url = f"{llama.url}{path}"
        response = await (client.post(url, json=body) if body else client.get(url))
        return response.json()


async def busy_slots(llama: LocalServer) -> int:
    return sum(slot["is_processing"] for slot in await ask_server(llama, "/slots"))


async def falls_idle(llama: LocalServer) -> None:
    """Wait until the server works for nobody: soon, and not when an answer of minutes is done."""
    left = time.monotonic()
    while await busy_slots(llama):
        assert time.monotonic() - left < 20, "it goes on though nobody reads"
        await asyncio.sleep(0.05)


async def test_answers_in_a_stream(model: LocalModel) -> None:
    chunks = await answer_of(model, asks("Name a colour.", settings={"max_output_tokens": 12}))
    kinds = [chunk.type for chunk in chunks]
    assert kinds[:3] == ["stream-start", "response-metadata", "text-start"]
    assert kinds[-2:] == ["text-end", "finish"]
    assert kinds.count("text-delta") > 3
    assert text(chunks).strip()
    usage = chunks[-1].payload.output.usage
    assert usage.input_tokens > 5
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert chunks[-1].payload.step_result.reason in ("stop", "length")


async def test_the_length_limit_is_reported(chat: OpenAIChatModel) -> None:
    chunks = await answer_of(chat, asks("Tell a long story.", settings={"max_output_tokens": 3}))
    assert chunks[-1].payload.step_result.reason == "length"
    assert chunks[-1].payload.output.usage.output_tokens == 3


async def test_a_schema_binds_the_answer(model: LocalModel) -> None:
    schema = {
        "type": "object",
        "properties": {"size": {"enum": ["small", "large"]}},
        "required": ["size"],
        "additionalProperties": False,
    }
    form = {"type": "json", "schema": schema}
    chunks = await answer_of(model, asks("How big is an ant?", response_format=form))
    assert "".join(text(chunks).split()) in ('{"size":"small"}', '{"size":"large"}')


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("What is the weather in Paris?", ("get_weather", {"city": "Paris"})),
        ("What is 12 plus 30?", ("add", {"a": 12, "b": 30})),
    ],
)
async def test_calls_the_tool_that_fits(
    model: LocalModel, asked: str, expected: tuple[str, Any]
) -> None:
    chunks = await answer_of(model, asks(asked, tools=[WEATHER, ADD]))
    assert calls(chunks) == [expected]
    assert text(chunks) == ""
    kinds = [chunk.type for chunk in chunks]
    assert kinds.index("tool-call-input-streaming-start") < kinds.index("tool-call-delta")
    assert kinds[-3:] == ["tool-call-input-streaming-end", "tool-call", "finish"]
    assert chunks[-1].payload.step_result.reason == "tool-calls"


async def test_greets_without_a_tool(model: LocalModel) -> None:
    brief = {"max_output_tokens": 8}
    chunks = await answer_of(model, asks("Good morning!", tools=[WEATHER, ADD], settings=brief))
    assert calls(chunks) == []
    assert text(chunks)


async def test_a_required_tool_is_called_whatever_is_asked(model: LocalModel) -> None:
    choice = {"type": "tool", "toolName": "add"}
    chunks = await answer_of(model, asks("Hello!", tools=[WEATHER, ADD], tool_choice=choice))
    ((name, args),) = calls(chunks)
    assert name == "add"
    assert set(args) == {"a", "b"}


async def test_speaks_of_what_a_tool_answered(model: LocalModel) -> None:
    request = asks("What is the weather in Paris?", tools=[WEATHER])
    request.prompt += [
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool-call",
                    "toolCallId": "c1",
                    "toolName": "get_weather",
                    "input": {"city": "Paris"},
                }
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "toolName": "get_weather",
                    "output": {"type": "json", "value": {"sky": "sunny", "celsius": 18}},
                }
            ],
        },
    ]
    chunks = await answer_of(model, request)
    assert calls(chunks) == []
    assert "18" in text(chunks) or "sunny" in text(chunks)


async def test_tools_and_results_are_in_the_prompt_the_model_reads(llama: LocalServer) -> None:
    prompt = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is 2 plus 3?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool-call", "toolCallId": "c", "toolName": "add", "input": {"a": 2}}
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c",
                    "toolName": "add",
                    "output": {"type": "json", "value": 5},
                }
            ],
        },
    ]
    messages = chat_messages(spoken_prompt(prompt, [ADD]), [])
    rendered = (await ask_server(llama, "/apply-template", messages=messages))["prompt"]
    assert "Be brief." in rendered
    assert 'Adds two numbers. {"tool": "add", "arguments": {"a": number, "b": number}}' in rendered
    assert 'I call add with {"a": 2}.' in rendered
    assert "The result of add is 5. So, What is 2 plus 3?" in rendered


async def test_the_servers_refusal_is_ours(llama: LocalServer, chat: OpenAIChatModel) -> None:
    with pytest.raises(APICallError) as caught:
        await answer_of(chat, asks("word " * 9000))
    assert caught.value.status_code == 400
    assert "context size" in caught.value.message
    assert not caught.value.is_retryable
    stranger = OpenAIChatModel("x", provider="llama", base_url=llama.base_url, api_key="wrong-key")
    with pytest.raises(APICallError, match="Invalid API Key") as caught:
        await answer_of(stranger, asks("Hi"))
    assert caught.value.status_code == 401
    await stranger.aclose()


class Alive:
    """A child process that runs, as far as anybody can see."""

    def poll(self) -> None: ...


class Whole(httpx2.AsyncHTTPTransport):
    """Asks the server for answers in one piece, and notes the connections it used."""

    def __init__(self) -> None:
        super().__init__()
        self.used: list[Any] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = {**json.loads(request.content), "stream": False, "stream_options": None}
        headers = {"authorization": request.headers["authorization"]}
        whole = httpx2.Request("POST", request.url, headers=headers, json=body)
        response = await super().handle_async_request(whole)
        self.used.append(response.extensions["network_stream"].get_extra_info("client_addr"))
        return response


async def test_a_connection_that_the_server_keeps_is_used_again(llama: LocalServer) -> None:
    # It keeps them after answers in one piece only; for streams there is a provider on loopback.
    transport = Whole()
    client = openai.AsyncOpenAI(
        api_key=llama.api_key,
        base_url=llama.base_url,
        http_client=httpx2.AsyncClient(transport=transport),
    )
    async with client:
        chat = OpenAIChatModel(llama.model, provider="llama", client=client)
        for _ in range(3):
            chunks = await answer_of(chat, asks("Hi", settings={"max_output_tokens": 2}))
            assert chunks[-1].payload.output.usage.output_tokens == 2
    assert len(transport.used) == 3
    assert len(set(transport.used)) == 1


async def test_no_call_trips_over_a_connection_that_the_server_ends(model: LocalModel) -> None:
    # It ends each one after a streamed answer, and says nothing of it beforehand.
    for _ in range(20):
        chunks = await answer_of(model, asks("Hi", settings={"max_output_tokens": 1}))
        assert chunks[-1].payload.output.usage.output_tokens == 1


async def test_calls_of_the_local_model_share_no_connection(provider: Provider) -> None:
    provider.answer = plays([b"data: [DONE]\n\n"])
    server = LocalServer()
    server._url, server._child = provider.url.removesuffix("/v1"), Alive()
    model = LocalModel(server=server)
    for _ in range(3):
        await answer_of(model, asks("Hi"))
    await model.aclose()
    assert [exchange.connection for exchange in provider.exchanges] == [1, 2, 3]


async def test_a_reader_that_stops_stops_the_model(
    llama: LocalServer, chat: OpenAIChatModel
) -> None:
    endless = {"llama": {"ignore_eos": True}}
    request = asks("Tell a story.", settings={"max_output_tokens": 4000}, provider_options=endless)
    async with aclosing(chat.stream(request)) as stream:
        async for chunks in stream:
            if text(list(chunks)):
                break
        assert await busy_slots(llama) == 1
    await falls_idle(llama)


async def test_several_are_answered_at_a_time(llama: LocalServer, chat: OpenAIChatModel) -> None:
    request = asks("Tell a story.", settings={"max_output_tokens": 10})
    most = 0
    answers = asyncio.gather(*(answer_of(chat, request) for _ in range(3)))
    while not answers.done():
        most = max(most, await busy_slots(llama))
        await asyncio.sleep(0.01)
    assert all(text(chunks) for chunks in await answers)
    assert most >= 2


async def test_stopping_and_starting_again(weights: Path) -> None:
    async with LocalServer(weights, slots=1, context=512) as server:
        model = LocalModel(server=server)
        first = server.base_url
        await answer_of(model, asks("Hi", settings={"max_output_tokens": 2}))
        server._child.kill()  # as a crash would
        server._child.wait()
        assert not server.running
        await answer_of(model, asks("Hi", settings={"max_output_tokens": 2}))
        assert server.running
        assert server.base_url != first
        await model.aclose()
    assert not server.running
    gc.collect()


async def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF, or not")
    server = LocalServer(broken)
    with pytest.raises(ModelError, match=r"did not start with broken\.gguf"):
        await server.start()
    assert not server.running


async def test_loading_that_takes_too_long_is_ended(weights: Path) -> None:
    server = LocalServer(weights, start_timeout=0.01)
    with pytest.raises(ModelError, match=r"at most 0\.01 seconds"):
        await server.start()
    assert not server.running


async def test_cancelling_the_start_ends_the_child(weights: Path) -> None:
    server = LocalServer(weights)
    entering = asyncio.create_task(server.__aenter__())
    while server._child is None:  # noqa: ASYNC110 - nothing tells when the child is there
        await asyncio.sleep(0.005)
    child = server._child
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert child.wait(5) != 0


def test_another_local_id_is_unknown() -> None:
    with pytest.raises(UnknownModelError, match="local/smollm2"):
        local_model("huge")
    assert isinstance(local_model("smollm2"), LanguageModel)


@pytest.mark.parametrize(
    ("asked", "choice", "expected"),
    [
        ("How is the weather?", "auto", ["get_weather"]),
        ("Is my CITY large?", "auto", ["get_weather"]),
        ("Take 3 and 4.5", "auto", ["add"]),
        ("Only 3", "auto", []),
        ("Tell me something about you", "auto", []),
        ("Hello", "required", ["get_weather", "add"]),
        ("How is the weather?", "none", []),
        ("Hello", {"type": "tool", "toolName": "add"}, ["add"]),
    ],
)
def test_which_tools_are_offered(asked: str, choice: Any, expected: list[str]) -> None:
    request = asks(asked, tools=[WEATHER, ADD], tool_choice=choice)
    assert [tool.name for tool in offered_tools(request)] == expected


def test_definitions_of_two_tools_do_not_collide() -> None:
    def with_place(name: str, kind: str) -> ToolDefinition:
        schema = {
            "type": "object",
            "properties": {"place": {"$ref": "#/$defs/Place"}},
            "$defs": {"Place": {"type": kind}},
        }
        return ToolDefinition(name=name, description="", input_schema=schema)

    schema = call_schema([with_place("a", "string"), with_place("b", "integer")])
    assert schema["$defs"] == {"a.Place": {"type": "string"}, "b.Place": {"type": "integer"}}
    first = schema["anyOf"][0]["properties"]["arguments"]["properties"]["place"]
    assert first == {"$ref": "#/$defs/a.Place"}


ANSWER = ' {\n "tool" : "ad\\"d" , "arguments": {"a": {"b": "}"}} \n} '


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_a_call_is_read_in_any_cutting(size: int) -> None:
    bound = BoundAnswer()
    chunks = [Chunk(type="text-start", payload=BlockPayload(id="t"))]
    for i in range(0, len(ANSWER), size):
        payload = DeltaPayload(id="t", text=ANSWER[i : i + size])
        chunks.append(Chunk(type="text-delta", payload=payload))
    chunks.append(Chunk(type="text-end", payload=BlockPayload(id="t")))
    told = [chunk for one in chunks for chunk in bound.feed([one])]
    assert calls(told) == [('ad"d', {"a": {"b": "}"}})]
    deltas = [c.payload.args_text_delta for c in told if c.type == "tool-call-delta"]
    assert "".join(deltas) == '{"a": {"b": "}"}}'
    assert text(told) == ""
