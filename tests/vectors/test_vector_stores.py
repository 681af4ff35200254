"""What every store of vectors does (M-142, M-143, M-145, M-149)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from procession.errors import InputError
from procession.vector_store import IndexInfo, VectorEntry, VectorHit, VectorStore

if TYPE_CHECKING:
    from collections.abc import Sequence


def entry(entry_id: str, vector: Sequence[float], **metadata: Any) -> VectorEntry:
    return VectorEntry(id=entry_id, vector=vector, metadata=metadata)


async def filled(vectors: VectorStore, *entries: VectorEntry) -> VectorStore:
    await vectors.create_index("notes", 2)
    await vectors.upsert("notes", entries)
    return vectors


async def found(vectors: VectorStore, vector: Sequence[float] = (1, 0), **more: Any) -> list[str]:
    return [hit.id for hit in await vectors.query("notes", vector, **more)]


async def test_the_nearest_come_first_with_their_cosines(vectors: VectorStore) -> None:
    """A cosine does not depend on lengths; what is below 0 counts as 0."""
    assert isinstance(vectors, VectorStore)
    await filled(
        vectors,
        entry("against", [-1, 0]),
        entry("across", [0, 0.001]),
        entry("same", [300, 0], thread="t1", n=1),
        entry("near", [1, 1]),
    )
    hits = await vectors.query("notes", [2, 0])
    assert [hit.id for hit in hits] == ["same", "near", "across", "against"]
    assert [hit.score for hit in hits] == pytest.approx([1, 0.5**0.5, 0, 0], abs=1e-6)
    assert all(0 <= hit.score <= 1 for hit in hits)
    assert hits[0].metadata == {"thread": "t1", "n": 1}
    assert isinstance(hits[0], VectorHit)


async def test_top_k_and_min_score_bound_what_is_found(vectors: VectorStore) -> None:
    await filled(vectors, *(entry(f"e{n}", [1, n / 10]) for n in range(10)))
    assert len(await found(vectors)) == 10
    assert await found(vectors, top_k=3) == ["e0", "e1", "e2"]
    assert await found(vectors, min_score=0.99) == ["e0", "e1"]
    assert await found(vectors, [1, 0.5], min_score=1.0) == ["e5"]
    assert await found(vectors, [-1, 0], min_score=0.01) == []
    assert len(await found(vectors, [-1, 0], min_score=0, top_k=2)) == 2


async def test_equal_scores_come_in_the_order_of_their_ids(vectors: VectorStore) -> None:
    await filled(vectors, *(entry(name, [1, 0]) for name in "dbaecéZ"))
    assert await found(vectors, top_k=4) == ["Z", "a", "b", "c"]


async def test_a_filter_is_applied_before_the_best_are_taken(vectors: VectorStore) -> None:
    """M-142: what belongs to others never takes the place of one's own."""
    await filled(
        vectors,
        *(entry(f"other{n}", [1, n / 1000], resource="r2") for n in range(300)),
        *(entry(f"own{n}", [-1, n], resource="r1") for n in range(3)),
    )
    assert await found(vectors, top_k=3, filter={"resource": "r1"}) == ["own2", "own1", "own0"]
    assert await found(vectors, top_k=2, filter={"resource": "r3"}) == []


async def test_values_of_different_kinds_are_never_equal(vectors: VectorStore) -> None:
    values = [True, 1, "1", "true", None, "null", False, 0, "", [1], {"a": 1}]
    entries = [entry(f"e{n:02}", [1, n], v=value) for n, value in enumerate(values)]
    await filled(vectors, *entries, entry("z", [1, 99]))
    for number, value in enumerate(values[:9]):
        assert await found(vectors, filter={"v": value}, top_k=20) == [f"e{number:02}"]
        others = await found(vectors, filter={"v": {"$ne": value}}, top_k=20)
        assert f"e{number:02}" not in others
        assert len(others) == len(values)
    assert await found(vectors, filter={"v": 1.0}) == ["e01"]
    assert await found(vectors, filter={"v": {"$gte": 0}}) == ["e01", "e07"]
    assert await found(vectors, filter={"v": {"$gte": "1"}}) == ["e02", "e03", "e05"]
    assert await found(vectors, filter={"v": {"$in": [True, None]}}) == ["e00", "e04"]


async def test_an_entry_with_the_id_of_another_replaces_it(vectors: VectorStore) -> None:
    await filled(vectors, entry("a", [1, 0], n=1), entry("b", [0, 1], n=2))
    assert await found(vectors, filter={"n": 1}) == ["a"]
    await vectors.upsert("notes", [entry("a", [0, 1], n=3), entry("a", [0, -1], n=4)])
    assert await found(vectors, [0, -1], top_k=1) == ["a"]
    assert await found(vectors, filter={"n": {"$in": [1, 3]}}) == []
    assert (await vectors.query("notes", [0, -1]))[0].metadata == {"n": 4}
    assert (await vectors.describe_index("notes")).count == 2
    await vectors.upsert("notes", [])
    assert (await vectors.describe_index("notes")).count == 2


async def test_entries_are_deleted_by_id_and_by_filter(vectors: VectorStore) -> None:
    """M-148: deleted messages are not recalled."""
    await filled(vectors, *(entry(f"e{n}", [1, n], thread=f"t{n % 2}") for n in range(6)))
    assert len(await found(vectors)) == 6
    assert await vectors.delete("notes", ids=["e0", "e0", "nobody"]) == 1
    assert await vectors.delete("notes", ids=[]) == 0
    assert await found(vectors) == ["e1", "e2", "e3", "e4", "e5"]
    assert await vectors.delete("notes", filter={"thread": "t1"}) == 3
    assert await found(vectors) == ["e2", "e4"]
    await vectors.upsert("notes", [entry("e0", [1, 0], thread="t9")])
    assert await found(vectors) == ["e0", "e2", "e4"]
    assert await found(vectors, filter={"thread": "t0"}) == ["e2", "e4"]
    assert (await vectors.describe_index("notes")).count == 3


async def test_many_deletions_leave_the_others_in_place(vectors: VectorStore) -> None:
    """Rows are moved together; the values that filters look at move with them."""
    await filled(vectors, *(entry(f"e{n:04}", [1, n], n=n, odd=n % 2 == 1) for n in range(1500)))
    assert await found(vectors, filter={"n": 1400}) == ["e1400"]
    assert await vectors.delete("notes", filter={"n": {"$lt": 1300}}) == 1300
    await vectors.upsert("notes", [entry("new", [1, 0], n=5000, odd=True)])
    assert await found(vectors, top_k=2, filter={"n": {"$gte": 0}}) == ["new", "e1300"]
    assert await found(vectors, filter={"n": 1400}) == ["e1400"]
    assert await found(vectors, top_k=2, filter={"odd": True}) == ["new", "e1301"]
    assert (await vectors.describe_index("notes")).count == 201


async def test_indexes_are_made_once_and_listed(vectors: VectorStore) -> None:
    """M-145: made on demand; an embedder of another dimension needs another index."""
    assert await vectors.list_indexes() == []
    await asyncio.gather(*(vectors.create_index("notes_2", 2) for _ in range(3)))
    await vectors.create_index("Notes", 384)
    assert await vectors.list_indexes() == ["Notes", "notes_2"]
    with pytest.raises(InputError, match="'notes_2' has vectors of dimension 2, not 3"):
        await vectors.create_index("notes_2", 3)
    assert await vectors.describe_index("Notes") == IndexInfo(
        name="Notes", dimension=384, metric="cosine", count=0
    )
    assert await vectors.query("notes_2", [1, 0]) == []


async def test_a_deleted_index_is_gone_with_its_entries(vectors: VectorStore) -> None:
    await filled(vectors, entry("a", [1, 0]))
    assert await found(vectors) == ["a"]
    await vectors.delete_index("notes")
    await vectors.delete_index("notes")
    assert await vectors.list_indexes() == []
    await vectors.create_index("notes", 3)
    assert await vectors.query("notes", [1, 0, 0]) == []
    await vectors.upsert("notes", [entry("b", [1, 0, 0])])
    assert [hit.id for hit in await vectors.query("notes", [1, 0, 0])] == ["b"]


async def test_an_index_that_is_not_there_is_told(vectors: VectorStore) -> None:
    for _ in range(2):
        for asked in (
            vectors.query("gone", [1, 0]),
            vectors.upsert("gone", [entry("a", [1, 0])]),
            vectors.delete("gone", ids=["a"]),
            vectors.delete("gone", filter={"a": 1}),
            vectors.describe_index("gone"),
        ):
            with pytest.raises(InputError, match="no index 'gone': create_index"):
                await asked
        await vectors.delete_index("gone")
        await vectors.create_index("other", 2)


WRONG = [
    ([1, 2, 3], "dimension 3, but the index has 2"),
    ([], "dimension 0"),
    ([1, float("nan")], "not finite"),
    ([float("inf"), -float("inf")], "not finite"),
    ([0, 0.0], "only zeros"),
    (["a", "b"], "sequence of numbers"),
    (None, "sequence of numbers"),
    (7, "sequence of numbers"),
]


@pytest.mark.parametrize(("vector", "told"), WRONG)
async def test_a_vector_that_is_none_is_told(vectors: VectorStore, vector: Any, told: str) -> None:
    """All or none: with a wrong one among them, nothing is written."""
    await vectors.create_index("notes", 2)
    with pytest.raises(InputError, match=f"the vector of entry 1 .*{told}"):
        await vectors.upsert("notes", [entry("a", [1, 0]), entry("b", vector)])
    with pytest.raises(InputError, match=f"the vector of the query .*{told}"):
        await vectors.query("notes", vector)
    assert (await vectors.describe_index("notes")).count == 0


@pytest.mark.parametrize(
    "vector",
    [
        array("f", [3, 4]),
        array("d", [3e300, 4e300]),
        np.array([3, 4], np.float32),
        (3e-320, 4e-320),
        [1.2e308, 1.6e308],
        [3, 4],
    ],
    ids=repr,
)
async def test_any_sequence_of_numbers_is_a_vector(vectors: VectorStore, vector: Any) -> None:
    await filled(vectors, entry("a", vector))
    (hit,) = await vectors.query("notes", vector)
    assert hit.score == pytest.approx(1, abs=1e-6)
    (hit,) = await vectors.query("notes", [1, 0])
    assert hit.score == pytest.approx(0.6, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"top_k": 0}, "top_k"),
        ({"top_k": True}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"min_score": 1.01}, "min_score"),
        ({"min_score": -0.1}, "min_score"),
        ({"min_score": "high"}, "min_score"),
        ({"filter": {"a": {"$like": "x"}}}, r"unknown operator '\$like'.*\$eq"),
        ({"filter": {"a": {"b": 1}}}, "unknown operator 'b'"),
        ({"filter": {"a": {}}}, "no operator"),
        ({"filter": {"$not": [{"a": 1}]}}, r"no operator '\$not' here"),
        ({"filter": {"$and": []}}, r"\$and takes a list"),
        ({"filter": {"$or": {"a": 1}}}, r"\$or takes a list"),
        ({"filter": {"$or": [3]}}, "mapping of fields"),
        ({"filter": [("a", 1)]}, "mapping of fields"),
        ({"filter": {"a b": 1}}, "letters, digits and _"),
        ({"filter": {"a'; --": 1}}, "letters, digits and _"),
        ({"filter": {"": 1}}, "letters, digits and _"),
        ({"filter": {"a": [1]}}, "'a' compares with a text"),
        ({"filter": {"a": float("nan")}}, "'a' compares with a text"),
        ({"filter": {"a": {"$gt": None}}}, r"\$gt of 'a' takes a number or a text"),
        ({"filter": {"a": {"$lte": True}}}, r"\$lte of 'a' takes a number or a text"),
        ({"filter": {"a": {"$in": "xyz"}}}, r"\$in of 'a' takes a list"),
        ({"filter": {"a": {"$nin": [[]]}}}, "'a' compares with a text"),
    ],
    ids=str,
)
async def test_a_query_that_means_nothing_is_told(
    vectors: VectorStore, arguments: Any, told: str
) -> None:
    await filled(vectors, entry("a", [1, 0], a=1))
    with pytest.raises(InputError, match=told):
        await vectors.query("notes", [1, 0], **arguments)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "either ids or a filter"),
        ({"ids": ["a"], "filter": {"a": 1}}, "either ids or a filter"),
        ({"filter": {}}, "would delete all"),
        ({"ids": "a"}, "a list of texts"),
        ({"ids": [1]}, "a text of 1 to 500"),
    ],
    ids=str,
)
async def test_a_deletion_that_could_be_a_mistake_is_refused(
    vectors: VectorStore, arguments: Any, told: str
) -> None:
    await filled(vectors, entry("a", [1, 0], a=1))
    with pytest.raises(InputError, match=told):
        await vectors.delete("notes", **arguments)
    assert (await vectors.describe_index("notes")).count == 1


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a" * 64, 'a"; DROP', None, "é"])
async def test_names_of_indexes_are_identifiers(vectors: VectorStore, name: Any) -> None:
    with pytest.raises(InputError, match="name of an index"):
        await vectors.create_index(name, 2)
    with pytest.raises(InputError, match="name of an index"):
        await vectors.query(name, [1, 0])


@pytest.mark.parametrize("dimension", [0, -1, 16_001, 2.0, True, None])
async def test_a_dimension_that_is_none_is_refused(vectors: VectorStore, dimension: Any) -> None:
    with pytest.raises(InputError, match="dimension"):
        await vectors.create_index("notes", dimension)


async def test_another_metric_is_refused(vectors: VectorStore) -> None:
    with pytest.raises(InputError, match="'cosine'"):
        await vectors.create_index("notes", 2, metric="euclidean")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (VectorEntry(id="", vector=[1, 0]), "the id of entry 0"),
        (VectorEntry(id="x" * 501, vector=[1, 0]), "the id of entry 0"),
        (VectorEntry(id=3, vector=[1, 0]), "the id of entry 0"),  # type: ignore[arg-type]
        (VectorEntry(id="a", vector=[1, 0], metadata=[1]), "the metadata of entry 0"),  # type: ignore[arg-type]
        ({"id": "a", "vector": [1, 0]}, "entry 0 is no VectorEntry"),
    ],
)
async def test_an_entry_that_is_none_is_told(vectors: VectorStore, wrong: Any, told: str) -> None:
    await vectors.create_index("notes", 2)
    with pytest.raises(InputError, match=told):
        await vectors.upsert("notes", [wrong])


async def test_any_text_can_be_in_metadata_and_ids(vectors: VectorStore) -> None:
    """NUL and half characters have no place in every database: they become U+FFFD."""
    texts = [
        "",
        "it's",
        '"',
        "\\u0000",
        "\\",
        "\\\\u0000",
        "日本語",
        "😀",
        "\x1f",
        "$",
        "%s ?",
    ]
    await filled(vectors, *(entry(f"e{n}", [1, n], text=text) for n, text in enumerate(texts)))
    for number, text in enumerate(texts):
        (hit,) = await vectors.query("notes", [1, 0], filter={"text": text})
        assert (hit.id, hit.metadata) == (f"e{number}", {"text": text})
    odd = entry("x\0\ud83d", [1, 0], text="a\0b\\\0\ud83d", deep=[{"k": "\0"}])
    await vectors.upsert("notes", [odd])
    (hit,) = await vectors.query("notes", [1, 0], filter={"text": "a\0b\\\0\ud83d"})
    assert hit.id == "x\ufffd\ufffd"
    assert hit.metadata == {"text": "a\ufffdb\\\ufffd\ufffd", "deep": [{"k": "\ufffd"}]}
    assert await vectors.delete("notes", ids=["x\0\ud83d"]) == 1


async def test_what_is_found_is_the_callers_own(vectors: VectorStore) -> None:
    given = {"tags": ["a"]}
    await filled(vectors, VectorEntry(id="a", vector=[1, 0], metadata=given))
    given["tags"].append("b")
    (hit,) = await vectors.query("notes", [1, 0])
    hit.metadata["tags"].append("c")
    (hit,) = await vectors.query("notes", [1, 0])
    assert hit.metadata == {"tags": ["a"]}


async def test_many_write_and_read_at_a_time(vectors: VectorStore) -> None:
    await vectors.create_index("notes", 2)

    async def write(number: int) -> None:
        names = [f"e{number % 5}", f"e{number}", "shared"]
        await vectors.upsert("notes", [entry(name, [1, number + 1], n=number) for name in names])
        await found(vectors, filter={"n": number})

    await asyncio.gather(*(write(number) for number in range(20)))
    assert len(set(await found(vectors, top_k=100))) == 21
    assert (await vectors.describe_index("notes")).count == 21


def test_no_store_is_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys, procession, procession.vectors, procession.vector_store\n"
        "print([name for name in ('numpy', 'psycopg') if name in sys.modules])\n"
        "from procession.vectors import *\n"
        "print(InMemoryVectors.__name__, SQLiteVectors.__name__, PostgresVectors.__name__)\n"
        "print(hasattr(procession.vectors, 'Other'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown = ["[]", "InMemoryVectors SQLiteVectors PostgresVectors", "False"]
    assert done.stdout.splitlines() == shown


def test_a_missing_package_is_told_with_its_extra() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "try: from procession.vectors import InMemoryVectors\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'procession[recall]'" in done.stdout
