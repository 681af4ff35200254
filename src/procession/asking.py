"""Asking the model: its id resolved, its failures told apart, and when to ask again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from .chunks import Chunk
from .errors import APICallError, ConfigurationError, ModelError
from .misfits import chunk_problem
from .model import LanguageModel, ModelRequest, resolve_model

if TYPE_CHECKING:
    from .run_state import RunState
    from .step import Step

__all__ = ["ModelFailure", "Retries", "read_failure", "resolved_model"]

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 8.0
LONGEST_ASKED_PAUSE = 60.0
"""Seconds: our own pauses double between the first two; a provider may ask for up to the last."""


class ModelFailure(Exception):
    """Inside the loop only: a model call failed, with the exception as it came."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def resolved_model(run: RunState, step: Step) -> LanguageModel:
    """The step's model as an object; raises what `resolve_model` raises."""
    model: Any = step.model
    if model is None:
        raise ConfigurationError(
            f"agent {run.agent_id!r} has no model: give it model=…, or return one from "
            f"process_input_step"
        )
    if model is run.model and run.model_is_object:
        return model
    return resolve_model(model)


class Retries:
    """The transport retries of one call: for errors marked retryable, before anything came (R-216).

    They are the model's own, and happen before any processor is asked.
    """

    __slots__ = ("_left", "_pause")

    def __init__(self, run: RunState, request: ModelRequest) -> None:
        self._left: int = request.settings.get("max_retries", run.max_retries)
        self._pause = FIRST_PAUSE

    def pause_after(self, error: Exception) -> float | None:
        """Seconds to wait before another try, or `None` when the error is to stand."""
        if self._left <= 0 or not (isinstance(error, APICallError) and error.is_retryable):
            return None
        pause = _asked_pause(error)
        if pause is None:
            pause = self._pause
        self._left -= 1
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return pause


def _asked_pause(error: APICallError) -> float | None:
    """What the provider's `Retry-After` asks for, in seconds, within reason."""
    headers: Mapping[str, Any] = error.response_headers or {}
    asked = {key.lower(): value for key, value in headers.items()}.get("retry-after")
    try:
        seconds = -1.0 if asked is None else float(asked)
    except (TypeError, ValueError):
        return None
    # Not a number compares as neither.
    return min(seconds, LONGEST_ASKED_PAUSE) if seconds >= 0 else None


def read_failure(step: Step, read: Any, error: Exception) -> ModelFailure | None:
    """The model's mistake, if `error` came of one while a read of it was taken in.

    Chunks are not checked as they come, for that would cost time with every one of them: they are
    looked at when something went wrong with them.
    """
    problem = _problem_of(read) if isinstance(error, AttributeError | TypeError) else None
    if problem is None:
        return None
    return ModelFailure(ModelError(f"model {step.model_id!r}: {problem}"))


def _problem_of(read: Any) -> str | None:
    """What is wrong with what a model delivered in one read, if anything is."""
    asked = "stream(request) must yield lists of chunks"
    if not isinstance(read, Iterable):
        return f"{asked}, not {_kind(read)}"
    if not isinstance(read, Collection):
        return None  # an iterator, which is used up
    for chunk in cast("Collection[Any]", read):
        if not isinstance(chunk, Chunk):
            return f"{asked}; a {_kind(read)} with {_kind(chunk)} in it came"
        problem = chunk_problem(chunk)
        if problem is not None:
            return problem
    return None


def _kind(value: Any) -> str:
    return type(value).__name__
