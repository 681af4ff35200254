"""An embedder without a model: texts that share words are near each other."""

from __future__ import annotations

import re
from array import array
from hashlib import blake2b
from math import sqrt
from typing import TYPE_CHECKING

from ..errors import OptionError
from ..keywords import TakesOptions
from ..records import clean_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..embedder import EmbeddingKind

__all__ = ["HashingEmbedder"]

_WORD = re.compile(r"\w+")


class HashingEmbedder(TakesOptions):
    """Deterministic vectors of length 1 from the words of a text, in any process (M-149).

    Texts with the same words, whatever their case and order, have the same vector; each word that
    two texts share brings them nearer. It knows nothing of meanings. `calls` has the texts of each
    call and their kind, in order.
    """

    def __init__(self, dimension: int = 256) -> None:
        if type(dimension) is not int or dimension < 2:
            raise OptionError("HashingEmbedder: dimension must be a whole number of at least 2")
        self.dimension = dimension
        self.id = f"testing/hashing-{dimension}"
        self.calls: list[tuple[list[str], EmbeddingKind]] = []

    async def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> list[array[float]]:
        """One vector for each text; the kind makes no difference."""
        self.calls.append((list(texts), kind))
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> array[float]:
        numbers = [0.0] * self.dimension
        for word in _WORD.findall(clean_text(text).casefold()):
            digest = int.from_bytes(blake2b(word.encode(), digest_size=8).digest())
            numbers[(digest >> 1) % self.dimension] += 1.0 if digest & 1 else -1.0
        length = sqrt(sum(number * number for number in numbers))
        if not length:  # no words, or such as cancel each other: still a direction
            numbers[0] = length = 1.0
        return array("f", [number / length for number in numbers])
