"""The Responses adapter against a real server: llama.cpp with the embedded model."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import httpx2
import openai
import pytest

from procession import Agent
from procession.errors import APICallError
from procession.model import ToolDefinition
from procession.models.responses import OpenAIResponsesModel

from .test_local import Whole, busy_slots, falls_idle
from .test_responses import answer_of, asks
from .test_responses_events import kinds, only, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.models.local_server import LocalServer


@pytest.fixture
async def model(llama: LocalServer) -> AsyncIterator[OpenAIResponsesModel]:
    """The adapter, pointed at the real server."""
    model = OpenAIResponsesModel(
        llama.model,
        provider="llama",
        base_url=llama.base_url,
        api_key=llama.api_key,
        # It ends a connection after each stream without saying so.
        headers={"Connection": "close"},
    )
    yield model
    await model.aclose()


def briefly(prompt: list[Any], **options: Any) -> Any:
    request = asks(settings={"max_output_tokens": 2, "temperature": 0.0}, **options)
    request.prompt = prompt
    return request


USER = {"role": "user", "content": [{"type": "text", "text": "What is 2 plus 3?"}]}


def answered(words: str) -> list[Any]:
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "add", "input": {"a": 2, "b": 3}}
    result = {
        "type": "tool-result",
        "toolCallId": "c",
        "toolName": "add",
        "output": {"type": "text", "value": words},
    }
    said = {"type": "text", "text": "I add."}
    return [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": [said, call]},
        {"role": "tool", "content": [result]},
    ]


async def tokens(model: OpenAIResponsesModel, prompt: list[Any], **options: Any) -> int:
    """How long the prompt was that the model has read."""
    chunks = await answer_of(model, briefly(prompt, **options))
    return chunks[-1].payload.output.usage.input_tokens


async def test_answers_in_a_stream(model: OpenAIResponsesModel) -> None:
    request = asks("Name a colour.", settings={"max_output_tokens": 12})
    chunks = await answer_of(model, request)
    assert kinds(chunks)[:3] == ["stream-start", "response-metadata", "text-start"]
    assert kinds(chunks).count("text-delta") > 3
    assert text(chunks).strip()
    (start,) = only(chunks, "text-start")
    assert start.provider_metadata["llama"]["itemId"].startswith("msg_")
    usage = chunks[-1].payload.output.usage
    assert usage.input_tokens > 5
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert chunks[-1].payload.step_result.reason == "stop"


async def test_a_conversation_goes_on(model: OpenAIResponsesModel) -> None:
    agent = Agent(id="a", model=model)
    limit = {"max_output_tokens": 8}
    first = await agent.generate("Name a colour.", model_settings=limit)
    second = await agent.generate([*first.messages, "And another?"], model_settings=limit)
    assert second.text.strip()
    assert (second.usage.input_tokens or 0) > (first.usage.input_tokens or 0) + 8


async def test_results_of_tools_are_in_the_prompt_the_model_reads(
    model: OpenAIResponsesModel,
) -> None:
    short, long = answered("5"), answered("5 " + "and so on " * 20)
    assert await tokens(model, long) > await tokens(model, short) + 50


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
async def test_definitions_of_tools_are_understood(
    model: OpenAIResponsesModel, choice: str
) -> None:
    """This model's template has no place for them, so that is as far as it goes."""
    schema = {"type": "object", "properties": {"a": {"type": "number"}}}
    adds = ToolDefinition(name="add", description="Adds.", input_schema=schema)
    chunks = await answer_of(model, briefly(answered("5"), tools=[adds], tool_choice=choice))
    assert chunks[0].payload.request["body"]["tools"][0]["name"] == "add"
    assert chunks[-1].payload.step_result.reason == "stop"


async def test_the_servers_refusal_is_ours(llama: LocalServer, model: OpenAIResponsesModel) -> None:
    chained = {"llama": {"previousResponseId": "resp_1"}}
    with pytest.raises(APICallError, match="previous_response_id") as caught:
        await answer_of(model, asks("Hi", provider_options=chained))
    assert caught.value.status_code == 400
    assert not caught.value.is_retryable
    stranger = OpenAIResponsesModel("x", base_url=llama.base_url, api_key="wrong-key")
    with pytest.raises(APICallError, match="Invalid API Key") as caught:
        await answer_of(stranger, asks("Hi"))
    assert caught.value.status_code == 401
    await stranger.aclose()


async def test_a_connection_that_the_server_keeps_is_used_again(llama: LocalServer) -> None:
    # It keeps them after answers in one piece only; for streams there is a provider on loopback.
    transport = Whole()
    client = openai.AsyncOpenAI(
        api_key=llama.api_key,
        base_url=llama.base_url,
        http_client=httpx2.AsyncClient(transport=transport),
    )
    async with client:
        model = OpenAIResponsesModel(llama.model, provider="llama", client=client)
        for _ in range(3):
            chunks = await answer_of(model, asks("Hi", settings={"max_output_tokens": 2}))
            assert chunks[-1].payload.output.usage.output_tokens == 2
            assert text(chunks)
    assert len(transport.used) == 3
    assert len(set(transport.used)) == 1


async def test_a_reader_that_stops_stops_the_model(
    llama: LocalServer, model: OpenAIResponsesModel
) -> None:
    endless = {"llama": {"ignore_eos": True}}
    request = asks("Tell a story.", settings={"max_output_tokens": 4000}, provider_options=endless)
    async with aclosing(model.stream(request)) as stream:
        async for chunks in stream:
            if text(list(chunks)):
                break
        assert await busy_slots(llama) == 1
    await falls_idle(llama)
