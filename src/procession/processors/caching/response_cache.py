"""`ResponseCache`: an answer that was given before is given again, without the model (C-001)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import UNSET, UnsetType

from ...engine.choices import copied
from ...errors import InputError, KindError, OptionError
from ...processor import ProcessLLMRequestResult
from ...request_context import MASTRA_RESOURCE_ID_KEY, RequestContext
from ..builtin import BuiltIn
from ..option_checks import flag, number, text_or_none
from .cache_entries import Pending, entry_of, form_of, read_entry, take
from .cache_keys import CacheKeyInputs, build_response_cache_key, model_of
from .cache_overrides import RESPONSE_CACHE_CONTEXT_KEY, Key, Overrides, checked_key, overrides_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...ending import RunEnded
    from ...policy import Policy
    from ...processor import CachedLLMStepResponse, ProcessLLMRequestArgs, ProcessLLMResponseArgs

__all__ = ["DEFAULT_RESPONSE_CACHE_TTL_SECONDS", "CacheOfResponses", "ResponseCache"]

_log = logging.getLogger("procession.processors")

DEFAULT_RESPONSE_CACHE_TTL_SECONDS = 300
_OWNER = "ResponseCache"


class CacheOfResponses(Protocol):
    """What `ResponseCache` needs of a cache; both methods may be plain or async (C-112).

    Plain ones must not wait for anything. `ttl_ms` is in milliseconds, 0 is for ever.
    """

    def get(self, key: str, /) -> Any:
        """The value under `key`, or `None`."""
        ...

    def set(self, key: str, value: Any, ttl_ms: int, /) -> Any:
        """Keep a value, which is JSON data."""
        ...


class ResponseCache(BuiltIn):
    """Gives the answer of the model again when the same is asked, step by step (C-001 to C-005).

    It stands among the input processors; what those before it did to the prompt is part of the key,
    what those behind it do is not. A replayed answer is a stream like any other: it passes all
    output processors, and tools whose results are known are not run again. What was kept is what
    the model said, before any processor, and only of runs that ended well.

    `cache` is where answers are kept: a `ServerCache`, or any object with `get` and `set`; `None`
    turns all of this off. `ttl` is how long, in seconds; 0 or less is for ever, `None` leaves it to
    the cache. `scope` is who shares entries: by itself the resource of the request, so that nobody
    is given another one's answer; `None` shares with all. `key` takes the place of the derived key:
    a text, or a plain or async function of `CacheKeyInputs`; a function that fails counts as none.
    `bust` never reads, and writes all the same. `agent_id` is part of the key.

    A cache that fails, answers nothing within `timeout` seconds or gives what is no response is
    passed by: the model is asked, and `policy_events` tell.

    Raises `OptionError` for options that cannot work.
    """

    fixed_id = "response-cache"
    name = "Response Cache"
    description = "Gives answers again that were given before."

    def __init__(
        self,
        *,
        cache: CacheOfResponses | UnsetType | None = UNSET,
        ttl: float | None = DEFAULT_RESPONSE_CACHE_TTL_SECONDS,
        scope: str | UnsetType | None = UNSET,
        key: Key | None = None,
        bust: bool = False,
        agent_id: str = "agent",
        timeout: float = 2.0,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(policy=policy)
        if cache is UNSET:
            raise KindError(f"{_OWNER} needs the option 'cache'; cache=None keeps nothing")
        self.ttl = ttl if ttl is None else number(_OWNER, "ttl", ttl, least=float("-inf"))
        self.scope = scope if scope is UNSET else text_or_none(_OWNER, "scope", scope)
        self.key = checked_key(key)
        self.bust = flag(_OWNER, "bust", bust)
        self.agent_id = text_or_none(_OWNER, "agent_id", agent_id) or ""
        self.timeout = number(_OWNER, "timeout", timeout, least=0.001)
        self.cache = _checked(cache, with_ttl=ttl is not None)
        self._slot = f"__{self.id}:{id(self):x}"

    # ── one call's own wishes ──────────────────────────────────────────────────────────────────

    @staticmethod
    def context(
        *,
        key: Key | UnsetType | None = UNSET,
        scope: str | UnsetType | None = UNSET,
        bust: bool | UnsetType = UNSET,
    ) -> RequestContext:
        """A new request context with what one call wants otherwise (C-020)."""
        return ResponseCache.apply_context(RequestContext(), key=key, scope=scope, bust=bust)

    @staticmethod
    def apply_context(
        context: RequestContext,
        *,
        key: Key | UnsetType | None = UNSET,
        scope: str | UnsetType | None = UNSET,
        bust: bool | UnsetType = UNSET,
    ) -> RequestContext:
        """Put it into a context that is there, in place of what was put there before (C-021).

        Returns the same context. Raises `OptionError` for a wrong kind of value.
        """
        context.set(RESPONSE_CACHE_CONTEXT_KEY, Overrides(key=key, scope=scope, bust=bust))
        return context

    # ── hooks ──────────────────────────────────────────────────────────────────────────────────

    async def process_llm_request(
        self, args: ProcessLLMRequestArgs
    ) -> ProcessLLMRequestResult | None:
        """Look the request up; a hit stands in for the model (C-060)."""
        if self.cache is None:
            return None
        pending: dict[str, Pending] = args.state.setdefault(self._slot, {})
        pending.pop(str(args.step_number), None)  # of an attempt that was rejected (C-091)
        wishes = overrides_in(args.request_context)
        key = await self._key(args, wishes)
        form = form_of(args.response_format)
        if not (self.bust if wishes.bust is UNSET else wishes.bust):
            response = await self._look_up(args, key, form)
            if response is not None:
                return ProcessLLMRequestResult(response=response)
        waits = Pending(key=key, form=form, entry={}, calls=[], results={})
        pending[str(args.step_number)] = waits
        return None

    def process_llm_response(self, args: ProcessLLMResponseArgs) -> None:
        """Note what the model said; it is written when the run has ended well (C-090, C-091)."""
        pending = args.state.get(self._slot, {}).get(str(args.step_number))
        if pending is not None and not args.from_cache:
            take(pending, args)

    async def run_ended(self, ending: RunEnded) -> None:
        """Write what the run has come to, if it has ended well."""
        if ending.status == "suspended":
            return  # it goes on
        pending: dict[str, Pending] = ending.state.pop(self._slot, {})
        if ending.status != "success":
            return
        for response in pending.values():
            entry = entry_of(response)
            if entry is None:
                continue
            try:
                await self._write(response["key"], entry)
            except Exception as error:
                self._tell(ending, "run_ended", error, "could not be written")
                return

    # ── the key ────────────────────────────────────────────────────────────────────────────────

    async def _key(self, args: ProcessLLMRequestArgs, wishes: Overrides) -> str:
        key = self.key if wishes.key is UNSET else wishes.key
        if isinstance(key, str):
            return f"{key}:{args.step_number}" if args.step_number else key
        inputs = CacheKeyInputs(
            agent_id=self.agent_id,
            scope=self._scope(args.request_context, wishes),
            model=model_of(args.model),
            prompt=args.prompt,
            step_number=args.step_number,
        )
        made = None if key is None else await self._made(args, key, inputs)
        return made or build_response_cache_key(inputs)

    async def _made(
        self, args: ProcessLLMRequestArgs, key: Callable[..., Any], inputs: CacheKeyInputs
    ) -> str | None:
        """What a key function gives; `None`: nothing of use (C-048)."""
        try:
            made = key(inputs.replace(prompt=copied(inputs.prompt)))
            if inspect.isawaitable(made):
                made = await made
            if not isinstance(made, str) or not made:
                raise InputError("a key function must return a text that is not empty")
        except Exception as error:
            self._tell(args, "process_llm_request", error, "gave no key: the derived one is used")
            return None
        return made

    def _scope(self, context: RequestContext, wishes: Overrides) -> str | None:
        for scope in (wishes.scope, self.scope):
            if scope is not UNSET:
                return scope
        return context.get(MASTRA_RESOURCE_ID_KEY)

    # ── the cache ──────────────────────────────────────────────────────────────────────────────

    async def _look_up(
        self, args: ProcessLLMRequestArgs, key: str, form: str | None
    ) -> CachedLLMStepResponse | None:
        assert self.cache is not None
        try:
            found = await self._answer(self.cache.get, key)
            return None if found is None else read_entry(found, form)
        except Exception as error:
            self._tell(args, "process_llm_request", error, "could not be read: the model is asked")
            return None

    async def _write(self, key: str, entry: dict[str, Any]) -> None:
        assert self.cache is not None
        if self.ttl is None:
            await self._answer(self.cache.set, key, entry)
        else:
            await self._answer(self.cache.set, key, entry, max(int(self.ttl * 1000), 0))

    async def _answer(self, ask: Callable[..., Any], *given: Any) -> Any:
        answer = ask(*given)
        if not inspect.isawaitable(answer):
            return answer
        async with asyncio.timeout(self.timeout):
            return await answer

    def _tell(
        self, told: ProcessLLMRequestArgs | RunEnded, hook: str, error: Exception, what: str
    ) -> None:
        kind = type(error).__name__  # its words may hold a key, or a part of what was asked
        warned = f"{self._slot}:warned"
        if warned not in told.state:
            told.state[warned] = True
            _log.warning("%s: the cache %s (%s)", _OWNER, what, kind)
        told.note_failure(self.id, hook, "bypassed", kind)


def _checked(cache: Any, *, with_ttl: bool) -> CacheOfResponses | None:
    """`cache`, which must have `get` and `set` as they are called; else `OptionError`."""
    if cache is None:
        return None
    given: dict[str, list[Any]] = {"get": ["key"], "set": ["key", {}, 0][: 3 if with_ttl else 2]}
    for name, values in given.items():
        method = getattr(cache, name, None)
        if isinstance(cache, type) or not callable(method):
            raise OptionError(f"{_OWNER}: cache must be an object with get(key) and set(key, …)")
        try:
            inspect.signature(method).bind(*values)
        except TypeError:
            raise OptionError(
                f"{_OWNER}: cache must have get(key) and set(key, value, ttl_ms), to be called "
                f"like that; without ttl_ms give ttl=None"
            ) from None
        except ValueError:  # it is written in C, and says nothing of what it takes
            continue
    return cache
