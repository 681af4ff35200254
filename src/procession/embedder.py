"""What turns texts into vectors, and how an id such as `local/e5` becomes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeGuard, runtime_checkable

from .entry_points import load_entry, registered
from .errors import ConfigurationError

__all__ = [
    "Embedder",
    "EmbedderSpec",
    "EmbeddingKind",
    "known_embedders",
    "register_embedder",
    "resolve_embedder",
]

EmbeddingKind = Literal["query", "passage"]
"""What a text is: what is looked for, or what may be found. Many embedders tell them apart."""


@runtime_checkable
class Embedder(Protocol):
    """Anything that makes vectors of texts: texts of like meaning get vectors of like direction."""

    @property
    def id(self) -> str:
        """A name for the space of its vectors, for example `local/e5`.

        Embedders with the same id must make the same vectors: they share what is remembered.
        """
        ...

    @property
    def dimension(self) -> int | None:
        """How many numbers a vector has; `None` until the first call, where only that shows it."""
        ...

    async def embed(
        self, texts: Sequence[str], *, kind: EmbeddingKind
    ) -> Sequence[Sequence[float]]:
        """One vector for each text, in order, all of the same dimension.

        A vector may be any sequence of numbers; `array("f")` takes the least room. A call that
        fails raises `APICallError`, or whatever the transport raised.
        """
        ...


EmbedderSpec = Embedder | str
"""What stands for an embedder: an object, or an id `provider/name`."""

EmbedderFactory = Callable[[str], Embedder]
"""Makes an embedder of a provider from its name (the part of the id after the slash)."""

_factories: dict[str, EmbedderFactory] = {}
_ENTRY_POINTS = "procession.embedders"


def register_embedder(provider: str, factory: EmbedderFactory) -> None:
    """Let ids `provider/…` resolve through `factory`, which is called with what follows the slash.

    A later registration replaces an earlier one. Packages register without being imported through
    the entry point group `procession.embedders`.
    """
    if not provider or "/" in provider:
        raise ConfigurationError(f"a provider name is a word without a slash, not {provider!r}")
    _factories[provider] = factory


def known_embedders() -> list[str]:
    """The providers that ids of embedders may begin with, sorted."""
    return sorted({*_factories, *(entry.name for entry in registered(_ENTRY_POINTS))})


def resolve_embedder(spec: EmbedderSpec) -> Embedder:
    """The embedder that `spec` stands for; ids are resolved through the registry.

    Raises `ConfigurationError` for an id nobody answers to, a missing package, and for anything
    that is no embedder at all.
    """
    if isinstance(spec, str):
        return _resolve_id(spec)
    if _is_embedder(spec):
        return spec
    raise ConfigurationError(
        f"not an embedder: {type(spec).__name__}. Give an id such as 'local/e5' or "
        f"'openai/text-embedding-3-small', or an object with id, dimension and embed(texts, kind=…)"
    )


def _is_embedder(spec: Any) -> TypeGuard[Embedder]:
    return callable(getattr(spec, "embed", None)) and hasattr(spec, "id")


def _resolve_id(embedder: str) -> Embedder:
    provider, slash, name = embedder.partition("/")
    if not slash or not provider or not name:
        raise ConfigurationError(
            f"unknown embedder {embedder!r}: an id has the form provider/name, for example "
            f"'local/e5' or 'openai/text-embedding-3-small'"
        )
    factory = _factories.get(provider) or _load_factory(provider)
    if factory is None:
        raise ConfigurationError(
            f"unknown embedder {embedder!r}: no provider {provider!r}. Known providers: "
            f"{', '.join(known_embedders()) or 'none (is the package installed?)'}. "
            f"register_embedder() adds one"
        )
    return factory(name)


def _load_factory(provider: str) -> EmbedderFactory | None:
    for entry in registered(_ENTRY_POINTS, provider):
        factory: EmbedderFactory = load_entry(entry)
        return _factories.setdefault(provider, factory)
    return None
