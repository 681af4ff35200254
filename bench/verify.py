"""A run is looked at before it is timed: who does not do the work gets no number."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from .case import QUESTION, history

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from .case import Case, Hook
    from .cells import Cell


class CheckFailed(Exception):
    """The peer did not do what was to be timed; the message says what is wrong."""


async def watched_run(case: Case) -> list[Any]:
    """Run once, on the very objects that will be timed, and check all of it.

    Returns the requests that the model was asked. The hooks' calls are counted from outside, by the
    interpreter's profile hook, so that the timed hooks need not count.
    """
    calls: Counter[CodeType] = Counter()

    def notice(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    requests: list[Any] = []
    case.model.log = requests
    sys.setprofile(notice)
    try:
        value = await case.run()
    finally:
        sys.setprofile(None)
        case.model.log = None
    check_value(case, value)
    for hook in case.hooks:
        check_hook(hook, calls[hook.code])
    return requests


def check_value(case: Case, value: object) -> None:
    """The run's own result: the text, all chunks in order, all tools."""
    if value != case.expected:
        raise CheckFailed(f"expected {clipped(case.expected)}, got {clipped(value)}")


def check_hook(hook: Hook, calls: int) -> None:
    """The hook ran as often as it should."""
    if calls < hook.calls or (hook.extra is not None and calls > hook.calls + hook.extra):
        name = hook.code.co_qualname
        raise CheckFailed(f"{name} ran {calls} times, expected {hook.calls} (+{hook.extra})")


def check_requests(cell: Cell, case: Case, requests: list[Any]) -> None:
    """The model was asked as often as it should be, and saw every message."""
    steps = cell.size if cell.work == "w3" else 0
    if len(requests) != steps + 1:
        raise CheckFailed(f"the model was asked {len(requests)} times, expected {steps + 1}")
    earlier = cell.size if cell.work == "w4" else 0
    first = case.texts(requests[0])
    if first != [*(text for _, text in history(earlier)), QUESTION]:
        raise CheckFailed(f"the model saw {len(first)} messages: {clipped(first)}")
    for step, request in enumerate(requests):
        seen, expected = len(case.texts(request)), earlier + 1 + 2 * step
        if seen != expected:
            raise CheckFailed(f"at step {step} the model saw {seen} messages, not {expected}")


def clipped(value: object) -> str:
    """The value's repr, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:120]} ... {text[-60:]} ({len(text)} characters)"
