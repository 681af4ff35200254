"""How many tokens a text is at most, without a tokenizer: by script, word and run.

The estimate is made to be at least what the encodings `o200k_base` and `cl100k_base` make of a
text, whichever is more, and so for what people write as for what machines do: prose in any script,
code, JSON, base64, runs of whitespace. `token_facts.txt` holds what was measured of these
encodings: the words that are one token however they stand in a sentence, the characters outside
ASCII that are one, and the pairs of such letters that are.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from functools import lru_cache
from importlib.resources import files
from math import ceil
from typing import NamedTuple

__all__ = ["MOST_PER_BYTE", "estimate_tokens"]

MOST_PER_BYTE = 1.5
"""No text is estimated at more tokens than this for each byte of its UTF-8 form."""

_PIECE = re.compile(
    r" ?[A-Za-z]+"
    r"|[0-9]+"
    r"| ?[!-/:-@\[-`{-~]+"
    r"|[ \t-\r\x1c-\x1f]+(?![^ \t-\r\x1c-\x1f])|[ \t-\r\x1c-\x1f]+"
    r"|[\x00-\x08\x0e-\x1b\x7f]+"
    r"| ?[^\x00-\x7f]+"
)
"""What tokens do not reach across, as both encodings see it; of a run of spaces the last one may
begin a word."""
_CASES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]")
"""The words within `aVariableName`, `HTTPServer`."""
_SAME = re.compile(r"(.)\1*", re.DOTALL)
_SHORT = frozenset(
    "in re to of is at on be de un en al an or as if it by no so us we up my me he do go th er es "
    "st ed ly le la el os se id io ex co di lo da".split()
)
"""Two letters that are a token wherever they stand."""
_DRAWN = frozenset("-=*#_./~+")
"""What lines are drawn with: encodings have tokens for runs of these."""

# Where characters that are not one token by themselves are at most so many; from its start on.
_BLOCKS = (
    (0x80, 2), (0x800, 3), (0x900, 2), (0xB00, 3), (0xB80, 2), (0xE80, 3), (0xF00, 2), (0xF80, 3),
    (0x1780, 2), (0x1800, 3), (0x1E80, 2), (0x1F00, 3), (0x2000, 2),
    (0x2080, 3), (0x2100, 2), (0x2180, 3), (0x2200, 2), (0x2280, 3), (0x2500, 2), (0x2680, 3),
    (0x2700, 2), (0x2780, 3), (0x3000, 2), (0x3100, 3), (0x10000, 4),
)  # fmt: skip
_STARTS = [start for start, _ in _BLOCKS]


class _Facts(NamedTuple):
    words: frozenset[str]
    characters: frozenset[str]
    pairs: frozenset[str]


@lru_cache(maxsize=1)
def _facts() -> _Facts:
    text = files(__package__ or "").joinpath("token_facts.txt").read_text(encoding="utf-8")
    words, characters, pairs = text.split("\n\n")
    return _Facts(
        frozenset(words.split()), frozenset(characters) - {"\n"}, frozenset(pairs.split())
    )


def estimate_tokens(text: str) -> float:
    """How many tokens `text` is, rather more than less. Linear; 0 for an empty text."""
    pieces = Counter(_PIECE.findall(text))
    return sum([_cost(piece) * count for piece, count in pieces.items()])


@lru_cache(maxsize=16384)
def _cost_of_word(word: str) -> float:
    parts = _CASES.findall(word)
    # Where the case changes a token may end, so that more of them are needed than letters tell.
    return sum(map(_part, parts)) + 0.4 * (len(parts) - 1)


def _cost(piece: str) -> float:
    last = piece[-1]
    if last > "\x7f":
        return _other(piece)
    if last.isalpha():
        word = piece[1:] if piece[0] == " " else piece
        return _cost_of_word(word) if len(word) <= 32 else _strange(word)
    if last.isdigit():
        return ceil(len(piece) / 3) + 0.15
    if last.isspace():
        return _blank(piece)
    return _signs(piece) if " " < last < "\x7f" else float(len(piece))


def _strange(letters: str) -> float:
    """Letters that are no word, as in keys and base64: two or three make a token."""
    return 0.6 + 0.75 * len(letters)


def _part(part: str) -> float:
    """A word in one case, or with a capital letter."""
    length = len(part)
    if length == 1:
        return 1.0
    small = part.lower()
    words = _facts().words
    if part[1:] != small[1:]:  # capitals
        if length == 2:
            return 1.75
        return 0.6 + (0.4 if small in words else 0.85) * length
    if length == 2:
        return 1.0 if small in _SHORT else 1.75
    if small in words:
        return 1.0
    for end in range(length - 1, 2, -1):
        if small[:end] in words:
            return 1.0 + max(1.0, 0.3 + 0.6 * (length - end))
    return 0.5 + 0.7 * length


def _blank(piece: str) -> float:
    """Whitespace: runs of the same are long tokens, anything mixed may be one each."""
    tokens = 0.0
    for run in _SAME.finditer(piece):
        length, character = len(run[0]), run[0][0]
        if character == " ":
            tokens += 1 + length // 40
        else:
            tokens += 1 + (length + 1) // 12 if character in "\n\t" else length
    return tokens


def _signs(piece: str) -> float:
    """Punctuation."""
    tokens = 0.0
    for run in _SAME.finditer(piece.lstrip(" ")):
        length = len(run[0])
        if length == 1:
            tokens += 1
        elif run[0][0] in _DRAWN:
            tokens += 1 if length == 2 else 2 + length / 12
        else:
            tokens += 0.3 + 0.8 * length
    return tokens


def _other(piece: str) -> float:
    """Characters outside ASCII, one by one, but for the pairs that are known to be one token."""
    facts, at, length = _facts(), 0, len(piece)
    tokens = 0.0
    if piece[0] == " ":
        at, tokens = 1, 1.0
    while at < length:
        if piece[at : at + 2] in facts.pairs:
            tokens += 1.3
            at += 2
            continue
        character = piece[at]
        at += 1
        if character in facts.characters:
            tokens += 1
        else:
            tokens += _BLOCKS[bisect_right(_STARTS, ord(character)) - 1][1]
    return tokens
