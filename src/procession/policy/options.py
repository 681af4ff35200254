"""What a policy says: how long a processor may take, what its failures mean, when it rests."""

from __future__ import annotations

import weakref
from math import isfinite
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from ..errors import OptionError
from ..keywords import TakesOptions
from .circuit import Circuit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Breaker", "OnError", "Policy", "policy_of"]

OnError = Literal["block", "allow", "degrade"]

_CHOICES = ("block", "allow", "degrade")


class Breaker(TakesOptions):
    """Leaves a processor alone that keeps failing.

    After `failures` failures in a row, whichever runs they happened in, the processor is not called
    for `seconds`: each call fails at once, as `on_error` says. Then a single call tries it again:
    a success ends the rest, a failure begins another one. Raises `OptionError` for a wrong
    option.
    """

    __slots__ = ("failures", "seconds")

    def __init__(self, *, failures: int = 5, seconds: float = 30.0) -> None:
        if isinstance(failures, bool) or not isinstance(failures, int) or failures < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError("Breaker: failures must be a whole number of at least 1")
        self.failures = failures
        self.seconds = _positive("Breaker: seconds", seconds)

    def __repr__(self) -> str:
        return f"Breaker(failures={self.failures}, seconds={self.seconds:g})"


class Policy(TakesOptions):
    """What happens when a processor fails, hangs, or is only to be watched.

    Put it on a processor as its attribute `policy`. A verdict that a hook has given stands,
    whatever the policy says; only `observe` takes the effect of verdicts away.

    `timeout`: seconds that a hook may take. One that waits is cut short then; one that does not
    wait cannot be, so that its outcome stands, and its delay is an event and a failure to the
    breaker.

    `on_error`: a failure (an exception, a wrong return, a timeout, a breaker at rest) blocks the
    run (`"block"`), lets what the hook was to look at pass as if the processor were not there
    (`"allow"`), or has `fallback`, another processor, look at it instead (`"degrade"`; its failure
    blocks). A `ConfigurationError` fails the run whatever is said here.

    `breaker`: when to stop asking for a while; `None` (never) unless given, for what makes a hook
    fail may come from a single user, and everybody would feel it.

    `observe`: the processor works on copies. What it would have done is told in events, and
    changes nothing; what it raises counts for nothing either.

    One policy may be shared: the breaker counts for each processor by itself. Raises
    `OptionError` for a wrong option.
    """

    __slots__ = ("_circuits", "_lock", "breaker", "fallback", "observe", "on_error", "timeout")

    def __init__(
        self,
        *,
        timeout: float | None = None,
        on_error: OnError = "block",
        fallback: Any = None,
        breaker: Breaker | None = None,
        observe: bool = False,
    ) -> None:
        if on_error not in _CHOICES:
            raise OptionError(
                f"Policy: on_error must be {', '.join(map(repr, _CHOICES[:-1]))} or "
                f"{_CHOICES[-1]!r}, not {_shown(on_error)}"
            )
        if breaker is not None and not isinstance(breaker, Breaker):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"Policy: breaker must be a Breaker, not {_shown(breaker)}")
        if not isinstance(observe, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"Policy: observe must be True or False, not {_shown(observe)}")
        _check_fallback(on_error, fallback)
        self.timeout = None if timeout is None else _positive("Policy: timeout", timeout)
        self.on_error: OnError = on_error
        self.fallback = fallback
        self.breaker = breaker
        self.observe = observe
        self._circuits: dict[int, tuple[Callable[[], Any], Circuit]] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        shown = [f"on_error={self.on_error!r}"]
        if self.timeout is not None:
            shown.append(f"timeout={self.timeout:g}")
        if self.fallback is not None:
            shown.append(f"fallback={self.fallback.id!r}")
        if self.breaker is not None:
            shown.append(f"breaker={self.breaker!r}")
        if self.observe:
            shown.append("observe=True")
        return f"Policy({', '.join(shown)})"

    def circuit_of(self, processor: Any) -> Circuit | None:
        """The state of the breaker for one processor, the same in all runs."""
        if self.breaker is None:
            return None
        key = id(processor)
        with self._lock:
            owner, circuit = self._circuits.get(key, (None, None))
            if owner is None or circuit is None or owner() is not processor:
                circuit = Circuit(self.breaker.failures, self.breaker.seconds)
                self._circuits[key] = self._owner(processor), circuit
            return circuit

    def _owner(self, processor: Any) -> Callable[[], Any]:
        """Finds the processor as long as it lives: another may get its place in memory."""
        circuits, key = self._circuits, id(processor)

        def forget(gone: Callable[[], Any]) -> None:
            if circuits.get(key, (None,))[0] is gone:
                del circuits[key]

        try:
            return weakref.ref(processor, forget)
        except TypeError:  # it knows no weak references: it is kept
            return lambda: processor


def policy_of(processor: Any) -> Policy | None:
    """The policy of a processor; raises `OptionError` for something else in its place."""
    policy: Any = getattr(processor, "policy", None)
    if policy is None or isinstance(policy, Policy):
        return policy
    raise OptionError(f"processor {processor.id!r}: policy must be a Policy, not {_shown(policy)}")


def _check_fallback(on_error: str, fallback: Any) -> None:
    if fallback is None:
        if on_error == "degrade":
            raise OptionError(
                "Policy: on_error='degrade' needs fallback=…, the processor that does the work "
                "instead"
            )
        return
    if on_error != "degrade":
        raise OptionError(
            f"Policy: fallback is used with on_error='degrade' only, not with {on_error!r}"
        )
    if isinstance(fallback, type) or not isinstance(getattr(fallback, "id", None), str):
        raise OptionError(f"Policy: fallback must be a processor, not {_shown(fallback)}")
    if policy_of(fallback) is not None:
        raise OptionError(
            f"Policy: fallback {fallback.id!r} must not have a policy of its own: the timeout of "
            f"this one is its timeout too, and its failure blocks"
        )


def _positive(name: str, value: Any) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not isfinite(value) or value <= 0:
        raise OptionError(f"{name} must be a number of seconds above 0, not {_shown(value)}")
    return float(value)


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str) and len(value) <= 40:
        return repr(value)
    return f"a value of type {type(value).__name__}"
