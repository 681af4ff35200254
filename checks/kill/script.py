"""What each turn asks, calls and answers: all of it follows from the turn's name."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from procession import Agent, tool
from procession.testing import ScriptedModel, answer, tool_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from procession.memory import Memory

__all__ = ["Outcome", "Turn", "agent_for"]

Outcome = Literal["accepted", "blocked", "stopped", "waiting"]


class Turn(NamedTuple):
    """A turn of a conversation, by a name that no other has."""

    name: str
    thread: str
    outcome: Outcome
    steps: tuple[int, ...]
    """How many calls each step makes before the answer."""

    @classmethod
    def of(cls, thread: str, name: str) -> Turn:
        """The turn of this name."""
        dice = random.Random(name)
        kinds: Sequence[Outcome] = ("accepted", "blocked", "stopped", "waiting")
        (outcome,) = dice.choices(kinds, (8, 1, 1, 1))
        steps = tuple(dice.randint(1, 3) for _ in range(dice.randint(0, 2)))
        return cls(name, thread, outcome, (1,) if outcome == "waiting" else steps)

    @property
    def question(self) -> str:
        """What the user says."""
        return f"question {self.name}"

    @property
    def answer(self) -> str:
        """What the model says in the end."""
        return f"answer {self.name}"

    @property
    def calls(self) -> list[str]:
        """The ids of all calls, in order."""
        numbers = (f"{step}.{call}" for step, many in enumerate(self.steps) for call in range(many))
        return [f"{self.name}/{number}" for number in numbers]

    def answers(self) -> list[Any]:
        """What the model plays."""
        ids, name = iter(self.calls), "pay" if self.outcome == "waiting" else "look"
        steps = [
            answer(
                tool_calls=[tool_call(name, {"name": self.name}, id=next(ids)) for _ in range(n)]
            )
            for n in self.steps
        ]
        return [*steps, self.answer]


@tool
async def look(name: str) -> str:
    """Look something up."""
    return f"found {name}"


@tool(require_approval=True)
async def pay(name: str) -> str:
    """Pay for something."""
    return f"paid {name}"


class Refuses:
    """A processor that blocks every answer."""

    id = "refuses"

    def process_output_result(self, args: Any) -> None:
        """Not this one."""
        args.abort("not this one")


def agent_for(turn: Turn, memory: Memory, *, answers: list[Any] | None = None) -> Agent:
    """The agent that does a turn, or goes on with one."""
    model = ScriptedModel(answers or turn.answers(), batch=4)
    guards = [Refuses()] if turn.outcome == "blocked" else []
    return Agent(id="desk", model=model, tools=[look, pay], memory=memory, output_processors=guards)
