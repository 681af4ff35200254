"""`StreamErrorRetryProcessor`: a call that failed for a while is made again (B-420 to B-426)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from difflib import get_close_matches
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, Required, TypedDict, cast

from ...causes import causes, field_of
from ...errors import OptionError
from ...processor import ProcessAPIErrorResult
from ...retry_after import asked_pause
from ..builtin import BuiltIn
from ..option_checks import callback, flag, number, whole
from .transient_errors import is_authorization_failure, is_retryable_openai_responses_stream_error

if TYPE_CHECKING:
    from ...abort_signal import AbortSignal
    from ...policy import Policy
    from ...processor import ProcessAPIErrorArgs, ProcessorViolation

__all__ = ["RetryMatcher", "StreamErrorRetryProcessor"]

_OWNER = "StreamErrorRetryProcessor"

Predicate = Callable[[Any], bool | Awaitable[bool]]
"""Told one error, or one of its causes: is it meant?"""

Delay = float | Callable[[Any], float | Awaitable[float]]
"""Milliseconds, or a function of the hook's arguments that gives them."""


class RetryMatcher(TypedDict, total=False):
    """Errors to retry, and how. What is absent is as in the processor's own options.

    `match` is told the error, then each of its causes, until it says yes. `on_retry` is told the
    hook's arguments when the wait is over, right before the call is made again. All three functions
    may be async.
    """

    match: Required[Predicate]
    max_retries: int
    delay_ms: Delay
    on_retry: Callable[[Any], object]


class _Policy(NamedTuple):
    max_retries: int
    delay_ms: Any
    on_retry: Callable[[Any], Any] | None = None


class StreamErrorRetryProcessor(BuiltIn):
    """Makes a failed call again when its error is one that passes by itself.

    It looks at the error and its causes. `matchers` go first: predicates, or mappings like
    `RetryMatcher`; the first that matches decides how often and after what delay. Otherwise an
    error is retried when its provider calls it retryable, when it is a transient error of an OpenAI
    stream (`is_retryable_openai_responses_stream_error`), or, with `retry_unknown_errors`, when it
    is anything but a failed authorisation.

    `max_retries` is how often this processor asks for another attempt in one call of `generate` or
    `stream`; the budget of the call limits it further. Give `max_processor_retries` the same number
    and leave the model's own `max_retries` at 0, or both make calls again (B-420).

    Before each attempt it waits `delay_ms` milliseconds, or as long as the server asks with
    `Retry-After` or `retry-after-ms`, whichever is longer; of the server's wish at most
    `max_retry_after_ms` count. A delay that is negative or not finite is none. The wait ends when
    the run is stopped, and there is none where no retry would be granted. Messages are never
    changed.

    Raises `OptionError` for an option of a wrong kind, by its name. What a function among the
    options raises counts as "do not retry" and is logged (R-117).
    """

    fixed_id = "stream-error-retry-processor"
    name = "Stream Error Retry Processor"

    def __init__(
        self,
        *,
        max_retries: int = 1,
        delay_ms: Delay = 0,
        max_retry_after_ms: float = 30_000,
        retry_unknown_errors: bool = False,
        matchers: Iterable[Predicate | RetryMatcher] = (),
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=on_violation, policy=policy)
        self._own = _Policy(whole(_OWNER, "max_retries", max_retries), _delay("delay_ms", delay_ms))
        self._longest = number(_OWNER, "max_retry_after_ms", max_retry_after_ms) / 1000
        self._unknown = flag(_OWNER, "retry_unknown_errors", retry_unknown_errors)
        self._matchers = _matchers(matchers, self._own)
        # The state is shared by all that have the same id.
        self._retries = f"__retries-{id(self):x}"

    async def process_api_error(
        self, args: ProcessAPIErrorArgs[Any]
    ) -> ProcessAPIErrorResult | None:
        """Wait and ask for another attempt, when the error is one to retry (B-421 to B-424)."""
        if not args.may_retry:
            return None
        policy = await self._policy(args.error)
        made: int = args.state.get(self._retries, 0)
        if policy is None or made >= policy.max_retries:
            return None
        pause = max(await _milliseconds(policy.delay_ms, args) / 1000, self._asked(args.error))
        if not await _waited(pause, args.abort_signal):
            return None
        args.state[self._retries] = made + 1
        if policy.on_retry is not None:
            await _settled(policy.on_retry(args))
        return ProcessAPIErrorResult(retry=True)

    async def _policy(self, error: Exception) -> _Policy | None:
        """How the error is to be retried; `None`: not at all."""
        for match, policy in self._matchers:
            for cause in causes(error):
                if await _settled(match(cause)):
                    return policy
        if any(field_of(cause, "is_retryable", "isRetryable") is True for cause in causes(error)):
            return self._own
        if is_retryable_openai_responses_stream_error(error):
            return self._own
        return self._own if self._unknown and not is_authorization_failure(error) else None

    def _asked(self, error: Exception) -> float:
        """Seconds the server wants us to wait, within what is allowed."""
        for cause in causes(error):
            for holder in (cause, field_of(cause, "response")):
                headers = field_of(holder, "response_headers", "responseHeaders", "headers")
                pause = asked_pause(headers)
                if pause is not None:
                    return min(pause, self._longest)
        return 0.0


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _milliseconds(delay: Any, args: ProcessAPIErrorArgs[Any]) -> float:
    """What a delay comes to; negative and infinite ones are none."""
    if callable(delay):
        delay = _delay("what delay_ms gives", await _settled(delay(args)), function=False)
    return delay if isfinite(delay) and delay > 0 else 0.0


async def _waited(seconds: float, signal: AbortSignal | None) -> bool:
    """Whether so much time has passed; not if the run was stopped meanwhile."""
    if signal is None:
        await asyncio.sleep(seconds)
        return True
    if signal.aborted:
        return False
    try:
        await asyncio.wait_for(signal.wait(), seconds)
    except TimeoutError:
        return True
    return False


# ── options ────────────────────────────────────────────────────────────────────────────────────


def _delay(option: str, value: Any, *, function: bool = True) -> Any:
    """A delay as it was given: any number, for those that are no time to wait are none."""
    if function and callable(value):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    kinds = "a number of milliseconds" + (", or a function that gives one" if function else "")
    raise OptionError(f"{_OWNER}: {option} must be {kinds}, not {type(value).__name__}")


def _matchers(given: Any, own: _Policy) -> list[tuple[Predicate, _Policy]]:
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        kind = type(cast("Any", given)).__name__
        raise OptionError(f"{_OWNER}: matchers must be a list, not {kind}")
    entries = list(cast("Iterable[Any]", given))
    return [_matcher(entry, f"matchers[{place}]", own) for place, entry in enumerate(entries)]


def _matcher(entry: Any, where: str, own: _Policy) -> tuple[Predicate, _Policy]:
    if callable(entry):
        return cast("Predicate", entry), own
    if not isinstance(entry, Mapping):
        kind = type(entry).__name__
        raise OptionError(
            f"{_OWNER}: {where} must be a predicate, or a mapping with 'match', not {kind}"
        )
    options = cast("Mapping[str, Any]", entry)
    known = RetryMatcher.__annotations__
    for name in options:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f": it takes {', '.join(known)}"
            raise OptionError(f"{_OWNER}: {where} has an unknown key {name!r}{hint}")
    match = callback(_OWNER, f"{where}: match", options.get("match"))
    if match is None:
        raise OptionError(f"{_OWNER}: {where} needs 'match', a predicate of an error")
    policy = _Policy(
        whole(_OWNER, f"{where}: max_retries", options.get("max_retries", own.max_retries)),
        _delay(f"{where}: delay_ms", options.get("delay_ms", own.delay_ms)),
        callback(_OWNER, f"{where}: on_retry", options.get("on_retry")),
    )
    return match, policy
