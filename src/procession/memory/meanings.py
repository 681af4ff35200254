"""The vectors of messages: written when a run has ended, searched by meaning, deleted (M-144)."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from ..embedder import Embedder, EmbedderSpec, EmbeddingKind, resolve_embedder
from ..embedding_cache import embed
from ..errors import InputError
from ..lifetime import close_all
from ..records import format_time
from ..vector_store import VectorEntry, VectorHit, VectorStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..messages import Message
    from .conversation import Conversation
    from .options import RecallOptions

__all__ = ["PREFIX", "Meanings", "forget_meanings"]

PREFIX = "memory_messages"
"""What the names of the indexes begin with that are made on demand (M-145)."""

_SCALARS = (str, int, float, bool)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Meanings:
    """The index of an embedder in a vector store, made when it is first written to (M-145).

    Its name, unless given, depends on the embedder and on the dimension of its vectors, so that
    those of different embedders are never mixed.
    """

    def __init__(self, vector: VectorStore, embedder: EmbedderSpec, options: RecallOptions) -> None:
        self._vector = vector
        self._resolved = resolve_embedder(embedder)
        self._embedder = _with_options(self._resolved, options.embedder_options)
        self._name = options.index_name
        self._config = dict(options.index_config or {})

    async def aclose(self) -> None:
        """Close what the embedder has open in the running event loop."""
        await close_all([self._resolved])

    async def search(
        self, text: str, options: RecallOptions, conversation: Conversation
    ) -> list[VectorHit]:
        """What is near `text` among the messages that the scope allows to see (M-142, M-143)."""
        [vector] = await embed(self._embedder, [text], kind="query")
        owner: dict[str, Any] = {"resource_id": conversation.resource_id}
        if options.scope == "thread":
            owner["thread_id"] = conversation.thread_id
        wanted = {"$and": [owner, options.filter]} if options.filter else owner
        try:
            return await self._vector.query(
                self._index(len(vector)),
                vector,
                top_k=options.top_k,
                filter=wanted,
                min_score=options.threshold,
            )
        except InputError:
            if await self._exists(len(vector)):
                raise
            return []

    async def keep(
        self,
        messages: Sequence[Message],
        conversation: Conversation,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        """Write what messages say, with what filters may ask of it; `metadata` is the thread's."""
        told = [message for message in messages if message.text.strip()]
        if not told:
            return
        vectors = await embed(self._embedder, [message.text for message in told], kind="passage")
        shared = _scalars(metadata or {})
        entries = [
            VectorEntry(
                id=message.id,
                vector=vector,
                metadata={**shared, **_facts(message, conversation)},
            )
            for message, vector in zip(told, vectors, strict=True)
        ]
        name, dimension = self._index(len(vectors[0])), len(vectors[0])
        try:
            await self._vector.upsert(name, entries)
        except InputError:
            if await self._exists(dimension):
                raise
            await self._vector.create_index(name, dimension, **self._config)
            await self._vector.upsert(name, entries)

    async def forget(self, ids: Iterable[str]) -> None:
        """Delete the vectors of messages."""
        await forget_meanings(self._vector, self._name, ids=list(ids))

    async def _exists(self, dimension: int) -> bool:
        return self._index(dimension) in await self._vector.list_indexes()

    def _index(self, dimension: int) -> str:
        if self._name is not None:
            return self._name
        mark = blake2b(self._embedder.id.encode(), digest_size=4).hexdigest()
        return f"{PREFIX}_{dimension}_{mark}"


async def forget_meanings(
    vector: VectorStore,
    index_name: str | None,
    *,
    ids: Sequence[str] | None = None,
    **of: str,
) -> None:
    """Delete the vectors of messages, or of a thread, of whatever embedder (M-148).

    `of` is `thread_id`, or `resource_id`.
    """
    filter = of or None
    for name in await vector.list_indexes():
        if name == index_name or name.startswith(PREFIX):
            await vector.delete(name, ids=ids, filter=filter)


def _facts(message: Message, conversation: Conversation) -> dict[str, Any]:
    return {
        "message_id": message.id,
        "thread_id": conversation.thread_id,
        "resource_id": conversation.resource_id,
        "role": message.role,
        "content": message.text,
        "created_at": format_time(message.created_at),
    }


def _scalars(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What of a thread's metadata filters can ask for."""
    return {
        key: value
        for key, value in metadata.items()
        if _IDENTIFIER.fullmatch(key) and (value is None or isinstance(value, _SCALARS))
    }


class _Optioned:
    """An embedder that is given options with each call; its vectors are a space of their own."""

    def __init__(self, embedder: Embedder, options: Mapping[str, Any]) -> None:
        self._embedder = embedder
        self._options = dict(options)
        told = msgspec.json.encode(self._options, order="deterministic", enc_hook=repr)
        self.id = f"{embedder.id}?{blake2b(told, digest_size=8).hexdigest()}"
        self.dimension: int | None = None

    async def embed(
        self, texts: Sequence[str], *, kind: EmbeddingKind
    ) -> Sequence[Sequence[float]]:
        return await self._embedder.embed(texts, kind=kind, **self._options)


def _with_options(embedder: Embedder, options: Mapping[str, Any] | None) -> Embedder:
    return _Optioned(embedder, options) if options else embedder
