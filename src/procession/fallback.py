"""A list of models that stand in for each other: the first one that answers is the one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import UNSET, structs

from .chunks import Chunk, ModelStartPayload
from .engine.misfits import as_exception, read_problem
from .errors import ConfigurationError, ModelError
from .lifetime import close_all
from .retrying import LONGEST_PAUSE, Retries

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

    from .model import LanguageModel, ModelRequest

__all__ = ["FallbackEntry", "FallbackModel", "UnavailableModel"]

_ANNOUNCING = frozenset({"stream-start", "response-metadata", "raw"})


class FallbackEntry(NamedTuple):
    """A model of a list. `max_retries=None` is what the request says."""

    model: LanguageModel
    max_retries: int | None = None


class UnavailableModel:
    """Stands in a list for a model that cannot be set up; asking it raises why."""

    def __init__(self, name: str, error: ConfigurationError) -> None:
        provider, slash, model_id = name.partition("/")
        self.provider, self.model_id = (provider, model_id) if slash else ("", name)
        self.error = error

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Chunk], None]:
        """Raise the `ConfigurationError`."""
        raise self.error.with_traceback(None)
        yield []


class FallbackModel:
    """Asks its models one after the other until one answers.

    A call that fails before anything of an answer came is made again as often as the entry says,
    if its error may pass; then the next model is asked. A provider that asks for a longer pause
    than `LONGEST_PAUSE` is not waited for as long as there is somebody else. What has begun to
    answer is not replaced: its failure is the call's. When nobody answers, the error is that of the
    last one that could be asked; when nobody could be, a `ConfigurationError` that says why. To be
    stopped is no failure: nobody else is asked then.
    """

    repeats_calls = True
    """The engine leaves repeating failed calls to this model."""

    def __init__(self, entries: Sequence[FallbackEntry]) -> None:
        if not entries:
            raise ConfigurationError("a list of models needs one that is enabled")
        self.entries = tuple(entry for given in entries for entry in _flat(given))
        unavailable = [e.model for e in self.entries if isinstance(e.model, UnavailableModel)]
        if len(unavailable) == len(self.entries):
            raise _nobody([(model, model.error) for model in unavailable])

    def __repr__(self) -> str:
        return f"FallbackModel({', '.join(_name(entry.model) for entry in self.entries)})"

    async def aclose(self) -> None:
        """Close what its models have open in the running event loop."""
        await close_all(entry.model for entry in self.entries)

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
        models = [e.model for e in self.entries if not isinstance(e.model, UnavailableModel)]
        first, *others = (getattr(model, "supported_urls", {}) for model in models)
        common = {
            media: [url for url in urls if all(url in other.get(media, ()) for other in others)]
            for media, urls in first.items()
        }
        return {media: urls for media, urls in common.items() if urls}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Chunk], None]:
        """Ask the models; the first list says, as a warning each, who did not answer."""
        failed: list[_Failure] = []
        for entry in self.entries:
            allowed = request.max_retries if entry.max_retries is None else entry.max_retries
            itself = getattr(entry.model, "repeats_calls", False)
            retries = Retries(0 if itself else allowed)
            asked = structs.replace(request, max_retries=allowed) if itself else request
            while True:
                attempt = _Attempt(entry.model)
                try:
                    async with aclosing(attempt.stream(asked, failed)) as answer:
                        async for chunks in answer:
                            yield chunks
                    return
                except Exception as error:
                    if attempt.begun or _is_stopped(request):
                        raise
                    pause = retries.pause_after(error)
                    if pause is None or (pause > LONGEST_PAUSE and entry is not self.entries[-1]):
                        failed.append((entry.model, error))
                        break
                await asyncio.sleep(pause)
        last, error = _last_asked(failed)
        if len(failed) > 1:
            others = [failure for failure in failed if failure[1] is not error]
            yield _Attempt(last).signed([], others)
        try:
            raise error
        finally:  # what an error holds on to would hold on to it
            failed.clear()
            del error


class _Attempt:
    """One call of one model. Nothing of it shows before it has begun to answer."""

    def __init__(self, model: LanguageModel) -> None:
        self.begun = False
        self._model = model

    async def stream(
        self, request: ModelRequest, failed: Sequence[_Failure]
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
                yield self.signed(held, failed)
        if not self.begun:
            raise ModelError(f"model {self._model.model_id!r} ended its stream without an answer")

    def signed(self, chunks: list[Chunk], failed: Sequence[_Failure]) -> list[Chunk]:
        """The beginning of the answer, which says who gives it, and who did not."""
        if not chunks or chunks[0].type != "stream-start":
            chunks = [Chunk(type="stream-start", payload=ModelStartPayload()), *chunks]
        # A copy: a model may yield the same chunk in each of its calls.
        first, start = copy(chunks[0]), cast("ModelStartPayload", chunks[0].payload).replace()
        first.payload = start
        if start.answered_by is UNSET:
            start.answered_by = self._model
        told: list[Any] = [{"type": "other", "message": _told(*failure)} for failure in failed]
        start.warnings = [*told, *start.warnings]
        return [first, *chunks[1:]]


_Failure = tuple["LanguageModel", Exception]
"""Who did not answer, and why."""


def _flat(entry: FallbackEntry) -> Iterator[FallbackEntry]:
    """A list in a list counts as its entries: each is asked, repeated and named by itself."""
    if not isinstance(entry.model, FallbackModel):
        yield entry
        return
    for model, allowed in entry.model.entries:
        yield FallbackEntry(model, entry.max_retries if allowed is None else allowed)


def _last_asked(failed: Sequence[_Failure]) -> _Failure:
    """Whose error is that of the call: one that was never reached says nothing of the others."""
    asked = [failure for failure in failed if not isinstance(failure[1], ConfigurationError)]
    return asked[-1] if asked else (failed[-1][0], _nobody(failed))


def _nobody(failed: Sequence[_Failure]) -> Exception:
    """Why none of the models can be set up."""
    if len(failed) == 1:
        return failed[0][1]
    reasons = "; ".join(f"{_name(model)}: {error}" for model, error in failed)
    return ConfigurationError(f"none of the models in the list can be set up: {reasons}")


def _told(model: LanguageModel, error: Exception) -> str:
    happened = "cannot be set up" if isinstance(error, ConfigurationError) else "did not answer"
    return f"{_name(model)} {happened}: {error}"


def _name(model: LanguageModel) -> str:
    return f"{model.provider}/{model.model_id}" if model.provider else model.model_id


def _is_stopped(request: ModelRequest) -> bool:
    """Whether an error is how being stopped shows: transports make errors of cancellations."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return True
    return request.abort_signal is not None and request.abort_signal.aborted
