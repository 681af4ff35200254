"""How providers are reached: options that cannot work are refused, errors say who was asked."""

from __future__ import annotations

import re
from typing import Any

import pytest

from procession import Agent, APICallError, ConfigurationError
from procession.errors import MissingKeyError
from procession.model import ModelConfig, resolve_model
from procession.models.anthropic import AnthropicModel
from procession.models.compatible import CompatibleModel
from procession.models.google import GoogleModel
from procession.models.openai import OpenAIChatModel
from procession.models.responses import OpenAIResponsesModel

from .conftest import Exchange, Provider, head, piece, refuses
from .formats import FORMATS, KEY, Format

MAKE: list[Any] = [
    OpenAIChatModel,
    OpenAIResponsesModel,
    AnthropicModel,
    GoogleModel,
    lambda name, **options: CompatibleModel("groq", name, **options),
]


@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"base_ur": "http://127.0.0.1"}, "no option 'base_ur'; did you mean 'base_url'"),
        ({"apiKey": "x"}, "no option 'apiKey'; did you mean 'api_key'"),
        ({"base_url": "127.0.0.1:1/v1"}, "base_url must be an address"),
        ({"base_url": "http://"}, "base_url must be an address"),
        ({"base_url": "http://[::1/v1"}, "base_url must be an address"),
        ({"base_url": 5}, "not of type int"),
        ({"api_key": 5}, "api_key must be a text, not int"),
        ({"headers": {"a": 1}}, "headers must be a mapping of texts"),
        ({"headers": ["a"]}, "headers must be a mapping of texts"),
        ({"timeout": 0}, "timeout must be a number"),
        ({"timeout": "5"}, "timeout must be a number"),
        ({"transport": "curl"}, "'httpx' or 'aiohttp'"),
    ],
)
def test_options_that_cannot_work_are_refused(make: Any, options: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        make("example-1", **options)


@pytest.mark.parametrize("make", MAKE[:4])
def test_a_model_has_a_name(make: Any) -> None:
    with pytest.raises(ConfigurationError, match="needs the name of a model"):
        make("")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"url": "127.0.0.1:1/v1"}, "url must be an address"),
        ({"url": 5}, "url must be an address.*int"),
        ({"id": ""}, "id must be a text"),
        ({"id": 5}, "id must be a text"),
        ({"api_key": 5}, "api_key must be a text"),
        ({"headers": {"a": 1}}, "headers must be a mapping"),
    ],
)
def test_a_config_that_cannot_work_is_refused(options: Any, told: str) -> None:
    given = {"id": "acme/small", "url": "http://127.0.0.1:9/v1", **options}
    with pytest.raises(ConfigurationError, match=f"ModelConfig: {told}"):
        ModelConfig(**given)
    with pytest.raises(ConfigurationError, match=f"ModelConfig: {told}"):
        resolve_model(given)


VARIABLES = [
    ("openai/x", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    ("openai-responses/x", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    ("anthropic/x", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    ("google/x", "GOOGLE_BASE_URL", "GEMINI_API_KEY"),
    ("groq/x", "GROQ_BASE_URL", "GROQ_API_KEY"),
]
PATHS = {
    "openai/x": "/v1/chat/completions",
    "openai-responses/x": "/v1/responses",
    "anthropic/x": "/v1/messages",
    "google/x": "/v1/models/x:streamGenerateContent?alt=sse",
    "groq/x": "/v1/chat/completions",
}


@pytest.mark.parametrize(("model", "variable", "key"), VARIABLES)
async def test_every_provider_has_a_variable_for_its_address(
    model: str, variable: str, key: str, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the version at its end, as the argument may have it; the key goes there, too."""
    monkeypatch.setenv(variable, provider.url)
    monkeypatch.setenv(key, KEY)
    provider.answer = refuses("400 No", {"error": {"message": "no"}})
    with pytest.raises(APICallError):
        await Agent(id="a", model=model).generate("Hi")
    (exchange,) = provider.exchanges
    assert exchange.path == PATHS[model]
    assert any(KEY in value for value in exchange.headers.values())


@pytest.mark.parametrize(("model", "variable", "key"), VARIABLES)
async def test_an_address_of_the_environment_that_is_none_is_told(
    model: str, variable: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "example.com/v1")
    monkeypatch.setenv(key, KEY)
    with pytest.raises(ConfigurationError, match=f"{variable} must be an address"):
        await Agent(id="a", model=model).generate("Hi")


async def test_the_key_that_is_asked_for_is_the_one_of_the_guide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MissingKeyError) as caught:
        await Agent(id="a", model="google/x").generate("Hi")
    assert caught.value.variable == "GEMINI_API_KEY"


# ── what an error says ─────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> Format:
    """Each adapter in turn."""
    return FORMATS[request.param]


async def failing(model: Any) -> APICallError:
    run = await Agent(id="a", model=model).stream("Hi")
    await run.consume_stream()
    assert isinstance(run.error, APICallError)
    return run.error


async def test_a_refusal_says_who_and_with_which_status(form: Format, provider: Provider) -> None:
    provider.answer = refuses("401 No", {"error": {"message": "Incorrect key. See openai.example"}})
    error = await failing(form.model(provider="example", base_url=provider.url, api_key=KEY))
    assert str(error) == "example, status 401: Incorrect key. See openai.example"
    assert error.message == "Incorrect key. See openai.example"
    assert error.provider == "example"


async def test_a_place_that_is_not_there_is_named(form: Format, provider: Provider) -> None:
    provider.answer = refuses("404 Not Found", {"error": {"message": "no such model"}})
    error = await failing(form.model(provider="example", base_url=provider.url, api_key=KEY))
    assert str(error) == f"example, status 404 at {error.url}: no such model"
    assert provider.url.removesuffix("/v1") in str(error.url)


async def test_an_error_inside_a_stream_says_who(provider: Provider) -> None:
    async def answer(exchange: Exchange, writer: Any) -> None:
        writer.write(head() + piece(b'data: {"error":{"message":"too hot"}}\n\n') + piece(b""))

    provider.answer = answer
    error = await failing(OpenAIChatModel("x", base_url=provider.url, api_key=KEY))
    assert str(error) == "openai: too hot"


@pytest.mark.parametrize("transport", ["httpx", "aiohttp"])
async def test_who_cannot_be_reached_is_told_where(form: Format, transport: Any) -> None:
    """Without what is secret in the address."""
    made = form.model(
        provider="example",
        base_url="http://user:word@127.0.0.1:9/v1",
        api_key=KEY,
        transport=transport,
    )
    error = await failing(made)
    assert str(error).startswith("example could not be reached at http://127.0.0.1:9/v1/")
    assert "proxy" not in str(error)
    assert "word" not in str(error)


@pytest.mark.parametrize("transport", ["httpx", "aiohttp"])
@pytest.mark.parametrize(("use_proxies", "told"), [(True, True), (False, False)])
async def test_a_proxy_is_told_of(
    form: Format,
    transport: Any,
    use_proxies: bool,
    told: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://user:word@127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    options: Any = {"use_proxies": use_proxies, "transport": transport, "timeout": 5.0}
    error = await failing(
        form.model(provider="example", base_url="http://127.0.0.1:9/v1", api_key=KEY, **options)
    )
    assert ("through the proxy of the environment" in str(error)) is told
    assert "word" not in str(error)


@pytest.mark.parametrize(
    "proxy", ["socks5://user:word@127.0.0.1:9", "gopher://user:word@127.0.0.1"]
)
async def test_a_proxy_that_cannot_be_used_is_told(
    form: Format, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    model = form.model(provider="example", base_url="http://127.0.0.1:9/v1", api_key=KEY)
    with pytest.raises(ConfigurationError, match="proxy of the environment") as caught:
        await Agent(id="a", model=model).generate("Hi")
    assert "word" not in str(caught.value)
