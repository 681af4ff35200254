"""Asking the model: its id resolved, its failures told apart, and when to ask again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError, ModelError
from ..model import LanguageModel, ModelRequest, resolve_model
from ..retrying import Retries
from .misfits import read_problem

if TYPE_CHECKING:
    from .run_state import RunState
    from .step import Step

__all__ = ["ModelFailure", "ResolvedModels", "read_failure", "resolved_model", "retries_of"]


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
    return run.models.get(model)


class ResolvedModels:
    """The models of one agent, resolved once: each keeps its connections from step to step.

    Kept are the agent's own model, however it is given, and the ids that functions and hooks name;
    what else these give is theirs to keep.
    """

    __slots__ = ("_by_id", "_own", "_own_model")

    MOST_IDS = 32

    def __init__(self, own: Any) -> None:
        self._own = own
        self._own_model: LanguageModel | None = None
        self._by_id: dict[str, LanguageModel] = {}

    def get(self, spec: Any) -> LanguageModel:
        """The model of a spec; raises what `resolve_model` raises."""
        if isinstance(spec, str):
            found = self._by_id.get(spec)
            if found is None:
                found = resolve_model(spec)
                if len(self._by_id) >= self.MOST_IDS:
                    self._by_id.clear()
                self._by_id[spec] = found
            return found
        if spec is not self._own:
            return resolve_model(spec)
        if self._own_model is None:
            self._own_model = resolve_model(spec)
        return self._own_model


def retries_of(step: Step, request: ModelRequest) -> Retries:
    """The engine's retries of a call: none, where the model makes failed calls again itself."""
    itself = getattr(step.model, "repeats_calls", False)
    return Retries(0 if itself else request.max_retries)


def read_failure(run: RunState, step: Step, read: Any, error: Exception) -> ModelFailure | None:
    """The model's mistake, if `error` came of one while a read of it was taken in.

    Chunks are not checked as they come, for that would cost time with every one of them: they are
    looked at when something went wrong with them.
    """
    if error is run.hook_error or not isinstance(error, AttributeError | TypeError):
        return None
    problem = read_problem(read)
    if problem is None:
        return None
    return ModelFailure(ModelError(f"model {step.model_id!r}: {problem}"))
