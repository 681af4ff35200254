"""Providers that speak chat completions in ways of their own: what is sent, and what comes back."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from procession import Agent, Message, tool
from procession.errors import ConfigurationError, MissingKeyError
from procession.model import (
    ModelConfig,
    ModelRequest,
    ToolDefinition,
    known_providers,
    resolve_model,
)
from procession.models.compatible import PROVIDERS, CompatibleModel

from .conftest import Exchange, Provider, head, piece, plays

if TYPE_CHECKING:
    import asyncio

    from procession.chunks import Chunk

KEY = "example-key-1234567890"
KEYED = [name for name, site in PROVIDERS.items() if not site.keyless]


@pytest.fixture
def at(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the model of an id whose provider is the one of this test."""
    for site in PROVIDERS.values():
        for variable in site.keys:
            monkeypatch.delenv(variable, raising=False)

    def model(name: str, model_id: str = "example-1") -> CompatibleModel:
        monkeypatch.setenv(f"{name.upper()}_BASE_URL", provider.url)
        if not PROVIDERS[name].keyless:
            monkeypatch.setenv(PROVIDERS[name].keys[0], KEY)
        found = resolve_model(f"{name}/{model_id}")
        assert isinstance(found, CompatibleModel)
        return found

    return model


def asks(text: str = "Hello", **request: Any) -> ModelRequest:
    prompt = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    return ModelRequest(**{"prompt": prompt, "settings": {}, **request})


async def answer_of(model: CompatibleModel, request: ModelRequest | None = None) -> list[Chunk]:
    try:
        async with aclosing(model.stream(request or asks())) as stream:
            return [chunk async for chunks in stream for chunk in chunks]
    finally:
        await model.aclose()


def events(*deltas: dict[str, Any], finish: str | None = "stop", **last: Any) -> bytes:
    """An answer in these deltas; `last` stands beside the choice of the last event."""
    lines = [{"id": "r1", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    lines.append({"id": "r1", "choices": [{"delta": {}, "finish_reason": finish}], **last})
    texts = [json.dumps(line) for line in lines] + ["[DONE]"]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def call(call_id: str, name: str = "add", args: str = '{"a": 1}') -> dict[str, Any]:
    return {"index": 0, "id": call_id, "function": {"name": name, "arguments": args}}


def of(chunks: list[Chunk], kind: str) -> list[Any]:
    return [chunk.payload for chunk in chunks if chunk.type == kind]


def text(chunks: list[Chunk], kind: str = "text-delta") -> str:
    return "".join(payload.text for payload in of(chunks, kind))


async def body_of(provider: Provider, model: CompatibleModel, **request: Any) -> dict[str, Any]:
    """What is sent for a request."""
    provider.answer = plays([events({"content": "Hi"})])
    chunks = await answer_of(model, asks(**request))
    return {**provider.exchanges[-1].json, "warnings": of(chunks, "stream-start")[0].warnings}


def takes_turns(*bodies: bytes) -> Any:
    """Answers one body after the other."""
    left = list(bodies)

    async def answer(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        writer.write(head() + piece(left.pop(0)) + piece(b""))

    return answer


@tool
def add(a: int) -> int:
    """Add one."""
    return a + 1


ADD = ToolDefinition(name="add", description="", input_schema={"type": "object"})


# ── ids, addresses, keys ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", PROVIDERS)
async def test_each_provider_is_reached_by_its_id(provider: Provider, at: Any, name: str) -> None:
    assert name in known_providers()
    provider.answer = plays([events({"content": "Hi"})])
    model = at(name)
    assert (model.provider, model.model_id) == (name, "example-1")
    assert text(await answer_of(model)) == "Hi"
    (exchange,) = provider.exchanges
    assert exchange.path == "/v1/chat/completions"
    sent = None if PROVIDERS[name].keyless else f"Bearer {KEY}"
    assert exchange.headers.get("authorization") == sent


def test_a_name_may_have_slashes() -> None:
    assert resolve_model("groq/openai/gpt-oss-120b").model_id == "openai/gpt-oss-120b"


@pytest.mark.parametrize("name", KEYED)
async def test_a_missing_key_is_named(
    provider: Provider, at: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = at(name)
    monkeypatch.delenv(PROVIDERS[name].keys[0])
    model = resolve_model(f"{name}/example-1")
    with pytest.raises(MissingKeyError, match=PROVIDERS[name].keys[0]):
        await answer_of(model)
    monkeypatch.setenv(PROVIDERS[name].keys[-1], KEY)
    provider.answer = plays([events({"content": "Hi"})])
    assert text(await answer_of(model)) == "Hi"
    assert provider.exchanges[0].headers["authorization"] == f"Bearer {KEY}"


def test_azure_has_the_address_of_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AZURE_BASE_URL", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigurationError, match="AZURE_OPENAI_ENDPOINT"):
        resolve_model("azure/example-1")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://example.com/")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    client = resolve_model("azure/example-1")._new_client()  # type: ignore[attr-defined]
    assert str(client.base_url) == "https://example.com/openai/v1/"


async def test_a_key_of_the_environment_is_not_sent_elsewhere(
    provider: Provider, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    provider.answer = plays([events({"content": "Hi"})])
    await answer_of(CompatibleModel("groq", "example-1", base_url=provider.url))
    assert "authorization" not in provider.exchanges[0].headers


async def test_a_configuration_speaks_as_its_provider_does(provider: Provider) -> None:
    config = ModelConfig(id="mistral/example-1", url=provider.url, api_key=KEY)
    model: Any = resolve_model(config)
    assert "stream_options" not in await body_of(provider, model)


def test_an_unknown_provider_is_told() -> None:
    with pytest.raises(ConfigurationError, match="no provider 'nobody' among"):
        CompatibleModel("nobody", "example-1")


def test_images_are_sent_as_data_where_the_provider_fetches_none(at: Any) -> None:
    """R-362."""
    assert at("ollama").supported_urls == {}
    assert "image/*" in at("groq").supported_urls


# ── what is sent ──────────────────────────────────────────────────────────────────────────────────

SETTINGS = {
    "max_output_tokens": 9,
    "seed": 1,
    "top_k": 2,
    "presence_penalty": 0.5,
    "stop_sequences": ["."],
}


@pytest.mark.parametrize(
    ("name", "sent", "unsupported"),
    [
        (
            "cerebras",
            {"max_completion_tokens": 9, "seed": 1, "stop": ["."]},
            ["topK", "presencePenalty"],
        ),
        (
            "deepseek",
            {"max_tokens": 9, "presence_penalty": 0.5, "stop": ["."]},
            ["topK", "seed"],
        ),
        (
            "fireworks",
            {"max_tokens": 9, "seed": 1, "top_k": 2, "presence_penalty": 0.5, "stop": ["."]},
            [],
        ),
        (
            "mistral",
            {"max_tokens": 9, "random_seed": 1, "presence_penalty": 0.5, "stop": ["."]},
            ["topK"],
        ),
        (
            "perplexity",
            {"max_tokens": 9, "top_k": 2, "presence_penalty": 0.5},
            ["seed", "stopSequences"],
        ),
        ("zai", {"max_tokens": 9, "stop": ["."]}, ["topK", "seed", "presencePenalty"]),
    ],
)
async def test_settings_have_the_names_of_the_provider(
    provider: Provider, at: Any, name: str, sent: dict[str, Any], unsupported: list[str]
) -> None:
    """What a provider refuses, or passes over in silence, is left out and told as a warning."""
    body = await body_of(provider, at(name), settings=SETTINGS)
    warnings = body.pop("warnings")
    common = {"model", "messages", "stream", "stream_options"}
    assert {key: value for key, value in body.items() if key not in common} == sent
    assert sorted(warning["setting"] for warning in warnings) == sorted(unsupported)


@pytest.mark.parametrize(
    ("name", "asked"), [("mistral", False), ("perplexity", False), ("groq", True), ("zai", True)]
)
async def test_usage_is_asked_for_where_it_must_be(
    provider: Provider, at: Any, name: str, asked: bool
) -> None:
    assert ("stream_options" in await body_of(provider, at(name))) is asked


@pytest.mark.parametrize(
    ("name", "choice", "sent", "warned"),
    [
        ("groq", "required", "required", False),
        ("mistral", "required", "any", False),
        ("moonshotai", "required", "auto", True),
        ("zai", {"type": "tool", "toolName": "add"}, "auto", True),
        ("deepseek", {"type": "tool", "toolName": "add"}, ..., False),
        ("zai", "none", None, False),
        ("perplexity", "auto", None, True),
    ],
)
async def test_a_tool_is_chosen_as_far_as_the_provider_lets_us(
    provider: Provider, at: Any, name: str, choice: Any, sent: Any, warned: bool
) -> None:
    body = await body_of(provider, at(name), tools=[ADD], tool_choice=choice)
    named = {"type": "function", "function": {"name": "add"}}
    assert body.get("tool_choice") == (named if sent is ... else sent)
    assert ("tools" in body) is (sent is not None)
    assert bool(body["warnings"]) is warned


async def test_a_schema_is_told_where_answers_cannot_be_bound_to_it(
    provider: Provider, at: Any
) -> None:
    form = {"type": "json", "schema": {"type": "object"}}
    body = await body_of(provider, at("deepseek"), response_format=form)
    assert body["response_format"] == {"type": "json_object"}
    assert body["messages"][0]["role"] == "system"
    assert '{"type":"object"}' in body["messages"][0]["content"]
    body = await body_of(provider, at("groq"), response_format=form)
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


# ── round trips: what was thought goes back as the provider wants it ──────────────────────────────


async def second_body(provider: Provider, model: Any, first: bytes) -> dict[str, Any]:
    """What is sent in the second step of a run whose first step called a tool.

    The conversation is stored and loaded before a third step, which must send the same.
    """
    last = events({"content": "Two."})
    provider.answer = takes_turns(first, last, last)
    agent = Agent(id="a", model=model, tools=[add])
    result = await agent.generate("One and one?")
    assert result.text.endswith("Two.")
    stored = json.dumps([message.to_json() for message in result.messages])
    loaded = [Message.from_json(record) for record in json.loads(stored)]
    await agent.generate([*loaded, "And again?"])
    await model.aclose()
    body, again = provider.exchanges[1].json, provider.exchanges[2].json
    assert again["messages"][: len(body["messages"])] == body["messages"]
    return body


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("deepseek", "reasoning_content"),
        ("moonshotai", "reasoning_content"),
        ("zai", "reasoning_content"),
        ("xai", "reasoning_content"),
        ("vllm", "reasoning_content"),
        ("ollama", "reasoning"),
        ("groq", None),
    ],
)
async def test_thoughts_before_a_call_are_sent_again(
    provider: Provider, at: Any, name: str, field: str | None
) -> None:
    first = events({"reasoning_content": "Hm, "}, {"reasoning": "é!"}, {"tool_calls": [call("c1")]})
    body = await second_body(provider, at(name), first)
    message = body["messages"][1]
    thoughts = {key: value for key, value in message.items() if key.startswith("reasoning")}
    assert thoughts == ({field: "Hm, é!"} if field else {})
    assert message["tool_calls"][0]["id"] == "c1"
    assert body["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": "2"}


async def test_deepseek_is_told_that_nothing_was_thought(provider: Provider, at: Any) -> None:
    """It refuses messages without the field, for example those of another model."""
    body = await second_body(provider, at("deepseek"), events({"tool_calls": [call("c1")]}))
    assert body["messages"][1]["reasoning_content"] == ""


async def test_openrouter_gets_its_records_back_unchanged(provider: Provider, at: Any) -> None:
    """Signatures and encrypted thoughts are byte-exact; pieces of one text are one record (G-K)."""
    signature = "EpAD+/Cok==é"
    first = events(
        {"reasoning": "Hm, ", "reasoning_details": [detail("Hm, ")]},
        {"reasoning": "so.", "reasoning_details": [detail("so.")]},
        {"content": "", "reasoning_details": [detail("", signature=signature)]},
        {"content": "I add."},
        {"tool_calls": [call("c1")]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x/+=", "index": 1}]},
    )
    body = await second_body(provider, at("openrouter"), first)
    message = body["messages"][1]
    assert message["reasoning_details"] == [
        detail("Hm, so.", signature=signature),
        {"type": "reasoning.encrypted", "data": "x/+=", "index": 1},
    ]
    assert message["content"] == "I add."


def detail(said: str, **more: str) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": said, "index": 0, "format": "f1", **more}


async def test_mistral_thinks_in_parts(provider: Provider, at: Any) -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    first = events(
        {"content": [thinking]},
        {"content": [{"type": "text", "text": "I add."}]},
        {"tool_calls": [call("call_long_id_1")]},
        finish="tool_calls",
    )
    body = await second_body(provider, at("mistral"), first)
    message, result = body["messages"][1:3]
    assert message["content"] == [thinking, {"type": "text", "text": "I add."}]
    sent = message["tool_calls"][0]["id"]
    assert len(sent) == 9 and sent.isalnum()
    assert result["tool_call_id"] == sent


async def test_mistral_keeps_its_own_ids(provider: Provider, at: Any) -> None:
    body = await second_body(provider, at("mistral"), events({"tool_calls": [call("aB3dE6gH9")]}))
    assert body["messages"][1]["tool_calls"][0]["id"] == "aB3dE6gH9"


# ── what comes back ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "last", "counts"),
    [
        (
            "groq",
            {"x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}},
            (3, 4, 7, None, None),
        ),
        (
            "moonshotai",
            {
                "choices": [
                    {
                        "delta": {},
                        "finish_reason": "stop",
                        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "cached_tokens": 2},
                    }
                ]
            },
            (3, 4, 7, 2, None),
        ),
        (
            "deepseek",
            {
                "usage": {
                    "prompt_tokens": 3,
                    "completion_tokens": 4,
                    "prompt_cache_hit_tokens": 1,
                    "completion_tokens_details": {"reasoning_tokens": 2},
                }
            },
            (3, 4, 7, 1, 2),
        ),
        (
            "perplexity",
            {"usage": {"prompt_tokens": 3, "completion_tokens": 4, "reasoning_tokens": 2}},
            (3, 4, 7, None, 2),
        ),
        ("ollama", {"usage": {"prompt_tokens": "3", "prompt_tokens_details": 7}}, (None,) * 5),
    ],
)
async def test_usage_is_found_where_the_provider_puts_it(
    provider: Provider, at: Any, name: str, last: dict[str, Any], counts: tuple[Any, ...]
) -> None:
    provider.answer = plays([events({"content": "Hi"}, **last)])
    (finish,) = of(await answer_of(at(name)), "finish")
    usage = finish.output.usage
    assert counts == (
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        usage.cached_input_tokens,
        usage.reasoning_tokens,
    )


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("model_length", "length"),
        ("sensitive", "content-filter"),
        ("insufficient_system_resource", "error"),
        ("network_error", "error"),
        ("eos", "other"),
        (None, "other"),
    ],
)
async def test_why_an_answer_ended(
    provider: Provider, at: Any, raw: str | None, reason: str
) -> None:
    """Also where the end mark comes without a reason."""
    provider.answer = plays([events({"content": "Hi"}, finish=raw)])
    (finish,) = of(await answer_of(at("zai")), "finish")
    assert finish.step_result.reason == reason


async def test_perplexity_tells_its_sources_once(provider: Provider, at: Any) -> None:
    results = [{"title": "One", "url": "https://example.com/1"}, {"url": "https://example.com/2"}]
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    told = {"search_results": results, "citations": [result["url"] for result in results]}
    lines = [
        {"choices": [{"delta": {"content": said}}], "usage": usage, **told}
        for said in ("It ", "is.")
    ]
    lines.append({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage, **told})
    provider.answer = plays([f"data: {json.dumps(line)}\n\n".encode() for line in lines])
    chunks = await answer_of(at("perplexity"))
    assert text(chunks) == "It is."
    sources = [(source.url, source.title) for source in of(chunks, "source")]
    assert sources[0] == ("https://example.com/1", "One")
    assert [url for url, _ in sources] == ["https://example.com/1", "https://example.com/2"]
    (finish,) = of(chunks, "finish")
    assert finish.output.usage.output_tokens == 1


async def test_annotations_are_sources_and_images_are_files(provider: Provider, at: Any) -> None:
    note = {"type": "url_citation", "url_citation": {"url": "https://example.com", "title": "E"}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    provider.answer = plays([events({"content": "Hi"}, {"annotations": [note], "images": [image]})])
    chunks = await answer_of(at("openrouter"))
    (source,), (file,) = of(chunks, "source"), of(chunks, "file")
    assert (source.url, source.title, source.source_type) == ("https://example.com", "E", "url")
    assert (file.data, file.mime_type) == ("aGk=", "image/png")


async def test_tools_that_groq_executed_are_calls_with_results(provider: Provider, at: Any) -> None:
    began = {"index": 0, "type": "search", "arguments": '{"query": "x"}'}
    ended = {**began, "output": "Found.", "search_results": {"results": []}}
    provider.answer = plays(
        [events({"executed_tools": [began]}, {"executed_tools": [ended]}, {"content": "So."})]
    )
    model = at("groq")
    agent = Agent(id="a", model=model)
    result = await agent.generate("Search.")
    await model.aclose()
    (made,), (outcome,) = result.tool_calls, result.tool_results
    assert (made.payload.tool_name, made.payload.args) == ("search", {"query": "x"})
    assert made.payload.provider_executed and outcome.payload.provider_executed
    assert outcome.payload.result == {"output": "Found.", "search_results": {"results": []}}
    assert result.text == "So."
    assert len(provider.exchanges) == 1


async def test_what_a_provider_says_of_the_answer_is_kept(provider: Provider, at: Any) -> None:
    token = {"content": [{"token": "Hi", "logprob": -0.5}]}
    lines = [
        {"id": "r1", "provider": "Example", "system_fingerprint": "f1", "choices": []},
        {"choices": [{"delta": {"content": "H"}, "logprobs": token}]},
        {"choices": [{"delta": {"content": "i"}, "logprobs": token}]},
        {"choices": [{"delta": {}, "finish_reason": "stop", "native_finish_reason": "end"}]},
        {"choices": [], "usage": {"prompt_tokens": 1}, "service_tier": "default"},
    ]
    provider.answer = plays([f"data: {json.dumps(line)}\n\n".encode() for line in lines])
    chunks = await answer_of(at("openrouter"))
    (finish,) = of(chunks, "finish")
    assert finish.metadata["providerMetadata"] == {
        "openrouter": {
            "provider": "Example",
            "systemFingerprint": "f1",
            "logprobs": token["content"] * 2,
            "nativeFinishReason": "end",
            "serviceTier": "default",
        }
    }
    assert text(chunks) == "Hi"
