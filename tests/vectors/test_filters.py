"""Any data, any filter: what is found is what a naive search finds (M-142, M-149)."""

from __future__ import annotations

import operator
from math import sqrt
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from procession.vector_store import VectorEntry

if TYPE_CHECKING:
    from procession.vector_store import VectorStore

FIELDS = ("thread", "n", "tag")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, 1.0, -1.5, 2.5, 1e22, 2**53]),
    st.sampled_from(["", "a", "A", "ab", "é", "日", "😀", "\uffff", "1", "true", "null"]),
)
NESTED = st.sampled_from([[], ["a"], [1], {"a": 1}, {}])
NUMBERS = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0])
VECTORS = st.tuples(NUMBERS, NUMBERS, NUMBERS).filter(any)
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([f"e{n}" for n in range(12)]),
        VECTORS,
        st.dictionaries(st.sampled_from(FIELDS), VALUES | NESTED),
    ),
    max_size=14,
)
ORDERED = st.one_of(
    st.integers(-3, 3), st.sampled_from([0.5, 1e22, "", "A", "a", "é", "😀", "\uffff"])
)
CONDITIONS = st.one_of(
    VALUES,
    st.dictionaries(st.sampled_from(["$eq", "$ne"]), VALUES, min_size=1),
    st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), ORDERED, min_size=1),
    st.dictionaries(st.sampled_from(["$in", "$nin"]), st.lists(VALUES, max_size=3), min_size=1),
)
FILTERS = st.recursive(
    st.dictionaries(st.sampled_from(FIELDS), CONDITIONS, max_size=2),
    lambda inner: st.dictionaries(
        st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3), min_size=1
    ),
    max_leaves=4,
)

COMPARE = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
MISSING = object()


def equal(value: Any, other: Any) -> bool:
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return not isinstance(value, list | dict) and value == other


def compares(word: str, value: Any, other: Any) -> bool:
    numbers = all(type(each) in (int, float) for each in (value, other))
    texts = all(isinstance(each, str) for each in (value, other))
    return (numbers or texts) and COMPARE[word](value, other)


def holds(word: str, value: Any, other: Any) -> bool:
    if word in COMPARE:
        return compares(word, value, other)
    if word in ("$ne", "$nin"):
        return not holds({"$ne": "$eq", "$nin": "$in"}[word], value, other)
    among = other if word == "$in" else [other]
    return any(equal(value, each) for each in among)


def passes(chosen: dict[str, Any], metadata: dict[str, Any]) -> bool:
    """What a filter means, told once more and as plainly as can be."""
    for name, wanted in chosen.items():
        if name == "$and":
            fits = all(passes(each, metadata) for each in wanted)
        elif name == "$or":
            fits = any(passes(each, metadata) for each in wanted)
        else:
            value = metadata.get(name, MISSING)
            words = wanted if isinstance(wanted, dict) else {"$eq": wanted}
            fits = all(holds(word, value, other) for word, other in words.items())
        if not fits:
            return False
    return True


def cosine(one: Any, other: Any) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / sqrt(sum(a * a for a in one)) / sqrt(sum(b * b for b in other))


async def renew(vectors: VectorStore) -> None:
    await vectors.delete_index("any")
    await vectors.create_index("any", 3)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(first=ENTRIES, second=ENTRIES, query=VECTORS, chosen=FILTERS, top_k=st.integers(1, 8))
async def test_what_is_found_is_what_a_naive_search_finds(
    vectors: VectorStore, first: Any, second: Any, query: Any, chosen: Any, top_k: int
) -> None:
    await renew(vectors)
    kept: dict[str, tuple[Any, Any]] = {}
    for entries in (first, second):
        await vectors.upsert(
            "any", [VectorEntry(id=e, vector=v, metadata=m) for e, v, m in entries]
        )
        kept |= {entry_id: (vector, metadata) for entry_id, vector, metadata in entries}
        hits = await vectors.query("any", query, filter=chosen, top_k=top_k)
        expected = {
            entry_id: cosine(query, vector)
            for entry_id, (vector, metadata) in kept.items()
            if passes(chosen, metadata)
        }
        best = sorted(expected.values(), reverse=True)[:top_k]
        assert [hit.score for hit in hits] == pytest.approx([max(s, 0) for s in best], abs=1e-5)
        for hit in hits:
            assert hit.score == pytest.approx(max(expected[hit.id], 0), abs=1e-5)
            assert hit.metadata == kept[hit.id][1]
        assert len({hit.id for hit in hits}) == len(hits)
    if chosen:
        passing = [entry_id for entry_id, (_, m) in kept.items() if passes(chosen, m)]
        left = len(kept) - len(passing)
        # An empty condition somewhere may make it hold for all: that is no filter to delete by.
        if any(name not in ("$and", "$or") for name in chosen):
            assert await vectors.delete("any", filter=chosen) == len(passing)
            assert (await vectors.describe_index("any")).count == left


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(entries=ENTRIES, query=VECTORS, least=st.sampled_from([0, 0.3, 0.7, 1]))
async def test_min_score_leaves_out_exactly_what_scores_less(
    vectors: VectorStore, entries: Any, query: Any, least: float
) -> None:
    """M-143."""
    await renew(vectors)
    await vectors.upsert("any", [VectorEntry(id=e, vector=v, metadata=m) for e, v, m in entries])
    all_of_them = await vectors.query("any", query, top_k=50)
    near = await vectors.query("any", query, top_k=50, min_score=least)
    assert near == [hit for hit in all_of_them if hit.score >= least - 1e-6]
