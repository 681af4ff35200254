"""`ModelSelectionProcessor`: who answers, and when it is the agent's own (B-530 to B-532)."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from procession import AbortController, Agent
from procession.chunks import Usage
from procession.processors import Classifier, ModelSelectionDecision, ModelSelectionProcessor
from procession.testing import ScriptedModel, answer, tool_call
from tests.laws.kit import echo
from tests.processors.classifying import Evaluates, Hangs, badness, sure
from tests.processors.judging import IMAGE, Remembers, user

SMALL, LARGE = "answer of the small", "answer of the large"
SIMPLE, HARD = "Short questions.", "Plans and proofs."


def models() -> tuple[ScriptedModel, ScriptedModel, ScriptedModel]:
    """The agent's own, a small and a large one."""
    return (
        ScriptedModel(["own"], model_id="own"),
        ScriptedModel([SMALL], model_id="small"),
        ScriptedModel([LARGE], model_id="large"),
    )


def chosen(name: str, probability: float | None = None, other: str = "large") -> dict[str, Any]:
    found: dict[str, Any] = {"type": "choice", "choice": name}
    if probability is not None:
        found["probabilities"] = {name: probability, other: 1 - probability}
    return {"model": found}


class Selecting:
    """An agent whose model is chosen, and what came of it."""

    def __init__(self, answers: Any = None, **options: Any) -> None:
        self.own, self.small, self.large = models()
        self.asked = Evaluates(answers or (lambda state: chosen("small")))
        self.decisions: list[ModelSelectionDecision] = []
        given: dict[str, Any] = {
            "choices": [
                {"model": self.small, "criteria": SIMPLE},
                {"model": self.large, "criteria": HARD},
            ],
            "model": self.asked,
            "on_decision": self.decisions.append,
            **options,
        }
        self.processor = ModelSelectionProcessor(**given)

    def agent(self, *before: Any, **options: Any) -> Agent:
        given: dict[str, Any] = {"model": self.own, **options}
        return Agent(id="a", input_processors=[*before, self.processor], **given)


# ── the choice ─────────────────────────────────────────────────────────────────────────────────


async def test_one_of_the_choices_answers() -> None:
    """B-530, B-532: by the criteria, and it is told once."""
    run = Selecting()
    assert (await run.agent().generate("hi")).text == SMALL
    assert (run.own.calls, run.large.calls) == ([], [])
    assert run.decisions == [ModelSelectionDecision(model=run.small, choice="small")]
    (request,) = run.asked.requests
    question: Any = request.questions["model"]
    assert request.state == "hi"
    assert question.criteria == {"small": SIMPLE, "large": HARD}
    assert question.instructions
    run = Selecting(lambda state: chosen("large", 0.8, "small"), instructions="Which?")
    assert (await run.agent().generate("hi")).text == LARGE
    assert run.decisions[0].probability == 0.8
    assert run.asked.requests[0].questions["model"].instructions == "Which?"


async def test_only_the_latest_message_of_the_user() -> None:
    """B-530: its text alone, whatever else there is, and no message is changed (B-532)."""
    run = Selecting()
    agent = run.agent(Remembers("earlier"), instructions="system text")
    given = ["first", {"role": "assistant", "content": "I said"}, user("the ", IMAGE, "last")]
    await agent.generate(given)
    assert run.asked.states == ["the \nlast"]
    prompt = run.small.calls[0].prompt
    assert [entry["role"] for entry in prompt] == ["system", "user", "user", "assistant", "user"]
    assert len(prompt[-1]["content"]) == 3


@pytest.mark.parametrize(("scope", "second"), [("run", "small"), ("first-step", "own")])
async def test_scope(scope: Any, second: str) -> None:
    """B-530: every step, or the first one; classified once for the request."""
    run = Selecting(scope=scope)
    asks = answer(tool_calls=[tool_call("echo", {"value": "x"})])
    run.small = ScriptedModel([asks, SMALL], model_id="small")
    run.processor = ModelSelectionProcessor(
        choices=[
            {"model": run.small, "criteria": SIMPLE},
            {"model": run.large, "criteria": HARD},
        ],
        model=run.asked,
        scope=scope,
        on_decision=run.decisions.append,
    )
    output = await run.agent(tools=[echo]).generate("hi")
    assert output.text == (SMALL if second == "small" else "own")
    assert [len(run.small.calls), len(run.own.calls)] == ([2, 0] if second == "small" else [1, 1])
    assert len(run.asked.requests) == len(run.decisions) == 1


async def test_a_rejected_step_is_made_again_by_the_chosen_model() -> None:
    """B-530: it is still the first step."""
    run = Selecting(scope="first-step")
    tries: list[str] = []

    class Rejects:
        id = "rejects"

        def process_output_step(self, args: Any) -> None:
            tries.append(args.text)
            if len(tries) == 1:
                args.abort("again", retry=True)

    agent = run.agent(output_processors=[Rejects()], max_processor_retries=1)
    assert (await agent.generate("hi")).text == SMALL
    assert tries == [SMALL, SMALL]
    assert run.own.calls == []


async def test_what_decides_is_asked_beside_the_run() -> None:
    """B-022: options, signal and id of the run; its tokens are counted apart."""
    run = Selecting(provider_options={"x": {"y": 1}})
    run.asked.usage = Usage(input_tokens=7, output_tokens=5)
    controller = AbortController()
    output = await run.agent().generate("hi", abort_signal=controller.signal, run_id="r1")
    request = run.asked.requests[0]
    assert request.provider_options == {"x": {"y": 1}}
    assert (request.run_id, request.abort_signal) == ("r1", controller.signal)
    assert output.processor_usage.input_tokens == 7
    assert output.usage.input_tokens == 3


# ── when it is the agent's own ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answers", "min_probability", "abstained"),
    [
        (chosen("small", 0.7), 0.7, None),
        (chosen("small", 0.69), 0.7, "below-threshold"),
        (chosen("small"), 0.1, "below-threshold"),
        (chosen("small"), None, None),
        (chosen("small", 0.01), None, None),
    ],
)
async def test_min_probability(answers: Any, min_probability: Any, abstained: Any) -> None:
    """B-531: at least, and one that is missing is none."""
    run = Selecting(lambda state: answers, min_probability=min_probability)
    output = await run.agent().generate("hi")
    assert output.text == ("own" if abstained else SMALL)
    (decision,) = run.decisions
    assert (decision.abstained, decision.choice) == (abstained, "small")
    assert (decision.model is None) == bool(abstained)
    assert output.policy_events == []


async def test_no_text() -> None:
    """B-531: nobody is asked then, of an image or without a message of the user."""
    for given in ([user(IMAGE)], [user(" \n")], [{"role": "assistant", "content": "I said"}]):
        run = Selecting()
        assert (await run.agent().generate(given)).text == "own"
        assert run.decisions == [ModelSelectionDecision(abstained="no-text")]
        assert run.asked.requests == []


async def test_a_choice_without_a_model() -> None:
    """B-531: it stands for the agent's own."""
    _, small, _ = models()
    run = Selecting(
        lambda state: chosen("rest"),
        choices=[
            {"model": small, "criteria": SIMPLE},
            {"model": None, "criteria": "Anything else", "name": "rest"},
        ],
    )
    assert (await run.agent().generate("hi")).text == "own"
    assert run.decisions == [ModelSelectionDecision(choice="rest", abstained="no-model-for-choice")]


def select_fails(answers: Any, context: Any) -> Any:
    raise KeyError("SECRET")


FAILURES: dict[str, tuple[dict[str, Any], str]] = {
    "raises": ({"answers": lambda state: ValueError("SECRET")}, "ValueError"),
    "an unknown choice": ({"answers": lambda state: chosen("SECRET")}, "StructuredOutputError"),
    "a judge that cannot be set up": ({"model": "nobody/knows"}, "UnknownModelError"),
    "select raises": ({"select": select_fails}, "KeyError"),
    "a model that nobody knows": ({"select": lambda *_: "nobody/knows"}, "UnknownModelError"),
    "no model at all": ({"select": lambda *_: 3}, "ConfigurationError"),
}


@pytest.mark.parametrize("kind", list(FAILURES))
async def test_it_fails_open(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """B-531, B-532: the agent's own model answers; it is logged, told, and an event of the run."""
    options, name = FAILURES[kind]
    if "select" in options:
        classifier = badness(Evaluates(lambda state: {"bad": sure(1)}))
        unused = {"choices": None, "model": None}
        run = Selecting(classifier=classifier, **unused, **options)
    else:
        run = Selecting(**options)
    with caplog.at_level(logging.WARNING, "procession"):
        output = await run.agent().generate("hi")
    assert output.text == "own"
    assert run.decisions == [ModelSelectionDecision(abstained="error")]
    assert [(e.processor_id, e.action, e.error) for e in output.policy_events] == [
        ("model-selection", "bypassed", name)
    ]
    assert name in caplog.text
    assert "SECRET" not in caplog.text


async def test_a_signal_is_no_failure() -> None:
    """A stop ends the wait at once, and nothing is decided."""
    judge, controller = Hangs(), AbortController()
    run = Selecting(model=judge)
    agent = run.agent()
    running = asyncio.create_task(agent.generate("hi", abort_signal=controller.signal))
    await judge.asked.wait()
    controller.abort()
    output = await asyncio.wait_for(running, 5)
    assert (run.decisions, run.own.calls, judge.open) == ([], [], 0)
    assert output.policy_events == []


# ── a classifier of one's own ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_async", [False, True])
async def test_select(is_async: bool) -> None:
    """B-530, B-531: it gets the answers and the whole result; `None` is the agent's own model."""
    _, small, _ = models()
    heard: list[Any] = []

    def select(answers: Any, context: Any) -> Any:
        heard.append(context.result.answers is answers)
        return small if answers.boolean("bad").probability < 0.5 else None

    async def later(answers: Any, context: Any) -> Any:
        await asyncio.sleep(0)
        return select(answers, context)

    asked = Evaluates(lambda state: {"bad": sure(0.9 if "bad" in state else 0.1)})
    run = Selecting(
        choices=None, model=None, classifier=badness(asked), select=later if is_async else select
    )
    agent = run.agent()
    assert (await agent.generate("fine")).text == SMALL
    assert (await agent.generate("bad")).text == "own"
    assert run.decisions == [ModelSelectionDecision(model=small), ModelSelectionDecision()]
    assert heard == [True, True]


async def test_a_list_of_models_is_chosen_as_a_whole() -> None:
    """One that fails makes room for the next one."""
    run = Selecting()
    broken = ScriptedModel([ValueError("down")], model_id="small")
    chain: Any = [broken, run.large]
    run = Selecting(
        choices=[{"model": chain, "criteria": SIMPLE}, {"model": run.own, "criteria": HARD}]
    )
    output = await run.agent().generate("hi")
    assert output.text == LARGE
    assert run.decisions[0].model is chain


# ── a language model that decides ──────────────────────────────────────────────────────────────


async def test_a_language_model_decides() -> None:
    """B-501, B-531: with a threshold it is asked how sure it is; without one it is not."""
    judge = ScriptedModel(['{"answer_1": "small"}'])
    run = Selecting(model=judge)
    assert (await run.agent().generate("hi")).text == SMALL
    assert run.decisions[0].probability is None
    for probability, text in ((0.9, SMALL), (0.5, "own")):
        likely = [
            {"option": "small", "probability": probability},
            {"option": "large", "probability": 1 - probability},
        ]
        judge = ScriptedModel([json.dumps({"answer_1": likely})])
        run = Selecting(model=judge, min_probability=0.8)
        assert (await run.agent().generate("hi")).text == text
        assert run.decisions[0].probability == pytest.approx(probability)


# ── what it is told, and at the same time ──────────────────────────────────────────────────────


async def test_a_callback_that_raises() -> None:
    """B-532, B-008: the run goes on; async ones are waited for, and it may be assigned later."""
    heard: list[Any] = []

    async def fails(decision: Any) -> None:
        heard.append(decision.choice)
        raise ValueError("SECRET")

    run = Selecting(on_decision=None)
    run.processor.on_decision = fails
    assert (await run.agent().generate("hi")).text == SMALL
    assert heard == ["small"]


async def test_many_requests_at_the_same_time_and_two_of_one_id() -> None:
    """State is a run's own, and not shared by those of one id: the later one has the last word."""
    run = Selecting(lambda state: chosen("small" if int(state) % 2 else "large"))
    agent = run.agent()
    outputs = await asyncio.gather(*(agent.generate(str(number)) for number in range(40)))
    assert [output.text for output in outputs] == [LARGE, SMALL] * 20
    first, second = Selecting(), Selecting(lambda state: chosen("large"))
    agent = Agent(id="a", model=first.own, input_processors=[first.processor, second.processor])
    assert (await agent.generate("hi")).text == LARGE
    asks = answer(tool_calls=[tool_call("echo", {"value": "x"})])
    small = ScriptedModel([asks, SMALL], model_id="small")
    choices = [{"model": small, "criteria": SIMPLE}, {"model": first.large, "criteria": HARD}]
    first = Selecting(lambda state: ValueError())
    second = Selecting(choices=choices, scope="first-step")
    processors = [first.processor, second.processor]
    agent = Agent(id="a", model=first.own, input_processors=processors, tools=[echo])
    assert (await agent.generate("hi")).text == "own"
    assert len(small.calls) == 1


# ── options that are none ──────────────────────────────────────────────────────────────────────

A: dict[str, Any] = {"model": "example/a", "criteria": "a"}
B: dict[str, Any] = {"model": "example/b", "criteria": "b"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give either choices and model, or classifier and select"),
        ({"choices": [A, B], "classifier": badness(Hangs())}, "give either"),
        ({"choices": [A, B]}, "choices needs model"),
        ({"choices": [A, B], "model": Hangs(), "select": print}, "select is for classifier"),
        ({"choices": [A], "model": Hangs()}, "at least two"),
        ({"choices": A, "model": Hangs()}, "choices must be a list"),
        ({"choices": [A, A], "model": Hangs()}, "two choices are called 'example/a'"),
        ({"choices": [A, "b"], "model": Hangs()}, "each of choices"),
        ({"choices": [A, {"model": "b"}], "model": Hangs()}, "criteria"),
        ({"choices": [A, {"criteria": "b"}], "model": Hangs()}, "must have a model"),
        ({"choices": [A, {**B, "model": None}], "model": Hangs()}, "must have a name"),
        ({"choices": [A, {**B, "names": "x"}], "model": Hangs()}, "did you mean 'name'"),
        ({"choices": [A, B], "model": Hangs(), "min_probability": 2}, "min_probability"),
        ({"choices": [A, B], "model": Hangs(), "instructions": 2}, "instructions"),
        ({"choices": [A, B], "model": Hangs(), "scope": "step"}, "scope"),
        ({"choices": [A, B], "model": Hangs(), "on_decision": 2}, "on_decision"),
        ({"choices": [A, B], "model": Hangs(), "provider_options": 2}, "provider_options"),
        ({"classifier": badness(Hangs())}, "classifier needs select"),
        ({"classifier": badness(Hangs()), "select": 3}, "select must be callable"),
        ({"classifier": badness(Hangs()), "select": print, "model": Hangs()}, "model is for"),
        (
            {"classifier": badness(Hangs()), "select": print, "min_probability": 0.5},
            "min_probability is for choices",
        ),
        ({"classifier": Classifier("c", Hangs()), "select": print}, "'c' has no questions"),
    ],
)
def test_wrong_options(options: Any, said: str) -> None:
    """B-530, B-014: one of the two ways, whole, and nothing of the other."""
    with pytest.raises(ValueError, match=f"ModelSelectionProcessor.*{said}"):
        ModelSelectionProcessor(**options)
