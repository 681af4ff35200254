"""The tokens of texts: counted where the encoding is known and installed, else estimated."""

from __future__ import annotations

import asyncio
import logging
import re
import warnings
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from .token_estimate import MOST_PER_BYTE, estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["ESTIMATE", "ChosenCounter", "TextCounter", "encoding_of", "text_counter"]

_log = logging.getLogger("procession.processors")

_PIECE = 40_000
"""Characters that are encoded at once: the encoder refuses a million, or 200,000 tokens."""


class TextCounter(Protocol):
    """Counts the tokens of a text."""

    most_per_byte: float
    """No text has more tokens than this for each byte of its UTF-8 form; infinite: unknown."""

    def count(self, text: str, /) -> float:
        """The tokens of a text; 0 for an empty one."""
        ...


class _Estimate:
    most_per_byte = MOST_PER_BYTE

    def count(self, text: str, /) -> float:
        return estimate_tokens(text)


class _Encoded:
    """Counts with an encoding that is installed."""

    most_per_byte = 1.0

    def __init__(self, encoding: Any) -> None:
        self._encode: Callable[[str], list[int]] = encoding.encode_ordinary

    def count(self, text: str, /) -> float:
        if len(text) <= _PIECE:
            return len(self._encode(text))
        pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
        return sum(len(self._encode(piece)) for piece in pieces)


class _Given:
    """Counts with an object of the application that has `encode`."""

    most_per_byte = float("inf")

    def __init__(self, encoding: Any) -> None:
        self._encode: Callable[[str], Sequence[Any]] = encoding.encode

    def count(self, text: str, /) -> float:
        return len(self._encode(text))


ESTIMATE: TextCounter = _Estimate()

_ENCODINGS = {
    "o200k_base": "o200k_base",
    "o200k_harmony": "o200k_base",
    "cl100k_base": "cl100k_base",
}
_O200K = re.compile(r"(chatgpt-4o|gpt-(4o|4\.[1-9]|[5-9]|oss)|o[1-9])(?![a-z])")
_CL100K = re.compile(r"(gpt-4|gpt-3\.5|gpt-35|text-embedding-)(?![a-z])")


def encoding_of(model: Any) -> str | None:
    """The name of the encoding of a model that is known to use one; `model` has a `model_id`."""
    name = str(getattr(model, "model_id", model) or "").lower().rpartition("/")[2]
    if _O200K.match(name):
        return "o200k_base"
    return "cl100k_base" if _CL100K.match(name) else None


@lru_cache(maxsize=8)
def text_counter(name: str | None) -> TextCounter:
    """The counter of an encoding; the estimate for one that is unknown or not installed.

    The first call for an encoding takes half a second.
    """
    if name not in _ENCODINGS:
        return ESTIMATE
    try:
        with warnings.catch_warnings():
            # It reads its files in a way that Python 3.11 and 3.12 warn of, and later ones do not.
            warnings.simplefilter("ignore", DeprecationWarning)
            library: Any = import_module("bpe_openai")
            return _Encoded(library.get_encoding(_ENCODINGS[name]))
    except ImportError:
        return ESTIMATE


class ChosenCounter:
    """The counter for each model that is asked.

    `encoding` is an object with `encode(text)`, or the name of an encoding, for all of them; with
    `None`, and with anything else, the model decides. What is asked for and not to be had is told.
    """

    def __init__(self, encoding: Any = None) -> None:
        self._fixed: TextCounter | None = None
        if isinstance(encoding, str):
            self._fixed = _named(encoding)
        elif callable(getattr(encoding, "encode", None)):
            self._fixed = _Given(encoding)
        elif encoding is not None:
            _log.warning(
                "encoding: %s has no encode(text), so texts are counted as for the model",
                f"an object of type {type(encoding).__name__}",
            )

    @property
    def without_model(self) -> TextCounter:
        """The counter where nobody says which model is asked."""
        return self._fixed or ESTIMATE

    async def for_model(self, model: Any) -> TextCounter:
        """The counter for a model."""
        if self._fixed is not None:
            return self._fixed
        name = encoding_of(model)
        if name not in _loaded:
            await asyncio.to_thread(text_counter, name)
            _loaded.add(name)
        return text_counter(name)


def _named(name: str) -> TextCounter | None:
    """The counter of an encoding that is asked for by name; says so when there is none."""
    if name not in _ENCODINGS:
        known = ", ".join(_ENCODINGS)
        told = "encoding %r is not known (there are %s), so texts are counted as for the model"
        _log.warning(told, name[:40], known)
        return None
    counter = text_counter(name)
    if counter is ESTIMATE:
        told = "encoding %r needs the extra 'tokens', without which texts are estimated"
        _log.warning(told, name)
    return counter


_loaded: set[str | None] = {None}
"""Encodings that can be had at once."""
