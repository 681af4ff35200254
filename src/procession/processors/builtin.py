"""What all built-in processors share: their attributes, and how they tell of what they found."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any, ClassVar

from ..keywords import TakesOptions
from ..policy import Policy, policy_of
from ..processor import Processor, ProcessorViolation
from .option_checks import callback

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..host import Host

__all__ = ["BuiltIn"]

_log = logging.getLogger("procession.processors")


class BuiltIn(TakesOptions, Processor[Any]):
    """Base of the built-ins: a fixed id; `on_violation` and `policy` as options and attributes.

    A keyword that is none of the options is an `OptionError`, which names the nearest one.
    """

    fixed_id: ClassVar[str]
    """The id of the class (B-002)."""

    names_only: ClassVar[bool] = True
    """The metadata of its verdicts name types and rules, and hold no text: events may tell."""

    def __init__(
        self,
        *,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.id = self.fixed_id
        self.on_violation = callback(type(self).__name__, "on_violation", on_violation)
        self.policy = policy
        policy_of(self)

    def register_app(self, app: Host) -> None:
        """What it has open - models that it asks, a cache - is closed with the app."""
        for held in vars(self).values():
            app.attach(held)

    def report(self, message: str, detail: dict[str, Any]) -> Awaitable[None] | None:
        """Tell `on_violation` of something found that does not end the run (B-005, B-006).

        Returns what is to be awaited before going on, or `None` when nothing is: a plain hook
        stays plain without a callback (B-239). What the callback raises counts for nothing
        (B-008). Aborts are told by the engine, not here.
        """
        if self.on_violation is None:
            return None
        violation = ProcessorViolation(processor_id=self.id, message=message, detail=detail)
        return self.tell("on_violation", violation)

    def tell(self, name: str, event: object) -> Awaitable[None] | None:
        """Call the callback that stands in the attribute `name`, on the terms of `report`."""
        callback: Callable[[Any], object] | None = getattr(self, name)
        if callback is None:
            return None
        try:
            told = callback(event)
        except Exception as error:
            self._log_failed(name, error)
            return None
        return self._told(name, told) if inspect.isawaitable(told) else None

    async def _told(self, name: str, told: Awaitable[object]) -> None:
        try:
            await told
        except Exception as error:
            self._log_failed(name, error)

    def _log_failed(self, name: str, error: Exception) -> None:
        # The kind alone: the words may hold what was found.
        _log.debug("%s of %r raised %s", name, self.id, type(error).__name__)
