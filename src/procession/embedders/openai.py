"""Embeddings of OpenAI and of servers that are compatible with it."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Unpack, cast

import msgspec
from msgspec import Struct

from ..addresses import public_url
from ..errors import ModelError, OptionError
from ..keywords import check_keywords
from ..models.compatible import chat_model
from ..models.openai import OpenAIOptions
from ..records import clean_text
from ..retrying import Retries
from .limits import LONGEST, batches, check_whole, cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..embedder import EmbeddingKind

__all__ = ["EmbeddingUsage", "OpenAIEmbedder", "by_id", "openai_embedder"]

_PATH = "/embeddings"
# OpenAI takes 300,000 tokens in a call; no token is shorter than a byte.
_CALL_BYTES = 250_000
_KINDS = ("query", "passage")
_OURS = ("dimensions", "max_characters", "batch_size", "max_retries", "prefixes", "input_types")


class EmbeddingUsage(Struct):
    """What an embedder has sent since it was made: calls that succeeded, their texts and tokens.

    Tokens are those that the server counted; some count none.
    """

    calls: int = 0
    texts: int = 0
    tokens: int = 0


class _Entry(Struct):
    embedding: list[float]
    index: int = -1


class _Count(Struct):
    prompt_tokens: int = 0


class _Answer(Struct):
    data: list[_Entry]
    usage: _Count | None = None


class OpenAIEmbedder:
    """Vectors from the embeddings API of OpenAI, or of a server that speaks it.

    Address, key, headers and the rest of `OpenAIOptions` are as for the chat models; `provider` may
    be one of those with an address of their own (`OpenAIEmbedder("bge-m3", provider="ollama")`).

    `dimensions` asks for shorter vectors, where the model can. Of each text the first
    `max_characters` are sent (`None`: all of it; a server refuses what is too long for its model).
    A call has at most `batch_size` texts. Calls that fail for a passing reason are made again
    `max_retries` times, with the pauses that models make. For models that tell queries from
    passages: `prefixes` goes before the texts, `input_types` is sent as `input_type`; both are
    mappings of `query` and `passage` to texts.
    """

    def __init__(
        self,
        name: str,
        *,
        dimensions: int | None = None,
        max_characters: int | None = LONGEST,
        batch_size: int = 256,
        max_retries: int = 2,
        prefixes: Mapping[EmbeddingKind, str] | None = None,
        input_types: Mapping[EmbeddingKind, str] | None = None,
        **options: Unpack[OpenAIOptions],
    ) -> None:
        owner = type(self).__name__
        check_keywords(owner, options, [*OpenAIOptions.__annotations__, *_OURS])
        for option, value in (("dimensions", dimensions), ("max_characters", max_characters)):
            if value is not None:
                check_whole(owner, option, value)
        if type(max_retries) is not int or max_retries < 0:
            raise OptionError(f"{owner}: max_retries must be a whole number of at least 0")
        self._batch_size = check_whole(owner, "batch_size", batch_size)
        self._max_characters = max_characters
        self._max_retries = max_retries
        self._dimensions = dimensions
        self._prefixes = _by_kind(owner, "prefixes", prefixes)
        self._input_types = _by_kind(owner, "input_types", input_types)
        # The way to a server is the same for all that is asked of it.
        self._server = chat_model(name, **options)
        self._id = self._name_of_space(options.get("base_url"))
        self._dimension = dimensions
        self._usage = EmbeddingUsage()

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._id!r})"

    @property
    def id(self) -> str:
        """`provider/name`; more follows where options make the vectors others than usual."""
        return self._id

    @property
    def dimension(self) -> int | None:
        """How many numbers a vector has: `dimensions`, else known after the first call."""
        return self._dimension

    @property
    def usage(self) -> EmbeddingUsage:
        """What was sent since this embedder was made; it goes on counting."""
        return self._usage

    async def aclose(self) -> None:
        """Close the connections that this embedder opened in the running event loop."""
        await self._server.aclose()

    async def embed(self, texts: Sequence[str], *, kind: EmbeddingKind) -> list[array[float]]:
        """One vector for each text, as the server gives them; batches go one after the other.

        Raises `MissingKeyError` without a key, `APICallError` when the server refuses, cannot be
        reached or breaks off, and `ModelError` for an answer that does not fit the texts.
        """
        prefix = self._prefixes.get(kind, "")
        sent = [prefix + clean_text(text) for text in cut(texts, self._max_characters)]
        vectors: list[array[float]] = []
        for batch in batches(sent, count=self._batch_size, size=_CALL_BYTES):
            vectors += await self._embed_batch(batch, kind)
        if vectors:
            self._dimension = len(vectors[0])
        return vectors

    async def _embed_batch(self, texts: Sequence[str], kind: str) -> list[array[float]]:
        body: dict[str, Any] = {
            "model": self._server.model_id,
            "input": list(texts),
            "encoding_format": "float",
        }
        if self._dimensions is not None:
            body["dimensions"] = self._dimensions
        if kind in self._input_types:
            body["input_type"] = self._input_types[kind]
        answer = self._read(await self._send(body))
        vectors = self._in_order(answer.data, len(texts))
        self._usage.calls += 1
        self._usage.texts += len(texts)
        self._usage.tokens += answer.usage.prompt_tokens if answer.usage else 0
        return vectors

    async def _send(self, body: dict[str, Any]) -> bytes:
        retries = Retries(self._max_retries)
        while True:
            try:
                return await self._server.post(_PATH, body)
            except Exception as error:
                pause = retries.pause_after(error)
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    def _read(self, answer: bytes) -> _Answer:
        try:
            return msgspec.json.decode(answer, type=_Answer)
        except msgspec.MsgspecError:
            told = "something else than embeddings: is it the right address and model?"
            raise ModelError(f"{self._server.provider} answered with {told}") from None

    def _in_order(self, entries: list[_Entry], count: int) -> list[array[float]]:
        """The vectors by their `index`; where a server gives none, they are in order."""
        if all(entry.index >= 0 for entry in entries):
            entries = sorted(entries, key=lambda entry: entry.index)
            if [entry.index for entry in entries] != list(range(len(entries))):
                raise ModelError(f"{self._id} answered with a vector twice")
        if len(entries) != count:
            raise ModelError(f"{self._id} answered with {len(entries)} vectors for {count} texts")
        return [array("f", entry.embedding) for entry in entries]

    def _name_of_space(self, url: str | None) -> str:
        name = f"{self._server.provider}/{self._server.model_id}"
        if self._dimensions is not None:
            name += f"@{self._dimensions}"
        made_by = (
            public_url(url) if url else "",
            self._prefixes,
            self._input_types,
            self._max_characters,
        )
        if made_by == ("", {}, {}, LONGEST):
            return name
        return f"{name}#{blake2b(repr(made_by).encode(), digest_size=4).hexdigest()}"


def _by_kind(owner: str, option: str, given: Any) -> dict[str, str]:
    """A mapping of kinds to texts; `OptionError` for anything else."""
    if given is None:
        return {}
    texts: dict[Any, Any] = {"": None}
    if isinstance(given, Mapping):
        texts = dict(cast("Mapping[Any, Any]", given))
    if not set(texts) <= set(_KINDS) or not all(isinstance(text, str) for text in texts.values()):
        raise OptionError(f"{owner}: {option} must be a mapping of 'query' and 'passage' to texts")
    return {kind: texts[kind] for kind in _KINDS if kind in texts}


# What the documentation of each provider says of its embeddings: how many texts a call may have,
# and how it is told what a text is. Where nothing is said, what OpenAI takes is taken.
_PROVIDERS: Mapping[str, dict[str, Any]] = {
    "azure": {},
    "alibaba": {"batch_size": 10},
    "cohere": {"batch_size": 96},
    "deepinfra": {},
    "fireworks": {},
    "github": {},
    "llamacpp": {"batch_size": 16},
    "lmstudio": {},
    "mistral": {"batch_size": 64},
    "nvidia": {
        "batch_size": 64,
        "input_types": {"query": "query", "passage": "passage"},
    },
    "ollama": {},
    "openrouter": {},
    "sambanova": {},
    "together": {},
    "vercel": {},
    "vllm": {},
}


def openai_embedder(name: str) -> OpenAIEmbedder:
    """The embedder of an id `openai/name`."""
    return OpenAIEmbedder(name)


def _embedder(provider: str, name: str) -> OpenAIEmbedder:
    return OpenAIEmbedder(name, provider=provider, **_PROVIDERS[provider])


by_id = SimpleNamespace(**{name: partial(_embedder, name) for name in _PROVIDERS})
"""What makes the embedder of an id `provider/name`, for the registry."""
