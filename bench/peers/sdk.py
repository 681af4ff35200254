"""The providers' own clients and their typed streams, in W5 alone. No agent: no loop, no hooks.

Async generators stand in for hooks, as with the peers that have none for chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.case import QUESTION, Case, Setup, only, relay_hooks, relayed, tokens
from bench.formats import texts_of
from bench.wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

MESSAGES = [{"role": "user", "content": QUESTION}]


def chat(url: str) -> Callable[[], AsyncIterator[str]]:
    from openai import AsyncOpenAI

    client: Any = AsyncOpenAI(base_url=url, api_key="bench")

    async def texts() -> AsyncIterator[str]:
        async for event in await client.chat.completions.create(
            model="bench", messages=MESSAGES, stream=True
        ):
            if event.choices and event.choices[0].delta.content:
                yield event.choices[0].delta.content

    return texts


def responses(url: str) -> Callable[[], AsyncIterator[str]]:
    from openai import AsyncOpenAI

    client: Any = AsyncOpenAI(base_url=url, api_key="bench")

    async def texts() -> AsyncIterator[str]:
        async for event in await client.responses.create(
            model="bench", input=MESSAGES, stream=True
        ):
            if event.type == "response.output_text.delta":
                yield event.delta

    return texts


def anthropic(url: str) -> Callable[[], AsyncIterator[str]]:
    from anthropic import AsyncAnthropic

    client: Any = AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key="bench")

    async def texts() -> AsyncIterator[str]:
        async for event in await client.messages.create(
            model="bench", messages=MESSAGES, max_tokens=9, stream=True
        ):
            if event.type == "content_block_delta":
                yield event.delta.text

    return texts


def google(url: str) -> Callable[[], AsyncIterator[str]]:
    from google.genai import Client
    from google.genai.types import HttpOptions

    options = HttpOptions(base_url=url.removesuffix("/v1"), api_version="v1")
    client: Any = Client(api_key="bench", http_options=options)

    async def texts() -> AsyncIterator[str]:
        async for event in await client.aio.models.generate_content_stream(
            model="bench", contents=QUESTION
        ):
            if event.text:
                yield event.text

    return texts


STREAMS = {"chat": chat, "responses": responses, "anthropic": anthropic, "google": google}


def paced(url: str, wire: str) -> Callable[[], AsyncIterator[str]]:
    return STREAMS[wire](url)


def wire(setup: Setup) -> Case:
    only(setup, "async", "no hook for chunks; async generators stand in")
    provider = Wire(setup.size)
    texts = STREAMS[setup.wire](provider.url)

    async def run() -> list[str]:
        return [text async for text in relayed(texts(), setup.processors)]

    return Case(
        run=run,
        expected=tokens(setup.size),
        model=provider,
        texts=texts_of,
        hooks=relay_hooks(setup),
    )
