"""Processor steps at work: each hook is called as in a list, on the value's own messages."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ..engine.pipeline import Chain, fold
from ..engine.returns import apply_messages, apply_step
from .phases import INPUT_STEP, Phase
from .values import forked, set_args, shown_of, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..engine.run_state import RunState
    from ..hook_args import HookArgs
    from ..message_list import MessageList
    from .steps import Step

__all__ = ["HookHost", "Within"]


class Within:
    """A run as a branch sees it: with a list of messages of its own; all else is the run's."""

    __slots__ = ("_run", "message_list")

    def __init__(self, run: RunState, messages: MessageList) -> None:
        object.__setattr__(self, "_run", run)
        object.__setattr__(self, "message_list", messages)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._run, name, value)


class HookHost:
    """Calls processor steps in one call of a hook."""

    __slots__ = ("_keeps", "args", "phase", "run")

    def __init__(self, phase: Phase, args: HookArgs[Any], *, keeps: bool) -> None:
        self._keeps = keeps
        """Whether somebody may ask for what was there before: then each step has its own copy."""
        self.phase = phase
        self.args = args
        self.run: RunState = args.run

    def fork(self, value: Any) -> Any:
        """The value with a list, settings and whatever else of its own (W-063, W-064)."""
        return forked(self.phase, value, lambda: self.run.message_list)

    async def call(self, step: Step, value: Any, path: tuple[str, ...]) -> Any:
        """What the processor's hook of this phase makes of the value; itself, if it has none."""
        phase = self.phase
        link = step.link(phase.hook)
        if link is None:
            return value
        value = self.fork(value) if self._keeps else self._own(value)
        messages: MessageList = value["message_list"]
        args = copy(self.args)
        args.listed = args.system_listed = None
        args.message_list = messages
        args.show = cast("Any", partial(shown_of, phase, messages))
        set_args(phase, args, value)
        apply: Any = apply_step if phase.name == INPUT_STEP else apply_messages
        run: Any = Within(self.run, messages)
        await fold(run, Chain.single(link, writes=False), args, apply)
        made = value_of(phase, args, messages)
        for name, kept in value.items():
            made.setdefault(name, kept)
        return made

    def _own(self, value: Mapping[str, Any]) -> Any:
        """A value whose messages are in its list: what somebody put together by hand is copied."""
        messages = value.get("message_list")
        if messages is None or messages is self.run.message_list:
            return self.fork(value)
        shown, system = shown_of(self.phase, messages)
        given = value.get("messages")
        if given is not None and (
            len(given) != len(shown) or {*map(id, given)} != {*map(id, shown)}
        ):
            return self.fork(value)
        told = value.get("system_messages")
        return self.fork(value) if told is not None and list(told) != list(system) else value
