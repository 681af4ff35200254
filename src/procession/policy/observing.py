"""An observed processor at work: on copies, every outcome told and none of them carried out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, Struct

from ..errors import ConfigurationError, ProcessorError, TripWire
from .bounded import Bounded
from .events import note
from .facts import facts_in
from .guard import Failure, standing
from .observed import observed_args, would_change

if TYPE_CHECKING:
    from ..hook_args import HookArgs
    from .facts import Facts
    from .guard import Guard

__all__ = ["Observed", "observe"]

_MESSAGE_HOOKS = frozenset(
    {
        "process_input",
        "process_input_step",
        "process_output_step",
        "process_tool_result",
        "process_output_result",
    }
)


_ANSWERS = {
    "process_llm_request": (("response", "respond"), ("prompt", "change")),
    "process_api_error": (("retry", "retry"),),
}
"""What two hooks may return, and what that would do."""


class Observed:
    """One call of an observed hook: what is told of it."""

    __slots__ = ("_given", "_guard", "_original", "_run", "_started", "args")

    def __init__(self, guard: Guard, run: Any, args: HookArgs[Any]) -> None:
        self._guard, self._run, self._original = guard, run, args
        self.args = observed_args(guard.hook, args, self.tell)
        self.args.note_failure = self._note_failure

    def enter(self) -> bool:
        """Whether the hook is to be called; it is not, while the breaker is open."""
        try:
            self._given = self._guard.enter()
        except Failure as failure:
            self._guard.take(self._run, failure)
            return False
        self._started = monotonic()
        return True

    def tell(self, would: str, facts: Facts | None = None) -> None:
        """Tell what would have been done, and by what."""
        guard = self._guard
        note(
            self._run,
            guard.processor_id,
            guard.hook,
            action="observed",
            kind="finding",
            would=would,
            facts=facts,
        )

    def raised(self, error: BaseException) -> None:
        """A verdict or a failure is told; a stop of the run is passed on."""
        guard, run = self._guard, self._run
        wire = self.args.verdict
        mistaken = isinstance(error, ConfigurationError)  # watching changes nothing, not even that
        stop = wire if mistaken else standing(error, wire)
        if isinstance(stop, TripWire):
            guard.ended(run, self._given, self._started)
            self._told_verdict(stop)
        elif stop is not None:
            if guard.circuit is not None:
                guard.circuit.left(self._given)
            raise stop
        else:
            if guard.circuit is not None:
                guard.circuit.failed(self._given)
            guard.take(run, Failure.of(error))

    def returned(self) -> bool:
        """The hook has returned; whether what it returned counts: a verdict may go before."""
        self._guard.ended(self._run, self._given, self._started)
        if self.args.verdict is None:
            return True
        self._told_verdict(self.args.verdict)
        return False

    def would_change(self) -> bool:
        """Whether what the hook did to its copies would have changed the run."""
        return would_change(self._guard.hook, self.args, self._original)

    def bounded(self, work: Any) -> Any:
        """`work`, for no longer than the policy allows."""
        timeout = self._guard.policy.timeout
        return work if timeout is None else Bounded(work, timeout)

    def _note_failure(self, processor_id: str, hook: str, action: str, error: str) -> None:
        would = "block" if action == "blocked" else "allow"
        note(
            self._run, processor_id, hook, action="observed", kind="error", would=would, error=error
        )

    def _told_verdict(self, wire: TripWire) -> None:
        facts = facts_in(wire.metadata) if self._guard.names_only else None
        self.tell("retry" if wire.retry else "block", facts)


async def observe(
    guard: Guard,
    run: Any,
    args: HookArgs[Any],
    hook: Callable[[Any], Any],
    apply: Callable[[Any, Any, Any], None],
) -> None:
    """Call an observed hook; `apply(stand_in, args, returned)` applies its return to a stand-in.

    Raises what stops the run, and nothing else.
    """
    call = Observed(guard, run, args)
    if not call.enter():
        return
    made = call.args
    try:
        returned: Any = hook(made)
        if inspect.isawaitable(returned):
            returned = await call.bounded(returned)
        if made.verdict is None:
            would = _would(guard, made, args, returned, apply)
            if would is not None:
                call.tell(would)
        call.returned()
    except BaseException as error:
        call.raised(error)


def _would(
    guard: Guard,
    made: Any,
    args: HookArgs[Any],
    returned: Any,
    apply: Callable[[Any, Any, Any], None],
) -> str | None:
    """What would come of a return; raises as applying it would."""
    hook = guard.hook
    asked = _ANSWERS.get(hook)
    if asked is not None:
        if returned is not None and not isinstance(returned, Mapping | Struct):
            raise ProcessorError(guard.processor_id, hook, "returned what cannot be used")
        found = [would for name, would in asked if _read(returned, name)]
        if found:
            return found[0]
    if hook in _MESSAGE_HOOKS and returned is not None:
        apply(SimpleNamespace(message_list=made.message_list), made, returned)
    return "change" if would_change(hook, made, args) else None


def _read(returned: Any, name: str) -> Any:
    if isinstance(returned, Mapping):
        return cast("Mapping[str, Any]", returned).get(name)
    value = getattr(returned, name, None)
    return None if value is UNSET else value
