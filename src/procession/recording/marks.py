"""What there was when a hook began, and what it has done to it."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..engine.response import find_call
from .snapshots import Item, as_json, changes_between, items_of_list, items_of_prompt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .snapshots import Changed

__all__ = ["Mark"]

_CHOICES = (
    "model",
    "tool_choice",
    "active_tools",
    "tools",
    "provider_options",
    "model_settings",
    "structured_output",
)
"""What `process_input_step` may choose besides texts."""


class Mark:
    """The texts and choices that a hook finds, and when it began."""

    __slots__ = ("_choices", "_has_response", "_hook", "_items", "started")

    def __init__(self, run: Any, hook: str, args: Any) -> None:
        self._hook = hook
        self._items = _seen(run, hook, args)
        self._choices = _choices(hook, args)
        self._has_response = _has_response(run)
        self.started = perf_counter()

    def changes(self, run: Any, args: Any) -> list[Changed]:
        """The texts that are other ones now."""
        return changes_between(self._items, _seen(run, self._hook, args))

    def chosen(self, run: Any, args: Any, *, returned: bool) -> list[str]:
        """What it has set besides texts, by name."""
        now = _choices(self._hook, args)
        names = [
            name
            for name, before, after in zip(_CHOICES, self._choices, now, strict=False)
            if before is not after and before != after
        ]
        if not self._has_response and _has_response(run):
            names.append("response")
        if self._hook == "process_api_error" and returned and run.step.wants_retry:
            names.append("retry")
        return names


def _seen(run: Any, hook: str, args: Any) -> Sequence[Item]:
    """What can be changed by a hook."""
    if hook == "process_llm_request":
        return items_of_prompt(run.step.prompt)
    if hook == "process_llm_response":
        return ()
    items = items_of_list(run.message_list)
    if hook != "process_tool_result":
        return items
    call = find_call(run, args.tool_call_id)
    found = None if call is None else call.tool_invocation
    result = found.result if found is not None and found.state == "result" else args.result
    others = [item for item in items if item.kind != "tool-invocation"]
    return [*others, Item(("result",), "assistant", "tool-result", as_json(result))]


def _choices(hook: str, args: Any) -> tuple[Any, ...]:
    if hook != "process_input_step":
        return ()
    return tuple(getattr(args, name, None) for name in _CHOICES)


def _has_response(run: Any) -> bool:
    return run.step is not None and run.step.replay is not None
