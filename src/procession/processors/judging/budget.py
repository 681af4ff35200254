"""What a judge may cost in one run."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ...errors import OptionError
from ...keywords import TakesOptions
from ..costs.cost_options import is_limit
from ..costs.costs import Prices
from ..option_checks import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...chunks import Usage
    from ..costs.costs import ModelPrice

__all__ = ["BudgetSpent", "JudgeBudget", "SpentBudget", "counting"]

_NAME = "JudgeBudget"


class BudgetSpent(Exception):
    """A judge is not asked: what it may cost in this run is spent."""


class JudgeBudget(TakesOptions):
    """What the calls of one judge may come to in one run; asked before each call.

    - `max_cost`: in US dollars. `prices` are an application's own, as an `InMemoryCostStore` takes
      them; others come with the extra `costs`. A model without a price counts as free.
    - `max_tokens`: in tokens, read and written, whatever they cost.

    A limit that is reached by a call holds from the next one on; calls that are under way at the
    same time go on. What an answer has used that was cut off is estimated. Raises `OptionError` for
    a limit that is none, and for `max_cost` where no price can be known.
    """

    def __init__(
        self,
        *,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        prices: Prices | Mapping[str, ModelPrice | Mapping[str, float]] | None = None,
    ) -> None:
        if max_cost is None and max_tokens is None:
            raise OptionError(f"{_NAME}: give max_cost, max_tokens, or both")
        if max_cost is not None and not is_limit(max_cost):
            raise OptionError(f"{_NAME}: max_cost must be a number above 0, in US dollars")
        if max_tokens is not None:
            whole(_NAME, "max_tokens", max_tokens, least=1)
        if max_cost is not None and not prices and find_spec("genai_prices") is None:
            raise OptionError(
                f"{_NAME}: max_cost needs prices: install the extra 'costs' "
                "(pip install 'procession[costs]'), give prices=…, or give max_tokens instead"
            )
        self.max_cost = max_cost
        self.max_tokens = max_tokens
        self.prices = prices if isinstance(prices, Prices) else Prices(prices)


class SpentBudget:
    """The budget of one judge, and what of it is spent in each run."""

    def __init__(self, budget: JudgeBudget) -> None:
        self._budget = budget
        # The state is shared by all that have the same id.
        self._key = f"__judge-spent-{id(self):x}"

    @classmethod
    def of(cls, owner: str, given: Any) -> SpentBudget | None:
        """A judge's `max_cost`: US dollars, or a `JudgeBudget`; raises `OptionError`."""
        if given is None:
            return None
        if isinstance(given, JudgeBudget):
            return cls(given)
        if not is_limit(given):
            raise OptionError(
                f"{owner}: max_cost must be a number above 0, in US dollars, or a JudgeBudget"
            )
        try:
            return cls(JudgeBudget(max_cost=given))
        except OptionError as error:
            raise OptionError(f"{owner}: {error}") from None

    def check(self, state: dict[str, Any]) -> None:
        """Raise `BudgetSpent` when no other call may be made in a run."""
        spent, budget = self._spent(state), self._budget
        if budget.max_cost is not None and spent.cost >= budget.max_cost:
            raise BudgetSpent(f"{spent.cost:.6f} of {budget.max_cost:g} US dollars are spent")
        if budget.max_tokens is not None and spent.tokens >= budget.max_tokens:
            raise BudgetSpent(f"{spent.tokens} of {budget.max_tokens} tokens are spent")

    def add(self, state: dict[str, Any], usage: Usage, model: Any) -> None:
        """A call was made."""
        spent = self._spent(state)
        spent.tokens += usage.total_tokens or (usage.input_tokens or 0) + (usage.output_tokens or 0)
        if self._budget.max_cost is not None:
            names = getattr(model, "provider", ""), getattr(model, "model_id", "")
            spent.cost += self._budget.prices.cost(*names, usage) or 0.0

    def _spent(self, state: dict[str, Any]) -> _Spent:
        found = state.get(self._key)
        if found is None:
            found = state[self._key] = _Spent()
        return found


def counting(args: Any, model: Any, budget: SpentBudget | None) -> Callable[[Usage], None]:
    """What is to be told of the tokens of a judge's call: the run, and the judge's budget."""
    state = args.state

    def count(usage: Usage) -> None:
        args.count_usage(usage, model=model)
        if budget is not None:
            budget.add(state, usage, model)

    return count


class _Spent:
    """What a judge has spent in a run."""

    __slots__ = ("cost", "tokens")

    def __init__(self) -> None:
        self.cost, self.tokens = 0.0, 0
