"""Classifiers, and the processors that use them, as type checkers see them."""

from procession import Agent
from procession.processors import (
    BooleanAnswer,
    BooleanQuestion,
    ChoiceQuestion,
    Classifier,
    ClassifierAnswers,
    ClassifierContext,
    ClassifierProcessor,
    EvaluationModel,
    EvaluationRequest,
    EvaluationResponse,
    LanguageEvaluationModel,
    ModelSelectionContext,
    ModelSelectionDecision,
    ModelSelectionProcessor,
)


class Own:
    """An evaluation model."""

    async def evaluate(self, request: EvaluationRequest) -> EvaluationResponse:
        """The same answer to everything."""
        answers = {name: BooleanAnswer(probability=0.5) for name in request.questions}
        return EvaluationResponse(answers=answers)


class Plain:
    """One that does not wait."""

    def evaluate(self, request: EvaluationRequest) -> EvaluationResponse:
        """The same answer to everything."""
        return EvaluationResponse(answers={"a": {"type": "boolean", "probability": 1}})


class NoModel:
    """Something else."""

    def evaluate(self, request: EvaluationRequest) -> str:
        """No answer."""
        return ""


own: EvaluationModel = Own()
plain: EvaluationModel = Plain()
language: EvaluationModel = LanguageEvaluationModel("openai/gpt-5", probabilities=True)
none: EvaluationModel = NoModel()  # type: ignore[assignment] # it answers with a text

triage = Classifier("triage", "openai/gpt-5", {"a": BooleanQuestion(), "b": {"type": "boolean"}})
by_own = Classifier("own", own, {"a": ChoiceQuestion(criteria={"x": "the first", "y": None})})
wrong_levels = ChoiceQuestion(criteria=["x"])  # type: ignore[arg-type] # options have keys


async def asks() -> float:
    """Answers have the type of their question."""
    result = await triage.evaluate({"any": ["json", 1]}, max_retries=0)
    choice: str = result.answers.choice("a").choice
    likely: dict[str, float] | None = result.answers.choice("a").probabilities
    return result.answers.score("b").score + len(choice) + len(likely or {})


def plainly(answers: ClassifierAnswers, context: ClassifierContext) -> None:
    """Decides at once."""
    if answers.boolean("a").probability > 0.5:
        context.abort("no")
    context.filter()


async def later(answers: ClassifierAnswers, context: ClassifierContext) -> None:
    """Decides later."""


def select(answers: ClassifierAnswers, context: ModelSelectionContext) -> str | None:
    """A model by its id."""
    return "openai/gpt-5-mini" if context.result.usage else None


def told(decision: ModelSelectionDecision) -> str | None:
    """Hears of it."""
    return decision.choice


guard = ClassifierProcessor(classifier=triage, on_result=plainly, granularity="step")
slow_guard = ClassifierProcessor(classifier=by_own, on_result=later, error_strategy="warn")
by_name = ClassifierProcessor(classifier="triage", on_result=plainly)  # type: ignore[arg-type] # no app
selection = ModelSelectionProcessor(
    choices=[
        {"model": "openai/gpt-5-mini", "criteria": "short"},
        {"model": None, "criteria": "the rest", "name": "own"},
    ],
    model="openai/gpt-5-nano",
    min_probability=0.7,
    on_decision=told,
)
by_select = ModelSelectionProcessor(classifier=triage, select=select, scope="first-step")
wrong_scope = ModelSelectionProcessor(classifier=triage, select=select, scope="step")  # type: ignore[arg-type] # no scope

agent = Agent(
    id="typed",
    model="openai/gpt-5",
    input_processors=[selection, by_select, guard],
    output_processors=[slow_guard],
)
