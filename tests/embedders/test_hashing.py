"""The embedder for tests (M-149)."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.embedder import Embedder
from procession.errors import OptionError
from procession.testing import HashingEmbedder

TEXT = "The cat sat on the mat"


def test_it_is_an_embedder() -> None:
    embedder = HashingEmbedder(64)
    assert isinstance(embedder, Embedder)
    assert (embedder.id, embedder.dimension) == ("testing/hashing-64", 64)


async def test_shared_words_bring_texts_nearer_and_order_does_not_matter() -> None:
    embedder = HashingEmbedder()
    texts = [TEXT, "on the MAT sat the cat", "the cat on the mat", "Invoices are due"]
    same, shuffled, near, far = await embedder.embed(texts, kind="query")
    scores = [sum(a * b for a, b in zip(same, other, strict=True)) for other in (near, far)]
    assert same == shuffled
    assert scores[0] > scores[1] + 0.2
    assert embedder.calls == [(texts, "query")]


def test_it_is_the_same_in_every_process() -> None:
    code = (
        "import asyncio; from procession.testing import HashingEmbedder; "
        f"print(list(asyncio.run(HashingEmbedder(16).embed([{TEXT!r}], kind='query'))[0]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (here,) = asyncio.run(HashingEmbedder(16).embed([TEXT], kind="passage"))
    assert done.stdout.strip() == str(list(here))


@given(st.text())
async def test_any_text_has_a_vector_of_length_one(text: str) -> None:
    (vector,) = await HashingEmbedder(8).embed([text], kind="query")
    assert sum(number * number for number in vector) == pytest.approx(1, abs=1e-5)


def test_too_few_dimensions_are_refused() -> None:
    with pytest.raises(OptionError, match="dimension"):
        HashingEmbedder(1)
