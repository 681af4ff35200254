"""Is a function fit to be a hook, and will it be found by its name?

Looked at when processors are compiled, before a run needs it.
"""

from __future__ import annotations

import inspect
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_hook", "check_names", "near_name", "takes_one"]

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
    elif not takes_one(hook):
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


def takes_one(hook: Any) -> bool:
    """Whether a function can be called with one positional argument; a builtin may not tell."""
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


_well_named: WeakSet[type] = WeakSet()
"""Classes whose names have been looked at; lists may be compiled with every call."""


def check_names(processor: Any, known: frozenset[str]) -> None:
    """Raise `ConfigurationError` for an attribute that is nearly called like one of `known`.

    Nothing would ever call it, and nobody would notice: a guard beside it makes the object a
    processor all the same. Private names and names that are merely similar are anybody's to use.
    """
    kind = cast("type[Any]", type(processor))
    if kind not in _well_named:
        for name in dir(kind):
            _check_name(processor, name, known)
        _well_named.add(kind)
    for name in getattr(processor, "__dict__", ()):
        _check_name(processor, name, known)


def _check_name(processor: Any, name: str, known: frozenset[str]) -> None:
    meant = near_name(name, known)
    if meant is not None:
        raise ConfigurationError(
            f"processor {processor.id!r} has {name!r}, which is never called or read; did you mean "
            f"{meant!r}? If it is something else, give it another name"
        )


@lru_cache(maxsize=1024)
def near_name(name: Any, known: frozenset[str]) -> str | None:
    """The one of `known` that was meant by `name`, when that is a typo of it or its camelCase.

    `None` when `name` is known itself, or means something of its own: one that contains a known
    name, such as `preprocess_input`, is made on purpose.
    """
    if name in known or not isinstance(name, str) or name.startswith("_"):
        return None
    plain = _plain(name)
    for other in known:
        if plain == _plain(other) or other in (f"{name}s", f"{name}es", name.removesuffix("s")):
            return other
    if not any(name[:3] == other[:3] or name[-3:] == other[-3:] for other in known):
        return None
    import difflib  # only where a mistake is likely

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.92)
    return near[0] if near and near[0] not in name else None


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
