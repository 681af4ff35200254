"""Vectors of texts that were embedded before; a text is asked for once, whoever asks (M-146)."""

from __future__ import annotations

import asyncio
import threading
from array import array
from collections import OrderedDict
from hashlib import blake2b
from math import isfinite
from typing import TYPE_CHECKING, Any

from .engine.workers import stop
from .errors import ModelError, OptionError
from .records import clean_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .embedder import Embedder, EmbeddingKind

__all__ = ["EmbeddingCache", "embed"]

Key = tuple[str, str, bytes]
"""Id of the embedder, kind, and hash of the text: the text itself is not kept."""

_MEGABYTE = 2**20


class EmbeddingCache:
    """Keeps the vectors used last, up to `max_bytes` of them; 0 keeps none.

    It may be shared by event loops in several threads. Texts that are being embedded are not asked
    for again in the same event loop: whoever comes second waits for the first, also if that one is
    cancelled. A call ends when nobody waits for it any more.
    """

    def __init__(self, *, max_bytes: int = 32 * _MEGABYTE) -> None:
        if type(max_bytes) is not int or max_bytes < 0:
            raise OptionError("EmbeddingCache: max_bytes must be a whole number of at least 0")
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[Key, array[float]] = OrderedDict()
        self._calls: dict[tuple[asyncio.AbstractEventLoop, Key], _Call] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many vectors are kept."""
        return len(self._kept)

    def clear(self) -> None:
        """Forget all vectors. Calls under way go on."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    async def embed(
        self, embedder: Embedder, texts: Sequence[str], *, kind: EmbeddingKind
    ) -> list[array[float]]:
        """One vector for each text, in order; what is not known is asked for in one call.

        The vectors are shared: read them, never change them. Raises what the embedder raises, and
        `ModelError` if its answer does not fit the texts.
        """
        cleaned = [clean_text(text) for text in texts]
        keys = [(embedder.id, kind, _hash(text)) for text in cleaned]
        found, calls = self._look_up(embedder, kind, dict(zip(keys, cleaned, strict=True)))
        try:
            if calls:
                await asyncio.wait([call.task for call in calls])
            for call in calls:
                found.update(call.task.result())
        finally:
            await _leave(calls)
        return [found[key] for key in keys]

    def _look_up(
        self, embedder: Embedder, kind: EmbeddingKind, texts: dict[Key, str]
    ) -> tuple[dict[Key, array[float]], list[_Call]]:
        """What is kept, and the calls to wait for: those under way, and one for all the rest."""
        loop = asyncio.get_running_loop()
        found: dict[Key, array[float]] = {}
        calls: dict[_Call, None] = {}
        missing: dict[Key, str] = {}
        with self._lock:
            for key, text in texts.items():
                vector = self._kept.get(key)
                call = self._calls.get((loop, key))
                if vector is not None:
                    self._kept.move_to_end(key)
                    found[key] = vector
                elif call is not None and not call.abandoned:
                    calls[call] = None
                else:
                    missing[key] = text
            if missing:
                calls[self._begin(loop, embedder, kind, missing)] = None
        for call in calls:
            call.waiting += 1
        return found, list(calls)

    def _begin(
        self,
        loop: asyncio.AbstractEventLoop,
        embedder: Embedder,
        kind: EmbeddingKind,
        texts: dict[Key, str],
    ) -> _Call:
        call = _Call(loop.create_task(self._ask(embedder, kind, texts)))
        places = [(loop, key) for key in texts]
        self._calls.update(dict.fromkeys(places, call))

        def ended(_task: Any) -> None:
            with self._lock:
                for place in places:
                    if self._calls.get(place) is call:
                        del self._calls[place]

        call.task.add_done_callback(ended)
        return call

    async def _ask(
        self, embedder: Embedder, kind: EmbeddingKind, texts: dict[Key, str]
    ) -> dict[Key, array[float]]:
        answer = await embedder.embed(list(texts.values()), kind=kind)
        vectors = dict(zip(texts, _checked(embedder, answer, len(texts)), strict=True))
        with self._lock:
            for key, vector in vectors.items():
                self._keep(key, vector)
        return vectors

    def _keep(self, key: Key, vector: array[float]) -> None:
        before = self._kept.pop(key, None)
        self._kept[key] = vector
        self._bytes += _size(vector) - (0 if before is None else _size(before))
        while self._bytes > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)


class _Call:
    """A call of an embedder that is under way, and how many wait for it."""

    def __init__(self, task: asyncio.Task[dict[Key, array[float]]]) -> None:
        self.task = task
        self.waiting = 0
        self.abandoned = False


async def _leave(calls: list[_Call]) -> None:
    """Wait no more; calls that nobody waits for are stopped, and have ended afterwards."""
    for call in calls:
        call.waiting -= 1
    stopped = [call for call in calls if not call.waiting and not call.task.done()]
    for call in stopped:
        call.abandoned = True
    for call in calls:
        if call.task.done() and not call.task.cancelled():
            call.task.exception()  # read, so that nobody is told it was lost
    if stopped:
        await stop(*[call.task for call in stopped])


def _hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _size(vector: array[float]) -> int:
    # The numbers, and about what Python needs for the key and the objects around them.
    return len(vector) * vector.itemsize + 400


def _checked(embedder: Embedder, answer: Any, count: int) -> list[array[float]]:
    """The vectors of an answer, which must be as many as the texts, alike and of finite numbers."""
    try:
        vectors = [vector if _is_array(vector) else array("f", vector) for vector in answer]
    except (TypeError, OverflowError):
        raise ModelError(f"{embedder.id} answered with something else than vectors") from None
    if len(vectors) != count:
        raise ModelError(f"{embedder.id} answered with {len(vectors)} vectors for {count} texts")
    dimensions = {len(vector) for vector in vectors}
    if len(dimensions) > 1 or 0 in dimensions:
        raise ModelError(f"{embedder.id} answered with vectors of dimensions {sorted(dimensions)}")
    if not all(isfinite(sum(vector)) for vector in vectors):
        raise ModelError(f"{embedder.id} answered with numbers that are not finite")
    return vectors


def _is_array(vector: Any) -> bool:
    return isinstance(vector, array) and vector.typecode == "f"


_shared = EmbeddingCache()


async def embed(
    embedder: Embedder, texts: Sequence[str], *, kind: EmbeddingKind
) -> list[array[float]]:
    """One vector for each text, out of the one cache of this process (see `EmbeddingCache`)."""
    return await _shared.embed(embedder, texts, kind=kind)
