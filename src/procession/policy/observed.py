"""What an observed processor is given: copies, each made when it is asked for.

And what it would have changed: its copies, compared with what they are copies of.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

from ..errors import InputError
from ..message_list import MessageList
from ..request_context import RequestContext
from .marks import copied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..hook_args import HookArgs

__all__ = ["observed_args", "would_change"]

_ORIGINAL = "original"
_CHOICES = (
    "model",
    "tool_choice",
    "active_tools",
    "tools",
    "provider_options",
    "model_settings",
    "structured_output",
)
_COPIED = (
    *_CHOICES[1:],
    "steps",
    "tool_calls",
    "chunks",
    "warnings",
    "request",
    "provider_metadata",
    "usage",
    "args",
    "result",
)
_CHANGES = {
    "process_input_step": _CHOICES,
    "process_tool_result": ("result",),
}
"""By hook: arguments whose change is a change of the run."""
_WATCHED = frozenset({*_CHOICES, "result", "message_list"})
"""What must have been asked for, or set, for that."""


class _Copy:
    """An argument of the original, copied when it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, args: Any, _owner: Any) -> Any:
        if args is None:
            return self
        made = copied(getattr(args.__dict__[_ORIGINAL], self._name))
        args.__dict__[self._name] = made
        return made


class _Twin:
    """`message_list`: a list of the hook's own."""

    def __get__(self, args: Any, _owner: Any) -> Any:
        if args is None:
            return self
        live = args.__dict__[_ORIGINAL].message_list
        found = args.__dict__["message_list"] = None if live is None else live.twin()
        if found is not None:
            shown, system = found.shown()
            if args.__dict__["answer_only"]:
                shown = found.response_messages()
            args.shown = shown, system
        return found


class _Context:
    """`request_context`: what one sets there, nobody else sees."""

    def __get__(self, args: Any, _owner: Any) -> Any:
        if args is None:
            return self
        live = args.__dict__[_ORIGINAL].request_context
        found = args.__dict__["request_context"] = RequestContext(live.all)
        return found


def _shown(args: Any) -> Any:
    args.message_list  # noqa: B018  # makes the copies
    kind = cast("Any", type(args))
    return cast("Any", super(kind, args)).messages


class _Instead:
    """`writer` and `send_signal`: as far as it goes, they are there."""

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind

    def __get__(self, args: Any, _owner: Any) -> Any:
        if args is None:
            return self
        values = args.__dict__
        made = None
        if self._kind is _Unsent or values[_ORIGINAL].writer is not None:
            made = self._kind(values["tell"])
        values["writer" if self._kind is _Unwritten else "send_signal"] = made
        return made


@cache
def _observing(kind: type[Any]) -> tuple[Any, tuple[str, ...]]:
    """The class of arguments for observed hooks, and what is not simply taken over from others."""
    own: dict[str, Any] = {name: _Copy(name) for name in _COPIED if hasattr(kind, name)}
    own |= {
        "message_list": _Twin(),
        "request_context": _Context(),
        "writer": _Instead(_Unwritten),
        "send_signal": _Instead(_Unsent),
    }
    names = (*own, "made_steps")
    own |= {"messages": property(_shown), "__module__": kind.__module__}
    return type(kind.__name__, (kind,), own), names


def observed_args(hook: str, args: HookArgs[Any], tell: Callable[[str], None]) -> Any:
    """Arguments for an observed hook; `tell` is told of what it would write or send."""
    kind, names = _observing(type(args))
    made: Any = object.__new__(kind)
    values = made.__dict__
    values.update(args.__dict__)
    for name in names:
        values.pop(name, None)
    values[_ORIGINAL] = args
    values["tell"] = tell
    values["answer_only"] = hook == "process_output_result"
    values["verdict"] = None
    return made


class _Unwritten:
    """A writer whose chunks nobody gets."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    async def custom(self, chunk: Any, options: Any = None) -> None:
        """Note that something would have been written; raises `InputError` as a real one does."""
        kind: Any = chunk.get("type") if hasattr(chunk, "get") else getattr(chunk, "type", None)
        if not isinstance(kind, str) or not kind.startswith("data-"):
            raise InputError("writer.custom: the type must begin with 'data-'")
        self._tell("write")

    async def object(self, value: Any, *, final: bool = False, metadata: Any = None) -> None:
        """Note that an object would have been written."""
        self._tell("write")


class _Unsent:
    """Sends signals that nobody gets."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    async def __call__(self, signal: Any) -> Any:
        """The signal as it would have been sent; raises what sending it raises."""
        made = MessageList().add_signal(signal, "input")
        self._tell("signal")
        return made


def would_change(hook: str, made: Any, args: HookArgs[Any]) -> bool:
    """Whether what an observed hook did to its copies would have changed the run."""
    return bool(made.__dict__.keys() & _WATCHED) and any(_differences(hook, made, args))


def _differences(hook: str, made: Any, args: HookArgs[Any]) -> Iterator[bool]:
    values = made.__dict__
    for name in _CHANGES.get(hook, ()):
        if name in values:
            yield _differs(values[name], getattr(args, name))
    if values.get("message_list") is not None:
        yield not args.message_list.says_the_same(values["message_list"])


def _differs(one: Any, other: Any) -> bool:
    try:
        return bool(one != other)
    except Exception:  # what cannot be compared was put there by the hook
        return True
