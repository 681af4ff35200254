"""What could a hook do with its argument: write to the client, look back at earlier chunks?

What a hook writes must reach the client before the hook returns (R-517), so a hook that may write
runs beside the pull, in a task; and chunks are kept for `stream_parts` only where somebody may look
at them. That costs microseconds, and nearly no hook does either: this module reads a hook's own
code to find those that certainly do not. Whatever it cannot follow counts as doing it, so a wrong
answer costs time, never a chunk.
"""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["may_look_back", "may_use", "may_write"]

_WRITING = frozenset({"writer", "send_signal"})
_LOOKING_BACK = frozenset({"stream_parts"})

_HIDING = frozenset(
    {"locals", "vars", "eval", "exec", "_getframe", "currentframe"}
    | {"__dict__", "__self__", "__getattribute__"}
)
"""What can reach the argument, or name an attribute of it, without its name in the code."""


_METHODS = frozenset({"abort", "handed", "show", "renew", "with_text", "flush_within"})


def may_write(hook: Callable[..., Any]) -> bool:
    """Whether a hook could use its writer, or hand its argument to someone who could."""
    return may_use(hook, _WRITING)


def may_look_back(hook: Callable[..., Any]) -> bool:
    """Whether a hook could read `stream_parts`, or hand its argument to someone who could."""
    return may_use(hook, _LOOKING_BACK)


def may_use(hook: Callable[..., Any], names: frozenset[str]) -> bool:
    """Whether a function could use one of these attributes of its argument, or hand that on."""
    position = 0
    function: Any = hook
    if isinstance(function, MethodType):
        position = 1
        function = function.__func__
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        return True
    code = function.__code__
    if code.co_argcount <= position:
        return True
    return _lets_out(code, code.co_varnames[position], names | _HIDING)


@lru_cache(maxsize=1024)
def _lets_out(code: CodeType, argument: str, names: frozenset[str]) -> bool:
    for inner in _nested(code):
        if not names.isdisjoint(inner.co_names):
            return True
        steps = list(dis.get_instructions(inner))
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            if _uses(step, argument) and not _reads_attribute(step, after, argument):
                return True
    return False


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _uses(step: dis.Instruction, argument: str) -> bool:
    if step.opname in ("LOAD_CLOSURE", "MAKE_CELL", "COPY_FREE_VARS", "STORE_DEREF"):
        return False
    value = step.argval
    return value == argument or (isinstance(value, tuple) and argument in value)


def _reads_attribute(step: dis.Instruction, after: dis.Instruction | None, argument: str) -> bool:
    """Whether the argument is loaded last, and an attribute of it is all that is taken."""
    if not step.opname.startswith(("LOAD_", "STORE_FAST_LOAD_FAST")) or after is None:
        return False
    value: Any = step.argval
    names: list[Any] = list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else [value]
    if argument in names[:-1]:  # loaded twice: the first one goes elsewhere
        return False
    if names[-1] != argument or after.opname not in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR"):
        return False
    # A method that is not called at once holds the argument.
    return after.argval not in _METHODS or _is_call(after)


def _is_call(step: dis.Instruction) -> bool:
    if sys.version_info >= (3, 12):
        return step.opname == "LOAD_ATTR" and bool((step.arg or 0) & 1)
    return step.opname == "LOAD_METHOD"
