"""Asking the model: its id resolved, its failures told apart, and when to ask again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import structs

from ..errors import ConfigurationError, ModelError
from ..lifetime import close_all
from ..model import LanguageModel, ModelConfig, ModelRequest, resolve_model
from ..retrying import Retries
from .misfits import read_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    Kept are the agent's own model, and the ids, endpoints and lists of these that functions, hooks
    and calls name, by what they say. Model objects are theirs to keep.
    """

    __slots__ = ("__weakref__", "_known", "_own", "_own_model")

    MOST = 32

    def __init__(self, own: Any) -> None:
        self._own = own
        self._own_model: LanguageModel | None = None
        self._known: dict[Any, LanguageModel] = {}

    def get(self, spec: Any) -> LanguageModel:
        """The model of a spec; raises what `resolve_model` raises."""
        if spec is self._own:
            if self._own_model is None:
                self._own_model = resolve_model(spec)
            return self._own_model
        key = _key_of(spec)
        if key is None:
            return resolve_model(spec)
        found = self._known.get(key)
        if found is None:
            found = resolve_model(spec)
            if len(self._known) >= self.MOST:
                del self._known[next(iter(self._known))]
            self._known[key] = found
        return found

    async def aclose(self) -> None:
        """Close what these models have open in the running event loop; they open it again.

        A model object that was given as it is counts among them.
        """
        await close_all([*self._known.values(), self._own_model or self._own])


def _key_of(spec: Any) -> Any:
    """What two specs that say the same have in common; `None` for what holds an object."""
    if isinstance(spec, str | int | None):
        return (type(spec), spec)
    if isinstance(spec, ModelConfig):
        return _key_of(structs.asdict(spec))
    parts: Any = None
    if isinstance(spec, list | tuple):
        parts = list(cast("Sequence[Any]", spec))
    elif isinstance(spec, Mapping):
        parts = [part for item in cast("Mapping[Any, Any]", spec).items() for part in item]
    keys = None if parts is None else tuple(map(_key_of, parts))
    return None if keys is None or None in keys else (isinstance(spec, Mapping), keys)


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
