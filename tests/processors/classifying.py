"""What the tests of classifiers have in common: evaluation models of our own, and a small one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from procession.processors import Classifier, EvaluationRequest, EvaluationResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from procession.chunks import Usage


class Evaluates:
    """An evaluation model whose answers follow from the state; it keeps what it was asked.

    `answers` makes them of a state; an exception among them is raised.
    """

    def __init__(self, answers: Callable[[Any], Any], usage: Usage | None = None) -> None:
        self.answers = answers
        self.usage = usage
        self.requests: list[EvaluationRequest] = []
        self.answering = asyncio.Event()
        """Set when the first answer is there."""

    @property
    def states(self) -> list[Any]:
        return [request.state for request in self.requests]

    async def evaluate(self, request: EvaluationRequest) -> EvaluationResponse:
        self.requests.append(request)
        await asyncio.sleep(0)
        self.answering.set()
        answers = self.answers(request.state)
        if isinstance(answers, Exception):
            raise answers
        return EvaluationResponse(answers=answers, usage=self.usage)


class Hangs:
    """An evaluation model that never answers; it knows how many wait for it."""

    def __init__(self) -> None:
        self.open = 0
        self.asked = asyncio.Event()

    async def evaluate(self, request: EvaluationRequest) -> EvaluationResponse:
        self.open += 1
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.open -= 1
        raise AssertionError


def sure(probability: float) -> dict[str, Any]:
    """An answer to a boolean question."""
    return {"type": "boolean", "probability": probability}


def is_bad(state: Any) -> dict[str, Any]:
    """Answers whether a text holds the word."""
    return {"bad": sure(0.9 if "bad" in state else 0.1)}


def badness(model: Any) -> Classifier:
    """A classifier with one boolean question, `bad`."""
    return Classifier("badness", model, {"bad": {"type": "boolean"}})
