"""`PromptInjectionDetector`: known forms of attacks found locally, others by asking a model."""

from __future__ import annotations

import logging
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from ...detection.injection import TYPES
from ...errors import OptionError
from ...logs import log_fields
from ..builtin import BuiltIn
from ..in_turn import Work, done
from ..judging.judge import Judge
from ..judging.judged_messages import GAP, is_remembered
from ..option_checks import callback, flag, names, number, one_of, text_or_none
from .injection_texts import GONE, Looked, has_words, texts_in, with_text_only, with_texts_in
from .injection_verdict import (
    PromptInjectionEvent,
    PromptInjectionResult,
    accepted,
    result_of,
    schema_of,
    task_of,
)
from .message_leaves import leaves_of, with_leaves
from .sightings import Place
from .tool_outcomes import TOOL_RESULT, current_result, replace_result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...hook_args import ProcessInputArgs, ProcessToolResultArgs
    from ...messages import Message
    from ...model import ModelSpec
    from ...policy import Policy
    from ...processor import ProcessorViolation
    from ..judging.budget import JudgeBudget

__all__ = ["PromptInjectionDetector"]

_log = logging.getLogger("procession.processors")

_OWNER = "PromptInjectionDetector"
_STRATEGIES = ("block", "warn", "filter", "rewrite")
INPUT = "process_input"


class PromptInjectionDetector(BuiltIn):
    """Looks for attempts to take over the model by what it reads (B-150 to B-155).

    Local rules for known forms come first; they cost nothing. What they find at or above the
    threshold is final. Else a model is asked, one call for each message that says something.

    - `model`: who judges; without one the agent's current model (B-021). `False`: nobody, the local
      rules are all there is.
    - `detection_types`: what to look for; without it the six types of `TYPES`. Types of your own
      are left to the judge.
    - `threshold`: from which score on a type counts, 0 to 1, inclusive.
    - `strategy`: `"block"` aborts and asks for no retry, `"filter"` removes the message, `"warn"`
      lets it pass. `"rewrite"`: sentences that the local rules have found go; what is left is
      judged, and its text becomes what the judge makes of it; a message of which nothing is left
      is removed (B-151). A message that was remembered from earlier requests is removed under
      `"block"`: it would block all later ones.
    - `include_scores`: whether the reason gives all scores.
    - `on_detection`: called with a `PromptInjectionEvent` for each text that was looked at, plain
      or async (B-153).
    - `error_strategy`, `instructions`, `last_message_only`, `max_cost`, `provider_options`,
      `structured_output_options`: as for all judges (B-020 to B-025).

    As an input processor it sees all messages of the request, of whatever role, what tools gave in
    earlier requests too (B-154). As an output processor it sees what tools give in this one, before
    the model does; the same object may stand in both lists. Raises `OptionError`, a `ValueError`,
    for an option that is none.
    """

    fixed_id = "prompt-injection-detector"

    def __init__(
        self,
        *,
        model: ModelSpec | Literal[False] | None = None,
        detection_types: Sequence[str] | None = None,
        threshold: float = 0.7,
        strategy: Literal["block", "warn", "filter", "rewrite"] = "block",
        include_scores: bool = False,
        on_detection: Callable[[PromptInjectionEvent], object] | None = None,
        error_strategy: Literal["warn", "strict"] = "warn",
        instructions: str | None = None,
        last_message_only: bool = False,
        max_cost: float | JudgeBudget | None = None,
        provider_options: Mapping[str, Any] | None = None,
        structured_output_options: Mapping[str, Any] | None = None,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=callback(_OWNER, "on_violation", on_violation), policy=policy)
        self.detection_types = _types(detection_types, model)
        self.threshold = number(_OWNER, "threshold", threshold, most=1.0)
        self.strategy = one_of(_OWNER, "strategy", strategy, _STRATEGIES)
        self.include_scores = flag(_OWNER, "include_scores", include_scores)
        self.on_detection = callback(_OWNER, "on_detection", on_detection)
        self.last_message_only = flag(_OWNER, "last_message_only", last_message_only)
        rewrites = strategy == "rewrite"
        if max_cost is not None and model is False:
            raise OptionError(f"{_OWNER}: max_cost is for a judge, and no model is asked here")
        judge = Judge(
            _OWNER,
            task=text_or_none(_OWNER, "instructions", instructions)
            or task_of(self.detection_types, rewrites=rewrites),
            schema=schema_of(self.detection_types, rewrites=rewrites),
            accepts=accepted(rewrites=rewrites),
            model=None if model is False else model,
            error_strategy=error_strategy,
            max_cost=max_cost,
            provider_options=provider_options,
            structured_output_options=structured_output_options,
        )
        self._judge = None if model is False else judge

    # ── messages ───────────────────────────────────────────────────────────────────────────────

    def process_input(self, args: ProcessInputArgs[Any]) -> Any:
        """Look at every message that a model is about to get (B-154)."""
        return done(self._messages(args))

    def _messages(self, args: Any) -> Work[list[Message] | None]:
        given: list[Message] = args.messages
        checked = given[-1:] if self.last_message_only else given
        kept = given[: len(given) - len(checked)]
        for message in checked:
            made = yield from self._message(args, message)
            if made is not None:
                kept.append(made)
        same = len(kept) == len(given) and all(a is b for a, b in zip(kept, given, strict=True))
        return None if same else kept

    def _message(self, args: Any, message: Message) -> Work[Message | None]:
        """The message as it goes on; `None`: it does not."""
        leaves = leaves_of(message)
        if not leaves:
            return message
        looked = [Looked(leaf.text, self.detection_types) for leaf in leaves]
        local = _highest(looked)
        made: Message | None = message
        if self.strategy == "rewrite" and self._counts(local):
            left = iter(
                self._left(one, may_be_empty=leaf.is_said)
                for leaf, one in zip(leaves, looked, strict=True)
            )
            made = with_leaves(message, left, self._rewritten)
            made = made if has_words(made) else None
        said = (
            "" if made is None else GAP.join(leaf.text for leaf in leaves_of(made) if leaf.is_said)
        )
        about = self._about(Place(INPUT, message.id), self.strategy)
        result = yield from self._judged(args, about, said, local)
        if self.strategy == "block" and is_remembered(args, message):
            about["strategy"] = "filter"
        text = GAP.join(leaf.text for leaf in leaves)
        if not (yield from self._tell(args, about, text, result)):
            return message
        if self.strategy == "rewrite":
            return self._as_judged(made, result)
        return message if self.strategy == "warn" else None

    def _as_judged(self, made: Message | None, result: PromptInjectionResult) -> Message | None:
        """A message that was rewritten, with what the judge makes of its text (B-151, B-152)."""
        if made is None or not self._counts(result.judged or {}):
            return made
        text = self._trusted(result.rewritten_content)
        return with_text_only(made, text) if text else None

    # ── what tools give ────────────────────────────────────────────────────────────────────────

    def process_tool_result(self, args: ProcessToolResultArgs[Any]) -> Any:
        """Look at what a tool gave before the model sees it; as an output processor only."""
        return done(self._tool_result(args))

    def _tool_result(self, args: Any) -> Work[None]:
        value = current_result(args)
        texts = list(texts_in(value))
        if not any(text.strip() for text in texts):
            return
        local = _highest(Looked(text, self.detection_types) for text in texts)
        made = value
        if self.strategy == "rewrite" and self._counts(local):
            made = with_texts_in(value, self._rewritten_result)
        said = GAP.join(texts_in(made))
        about = self._about(Place(TOOL_RESULT), self.strategy)
        about |= {"tool_name": args.tool_name, "tool_call_id": args.tool_call_id}
        result = yield from self._judged(args, about, "" if said == GONE else said, local)
        if not (yield from self._tell(args, about, GAP.join(texts), result)):
            return
        if self.strategy == "filter":
            made = GONE
        elif self.strategy == "rewrite" and self._counts(result.judged or {}):
            made = self._trusted(result.rewritten_content) or GONE
        if made is not value:
            replace_result(args, made)

    # ── the verdict ────────────────────────────────────────────────────────────────────────────

    def _judged(
        self, args: Any, about: dict[str, Any], text: str, local: Mapping[str, float]
    ) -> Work[PromptInjectionResult]:
        """The local scores, and those of the judge where there is something left to judge."""
        found = self._counts(local) and self.strategy != "rewrite"
        if self._judge is None or found or not text.strip():
            return result_of(local, None, self.detection_types)
        answer = yield self._judge.ask(args, text, about)
        return result_of(local, answer, self.detection_types)

    def _tell(
        self, args: Any, about: dict[str, Any], text: str, result: PromptInjectionResult
    ) -> Work[bool]:
        """Whether a text is flagged; those who wait for it are told, under `block` by an abort."""
        flagged, strategy = result.flagged(self.threshold), about["strategy"]
        if self.on_detection is not None:
            applied = strategy if flagged else "none"
            event = PromptInjectionEvent(result, text, bool(flagged), applied)
            if (waiting := self.tell("on_detection", event)) is not None:
                yield waiting
        if not flagged:
            return False
        reason = result.reason_for(list(flagged), with_scores=self.include_scores)
        detail = {**about, "types": list(flagged), "scores": flagged}
        if strategy == "block":
            args.abort(reason, metadata=detail)
        if strategy == "warn":
            said, fields = ", ".join(flagged), log_fields(self.id, args)
            _log.warning("%s, in %s: %s", self.id, about["phase"], said, extra=fields)
        if (waiting := self.report(reason, detail)) is not None:
            yield waiting
        return True

    def _about(self, place: Place, strategy: str) -> dict[str, Any]:
        return {"processor_id": self.id, "strategy": strategy, **place.named()}

    def _counts(self, scores: Mapping[str, float]) -> bool:
        return any(score >= self.threshold for score in scores.values())

    # ── rewriting ──────────────────────────────────────────────────────────────────────────────

    def _rewritten(self, text: str) -> str:
        """A text without the sentences that the local rules have found."""
        return Looked(text, self.detection_types).without(self.threshold)

    def _rewritten_result(self, text: str) -> str:
        return self._left(Looked(text, self.detection_types), may_be_empty=False)

    def _left(self, looked: Looked, *, may_be_empty: bool) -> str:
        left = looked.without(self.threshold)
        return left if may_be_empty or left.strip() or left == looked.text else GONE

    def _trusted(self, text: str | None) -> str:
        """What a judge has written, unless it has been talked into an attack itself."""
        text = (text or "").strip()
        return "" if self._counts(Looked(text, self.detection_types).scores()) else text


def _highest(looked: Any) -> dict[str, float]:
    scores: dict[str, float] = {}
    for one in looked:
        for kind, score in one.scores().items():
            scores[kind] = max(scores.get(kind, 0.0), score)
    return scores


def _types(given: Any, model: Any) -> tuple[str, ...]:
    if given is None:
        return TYPES
    chosen = names(_OWNER, "detection_types", given, None)
    if not chosen:
        raise OptionError(f"{_OWNER}: detection_types must name at least one")
    for kind in chosen:
        near = get_close_matches(kind, TYPES, 1, 0.8)
        if near and near[0] != kind:
            raise OptionError(f"{_OWNER}: detection_types: {kind!r}; did you mean {near[0]!r}?")
        if kind not in TYPES and model is False:
            raise OptionError(
                f"{_OWNER}: detection_types: {kind!r} takes judgement, so model cannot be False"
            )
    return chosen
