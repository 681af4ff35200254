"""A step: something with an id that makes an output of an input, whatever it is made of."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Literal

from ..engine.pipeline import Link
from ..errors import ConfigurationError
from ..keywords import check_keywords
from ..processor import check_processors
from .phases import PHASE_OF, ProcessorStepSchema
from .schemas import schema_of

if TYPE_CHECKING:
    from .context import StepContext

__all__ = ["Step", "StepKind", "is_processor", "processor_step", "step_id"]

StepKind = Literal["function", "processor", "agent", "tool", "workflow", "mapping"]
Execute = Callable[["StepContext"], Any]

_OPTIONS = (
    "description",
    "input_schema",
    "output_schema",
    "resume_schema",
    "suspend_schema",
    "state_schema",
    "request_context_schema",
    "retries",
    "metadata",
    "scorers",
)


class Step:
    """One step of a workflow; made by `create_step`. It keeps nothing of any run.

    `kind` tells what it was made of, `made_of` is that object.
    """

    def __init__(
        self,
        id: str,
        kind: StepKind,
        execute: Execute | None,
        made_of: Any = None,
        /,
        **options: Any,
    ) -> None:
        self.id = step_id(id)
        self.kind: StepKind = kind
        self.execute = execute
        self.made_of = made_of
        check_keywords(f"step {id!r}", options, _OPTIONS)
        self.description: str | None = options.get("description")
        self.input = schema_of(options.get("input_schema"))
        self.output = schema_of(options.get("output_schema"))
        self.resume = schema_of(options.get("resume_schema"))
        self.suspend = schema_of(options.get("suspend_schema"))
        self.state = schema_of(options.get("state_schema"))
        self.request_context = schema_of(options.get("request_context_schema"))
        self.retries: int | None = _count(id, options.get("retries"))
        self.metadata: Mapping[str, Any] = dict(options.get("metadata") or {})
        self.scorers = options.get("scorers")
        self._links: dict[str, Link | None] = {}

    def __repr__(self) -> str:
        return f"Step({self.id!r}, {self.kind})"

    def called(self, id: str) -> Step:
        """The same step with another id."""
        made = copy(self)
        made.id = step_id(id)
        return made

    def link(self, hook: str) -> Link | None:
        """The hook of a processor step, made ready; `None` if the processor does not have it."""
        found = self._links.get(hook, self)
        if found is self:
            has = callable(getattr(self.made_of, hook, None))
            found = self._links[hook] = Link(self.made_of, hook, is_within=True) if has else None
        assert not isinstance(found, Step)
        return found


def _count(id: str, retries: Any) -> int | None:
    if retries is None or (type(retries) is int and retries >= 0):
        return retries
    raise ConfigurationError(f"step {id!r}: retries must be a whole number, 0 or more")


def step_id(id: Any) -> str:
    """The id itself; raises `ConfigurationError` for what cannot be one."""
    if isinstance(id, str) and id.strip():
        return id
    raise ConfigurationError(f"a step needs an id, a text that is not empty, not {id!r:.60}")


def processor_step(processor: Any, **options: Any) -> Step:
    """A step that calls, in each phase, the processor's hook of that phase (W-020, W-022)."""
    check_processors([processor], "create_step")
    told = {
        "description": getattr(processor, "description", None) or getattr(processor, "name", None),
        "input_schema": ProcessorStepSchema,
        "output_schema": ProcessorStepSchema,
        **options,
    }
    return Step(f"processor:{processor.id}", "processor", None, processor, **told)


def is_processor(value: Any) -> bool:
    """Whether it has a hook that can be called in a workflow."""
    return not isinstance(value, type) and any(
        inspect.isroutine(hook) or callable(hook)
        for hook in (getattr(value, name, None) for name in PHASE_OF)
    )
