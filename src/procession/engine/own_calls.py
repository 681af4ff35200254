"""Calls of models that processors make themselves, and who listens to them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..ids import new_id
from ..results import ModelCall

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ..chunks import Usage
    from .run_state import RunState

__all__ = ["OwnCalls"]

_log = logging.getLogger("procession.engine")


class OwnCalls:
    """What processors have counted in one run, call by call."""

    __slots__ = ("_calls", "_listeners")

    def __init__(self) -> None:
        self._calls: list[ModelCall] = []
        self._listeners: dict[Hashable, Callable[[ModelCall], object]] = {}

    def listen(self, key: Hashable, tell: Callable[[ModelCall], object]) -> None:
        """Tell of each call, those before included; once for each key, by what it gave last."""
        is_new = key not in self._listeners
        self._listeners[key] = tell
        for call in self._calls if is_new else ():
            _tell(tell, call)

    def note(self, run: RunState, usage: Usage, model: Any) -> None:
        """A call is over."""
        call = ModelCall(
            id=new_id(),
            run_id=run.run_id,
            step_number=run.step_number,
            provider=str(getattr(model, "provider", "")),
            model_id=str(getattr(model, "model_id", "")),
            usage=usage,
            answered=True,
            from_cache=False,
            prompt=(),
            text="",
        )
        self._calls.append(call)
        for tell in list(self._listeners.values()):
            _tell(tell, call)


def _tell(tell: Callable[[ModelCall], object], call: ModelCall) -> None:
    try:
        tell(call)
    except Exception as error:
        _log.warning("on_processor_call: a listener raised %s", type(error).__name__)
