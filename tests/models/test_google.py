"""The Gemini adapter against a provider on loopback: requests, answers, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from procession import Agent, tool
from procession.errors import APICallError, ConfigurationError, MissingKeyError
from procession.model import LanguageModel, ModelRequest, resolve_model
from procession.models.google import GoogleModel, google_model

from .conftest import Exchange, Provider, head, piece, plays, refuses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.chunks import Chunk

KEY = "example-key-1234567890"
VARIABLES = ("GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_API_KEY")


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[GoogleModel]:
    """A model behind the provider of this test."""
    model = GoogleModel("gemini-3-example", base_url=provider.url, api_key=KEY)
    yield model
    await model.aclose()


def written(*events: dict[str, Any]) -> bytes:
    return "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events).encode()


def says(*parts: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **candidate}]}


HELLO = written(says({"text": "Hel"}), says({"text": "lo"}, finishReason="STOP"))


def asks(text: str = "Hello", **options: Any) -> ModelRequest:
    prompt = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    return ModelRequest(prompt=prompt, settings=options.pop("settings", {}), **options)


async def answer_of(model: GoogleModel, request: ModelRequest | None = None) -> list[Chunk]:
    async with aclosing(model.stream(request or asks())) as stream:
        return [chunk async for chunks in stream for chunk in chunks]


async def failure_of(model: GoogleModel) -> APICallError:
    with pytest.raises(APICallError) as caught:
        await answer_of(model)
    return caught.value


def text(chunks: list[Chunk]) -> str:
    return "".join(chunk.payload.text for chunk in chunks if chunk.type == "text-delta")


def test_ids_resolve() -> None:
    model = resolve_model("google/gemini-2.5-flash")
    assert isinstance(model, LanguageModel)
    assert isinstance(model, GoogleModel)
    assert (model.provider, model.model_id) == ("google", "gemini-2.5-flash")


def test_an_http_client_is_all_it_takes() -> None:
    program = (
        "import sys, procession.models.google; "
        "print(sorted({'openai', 'anthropic', 'google.genai'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


async def test_streams_and_sends_what_was_asked(provider: Provider, model: GoogleModel) -> None:
    provider.answer = plays([HELLO])
    chunks = await answer_of(model, asks(settings={"headers": {"X-Example": "1"}}))
    assert chunks[0].type == "stream-start"
    assert text(chunks) == "Hello"
    assert chunks[-1].type == "finish"
    (exchange,) = provider.exchanges
    assert exchange.path == "/v1/models/gemini-3-example:streamGenerateContent?alt=sse"
    assert exchange.headers["x-goog-api-key"] == KEY
    assert exchange.headers["content-type"] == "application/json"
    assert exchange.headers["x-example"] == "1"
    assert exchange.json == {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}


async def test_tuned_models_keep_their_path(provider: Provider) -> None:
    provider.answer = plays([HELLO])
    model = GoogleModel("tunedModels/frogs 1", base_url=provider.url, api_key=KEY)
    await answer_of(model)
    await model.aclose()
    path = provider.exchanges[0].path
    assert path == "/v1/tunedModels/frogs%201:streamGenerateContent?alt=sse"


async def test_single_bytes_and_a_kept_connection(provider: Provider, model: GoogleModel) -> None:
    provider.answer = plays([HELLO[i : i + 1] for i in range(len(HELLO))])
    for _ in range(3):
        assert text(await answer_of(model)) == "Hello"
    assert [exchange.connection for exchange in provider.exchanges] == [1, 1, 1]


async def test_an_answer_in_one_piece(provider: Provider, model: GoogleModel) -> None:
    """R-549: one delta for each block."""
    provider.answer = plays([HELLO])
    chunks = await answer_of(model, asks(streaming=False))
    assert [chunk.payload.text for chunk in chunks if chunk.type == "text-delta"] == ["Hello"]


async def test_a_proxy_that_answers_with_an_array(provider: Provider, model: GoogleModel) -> None:
    array = [says({"text": "Hel"}), says({"text": "lo"}, finishReason="STOP")]
    provider.answer = refuses("200 OK", array)
    assert text(await answer_of(model)) == "Hello"


async def test_closing_the_stream_hangs_up(provider: Provider, model: GoogleModel) -> None:
    provider.answer = plays([written(says({"text": "a"}))] + [b": on\n\n"] * 500, pause=0.01)
    async with aclosing(model.stream(asks())) as stream:
        async for chunks in stream:
            if text(list(chunks)):
                break
    await asyncio.wait_for(provider.hung_up.wait(), 20)


# ── keys ───────────────────────────────────────────────────────────────────────────────────────


async def test_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MissingKeyError) as caught:
        await answer_of(google_model("gemini-2.5-flash"))
    assert caught.value.variable == VARIABLES[0]


@pytest.mark.parametrize("name", VARIABLES)
async def test_keys_of_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in VARIABLES:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, f" {KEY}\n")
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=HELLO)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        assert text(await answer_of(GoogleModel("gemini-2.5-flash", client=client))) == "Hello"
    (request,) = seen
    assert request.headers["x-goog-api-key"] == KEY
    assert str(request.url) == (
        "https://generativelanguage.googleapis.com/v1beta/models/"
        "gemini-2.5-flash:streamGenerateContent?alt=sse"
    )


async def test_a_key_of_the_environment_is_sent_to_google_only(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLES[0], KEY)
    provider.answer = plays([HELLO])
    model = GoogleModel("gemini-2.5-flash", base_url=provider.url)
    await answer_of(model)
    await model.aclose()
    assert KEY not in str(provider.exchanges[0].headers)


async def test_a_key_that_cannot_be_one_is_not_shown() -> None:
    model = GoogleModel("gemini-2.5-flash", api_key="sécret-key")
    with pytest.raises(ConfigurationError) as caught:
        await answer_of(model)
    assert "cret" not in str(caught.value)
    assert "cret" not in repr(model)


async def test_a_redirect_does_not_get_the_key(provider: Provider, model: GoogleModel) -> None:
    provider.answer = refuses("307 Temporary Redirect", "", Location=f"{provider.url}/elsewhere")
    failure = await failure_of(model)
    assert (failure.status_code, failure.is_retryable) == (307, False)
    assert len(provider.exchanges) == 1


# ── what goes wrong ────────────────────────────────────────────────────────────────────────────

LIMIT = {
    "error": {
        "code": 429,
        "message": "You exceeded your current quota.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s"},
        ],
    }
}


@pytest.mark.parametrize("body", [LIMIT, [LIMIT]])
async def test_a_limit_says_when_to_come_again(
    provider: Provider, model: GoogleModel, body: Any
) -> None:
    """R-236."""
    provider.answer = refuses("429 Too Many Requests", body)
    failure = await failure_of(model)
    assert failure.message == "You exceeded your current quota."
    assert (failure.status_code, failure.is_retryable) == (429, True)
    assert (failure.response_headers or {})["retry-after"] == "35"


async def test_the_header_goes_before_the_details(provider: Provider, model: GoogleModel) -> None:
    provider.answer = refuses("429 Too Many Requests", LIMIT, Retry_After="7")
    failure = await failure_of(model)
    assert (failure.response_headers or {})["retry-after"] == "7"


async def test_refusals_do_not_repeat_the_key(provider: Provider, model: GoogleModel) -> None:
    message = f"API key not valid: {KEY}"
    error = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    provider.answer = refuses("400 Bad Request", error)
    failure = await failure_of(model)
    assert "API key not valid" in str(failure)
    assert not failure.is_retryable
    assert KEY not in f"{failure}{failure.response_body}{failure.url}"


@pytest.mark.parametrize("body", ["", "<html>Bad gateway</html>", "[]", "{", [[]], {"error": "no"}])
async def test_refusals_of_any_form(provider: Provider, model: GoogleModel, body: Any) -> None:
    provider.answer = refuses("502 Bad Gateway", body)
    failure = await failure_of(model)
    assert (failure.status_code, failure.is_retryable) == (502, True)


async def test_an_error_instead_of_an_answer(provider: Provider, model: GoogleModel) -> None:
    """With status 200, before anything else: the call can be made again."""
    provider.answer = plays([written({"error": {"code": 503, "message": "overloaded"}})])
    failure = await failure_of(model)
    assert (failure.status_code, failure.is_retryable) == (503, True)


async def test_a_web_page(provider: Provider, model: GoogleModel) -> None:
    async def answer(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        writer.write(head(kind="text/html") + piece(b"<html>") + piece(b""))

    provider.answer = answer
    assert "html" in str(await failure_of(model))


async def test_an_answer_that_is_cut(provider: Provider, model: GoogleModel) -> None:
    provider.answer = plays([HELLO[:60]])
    assert "before it was complete" in str(await failure_of(model))
    provider.answer = plays([HELLO[:60]], ends=False)
    failure = await failure_of(model)
    assert failure.is_retryable


async def test_nobody_there() -> None:
    model = GoogleModel("gemini-2.5-flash", base_url="http://127.0.0.1:9/v1", api_key=KEY)
    failure = await failure_of(model)
    await model.aclose()
    assert "could not be reached" in str(failure)
    assert failure.is_retryable


async def test_a_call_that_takes_too_long(provider: Provider, model: GoogleModel) -> None:
    async def never(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    provider.answer = never
    with pytest.raises(APICallError) as caught:
        await answer_of(model, asks(settings={"timeout": 0.05}))
    assert caught.value.is_retryable


# ── the next step ──────────────────────────────────────────────────────────────────────────────

THOUGHT, CODE, RESULT, CALL, LAST = (f"Eq{index}Cp0DAQw+/aTt{index}==" for index in range(5))

FIRST_STEP = written(
    says({"text": "The cities…", "thought": True}),
    says({"text": "", "thought": True, "thoughtSignature": THOUGHT}),
    says(
        {
            "executableCode": {"language": "PYTHON", "code": "print(2)", "id": "e1"},
            "thoughtSignature": CODE,
        }
    ),
    says(
        {
            "codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n", "id": "e1"},
            "thoughtSignature": RESULT,
        }
    ),
    says({"text": "I look "}),
    says(
        {"text": "it up."},
        {
            "functionCall": {"name": "weather", "args": {"city": "Lyon"}, "id": "f1"},
            "thoughtSignature": CALL,
        },
        {"functionCall": {"name": "weather", "args": {"city": "Łódź"}, "id": "f2"}},
    ),
    says(finishReason="STOP"),
)
SECOND_STEP = written(
    says({"text": "Sunny."}), says({"text": "", "thoughtSignature": LAST}, finishReason="STOP")
)

PICTURE = "iVBORw0KGgo="

TURNS: list[Any] = [
    {
        "role": "user",
        "parts": [
            {"inlineData": {"mimeType": "image/png", "data": PICTURE}},
            {"text": "And the weather?"},
        ],
    },
    {
        "role": "model",
        "parts": [
            {"text": "The cities…", "thought": True},
            {"text": "", "thought": True, "thoughtSignature": THOUGHT},
            {
                "executableCode": {"language": "PYTHON", "code": "print(2)", "id": "e1"},
                "thoughtSignature": CODE,
            },
            {
                "codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n", "id": "e1"},
                "thoughtSignature": RESULT,
            },
            {"text": "I look it up."},
            {
                "functionCall": {"id": "f1", "name": "weather", "args": {"city": "Lyon"}},
                "thoughtSignature": CALL,
            },
            {"functionCall": {"id": "f2", "name": "weather", "args": {"city": "Łódź"}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {
                "functionResponse": {
                    "id": f"f{number}",
                    "name": "weather",
                    "response": {"output": f"sun in {city}"},
                }
            }
            for number, city in enumerate(("Lyon", "Łódź"), 1)
        ],
    },
]
"""What the documentation demands to see again: each part as it came."""


@tool
async def weather(city: str) -> str:
    """The weather in a city."""
    return f"sun in {city}"


async def test_what_came_goes_back(provider: Provider, model: GoogleModel) -> None:
    """Within a run, and from messages that were stored and loaded."""
    steps = [FIRST_STEP, SECOND_STEP, HELLO]

    async def answer(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        await plays([steps[len(provider.exchanges) - 1]])(exchange, writer)

    provider.answer = answer
    agent = Agent(id="a", instructions="", model=model, tools=[weather])
    asked = [
        {"type": "file", "data": PICTURE, "mediaType": "image/png"},
        {"type": "text", "text": "And the weather?"},
    ]
    result = await agent.generate([{"role": "user", "content": asked}])
    assert result.text == "I look it up.Sunny."
    assert provider.exchanges[1].json["contents"] == TURNS
    stored = json.loads(json.dumps([message.to_json() for message in result.messages]))
    await agent.generate([*stored, {"role": "user", "content": "Thanks!"}])
    assert provider.exchanges[2].json["contents"] == [
        *TURNS,
        {"role": "model", "parts": [{"text": "Sunny."}, {"text": "", "thoughtSignature": LAST}]},
        {"role": "user", "parts": [{"text": "Thanks!"}]},
    ]


async def test_code_without_a_result_does_not_stop_a_conversation(
    provider: Provider, model: GoogleModel
) -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "search()"}}
    provider.answer = plays([written(says(code), says({"text": "Found."}, finishReason="STOP"))])
    agent = Agent(id="a", instructions="", model=model)
    result = await agent.generate("Search!")
    assert (result.text, result.finish_reason) == ("Found.", "stop")
    await agent.generate([*result.messages, {"role": "user", "content": "Thanks!"}])
    assert provider.exchanges[1].json["contents"][1:] == [
        {"role": "model", "parts": [{"text": "Found."}]},
        {"role": "user", "parts": [{"text": "Thanks!"}]},
    ]
