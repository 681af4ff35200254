"""Asking the model: its id resolved, its failures told apart, and when to ask again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import APICallError, ConfigurationError
from .model import LanguageModel, ModelRequest, resolve_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .run_state import RunState
    from .step import Step

__all__ = ["ModelFailure", "Retries", "resolved_model"]

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
    headers: Mapping[str, str] = error.response_headers or {}
    asked = {key.lower(): value for key, value in headers.items()}.get("retry-after")
    try:
        return None if asked is None else min(max(float(asked), 0.0), LONGEST_ASKED_PAUSE)
    except ValueError:
        return None
