"""The limits on tokens and costs, as type checkers see them."""

from procession import Agent, ModelConfig, RequestContext
from procession.messages import Message
from procession.processors import (
    CostGuardProcessor,
    CostQuery,
    CostTotal,
    InMemoryCostStore,
    ModelPrice,
    Prices,
    TokenLimiter,
    TokenLimiterProcessor,
    default_cost_store,
)


class Words:
    """Counts words."""

    def count_message(self, message: Message) -> int:
        """The words of a message."""
        return len(message.text.split())


class Ledger:
    """A store that waits."""

    async def get_metric_aggregate(self, query: CostQuery) -> CostTotal:
        """The sum."""
        return CostTotal(estimated_cost=len(query.scope_id))

    async def get_metric_breakdown(self, query: CostQuery) -> list[dict[str, object]]:
        """Nothing."""
        return [{"provider": query.scope}]


async def budget(context: RequestContext) -> float:
    """A limit that depends on the request."""
    return 5.0 if context.has("paying") else 0.5


limiter: TokenLimiterProcessor = TokenLimiter(127_000, trim_mode="contiguous")
counting = TokenLimiter(4000, token_counter=Words(), at_max_remove_tokens=500)
answers = TokenLimiter(300, strategy="abort", count_mode="part", encoding="o200k_base")
wrong = TokenLimiter(300, strategy="cut")  # type: ignore[arg-type] # no such one
most: int = limiter.get_max_tokens()

store = InMemoryCostStore(prices={"acme/small": ModelPrice(input=0.2, output=0.8)})
shared = InMemoryCostStore(prices=Prices({"small": {"input": 1, "output": 2}}), max_entries=10)
spent: float = store.get_metric_aggregate(CostQuery(scope="user", scope_id="u")).estimated_cost
default_cost_store().prices.set("acme/small", ModelPrice(input=0.2, output=0.8, cached_input=0.1))

guard = CostGuardProcessor(max_cost=10.0, scope="resource", window="30d", store=store)
dynamic = CostGuardProcessor(max_cost=budget, strategy="warn", store=Ledger())
badly = CostGuardProcessor(max_cost=1, window="2h")  # type: ignore[arg-type] # no such window
nothing = CostGuardProcessor()  # type: ignore[call-arg] # a limit is what it is for

agent = Agent(
    id="typed",
    model=ModelConfig(id="acme/small", url="https://llm.example.com/v1"),
    input_processors=[guard, dynamic, limiter, counting],
    output_processors=[answers],
)
