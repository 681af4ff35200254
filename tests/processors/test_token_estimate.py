"""The estimate of tokens: never less than encodings make of a text, nor absurdly more (B-257)."""

import base64
import json
import random
import re
import string
from importlib.resources import files
from math import ceil
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession.processors.tokens.token_estimate import MOST_PER_BYTE, estimate_tokens
from procession.processors.tokens.token_texts import ESTIMATE, text_counter

ENCODINGS = [text_counter(name) for name in ("o200k_base", "cl100k_base")]

PROSE: dict[str, str] = json.loads(
    (Path(__file__).parents[1] / "data/prose.json").read_text(encoding="utf-8")
)
"""A few sentences in many languages and scripts."""


assert ESTIMATE not in ENCODINGS, "without the extra 'tokens' nothing is compared"


def exact(text: str) -> int:
    """The larger count of the two encodings."""
    return max(int(encoding.count(text)) for encoding in ENCODINGS)


def check(text: str) -> float:
    """The estimate in relation to what the text is; never below 1."""
    tokens = exact(text)
    estimate = ceil(estimate_tokens(text))
    assert estimate >= tokens, (text, estimate, tokens)
    return estimate / tokens


@pytest.mark.parametrize("language", PROSE)
def test_prose_of_all_scripts(language: str) -> None:
    """B-257: as a whole, and each sentence of it."""
    text = PROSE[language]
    assert check(text) <= 2.2
    for sentence in re.split(r"(?<=[.;\u3002\uff0c]) *", text):
        if sentence:
            check(sentence)


def test_prose_is_not_estimated_at_twice_what_it_is() -> None:
    text = "\n\n".join(PROSE.values())
    assert check(text) <= 1.5


@pytest.mark.parametrize("name", ["argparse.py", "json/decoder.py", "heapq.py", "textwrap.py"])
def test_code(name: str) -> None:
    text = (Path(json.__file__).parents[1] / name).read_text(encoding="utf-8")[:60_000]
    assert check(text) <= 1.6
    for line in text.splitlines():
        check(f"{line}\n")


def test_json() -> None:
    rows = [{"id": n, "name": f"row {n}", "tags": ["a", "b"], "price": n / 7} for n in range(100)]
    for indent in (None, 1, 4):
        assert check(json.dumps(rows, indent=indent)) <= 1.7


SOURCE = random.Random(20260714)


def some(alphabet: str, most: int) -> str:
    return "".join(SOURCE.choices(alphabet, k=SOURCE.randint(1, most)))


KEYS = {
    "lower case": lambda: some(string.ascii_lowercase + "  ", 200),
    "upper case": lambda: some(string.ascii_uppercase + "  ", 200),
    "letters and digits": lambda: some(string.ascii_letters + string.digits, 200),
    "base64": lambda: base64.b64encode(SOURCE.randbytes(90)).decode(),
    "url-safe base64": lambda: base64.urlsafe_b64encode(SOURCE.randbytes(90)).decode(),
    "hex": lambda: SOURCE.randbytes(32).hex(),
    "upper hex": lambda: SOURCE.randbytes(32).hex().upper(),
    "uuid": lambda: str(UUID(bytes=SOURCE.randbytes(16))),
    "digits": lambda: some(string.digits + "  ,.", 100),
    "signs": lambda: some(string.punctuation, 60),
    "ascii": lambda: some(string.printable, 100),
    "control": lambda: some("".join(map(chr, range(0xA1))), 100),
    "blanks": lambda: some(" \t\n\r", 100),
    "runs of blanks": lambda: "".join(c * SOURCE.randint(1, 300) for c in some(" \n\t", 5)),
    "one sign again": lambda: SOURCE.choice(string.printable) * SOURCE.randint(1, 400),
    "two signs again": lambda: some(string.punctuation, 2) * SOURCE.randint(1, 90),
    "emoji": lambda: some("😀🎉👩\u200d💻🏳️\u200d🌈👍🏽🇫🇷✂️☂❤️🧑🏿", 40),
    "any": lambda: "".join(chr(SOURCE.randrange(0x20, 0xD800)) for _ in range(40)),
    "beyond": lambda: "".join(chr(SOURCE.randrange(0xE000, 0x30000)) for _ in range(40)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEYS)
def test_what_machines_write(kind: str) -> None:
    """B-257: also where no word is."""
    SOURCE.seed(kind)  # whatever test came before: the mean of other samples is another one
    ratios = [check(KEYS[kind]()) for _ in range(400)]
    assert sum(ratios) / len(ratios) <= (3.0 if "again" in kind else 1.8)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(list(PROSE.values())), min_size=1, max_size=4), st.data())
def test_mixtures(texts: list[str], data: st.DataObject) -> None:
    """Pieces of any of these, cut anywhere, one after the other."""
    pieces = [text[data.draw(st.integers(0, len(text) // 2)) :] for text in texts]
    blank = data.draw(st.sampled_from(["", " ", "\n", "  \n\n", "\t", "; "]))
    check(blank.join([*pieces, KEYS[data.draw(st.sampled_from(list(KEYS)))]()]))


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_a_byte_is_only_so_many_tokens(text: str) -> None:
    size = len(text.encode("utf-8", "replace"))
    assert estimate_tokens(text) <= MOST_PER_BYTE * size


@settings(max_examples=300, deadline=None)
@given(st.text(), st.text())
def test_more_text_never_counts_less(text: str, more: str) -> None:
    """B-257. A word may become one that is known: a token less, not more."""
    assert estimate_tokens(text + more) >= estimate_tokens(text) - 8


def test_nothing_is_nothing() -> None:
    assert estimate_tokens("") == 0


def test_facts() -> None:
    """What `token_facts.txt` says of words and characters is so in both encodings."""
    text = (
        files("procession.processors.tokens")
        .joinpath("token_facts.txt")
        .read_text(encoding="utf-8")
    )
    words, characters, pairs = text.split("\n\n")
    for word in words.split():
        shown = (word, word.capitalize(), f" {word}", f" {word.capitalize()}")
        assert all(exact(form) == 1 for form in shown), word
    assert all(exact(c) == 1 for c in characters.replace("\n", ""))
    assert all(exact(pair) == 1 for pair in pairs.split())
