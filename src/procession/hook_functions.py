"""Is a function fit to be a hook? Looked at when processors are compiled, before a run needs it."""

from __future__ import annotations

import inspect
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_hook"]

_YIELDS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def check_hook(processor_id: str, name: str, hook: Callable[..., Any]) -> None:
    """Raise `ConfigurationError` for a hook that cannot be called with its one argument object.

    A hook with a `yield` in it would be called and never run: it is refused too. What cannot be
    looked into (a builtin) is taken as it is.
    """
    if _yields(hook):
        problem = (
            "has a `yield` in it, so calling it would run nothing: return the value instead, and "
            "send chunks to the client with `await args.writer.custom(...)`"
        )
    elif not _takes_one(hook):
        problem = (
            "must be callable with one argument, the hook's arguments: "
            f"`def {name}(self, args)` in a class, `def {name}(args)` elsewhere"
        )
    else:
        return
    raise ConfigurationError(f"processor {processor_id!r}: {name} {problem}")


def _called(hook: Any) -> Any:
    """What a call of `hook` runs: a callable object stands for its `__call__`."""
    if isinstance(hook, FunctionType | MethodType | partial | type):
        return cast("Any", hook)
    return getattr(hook, "__call__", hook)  # noqa: B004  # wanted itself, not whether it is there


def _yields(hook: Any) -> bool:
    function = _called(hook)
    while isinstance(function, MethodType | partial):
        inner: Any = function.__func__ if isinstance(function, MethodType) else function.func
        function = _called(inner)
    return isinstance(function, FunctionType) and bool(function.__code__.co_flags & _YIELDS)


def _takes_one(hook: Any) -> bool:
    function = _called(hook)
    bound = 0
    if isinstance(function, MethodType):
        function, bound = function.__func__, 1
    if isinstance(function, FunctionType):
        return _function_takes(function, bound + 1)
    try:
        # Not what it wraps: the outermost one is called.
        inspect.signature(hook, follow_wrapped=False).bind(None)
    except TypeError:
        return False
    except ValueError:  # a builtin that does not tell
        return True
    return True


def _function_takes(function: FunctionType, given: int) -> bool:
    """Whether a function can be called with so many positional arguments.

    `inspect.signature` would tell as well, for twenty times the time; chains of a call's own
    processors are compiled with each call.
    """
    code = function.__code__
    needed = code.co_argcount - len(function.__defaults__ or ())
    if given < needed or (given > code.co_argcount and not code.co_flags & inspect.CO_VARARGS):
        return False
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return set(named) <= set(function.__kwdefaults__ or ())
