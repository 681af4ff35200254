"""What a finished run amounts to: values of the stream object, and the output of `generate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .policy import events_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from .chunks import Chunk, Usage
    from .engine.run_state import RunState
    from .messages import Message
    from .policy import PolicyEvent
    from .results import ResponseInfo, StepResult, Tripwire

    Obj = TypeVarWithDefault("Obj", default=Any)
else:
    Obj = TypeVar("Obj")

__all__ = ["FullOutput", "trace_id_of"]


class FullOutput(Generic[Obj]):
    """What a run amounts to: what `generate` returns (R-548).

    The stream object's awaitable values are these same properties, once the run has ended. They
    are read from the finished run when asked for.
    """

    __slots__ = ("_run",)

    def __init__(self, run: RunState) -> None:
        self._run = run

    def __repr__(self) -> str:
        return f"FullOutput(run_id={self.run_id!r}, status={self.status!r}, text={self.text!r})"

    @property
    def run_id(self) -> str:
        """The run's id, as on every chunk."""
        return self._run.run_id

    @property
    def trace_id(self) -> str | None:
        """The id of its trace; `None` when it is not traced, or not sampled (O-056)."""
        return trace_id_of(self._run)

    @property
    def text(self) -> str:
        """The text of all accepted steps, as processors left it (R-542)."""
        return self._run.text

    @property
    def object(self) -> Obj:
        """The object that was asked for, as its schema makes it (R-564).

        Raises what the run failed with. `None` (of which the type says nothing) when there is no
        object: none was asked for, the run was blocked or stopped, or the strategy is `"warn"`.
        """
        run = self._run
        if run.error is not None and run.asks_for_object:
            raise run.error
        made = run.object_result
        found: Any = None if made is None or run.status == "tripwire" else made.object
        return found

    @property
    def used_fallback_value(self) -> bool:
        """Whether `object` is the fallback value (R-566)."""
        made = self._run.object_result
        return bool(made is not None and made.metadata and made.metadata.get("fallback"))

    @property
    def processor_usage(self) -> Usage:
        """The tokens that processors have spent on models of their own; not part of `usage`."""
        return self._run.processor_usage

    @property
    def policy_events(self) -> list[PolicyEvent]:
        """What policies of processors did in the run: bypasses, failures, observations."""
        return events_of(self._run.policy_events)

    @property
    def usage(self) -> Usage:
        """The tokens of the run, rejected attempts included (R-543)."""
        return self._run.usage

    @property
    def total_usage(self) -> Usage:
        """The same as `usage`."""
        return self._run.usage

    @property
    def finish_reason(self) -> str | None:
        """Why the run ended (R-519)."""
        return self._run.finish_reason

    @property
    def steps(self) -> list[StepResult]:
        """All steps in time; rejected and blocked attempts are marked as such (R-179)."""
        return list(self._run.all_steps)

    @property
    def tool_calls(self) -> list[Chunk]:
        """The `tool-call` chunks of accepted steps (R-544)."""
        return self._gathered("tool_calls")

    @property
    def waiting(self) -> list[Chunk]:
        """The chunks of the tool calls that wait, when the run has status `suspended` (R-570)."""
        step = self._run.step
        return list(step.suspension) if step and self._run.status == "suspended" else []

    @property
    def tool_results(self) -> list[Chunk]:
        """The `tool-result` chunks of accepted steps."""
        return self._gathered("tool_results")

    @property
    def reasoning(self) -> list[Chunk]:
        """The reasoning chunks of accepted steps."""
        return self._gathered("reasoning")

    @property
    def reasoning_text(self) -> str | None:
        """The reasoning joined, or `None` when there is none."""
        return "".join(chunk.payload.text for chunk in self.reasoning) or None

    @property
    def sources(self) -> list[Chunk]:
        """The `source` chunks of accepted steps."""
        return self._gathered("sources")

    @property
    def files(self) -> list[Chunk]:
        """The `file` chunks of accepted steps."""
        return self._gathered("files")

    @property
    def warnings(self) -> list[Any]:
        """Warnings of the last model call, and the engine's own."""
        return list(self._run.warnings)

    @property
    def request(self) -> dict[str, Any]:
        """What was sent last, where the model tells."""
        return self._run.all_steps[-1].request if self._run.all_steps else {}

    @property
    def provider_metadata(self) -> dict[str, Any] | None:
        """What the provider said about its last response."""
        return self._run.all_steps[-1].provider_metadata if self._run.all_steps else None

    @property
    def response(self) -> ResponseInfo:
        """What is known of the last response, and the run's messages (R-545)."""
        return self._run.response()

    @property
    def messages(self) -> list[Message]:
        """All messages of the run's list."""
        return self._run.message_list.messages()

    @property
    def remembered_messages(self) -> list[Message]:
        """The messages that came from memory."""
        return self._run.message_list.get.remembered.db()

    @property
    def tripwire(self) -> Tripwire | None:
        """Who stopped the run and why, if a processor did (R-168)."""
        return self._run.tripwire

    @property
    def error(self) -> BaseException | None:
        """The exception the run failed with; `generate` has raised it."""
        return self._run.error

    @property
    def status(self) -> str:
        """`success`, `failed`, `canceled`, `tripwire` or `suspended` (R-547)."""
        return self._run.status

    def _gathered(self, name: str) -> list[Any]:
        steps = (result for result in self._run.all_steps if result.accepted)
        return [item for result in steps for item in getattr(result, name)]


def trace_id_of(run: RunState) -> str | None:
    """The id of a run's trace, if it has one."""
    context = run.tracing_context
    return context.current_span.trace_id if context and context.current_span.is_valid else None
