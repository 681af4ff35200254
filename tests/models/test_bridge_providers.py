"""Models of pydantic-ai behind real connections: what is cut, what is no answer, what is repeated.

pydantic-ai's own adapters ask a provider on loopback.
"""

from __future__ import annotations

import asyncio
import gc
import re
import traceback
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from procession import Agent, APICallError, ModelError
from procession.models.bridge import BridgedModel, bridge

from .conftest import Answer, Exchange, Provider, head, piece, plays, refuses
from .formats import FORMATS, KEY, written
from .test_bad_providers import PAGE, RUBBISH, sends

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pydantic_ai.models import Model

MAKE: dict[str, Any] = {
    "chat": lambda url: OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key=KEY)),
    "responses": lambda url: OpenAIResponsesModel(
        "m", provider=OpenAIProvider(base_url=url, api_key=KEY)
    ),
    "anthropic": lambda url: AnthropicModel(
        "m", provider=AnthropicProvider(base_url=url.removesuffix("/v1"), api_key=KEY)
    ),
}


@pytest.fixture(params=MAKE)
async def bridged(request: pytest.FixtureRequest, provider: Provider) -> AsyncIterator[Any]:
    """The format's name, and a model that speaks it with the provider of this test."""
    model: Model = MAKE[request.param](provider.url)
    made = bridge(model)
    yield request.param, made
    await made.aclose()


async def outcome(model: BridgedModel, *, streamed: bool = True, **options: Any) -> Any:
    """The run's error, and the text that came before it."""
    agent = Agent(id="a", model=model, **options)
    try:
        if not streamed:
            return None, (await asyncio.wait_for(agent.generate("Hi"), 20)).text
    except Exception as error:
        return error, ""
    run = await agent.stream("Hi")
    text = "".join([piece async for piece in run.text_stream])
    return run.error, text


async def test_what_is_cut_short_is_no_success(
    bridged: tuple[str, BridgedModel], provider: Provider
) -> None:
    """As with the adapters of this package: a part is marked as one."""
    name, model = bridged
    provider.answer = plays([written_as(name, FORMATS[name].begun)])
    error, text = await outcome(model, max_retries=2)
    assert isinstance(error, APICallError), error
    assert text == "Half"
    assert error.is_retryable
    assert "before it was complete" in error.message
    assert len(provider.exchanges) == 1


def written_as(name: str, events: list[Any]) -> bytes:
    """Events in the format's own frames: some clients look at the name of each."""
    if name == "chat":
        full = [
            {"object": "chat.completion.chunk", "created": 1, "model": "m", **e} for e in events
        ]
        for event in full:
            event["choices"] = [{"index": 0, **choice} for choice in event["choices"]]
        return written(full)
    data = b""
    for number, event in enumerate(events):
        event = {"sequence_number": number, "logprobs": [], **event}
        if "usage" in event.get("message", ()):
            event["message"] = {"usage": {"input_tokens": 1, "output_tokens": 0}}
        data += f"event: {event['type']}\n".encode() + written([event])
    return data


NOTHING: dict[str, Answer] = {
    "nothing": sends(b""),
    "only the end": sends(b"data: [DONE]\n\n"),
    "a page": sends(PAGE.encode(), kind="text/html"),
    "a text": sends(b"Hello", kind="text/plain"),
    **{name: sends(data) for name, data in RUBBISH.items() if name != "another JSON"},
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("kind", NOTHING)
async def test_what_is_no_answer_is_told_with_a_hint(
    bridged: tuple[str, BridgedModel], provider: Provider, kind: str, streamed: bool
) -> None:
    _, model = bridged
    provider.answer = NOTHING[kind]
    error, text = await outcome(model, streamed=streamed)
    assert text == ""
    assert isinstance(error, ModelError)
    assert re.search("[Cc]heck the base URL|before it was complete", str(error))
    assert "\n" not in str(error)
    assert "nginx" not in str(error)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("retries", "calls"), [(0, 1), (1, 2)])
async def test_failed_calls_are_repeated_by_the_engine_alone(
    bridged: tuple[str, BridgedModel],
    provider: Provider,
    streamed: bool,
    retries: int,
    calls: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-216: as often as the agent says, not as often again as the provider's client likes."""
    monkeypatch.setattr("procession.retrying.FIRST_PAUSE", 0.0)
    _, model = bridged
    provider.answer = refuses("500 Oops", {"error": {"message": f"boom {KEY}"}})
    error, _ = await outcome(model, streamed=streamed, max_retries=retries)
    assert isinstance(error, APICallError)
    assert (error.status_code, len(provider.exchanges)) == (500, calls)
    assert KEY not in "".join(traceback.format_exception(error))


async def test_the_client_repeats_calls_where_its_settings_say_so(provider: Provider) -> None:
    provider.answer = refuses("500 Oops", {"error": {"message": "boom"}}, retry_after="0")
    model = bridge(MAKE["chat"](provider.url), settings={"max_retries": 1})
    await outcome(model)
    assert len(provider.exchanges) == 2
    await model.aclose()


def says(text: str) -> Answer:
    """A whole answer of chat completions, on a connection that stays."""

    async def answer(exchange: Exchange, writer: Any) -> None:
        events = [
            {"id": "r", "choices": [{"delta": {"content": text}}]},
            {"id": "r", "choices": [{"delta": {}, "finish_reason": "stop"}]},
        ]
        writer.write(head() + piece(written_as("chat", events)) + piece(b""))

    return answer


async def test_connections_are_kept_and_closed(provider: Provider) -> None:
    """Law 6: used again, and closed on demand or with the model."""
    provider.answer = says("Hello")
    model = bridge(MAKE["chat"](provider.url))
    for _ in range(2):
        assert await outcome(model) == (None, "Hello")
    assert [exchange.connection for exchange in provider.exchanges] == [1, 1]
    await model.aclose()
    await asyncio.wait_for(provider.hung_up.wait(), 5)
    assert await outcome(model) == (None, "Hello")
    provider.hung_up.clear()
    del model
    gc.collect()
    await asyncio.wait_for(provider.hung_up.wait(), 5)
