"""When an operation takes place."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from procession.records import plain

from .transforms import text_of
from .turn import Turn

Conditions = Mapping[str, Any] | None


def holds(conditions: Conditions, turn: Turn) -> bool:
    """Whether every condition is met; no conditions are met."""
    return all(_holds(name, wanted, turn) for name, wanted in (conditions or {}).items())


def _holds(name: str, wanted: Any, turn: Turn) -> bool:
    check = _CHECKS.get(name)
    if check is None:
        raise ValueError(f"unknown condition: {name}")
    return check(wanted, turn)


def _in(text: str, whole: Any) -> bool:
    """A text that is missing contains nothing."""
    return isinstance(whole, str) and text in whole


def _message_texts(turn: Turn) -> list[str]:
    return [text_of(message) for message in turn.messages]


def _part_type(wanted: str | Sequence[str], turn: Turn) -> bool:
    return turn.part_type in ([wanted] if isinstance(wanted, str) else wanted)


def _pairs(wanted: Any) -> list[tuple[str, Any]]:
    """`{key: value, …}`, or one pair as `{key, value}` or `[key, value]`."""
    if isinstance(wanted, Mapping):
        if set(wanted) == {"key", "value"}:
            return [(wanted["key"], wanted["value"])]
        return list(wanted.items())
    key, value = wanted
    return [(key, value)]


def _state_eq(wanted: Any, turn: Turn) -> bool:
    return all(plain(turn.state.get(key)) == value for key, value in _pairs(wanted))


def _state_gte(wanted: Any, turn: Turn) -> bool:
    return all(turn.state.get(key, 0) >= value for key, value in _pairs(wanted))


def _result_contains(wanted: str, turn: Turn) -> bool:
    return wanted in msgspec.json.encode(plain(turn.arg("result"))).decode()


def _error_contains(wanted: str, turn: Turn) -> bool:
    error = turn.arg("error")
    return _in(wanted, getattr(error, "message", None) or str(error or ""))


def _has_tool_calls(wanted: bool, turn: Turn) -> bool:
    return bool(turn.arg("tool_calls")) == wanted


def _request_context(wanted: Mapping[str, Any], turn: Turn) -> bool:
    context = turn.arg("request_context")
    return all(plain(context.get(key)) == value for key, value in wanted.items())


def _number(turn: Turn, name: str, test: Callable[[Any], bool]) -> bool:
    value = turn.arg(name)
    return value is not None and test(value)


_CHECKS: dict[str, Callable[[Any, Turn], bool]] = {
    "stepNumber": lambda wanted, turn: turn.arg("step_number") == wanted,
    "stepNumber_gte": lambda wanted, turn: _number(turn, "step_number", lambda n: n >= wanted),
    "retryCount": lambda wanted, turn: turn.arg("retry_count") == wanted,
    "retryCount_lt": lambda wanted, turn: _number(turn, "retry_count", lambda n: n < wanted),
    "text_contains": lambda wanted, turn: _in(wanted, turn.arg("text")),
    "part_type": _part_type,
    "part_text_contains": lambda wanted, turn: _in(wanted, turn.part_text),
    "message_text_contains": lambda wanted, turn: any(wanted in t for t in _message_texts(turn)),
    "last_message_text_contains": lambda wanted, turn: any(
        wanted in text for text in _message_texts(turn)[-1:]
    ),
    "state_eq": _state_eq,
    "state_gte": _state_gte,
    "toolName": lambda wanted, turn: turn.arg("tool_name") == wanted,
    "result_contains": _result_contains,
    "error_contains": _error_contains,
    "has_tool_calls": _has_tool_calls,
    "fromCache": lambda wanted, turn: turn.arg("from_cache") == wanted,
    "model_id": lambda wanted, turn: getattr(turn.arg("model"), "model_id", None) == wanted,
    "nth_run": lambda wanted, turn: turn.nth == wanted,
    "request_context": _request_context,
    "not": lambda wanted, turn: not holds(wanted, turn),
    "any": lambda wanted, turn: any(holds(conditions, turn) for conditions in wanted),
    "all": lambda wanted, turn: all(holds(conditions, turn) for conditions in wanted),
}
