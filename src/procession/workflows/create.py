"""Making workflows and steps, of whatever there is to make them of (W-002, W-020 to W-025)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..agent import Agent
from ..errors import ConfigurationError, KindError
from ..processor import HOOKS
from ..tools import Tool
from .agents import agent_step, classifier_step, tool_step
from .steps import Step, is_processor, processor_step, step_id
from .workflow import Workflow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["clone_step", "clone_workflow", "create_step", "create_workflow"]


def create_workflow(
    *,
    id: str,
    description: str | None = None,
    input_schema: Any = None,
    output_schema: Any = None,
    state_schema: Any = None,
    request_context_schema: Any = None,
    retry_config: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    store: Any = None,
) -> Workflow:
    """A workflow without stages: add some, then `commit()` it (W-002).

    Schemas are types that pydantic reads or JSON Schemas; for a workflow that stands among
    processors, `ProcessorStepSchema`. `retry_config` is `{"attempts": …, "delay": milliseconds}`
    for all steps (W-127). `options` may hold `validate_inputs`, `on_start`, `on_finish`, `on_error`
    and `should_persist_snapshot` (W-128). `store` keeps runs that are suspended (W-124).

    Raises `ConfigurationError` for an id, a schema or an option that cannot be used.
    """
    return Workflow(
        id=id,
        description=description,
        input_schema=input_schema,
        output_schema=output_schema,
        state_schema=state_schema,
        request_context_schema=request_context_schema,
        retry_config=retry_config,
        options=options,
        metadata=metadata,
        store=store,
    )


def create_step(made_of: Any = None, /, **options: Any) -> Step:
    """A step, made of a processor, an agent, a tool, a classifier, a workflow or a function.

    - a processor: its hook of each phase is called (W-020 to W-022); the id is `processor:` and its
      own;
    - an agent: takes `{"prompt": …}`, gives `{"text": …}`, or the object of `structured_output`;
    - a tool: takes its arguments, gives its result;
    - a classifier (`procession.processors.Classifier`): takes a state, gives its answers;
    - a workflow;
    - a function of one argument, a `StepContext`, plain or async: `create_step(fn)`, or
      `create_step(id=…, execute=fn)`.

    Options are `id`, `description`, `input_schema`, `output_schema`, `resume_schema`,
    `suspend_schema`, `state_schema`, `request_context_schema`, `retries`, `metadata` and `scorers`
    (W-023, W-024); an agent takes those of `generate` as well. Raises `KindError`, a `TypeError`,
    for anything else (W-021).
    """
    if made_of is None:
        return _function_step(options.pop("execute", None), options)
    if isinstance(made_of, Workflow):
        step = made_of.as_step()
        return step.called(options.pop("id")) if "id" in options else step
    if isinstance(made_of, Agent):
        return agent_step(made_of, options)
    if isinstance(made_of, Tool):
        return tool_step(made_of, options)
    if is_processor(made_of):
        own = options.pop("id", None)
        step = processor_step(made_of, **options)
        return step if own is None else step.called(own)
    if _is_classifier(made_of):
        return classifier_step(made_of, options)
    if callable(made_of) and not isinstance(made_of, type):
        return _function_step(made_of, options)
    raise KindError(
        f"create_step: a step cannot be made of {type(made_of).__name__}: give a processor with "
        f"one of the hooks that run in workflows ({', '.join(_usable())}), an agent, a tool, a "
        f"workflow or a function"
    )


def _usable() -> Sequence[str]:
    return [hook for hook in HOOKS if not hook.startswith(("process_llm", "process_api"))]


def _is_classifier(value: Any) -> bool:
    return hasattr(value, "questions") and callable(getattr(value, "evaluate", None))


def _function_step(execute: Callable[..., Any] | None, options: dict[str, Any]) -> Step:
    if not callable(execute):
        raise KindError("create_step needs something to make a step of, or execute=…, a function")
    id = options.pop("id", None) or getattr(execute, "__name__", "")
    if not id or id == "<lambda>":
        raise ConfigurationError("create_step needs id=… when its function has no name")
    options.setdefault("description", getattr(execute, "__doc__", None))
    return Step(id, "function", execute, execute, **options)


def clone_step(step: Step, *, id: str) -> Step:
    """The same step with another id, to use it twice in a workflow (W-025)."""
    return step.called(step_id(id))


def clone_workflow(workflow: Workflow, *, id: str) -> Workflow:
    """The same workflow with another id (W-025)."""
    return workflow.cloned(id)
