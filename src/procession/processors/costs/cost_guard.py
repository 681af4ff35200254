"""`CostGuardProcessor`: no call of a model beyond a budget (B-270 to B-279)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, cast

from ...errors import OptionError
from ..builtin import BuiltIn
from ..option_checks import flag, one_of
from .cost_options import NAME, WINDOWS, is_limit, percent, template, window_of
from .cost_scope import SCOPES, ids_of, why_missing
from .cost_store import CostQuery, default_cost_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...policy import Policy
    from ...processor import ProcessInputArgs, ProcessInputStepArgs, ProcessorViolation
    from ...request_context import RequestContext
    from ...results import ModelCall
    from .cost_store import CostStore

__all__ = ["CostGuardProcessor", "TokenCostControl"]

_log = logging.getLogger("procession.processors")

_HARD = "Cost limit reached: {usage} of {limit} US dollars are spent."
_SOFT = "Cost limit near: {usage} of {limit} US dollars are spent."
_MOST_SHARES = 10

Scope = Literal["run", "resource", "thread", "user", "organization", "session"]


class CostGuardProcessor(BuiltIn):
    """Asks before each call of a model what was spent, and stops where a budget is used up.

    `max_cost` is in US dollars: a number, or a function of the request context, plain or async,
    that gives one. `scope` is whose cost counts, in the last `window`: what the `resource`, the
    `thread`, the `user`, `organization` or `session` of the request context has spent, or the
    `run` itself. The window is `7d` unless given; a run has none.

    `on_unknown` is what becomes of a call when the request has no such id, the function gives no
    limit, or the store fails: `"allow"` makes it, with a warning in the log (for missing ids once),
    `"block"` ends the run.

    `strategy="block"` ends the run, `"warn"` tells `on_violation`, once a run. So does reaching
    `warn_at_percent` of the limit, with either strategy. `message` is the reason; `{usage}` and
    `{limit}` in it are filled in. `include_breakdown` adds what each model has cost.

    Costs are kept in `store`, by default in the memory of this process, where the guard notes each
    call of its runs itself, also those whose answer was rejected. Raises `OptionError`, a
    `ValueError`, for options that it does not know.
    """

    fixed_id = "token-cost-control"
    name = "Cost guard"
    description = "Stops calls of models when a budget is used up."

    def __init__(
        self,
        *,
        max_cost: float | Callable[[RequestContext], Any],
        scope: Scope = "resource",
        window: Literal["1h", "6h", "24h", "7d", "30d", "365d"] | None = None,
        strategy: Literal["block", "warn"] = "block",
        message: str | None = None,
        warn_at_percent: float | None = None,
        include_breakdown: bool = False,
        on_unknown: Literal["allow", "block"] = "allow",
        store: CostStore | None = None,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=on_violation, policy=policy)
        if not callable(max_cost) and not is_limit(max_cost):
            raise OptionError(
                f"{NAME}: max_cost must be a number above 0, in US dollars, "
                f"or a function of the request context that gives one"
            )
        self.max_cost = max_cost
        self.scope = one_of(NAME, "scope", scope, SCOPES)
        self.window = window_of(window, self.scope)
        self._warns = one_of(NAME, "strategy", strategy, ("block", "warn")) == "warn"
        self._message = template(message)
        self._soft = percent(warn_at_percent)
        choices = ("allow", "block")
        self._blocks_unknown = one_of(NAME, "on_unknown", on_unknown, choices) == "block"
        self._told_missing = False
        self._breakdown = flag(NAME, "include_breakdown", include_breakdown)
        if store is not None and not callable(getattr(store, "get_metric_aggregate", None)):
            raise OptionError(f"{NAME}: store must have get_metric_aggregate(query)")
        self.store: CostStore = default_cost_store() if store is None else store
        self._key = f"__{self.id}:{id(self):x}"

    def process_input(self, args: ProcessInputArgs) -> None:
        """From here on, calls that processors make of models of their own are noted (B-279)."""
        self._record(args)

    async def process_input_step(self, args: ProcessInputStepArgs) -> None:
        """Check the budget, before each call (B-271)."""
        scopes, record = self._record(args)
        if record is not None:
            args.on_model_call(record)
        scope_id = scopes.get(self.scope)
        if scope_id is None:
            self._tell_missing(args.request_context)
            return self._unknown(args, "scope_key")
        limit = await self._limit(args.request_context)
        if limit is None:
            return self._unknown(args, "limit")
        query = self._query(scope_id)
        spent = await self._spent(query)
        if spent is None:
            return self._unknown(args, "usage")
        if spent[0] >= limit:
            await self._reached(args, query, spent, limit)
        elif self._soft is not None and spent[0] >= limit * self._soft:
            detail = await self._detail(query, spent, limit, "soft")
            await self._warn(args, "soft", _filled(_SOFT, spent[0], limit), detail)
        return None

    def _record(self, args: ProcessInputArgs | ProcessInputStepArgs) -> tuple[dict[str, str], Any]:
        """The ids of a request, and what notes a call in the store, which is told of those that
        processors make."""
        scopes = ids_of(args)
        record: Any = getattr(self.store, "record", None)
        if record is None:
            return scopes, None

        def note(call: ModelCall) -> object:
            return record(call, scopes)

        args.on_processor_call(self._key, note)
        return scopes, note

    async def _reached(
        self, args: ProcessInputStepArgs, query: CostQuery, spent: tuple[float, str], limit: float
    ) -> None:
        reason = _filled(self._message or _HARD, spent[0], limit)
        if self._warns:
            await self._warn(args, "hard", reason, await self._detail(query, spent, limit, "hard"))
            return
        metadata = {
            "processor_id": self.id,
            "usage": {"estimated_cost": spent[0], "cost_unit": spent[1]},
            "max_cost": limit,
            **self._of_scope(query, "hard"),
            **await self._shares(query),
        }
        args.abort(reason, metadata=metadata)

    async def _warn(
        self, args: ProcessInputStepArgs, level: str, message: str, detail: dict[str, Any]
    ) -> None:
        """Once a run and level (B-276); each instance for itself (B-278)."""
        told: set[str] = args.state.setdefault(self._key, set())
        if level in told:
            return
        told.add(level)
        _log.warning("%s: %s", self.id, message)
        telling = self.report(message, detail)
        if telling is not None:
            await telling

    async def _detail(
        self, query: CostQuery, spent: tuple[float, str], limit: float, level: str
    ) -> dict[str, Any]:
        return {
            "usage": spent[0],
            "limit": limit,
            "total_usage": {"estimated_cost": spent[0], "cost_unit": spent[1]},
            **self._of_scope(query, level),
            **await self._shares(query),
        }

    def _of_scope(self, query: CostQuery, level: str) -> dict[str, Any]:
        facts = {"scope": self.scope, "threshold": level}
        if self.scope != "run":
            facts["scope_key"] = f"{self.scope}:{query.scope_id}"
        return facts

    # ── what is asked ──────────────────────────────────────────────────────────────────────────

    async def _limit(self, context: RequestContext) -> float | None:
        """The limit of this request; `None` when there is none to go by (B-273)."""
        if not callable(self.max_cost):
            return self.max_cost
        try:
            limit = self.max_cost(context)
            limit = await limit if inspect.isawaitable(limit) else limit
        except Exception as error:
            self._skipped(f"max_cost raised {type(error).__name__}")
            return None
        if not is_limit(limit):
            self._skipped("max_cost gave no number above 0")
            return None
        return float(limit)

    def _query(self, scope_id: str) -> CostQuery:
        if self.scope == "run":
            return CostQuery(scope=self.scope, scope_id=scope_id)
        now: Any = getattr(self.store, "now", None)
        moment = cast("datetime", now()) if callable(now) else datetime.now(UTC)
        since = moment - WINDOWS[self.window]
        return CostQuery(scope=self.scope, scope_id=scope_id, since=since)

    async def _spent(self, query: CostQuery) -> tuple[float, str] | None:
        """Cost and unit; `None` when the store does not tell (B-273)."""
        try:
            found: Any = self.store.get_metric_aggregate(query)
            found = await found if inspect.isawaitable(found) else found
            return _cost_in(found)
        except Exception as error:
            self._skipped(f"the cost store raised {type(error).__name__}")
            return None

    async def _shares(self, query: CostQuery) -> dict[str, Any]:
        """What each model has cost, where that is wanted and known (B-277)."""
        if not self._breakdown:
            return {}
        try:
            found: Any = self.store.get_metric_breakdown(query)
            found = await found if inspect.isawaitable(found) else found
            return {"breakdown": [_share(entry) for entry in list(found)[:_MOST_SHARES]]}
        except Exception as error:
            _log.debug("%s: no breakdown: %s", self.id, type(error).__name__)
            return {}

    # ── what is not known ──────────────────────────────────────────────────────────────────────

    def _skipped(self, why: str) -> None:
        _log.warning("%s: %s, so the budget was not checked", self.id, why)

    def _tell_missing(self, context: RequestContext) -> None:
        """Say once that there are requests nobody's budget is checked for (B-273)."""
        if not self._told_missing:
            self._told_missing = True
            self._skipped(why_missing(self.scope, context))

    def _unknown(self, args: ProcessInputStepArgs, what: str) -> None:
        """The check cannot be made: for lack of an id, a limit, or an answer of the store."""
        if self._blocks_unknown:
            metadata = {"processor_id": self.id, "scope": self.scope, "unknown": what}
            args.abort("The budget cannot be checked.", metadata=metadata)


TokenCostControl = CostGuardProcessor


def _filled(template: str, usage: float, limit: float) -> str:
    return template.replace("{usage}", _number(usage)).replace("{limit}", _number(limit))


def _number(value: float) -> str:
    """At most six decimals (B-278)."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _read(found: Any, *names: str) -> Iterator[Any]:
    """What an answer of a store says under these names, whatever it is made of."""
    for name in names:
        if isinstance(found, Mapping):
            value = cast("Mapping[str, Any]", found).get(name)
        else:
            value = getattr(found, name, None)
        if value is not None:
            yield value


def _cost_in(found: Any) -> tuple[float, str]:
    """Cost and unit of a store's answer; no answer is no cost. Raises `TypeError` for another."""
    if found is None:
        return 0.0, "usd"
    if isinstance(found, int | float):
        cost: Any = found
    else:
        cost = next(_read(found, "estimated_cost", "estimatedCost", "cost", "value"), None)
    if not isinstance(cost, int | float) or not isfinite(cost):
        raise TypeError("a store gives a cost as estimated_cost")
    return cost, str(next(_read(found, "cost_unit", "costUnit"), "usd"))


def _share(entry: Any) -> dict[str, Any]:
    cost, unit = _cost_in(entry)
    return {
        "provider": next(_read(entry, "provider"), None),
        "model": next(_read(entry, "model"), None),
        "estimated_cost": cost,
        "cost_unit": unit,
    }
