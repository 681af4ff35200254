"""A list of models that stand in for each other: the first one that answers is the one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import UNSET

from .chunks import Chunk, ModelStartPayload
from .engine.misfits import as_exception, read_problem
from .errors import ConfigurationError, ModelError
from .retrying import Retries

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from .model import LanguageModel, ModelRequest

__all__ = ["FallbackEntry", "FallbackModel"]

_ANNOUNCING = frozenset({"stream-start", "response-metadata", "raw"})


class FallbackEntry(NamedTuple):
    """A model of a list. `max_retries=None` is what the request says."""

    model: LanguageModel
    max_retries: int | None = None


class FallbackModel:
    """Asks its models one after the other until one answers.

    A call that fails before anything of an answer came is made again as often as the entry says,
    if its error may pass; then the next model is asked. What has begun to answer is not replaced:
    its failure is the call's. When the last one fails, its error is the call's. To be stopped is no
    failure: nobody else is asked then.
    """

    repeats_calls = True
    """The engine leaves repeating failed calls to this model."""

    def __init__(self, entries: Sequence[FallbackEntry]) -> None:
        if not entries:
            raise ConfigurationError("a list of models needs one that is enabled")
        self.entries = tuple(entries)

    def __repr__(self) -> str:
        return f"FallbackModel({', '.join(_name(entry.model) for entry in self.entries)})"

    @property
    def provider(self) -> str:
        """The provider of the first model."""
        return self.entries[0].model.provider

    @property
    def model_id(self) -> str:
        """The first model's name."""
        return self.entries[0].model.model_id

    @property
    def supported_urls(self) -> Mapping[str, list[str]]:
        """What every model of the list fetches by itself."""
        first, *others = (getattr(entry.model, "supported_urls", {}) for entry in self.entries)
        common = {
            media: [url for url in urls if all(url in other.get(media, ()) for other in others)]
            for media, urls in first.items()
        }
        return {media: urls for media, urls in common.items() if urls}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Chunk], None]:
        """Ask the models; the first list says, as a warning each, who did not answer."""
        failed: list[str] = []
        for entry in self.entries:
            allowed = entry.max_retries
            retries = Retries(request.max_retries if allowed is None else allowed)
            while True:
                attempt = _Attempt(entry.model)
                try:
                    async with aclosing(attempt.stream(request, failed)) as answer:
                        async for chunks in answer:
                            yield chunks
                    return
                except Exception as error:
                    if attempt.begun or _is_stopped(request):
                        raise
                    pause = retries.pause_after(error)
                    if pause is None and entry is self.entries[-1]:
                        raise
                    if pause is None:
                        failed.append(f"{_name(entry.model)} did not answer: {error}")
                        break
                await asyncio.sleep(pause)


class _Attempt:
    """One call of one model. Nothing of it shows before it has begun to answer."""

    def __init__(self, model: LanguageModel) -> None:
        self.begun = False
        self._model = model

    async def stream(
        self, request: ModelRequest, failed: Sequence[str]
    ) -> AsyncGenerator[Sequence[Chunk], None]:
        held: list[Chunk] = []
        async with aclosing(self._model.stream(request)) as answer:
            async for chunks in answer:
                if self.begun:
                    yield chunks
                    continue
                problem = read_problem(chunks)
                if problem is not None:
                    raise ModelError(f"model {self._model.model_id!r}: {problem}")
                before = len(held)
                held += chunks
                come = (chunk for chunk in held[before:] if chunk.type not in _ANNOUNCING)
                first = next(come, None)
                if first is None:
                    continue
                if first.type == "error":
                    raise as_exception(first.payload.error)
                self.begun = True
                yield self._signed(held, failed)
        if not self.begun:
            raise ModelError(f"model {self._model.model_id!r} ended its stream without an answer")

    def _signed(self, chunks: list[Chunk], failed: Sequence[str]) -> list[Chunk]:
        """The beginning of the answer, which says who gives it, and who did not."""
        if chunks[0].type != "stream-start":
            chunks = [Chunk(type="stream-start", payload=ModelStartPayload()), *chunks]
        # A copy: a model may yield the same chunk in each of its calls.
        first, start = copy(chunks[0]), cast("ModelStartPayload", chunks[0].payload).replace()
        first.payload = start
        if start.answered_by is UNSET:
            start.answered_by = self._model
        told: list[Any] = [{"type": "other", "message": message} for message in failed]
        start.warnings = [*told, *start.warnings]
        return [first, *chunks[1:]]


def _name(model: LanguageModel) -> str:
    return f"{model.provider}/{model.model_id}"


def _is_stopped(request: ModelRequest) -> bool:
    """Whether an error is how being stopped shows: transports make errors of cancellations."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return True
    return request.abort_signal is not None and request.abort_signal.aborted
