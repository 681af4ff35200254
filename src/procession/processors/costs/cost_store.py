"""What calls of models have cost, kept in memory, by run, resource, user … (B-271, B-279)."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ...keywords import TakesOptions
from ..option_checks import whole
from .costs import Prices, used_by

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ...results import ModelCall
    from .costs import ModelPrice

__all__ = [
    "CostQuery",
    "CostShare",
    "CostStore",
    "CostTotal",
    "InMemoryCostStore",
    "default_cost_store",
]

_log = logging.getLogger("procession.processors")

_NANO = 1_000_000_000
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_SPANS = ((_DAY + _HOUR, _MINUTE), (32 * _DAY, _HOUR), (366 * _DAY, _DAY))
"""Up to which age what was spent is known how exactly, in seconds; what is older is forgotten."""
_MOST_BUCKETS = 512
_IDS_KEPT = 4096


class CostQuery(Struct, frozen=True, kw_only=True):
    """Whose cost is asked for: `scope` is `run`, `thread`, `resource`, `user`, `organization` or
    `session`, `scope_id` its id. `since` is where the time window begins; `None` for a run.
    """

    scope: str
    scope_id: str
    since: datetime | None = None


class CostTotal(Struct, frozen=True, kw_only=True):
    """A sum of costs."""

    estimated_cost: float
    cost_unit: str = "usd"


class CostShare(Struct, frozen=True, kw_only=True):
    """What one model has cost of a sum."""

    provider: str
    model: str
    estimated_cost: float
    cost_unit: str = "usd"


class CostStore(Protocol):
    """Where costs are asked for; both methods may be plain or async.

    A store that has `record(call, scopes)` as well, plain and quick, is told by each guard of the
    calls in its runs: `call` is a `ModelCall`, `scopes` gives an id for each scope that has one.
    A call may be told more than once: `call.id` tells it from others.
    """

    def get_metric_aggregate(
        self, query: CostQuery, /
    ) -> CostTotal | Mapping[str, Any] | float | Awaitable[Any] | None:
        """The cost of a scope; `None` when nothing is known of it."""
        ...

    def get_metric_breakdown(
        self, query: CostQuery, /
    ) -> Sequence[CostShare | Mapping[str, Any]] | Awaitable[Any]:
        """The same by provider and model, the dearest first."""
        ...


class _Bucket:
    """What was spent in a span of time, in billionths of a dollar, which add up exactly."""

    __slots__ = ("models", "span", "start")

    def __init__(self, start: int, span: int) -> None:
        self.start, self.span = start, span
        self.models: dict[tuple[str, str], int] = {}

    def add(self, model: tuple[str, str], nano: int) -> None:
        self.models[model] = self.models.get(model, 0) + nano


class _Account:
    """What one scope has spent: buckets by time, finer where they are young."""

    __slots__ = ("_most", "buckets")

    def __init__(self) -> None:
        self.buckets: list[_Bucket] = []
        self._most = _MOST_BUCKETS

    def add(self, model: tuple[str, str], nano: int, now: float) -> None:
        start = int(now) // _MINUTE * _MINUTE
        if not self.buckets or self.buckets[-1].start != start:
            self.buckets.append(_Bucket(start, _MINUTE))
        self.buckets[-1].add(model, nano)
        if len(self.buckets) > self._most:
            self._compact(now)

    def _compact(self, now: float) -> None:
        made: list[_Bucket] = []
        for bucket in self.buckets:
            age = now - bucket.start
            span = next((span for until, span in _SPANS if age < until), None)
            if span is None:
                continue
            span = max(span, bucket.span)
            start = bucket.start // span * span
            if not made or made[-1].start != start:
                made.append(_Bucket(start, span))
            for model, nano in bucket.models.items():
                made[-1].add(model, nano)
        self.buckets = made
        self._most = max(_MOST_BUCKETS, 2 * len(made))

    def since(self, moment: float | None) -> dict[tuple[str, str], int]:
        """By model. A bucket that began before `moment` and ended after it counts as a whole."""
        found: dict[tuple[str, str], int] = {}
        for bucket in reversed(self.buckets):
            if moment is not None and bucket.start + bucket.span <= moment:
                break
            for model, nano in bucket.models.items():
                found[model] = found.get(model, 0) + nano
        return found


class InMemoryCostStore(TakesOptions):
    """Costs in memory, for one process. `prices` are an application's own, by model.

    Minutes are told apart for a day, then hours for a month, then days for a year. At most
    `max_entries` such spans are kept in all; then those who have not spent for longest are
    forgotten. It may be used from several threads.
    """

    def __init__(
        self,
        *,
        prices: Prices | Mapping[str, ModelPrice | Mapping[str, float]] | None = None,
        max_entries: int = 100_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.prices = prices if isinstance(prices, Prices) else Prices(prices)
        self._most = whole("InMemoryCostStore", "max_entries", max_entries, least=1)
        self._clock = clock
        self._lock = Lock()
        self._accounts: OrderedDict[tuple[str, str], _Account] = OrderedDict()
        self._runs: OrderedDict[tuple[str, str], _Account] = OrderedDict()
        self._count = 0
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._told = False

    def record(self, call: ModelCall, scopes: Mapping[str, str]) -> None:
        """Note a call that is over, once however often it is told; a replayed one is free."""
        if call.from_cache or not call.answered:
            return
        cost = self.prices.cost(call.provider, call.model_id, used_by(call))
        nano = round((cost or 0.0) * _NANO)
        if not nano:
            return
        with self._lock:
            if call.id in self._ids:
                return
            self._ids[call.id] = None
            if len(self._ids) > _IDS_KEPT:
                self._ids.popitem(last=False)
            for scope, id in scopes.items():
                self._add((scope, id), (call.provider, call.model_id), nano)
            self._forget()

    def _add(self, key: tuple[str, str], model: tuple[str, str], nano: int) -> None:
        # Runs come and go: they must not push those out whose costs are limited.
        accounts = self._runs if key[0] == "run" else self._accounts
        account = accounts.get(key)
        if account is None:
            account = accounts[key] = _Account()
        accounts.move_to_end(key)
        before = len(account.buckets)
        account.add(model, nano, self._clock())
        if accounts is self._accounts:
            self._count += len(account.buckets) - before

    def _forget(self) -> None:
        while len(self._runs) > self._most:
            self._runs.popitem(last=False)
        while self._count > self._most and len(self._accounts) > 1:
            _, account = self._accounts.popitem(last=False)
            self._count -= len(account.buckets)
            if not self._told:
                self._told = True
                _log.warning(
                    "the cost store is full (%d entries): what those have spent who have not "
                    "spent for longest is forgotten; raise max_entries, or keep costs elsewhere",
                    self._most,
                )

    def get_metric_aggregate(self, query: CostQuery, /) -> CostTotal:
        """The cost of a scope; 0 for one that nothing is known of."""
        return CostTotal(estimated_cost=sum(self._found(query).values()) / _NANO)

    def get_metric_breakdown(self, query: CostQuery, /) -> list[CostShare]:
        """The same by provider and model, the dearest first."""
        found = sorted(self._found(query).items(), key=lambda item: -item[1])
        return [
            CostShare(provider=provider, model=model, estimated_cost=nano / _NANO)
            for (provider, model), nano in found
        ]

    def _found(self, query: CostQuery) -> dict[tuple[str, str], int]:
        key = query.scope, query.scope_id
        since = query.since.timestamp() if query.since is not None else None
        with self._lock:
            account = (self._runs if query.scope == "run" else self._accounts).get(key)
            return account.since(since) if account is not None else {}

    def now(self) -> datetime:
        """The store's own time."""
        return datetime.fromtimestamp(self._clock(), UTC)


_default: list[InMemoryCostStore] = []


def default_cost_store() -> InMemoryCostStore:
    """The store of all guards that were given none: one for the process."""
    if not _default:
        _default.append(InMemoryCostStore())
    return _default[0]
