"""A text is embedded once in a process, whoever asks (M-146)."""

from __future__ import annotations

import asyncio
import threading
from array import array
from typing import TYPE_CHECKING, Any

import pytest

from procession import embedding_cache
from procession.embedding_cache import EmbeddingCache, embed
from procession.errors import ModelError, OptionError
from procession.testing import HashingEmbedder

if TYPE_CHECKING:
    from collections.abc import Sequence


class Slow(HashingEmbedder):
    """Waits until it is told to go on."""

    def __init__(self) -> None:
        super().__init__(8)
        self.go_on = asyncio.Event()
        self.cancelled = 0

    async def embed(self, texts: Sequence[str], *, kind: Any) -> list[array[float]]:
        vectors = await super().embed(texts, kind=kind)
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return vectors


async def test_only_what_is_new_is_asked_for_each_text_once() -> None:
    embedder, cache = HashingEmbedder(8), EmbeddingCache()
    first = await cache.embed(embedder, ["a", "b", "a"], kind="query")
    second = await cache.embed(embedder, ["c", "b"], kind="query")
    assert [texts for texts, _ in embedder.calls] == [["a", "b"], ["c"]]
    assert first[0] == first[2]
    assert second[1] is first[1]
    assert await cache.embed(embedder, [], kind="query") == []
    assert len(cache) == 3


async def test_embedders_and_kinds_are_told_apart() -> None:
    small, large, cache = HashingEmbedder(8), HashingEmbedder(16), EmbeddingCache()
    for embedder in (small, large):
        for kind in ("query", "passage"):
            await cache.embed(embedder, ["a"], kind=kind)
    assert len(small.calls) == len(large.calls) == 2
    again = HashingEmbedder(8)
    await cache.embed(again, ["a"], kind="query")
    assert again.calls == []


async def test_concurrent_equal_texts_are_asked_for_once() -> None:
    embedder, cache = Slow(), EmbeddingCache()
    asking = [
        asyncio.create_task(cache.embed(embedder, texts, kind="query"))
        for texts in (["a", "b"], ["b", "c"], ["a"])
    ]
    await asyncio.sleep(0.01)
    embedder.go_on.set()
    (a, b), (again_b, _c), (again_a,) = await asyncio.gather(*asking)
    assert [texts for texts, _ in embedder.calls] == [["a", "b"], ["c"]]
    assert a is again_a
    assert b is again_b


async def test_who_waits_is_not_cancelled_with_who_asked_first() -> None:
    embedder, cache = Slow(), EmbeddingCache()
    first = asyncio.create_task(cache.embed(embedder, ["a"], kind="query"))
    second = asyncio.create_task(cache.embed(embedder, ["a"], kind="query"))
    await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.sleep(0.01)
    embedder.go_on.set()
    assert len(await second) == 1
    assert first.cancelled()
    assert (len(embedder.calls), embedder.cancelled) == (1, 0)


async def test_a_call_that_nobody_waits_for_ends_at_once() -> None:
    """No task is left behind, and the next one asks anew."""
    embedder, cache = Slow(), EmbeddingCache()
    asking = [asyncio.create_task(cache.embed(embedder, ["a"], kind="query")) for _ in range(2)]
    await asyncio.sleep(0.01)
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)
    assert embedder.cancelled == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}
    embedder.go_on.set()
    await cache.embed(embedder, ["a"], kind="query")
    assert len(embedder.calls) == 2


async def test_a_failure_reaches_all_who_wait_and_is_not_kept() -> None:
    class Failing(Slow):
        async def embed(self, texts: Sequence[str], *, kind: Any) -> list[array[float]]:
            vectors = await super().embed(texts, kind=kind)
            if len(self.calls) == 1:
                raise ModelError("no")
            return vectors

    embedder, cache = Failing(), EmbeddingCache()
    asking = [asyncio.create_task(cache.embed(embedder, ["a"], kind="query")) for _ in range(2)]
    await asyncio.sleep(0.01)
    embedder.go_on.set()
    failures = await asyncio.gather(*asking, return_exceptions=True)
    assert [str(failure) for failure in failures] == ["no", "no"]
    assert len(await cache.embed(embedder, ["a"], kind="query")) == 1


async def test_it_is_bounded_and_the_oldest_goes_first() -> None:
    embedder, cache = HashingEmbedder(100), EmbeddingCache(max_bytes=2_000)
    for text in ("a", "b", "a", "c"):
        await cache.embed(embedder, [text], kind="query")
    assert len(cache) == 2
    await cache.embed(embedder, ["a", "c", "b"], kind="query")
    assert [texts for texts, _ in embedder.calls] == [["a"], ["b"], ["c"], ["b"]]
    cache.clear()
    assert len(cache) == 0
    keeps_none = EmbeddingCache(max_bytes=0)
    assert len(await keeps_none.embed(embedder, ["a", "b"], kind="query")) == 2
    assert len(keeps_none) == 0


async def test_there_is_one_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_cache, "_shared", EmbeddingCache())
    embedder = HashingEmbedder(8)
    await embed(embedder, ["a"], kind="query")
    thread = threading.Thread(target=lambda: asyncio.run(embed(embedder, ["a"], kind="query")))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert len(embedder.calls) == 1


class Answering:
    """An embedder that answers with what it is given."""

    id, dimension = "acme/odd", None

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def embed(self, texts: Sequence[str], *, kind: Any) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ([[1.0, 2.0]], "1 vectors for 2 texts"),
        ([[1.0, 2.0], [1.0]], r"dimensions \[1, 2\]"),
        ([[], []], r"dimensions \[0\]"),
        ([[1.0, float("nan")], [1.0, 1.0]], "not finite"),
        ([[1.0, 1e300], [1.0, 1.0]], "not finite"),
        ([["a", "b"], ["c", "d"]], "something else"),
        (None, "something else"),
    ],
)
async def test_an_answer_that_does_not_fit_is_told_with_the_embedder(
    answer: Any, told: str
) -> None:
    with pytest.raises(ModelError, match=f"acme/odd .*{told}"):
        await EmbeddingCache().embed(Answering(answer), ["a", "b"], kind="query")


async def test_any_sequence_of_numbers_is_a_vector() -> None:
    numbers = [[1, 2], (3.0, 4.0)]
    vectors = await EmbeddingCache().embed(Answering(numbers), ["a", "b"], kind="query")
    assert vectors == [array("f", [1, 2]), array("f", [3, 4])]


async def test_half_a_character_is_no_hindrance() -> None:
    assert len(await EmbeddingCache().embed(HashingEmbedder(8), ["\ud83d"], kind="query")) == 1


@pytest.mark.parametrize("wrong", [-1, 1.5, True, None])
def test_a_bound_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="max_bytes"):
        EmbeddingCache(max_bytes=wrong)
