"""`ModelSelectionProcessor`: a request is classified once, and asks the model that will do."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, cast

from msgspec import Struct, structs

from ...engine.asking import ResolvedModels
from ...engine.interruption import Interrupted
from ...errors import OptionError
from ...model import ModelSpec, spec_name
from ...processor import ProcessInputStepResult
from ..builtin import BuiltIn
from ..guarding.text_guard import INPUT
from ..option_checks import callback, mapping_or_none, number, one_of, text_or_none
from .classifier import Classifier, ClassifierResult, the_classifier
from .classifier_questions import ChoiceQuestion
from .classifying_text import classified, note_failure
from .evaluation import LanguageEvaluationModel
from .judged_messages import said_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...hook_args import ProcessInputArgs, ProcessInputStepArgs
    from ...policy import Policy
    from .classifier_answers import ClassifierAnswers
    from .evaluation import EvaluationModel

__all__ = [
    "ModelSelectionChoice",
    "ModelSelectionContext",
    "ModelSelectionDecision",
    "ModelSelectionProcessor",
]

_OWNER = "ModelSelectionProcessor"
_QUESTION = "model"
INSTRUCTIONS = (
    "Which of these fits what is asked for? When several would do it well, take the one that is "
    "described as the simplest."
)


class ModelSelectionChoice(TypedDict):
    """A model, and the requests it is for.

    `model=None` stands for the agent's own. `name` is what decisions call the choice, and the model
    that chooses; without it the model's id.
    """

    model: ModelSpec | None
    criteria: str
    name: NotRequired[str]


class ModelSelectionDecision(Struct, frozen=True, kw_only=True):
    """What `on_decision` is told: which model answers, or why it is the agent's own (B-532)."""

    model: ModelSpec | None = None
    """As it was given; `None`: the agent's own."""
    choice: str | None = None
    probability: float | None = None
    abstained: Literal["no-text", "error", "below-threshold", "no-model-for-choice"] | None = None
    """Why nothing was chosen; `None` also when `select` has returned `None`."""


class ModelSelectionContext(Struct, frozen=True):
    """What `select` is told beside the answers."""

    result: ClassifierResult


class ModelSelectionProcessor(BuiltIn):
    """Chooses the model for a request by what it asks for (B-530 to B-532).

    Either `choices`, two or more, of which `model` (an evaluation model, or a language model)
    chooses; `instructions` is the question that it is asked. With `min_probability` it must be so
    sure at least: a language model is asked to estimate it, an evaluation model that tells none is
    never sure enough.

    Or a `classifier` with questions, and `select(answers, context)`, plain or async, which returns
    a model, or `None` for the agent's own. The whole result is `context.result`.

    - `scope`: `"run"`, or `"first-step"`: the chosen model makes the first call alone.
    - `on_decision(decision)`: told once for each request; what it raises counts for nothing.
    - `provider_options`: handed to the evaluation model.

    Only the text of the latest message of the user is classified, once, before the first step.
    Whatever fails, the agent's own model answers: it is logged, and an event of the run. Raises
    `OptionError`, a `ValueError`, for an option that is none.
    """

    fixed_id = "model-selection"

    def __init__(
        self,
        *,
        choices: Sequence[ModelSelectionChoice] | None = None,
        model: EvaluationModel | ModelSpec | None = None,
        classifier: Classifier | None = None,
        select: Callable[[ClassifierAnswers, ModelSelectionContext], object] | None = None,
        instructions: str | None = None,
        min_probability: float | None = None,
        scope: Literal["run", "first-step"] = "run",
        on_decision: Callable[[ModelSelectionDecision], object] | None = None,
        id: str = fixed_id,
        provider_options: Mapping[str, Any] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(policy=policy)
        self.id = id
        self.scope = one_of(_OWNER, "scope", scope, ("run", "first-step"))
        self.on_decision = callback(_OWNER, "on_decision", on_decision)
        self.provider_options = mapping_or_none(_OWNER, "provider_options", provider_options)
        self.min_probability = min_probability
        if min_probability is not None:
            number(_OWNER, "min_probability", min_probability, most=1.0)
        self._models = ResolvedModels(None)
        self._choices: dict[str, ModelSpec | None] = {}
        self._select = callback(_OWNER, "select", select)
        if (choices is None) == (classifier is None):
            raise OptionError(f"{_OWNER}: give either choices and model, or classifier and select")
        if choices is None:
            unused = {"model": model, "instructions": instructions}
            _refuse_all("choices", {**unused, "min_probability": min_probability})
            _need("classifier", "select", select)
            self.classifier = the_classifier(_OWNER, classifier)
        else:
            _refuse_all("classifier", {"select": select})
            _need("choices", "model", model)
            criteria = self._criteria(choices)
            question = ChoiceQuestion(
                criteria=criteria,
                instructions=text_or_none(_OWNER, "instructions", instructions) or INSTRUCTIONS,
            )
            self.classifier = Classifier(id, self._choosing(model), {_QUESTION: question})

    def _criteria(self, choices: Any) -> dict[str, str]:
        if isinstance(choices, str | Mapping) or not isinstance(choices, Sequence):
            raise OptionError(f"{_OWNER}: choices must be a list of mappings")
        found: dict[str, str] = {}
        for choice in cast("Sequence[Any]", choices):
            name, criteria, model = _choice(choice)
            if name in found:
                raise OptionError(f"{_OWNER}: two choices are called {name!r}: give them names")
            found[name], self._choices[name] = criteria, model
        if len(found) < 2:
            raise OptionError(f"{_OWNER}: choices must be at least two")
        return found

    def _choosing(self, model: Any) -> Any:
        if self.min_probability is None or callable(getattr(model, "evaluate", None)):
            return model
        return LanguageEvaluationModel(model, probabilities=True)

    # ── the hooks ──────────────────────────────────────────────────────────────────────────────

    async def process_input(self, args: ProcessInputArgs[Any]) -> None:
        """Choose the model of this request, by the latest message of the user (B-530)."""
        decision, model = await self._decided(args)
        if model is not None:
            args.state[self._key] = model
        waiting = self.tell("on_decision", decision)
        if waiting is not None:
            await waiting

    def process_input_step(self, args: ProcessInputStepArgs[Any]) -> ProcessInputStepResult | None:
        """Have the chosen model asked."""
        model = args.state.get(self._key)
        if model is None or (self.scope == "first-step" and args.step_number > 0):
            return None
        return ProcessInputStepResult(model=model)

    @property
    def _key(self) -> str:
        # The state is shared by all that have the same id.
        return f"__selected-{id(self):x}"

    # ── the decision ───────────────────────────────────────────────────────────────────────────

    async def _decided(self, args: ProcessInputArgs[Any]) -> tuple[ModelSelectionDecision, Any]:
        """The decision, and the model as an object, if it is not the agent's own (B-531)."""
        messages = reversed(args.messages)
        latest = next((message for message in messages if message.role == "user"), None)
        text = said_in(latest) if latest is not None else ""
        if not text:
            return ModelSelectionDecision(abstained="no-text"), None
        try:
            result = await classified(self.classifier, args, text, self.provider_options)
            decision = await self._by(result)
            model = None if decision.model is None else self._models.get(decision.model)
        except Interrupted:
            raise
        except Exception as error:
            note_failure(args, self.id, INPUT, error, blocks=False)
            return ModelSelectionDecision(abstained="error"), None
        return decision, model

    async def _by(self, result: ClassifierResult) -> ModelSelectionDecision:
        if self._select is not None:
            model = self._select(result.answers, ModelSelectionContext(result))
            return ModelSelectionDecision(
                model=await model if inspect.isawaitable(model) else model
            )
        answer = result.answers.choice(_QUESTION)
        likely = (answer.probabilities or {}).get(answer.choice)
        decision = ModelSelectionDecision(choice=answer.choice, probability=likely)
        if self.min_probability is not None and (likely is None or likely < self.min_probability):
            return structs.replace(decision, abstained="below-threshold")
        model = self._choices[answer.choice]
        if model is None:
            return structs.replace(decision, abstained="no-model-for-choice")
        return structs.replace(decision, model=model)


def _choice(given: Any) -> tuple[str, str, Any]:
    """Name, criteria and model of a choice."""
    if not isinstance(given, Mapping):
        raise OptionError(f"{_OWNER}: each of choices must be a mapping of model and criteria")
    choice = cast("Mapping[Any, Any]", given)
    for key in choice:
        one_of(_OWNER, "a key of a choice", key, ("model", "criteria", "name"))
    if "model" not in choice:
        raise OptionError(f"{_OWNER}: each of choices must have a model; None is the agent's own")
    criteria = choice.get("criteria")
    if not isinstance(criteria, str) or not criteria:
        raise OptionError(f"{_OWNER}: each of choices must have criteria, a text")
    name = text_or_none(_OWNER, "name", choice.get("name")) or spec_name(choice["model"])
    if not name:
        raise OptionError(f"{_OWNER}: a choice whose model has no id must have a name")
    return name, criteria, choice["model"]


def _need(with_: str, option: str, value: Any) -> None:
    if value is None:
        raise OptionError(f"{_OWNER}: {with_} needs {option}")


def _refuse_all(with_: str, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if value is not None:
            raise OptionError(f"{_OWNER}: {name} is for {with_} only")
