"""Policies of processors."""

from typing import assert_type

from procession import (
    Agent,
    Breaker,
    Policy,
    PolicyEvent,
    Processor,
    ProcessOutputStepArgs,
    processor,
)
from procession.processors import UnicodeNormalizer

words = processor(id="words", process_output_step=lambda args: None)
policy = Policy(
    timeout=2, on_error="degrade", fallback=words, breaker=Breaker(failures=3, seconds=10)
)
Policy(on_error="ignore")  # type: ignore[arg-type]
Policy(2)  # type: ignore[call-arg]


class Judge(Processor):
    id = "judge"
    policy = Policy(observe=True)

    def process_output_step(self, args: ProcessOutputStepArgs) -> None: ...


watched = UnicodeNormalizer(policy=Policy(observe=True))
judge = processor(id="judge", process_output_step=lambda args: None, policy=policy)
processor(id="judge", process_output_step=lambda args: None, policy="allow")  # type: ignore[arg-type]
agent = Agent(id="a", input_processors=[watched], output_processors=[judge, Judge()])


async def main() -> None:
    result = await agent.generate("Hello")
    assert_type(result.policy_events, list[PolicyEvent])
    run = await agent.stream("Hello")
    assert_type(run.policy_events, list[PolicyEvent])
    assert_type(run.policy_events[0].would, str | None)
