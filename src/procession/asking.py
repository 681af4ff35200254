"""Asking the model: its id resolved, its transport retries, its stream read and closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .errors import APICallError, ConfigurationError
from .model import LanguageModel, ModelRequest, resolve_model

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from .chunks import Chunk
    from .run_state import RunState
    from .step import Step

__all__ = ["ModelFailure", "ask", "resolved_model"]

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 8.0


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


async def ask(run: RunState, request: ModelRequest) -> AsyncGenerator[Sequence[Chunk], None]:
    """The model's chunks as it delivers them; a failure leaves as `ModelFailure`.

    An error marked retryable is tried again up to `max_retries` times, as long as nothing came
    (R-216). Closing this generator closes the connection.
    """
    assert run.step is not None
    model: LanguageModel = run.step.model
    left = request.settings.get("max_retries", run.max_retries)
    pause = FIRST_PAUSE
    while True:
        begun = False
        stream = model.stream(request)
        try:
            async for read in stream:
                begun = True
                yield read
            return
        except Exception as error:
            if begun or left <= 0 or not _may_retry(error):
                raise ModelFailure(error) from error
            wait = _retry_after(error, pause)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        await asyncio.sleep(wait)
        left -= 1
        pause = min(pause * 2, LONGEST_PAUSE)


def _may_retry(error: Exception) -> bool:
    return isinstance(error, APICallError) and error.is_retryable


def _retry_after(error: Exception, pause: float) -> float:
    """Seconds to wait: what the provider asks for, within reason, else our own pause."""
    headers: Mapping[str, str] = getattr(error, "response_headers", None) or {}
    asked = {key.lower(): value for key, value in headers.items()}.get("retry-after")
    try:
        return min(max(float(asked), 0.0), 60.0) if asked is not None else pause
    except ValueError:
        return pause
