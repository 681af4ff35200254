"""The embedded embedder: what it finds, off the event loop, whatever the text (M-149)."""

from __future__ import annotations

import asyncio
import threading
from functools import cache
from math import sqrt
from typing import TYPE_CHECKING

import pytest

from procession.embedder import Embedder, resolve_embedder
from procession.embedders import e5
from procession.embedders.e5 import E5Embedder
from procession.errors import ConfigurationError, OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

PASSAGES = [
    "Notre bureau de Lyon est fermé le lundi matin.",
    "La facture doit être payée sous trente jours.",
    "Le chat de ma voisine dort sur le radiateur.",
    "Le train pour Marseille part à sept heures.",
    "Ma tante est allergique aux arachides.",
    "会议改到星期四下午三点。",
    "我们的仓库在港口旁边。",
    "请把密码每三个月更换一次。",
    "他每天早上跑五公里。",
    "这道菜里有很多大蒜。",
    "회의실은 3층에 있습니다.",
    "제 여동생은 병원에서 간호사로 일합니다.",
    "비행기 표는 환불되지 않습니다.",
    "우리 집 강아지는 비를 무서워합니다.",
    "이번 겨울에는 눈이 많이 왔습니다.",
    "The printer on the second floor is out of toner.",
    "Our warranty covers two years of normal use.",
    "She plays the cello in an amateur orchestra.",
    "The river floods its banks every spring.",
    "Orders above fifty euros are shipped free of charge.",
    "The museum keeps a collection of old clocks.",
]

ENGLISH = [
    "Our office in Lyon is closed on Monday mornings.",
    "The invoice has to be paid within thirty days.",
    "My neighbour's cat sleeps on the radiator.",
    "The train to Marseille leaves at seven o'clock.",
    "My aunt is allergic to peanuts.",
    "The meeting has been moved to Thursday at three.",
    "Our warehouse is next to the harbour.",
    "Please change the password every three months.",
    "He runs five kilometres every morning.",
    "There is a lot of garlic in this dish.",
    "The meeting room is on the third floor.",
    "My younger sister works as a nurse in a hospital.",
    "The plane ticket cannot be refunded.",
    "Our dog is afraid of the rain.",
    "It snowed a lot this winter.",
    *PASSAGES[15:],
]

PARAPHRASES = [
    ("Quand le bureau de Lyon est-il fermé ?", 0),
    ("Combien de temps ai-je pour régler ce que je dois ?", 1),
    ("À quelle heure est le départ vers Marseille ?", 3),
    ("会议是什么时候", 5),
    ("仓库的位置在哪里", 6),
    ("多久要改一次密码", 7),
    ("회의실이 어디에 있나요?", 10),
    ("언니나 동생의 직업이 뭐예요?", 11),
    ("강아지가 무서워하는 것은?", 13),
]

TRANSLATED = [
    ("Pendant combien d'années le produit est-il garanti ?", 16),
    ("Puis-je me faire rembourser le billet d'avion ?", 12),
    ("À quoi ma tante est-elle allergique ?", 4),
    ("会议是什么时候", 5),
    ("她演奏什么乐器", 17),
    ("打印机有什么问题", 15),
    ("두 번째 층의 프린터에 무슨 문제가 있나요?", 15),
    ("강아지가 무서워하는 것은?", 13),
    ("박물관에는 무엇이 있나요?", 20),
]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@cache
def vectors_of(passages: tuple[str, ...]) -> list[Sequence[float]]:
    return list(asyncio.run(E5Embedder().embed(passages, kind="passage")))


def found(question: str, passages: list[str]) -> str:
    """The passage that is nearest to a question."""
    (query,) = asyncio.run(E5Embedder().embed([question], kind="query"))
    scores = [cosine(query, passage) for passage in vectors_of(tuple(passages))]
    return passages[scores.index(max(scores))]


@pytest.mark.parametrize(("question", "index"), PARAPHRASES)
def test_a_question_finds_its_passage_among_twenty_others(question: str, index: int) -> None:
    """In French, Chinese and Korean, though the words are others and other languages are there."""
    assert found(question, PASSAGES) == PASSAGES[index]


@pytest.mark.parametrize(("question", "index"), TRANSLATED)
def test_a_question_finds_its_passage_in_another_language(question: str, index: int) -> None:
    """Asked in French, Chinese or Korean, and found among twenty-one passages in English."""
    assert found(question, ENGLISH) == ENGLISH[index]


def test_the_id_resolves() -> None:
    embedder = resolve_embedder("local/e5")
    assert isinstance(embedder, E5Embedder)
    assert isinstance(embedder, Embedder)
    assert (embedder.id, embedder.dimension) == ("local/e5", 384)
    with pytest.raises(ConfigurationError, match="local/e5"):
        resolve_embedder("local/e6")


async def test_any_text_has_a_vector_of_length_one() -> None:
    texts = ["", "\0", "a\0b", "half \ud83d of a character", "😀"]
    vectors = await E5Embedder().embed(texts, kind="passage")
    assert len(vectors) == len(texts)
    assert {len(vector) for vector in vectors} == {384}
    assert all(sqrt(cosine(vector, vector)) == pytest.approx(1, abs=1e-4) for vector in vectors)
    assert await E5Embedder().embed([], kind="query") == []


async def test_what_follows_a_nul_is_read() -> None:
    """For native code a text ends there."""
    cut, whole = await E5Embedder().embed(["cheese", "cheese\0and wine"], kind="query")
    assert cut != whole


async def test_queries_are_told_from_passages() -> None:
    (query,) = await E5Embedder().embed(["cheese"], kind="query")
    (passage,) = await E5Embedder().embed(["cheese"], kind="passage")
    assert query != passage


async def test_what_stands_behind_the_window_counts() -> None:
    """510 tokens are read at a time; the vector is the mean over all pieces."""
    start = "The cat sleeps on the sofa. " * 76
    tail = "Invoices are paid within thirty days. " * 5
    one, other = await E5Embedder().embed([start, start + tail], kind="passage")
    assert cosine(one, other) < 0.9999


async def test_what_stands_behind_the_limit_does_not_count() -> None:
    shorter = E5Embedder(max_characters=10)
    one, other = await shorter.embed(["The cat sleeps", "The cat sl"], kind="passage")
    assert one == other
    assert shorter.id != E5Embedder().id == E5Embedder(max_characters=8_000).id


async def test_many_texts_are_as_each_alone() -> None:
    together = await E5Embedder().embed(PASSAGES, kind="passage")
    alone = [(await E5Embedder().embed([text], kind="passage"))[0] for text in PASSAGES[:3]]
    assert together[:3] == alone


async def test_the_event_loop_goes_on_meanwhile() -> None:
    """One worker thread for all instances; a query is not held up by all texts before it."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.001)

    turning = asyncio.create_task(turn())
    many = asyncio.create_task(E5Embedder().embed(PASSAGES * 2, kind="passage"))
    await asyncio.sleep(0.01)
    await E5Embedder().embed(["cheese"], kind="query")
    assert not many.done()
    await many
    turning.cancel()
    assert turns > 10
    workers = [thread for thread in threading.enumerate() if "procession-e5" in thread.name]
    assert len(workers) == 1


async def test_a_cancelled_call_embeds_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    embed = e5._Engine.embed

    def noting(self: e5._Engine, texts: Sequence[str], is_query: bool) -> list[Sequence[float]]:
        batches.append(len(texts))
        return list(embed(self, texts, is_query))

    monkeypatch.setattr(e5._Engine, "embed", noting)
    many = asyncio.create_task(E5Embedder().embed(["cheese"] * 160, kind="passage"))
    while not batches:  # noqa: ASYNC110 - another thread fills it
        await asyncio.sleep(0.001)
    many.cancel()
    with pytest.raises(asyncio.CancelledError):
        await many
    await E5Embedder().embed(["wine"], kind="query")
    assert len(batches) < 10


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "8000"])
def test_a_limit_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(OptionError, match="max_characters"):
        E5Embedder(max_characters=wrong)  # type: ignore[arg-type]


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(OptionError, match="max_characters"):
        E5Embedder(max_character=5)  # type: ignore[call-arg]
