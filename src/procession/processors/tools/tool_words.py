"""The words that tools are found by: of names in any style, of texts in any script."""

from __future__ import annotations

import re
from itertools import pairwise
from unicodedata import category, normalize

__all__ = ["compact", "telling", "words_of"]

_PIECES = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
"""The pieces of a name in camel case: `getHTTPPage2` is get, HTTP, Page and 2."""
_CASE_CHANGE = re.compile("[a-z][A-Z]|[A-Z][A-Z][a-z]")
_LATIN_WORD = re.compile("[A-Za-z0-9]+")
_ASCII_WORD = re.compile("[a-z0-9]+")

_SILENT = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]"
)
"""Accents and vowel points, which many leave out when they type; the Arabic stretching line."""

_UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # kana, Han
    "\uac00-\ud7a3"  # Hangul: it has spaces, but endings grow on to the words
)
_RUNS = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_unspaced = re.compile(f"[{_UNSPACED}]")

_FILLERS = frozenset(
    "a an and any are as at be by can do for from has have how i in into is it its me my of on or"
    " please so some that the their them then this to us use was we what when where which will"
    " with you your".split()
)
"""English words that say nothing about what a tool does."""


def words_of(text: str) -> list[str]:
    """The words of a name, description or query, in order, in one spelling for each.

    Names are taken apart at `_`, `-`, `.` and where the case changes; a word that was taken apart
    is there as a whole, too. Upper and lower case, accents and forms of width make no difference.
    In scripts without spaces each two neighbouring characters are a word.
    """
    if _CASE_CHANGE.search(text):
        text = _LATIN_WORD.sub(_taken_apart, text)
    folded = _folded(text)
    if folded.isascii():
        return _ASCII_WORD.findall(folded)
    spaced = "".join([c if c.isalnum() or category(c)[0] == "M" else " " for c in folded])
    words: list[str] = []
    for word in spaced.split():
        for run in _RUNS.findall(word):
            if len(run) > 2 and _unspaced.match(run):
                words += map("".join, pairwise(run))
            else:
                words.append(run)
    return words


def telling(words: list[str]) -> list[str]:
    """The words of a query that say something, each once; all of them where none does."""
    different = list(dict.fromkeys(words))
    return [word for word in different if word not in _FILLERS] or different


def _taken_apart(word: re.Match[str]) -> str:
    whole = word[0]
    return f"{whole} {' '.join(_PIECES.findall(whole))}" if _CASE_CHANGE.search(whole) else whole


def compact(text: str) -> str:
    """A name without what its style adds: `send_email` and `sendEmail` are the same."""
    return "".join(c for c in _folded(text) if c.isalnum())


def _folded(text: str) -> str:
    """One spelling: width, case and accents make no difference."""
    if text.isascii():
        return text.casefold()
    bare = _SILENT.sub("", normalize("NFKD", normalize("NFKC", text).casefold()))
    return normalize("NFC", bare)
