"""`LanguageDetector`: which language a message is in, and what is done about others."""

from __future__ import annotations

import logging
from copy import copy
from typing import TYPE_CHECKING, Any, Literal

from ...errors import OptionError
from ...logs import log_fields
from ..builtin import BuiltIn
from ..guarding.text_guard import INPUT
from ..message_text import with_text
from ..option_checks import callback, flag, names, number, one_of, text_or_none, whole
from .judge import Judge
from .judged_messages import is_remembered, one_by_one
from .language_verdict import LanguageVerdict, accepted, schema_of, task_of
from .languages import code_of, name_of, whole_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...hook_args import ProcessInputArgs
    from ...messages import Message
    from ...model import ModelSpec
    from ...policy import Policy
    from ...processor import ProcessorViolation
    from .budget import JudgeBudget

__all__ = ["LanguageDetector"]

_log = logging.getLogger("procession.processors")

_OWNER = "LanguageDetector"
KEY = "language_detection"
"""Under this key a message's metadata says what was found (B-174)."""
TARGET_CONFIDENCE = 0.95
"""What is noted for a message in a target language, whatever the model's confidence was."""


class LanguageDetector(BuiltIn):
    """Has a model say which language each message of the input is in (B-170 to B-176).

    - `model`: who judges; without one the agent's current model (B-021).
    - `target_languages`: the languages that are welcome, as names or ISO codes. `"French"`, `"fr"`,
      `"fra"` and `"français"` are one language, and so is `"fr-CA"` (B-172).
    - `threshold`: a verdict of less confidence, 0 to 1, counts for nothing.
    - `strategy`: what becomes of a message in another language. `"detect"` only notes it,
      `"translate"` has it translated into the first target language, `"block"` aborts, `"warn"`
      reports it. What was remembered from earlier requests is never blocked.
    - `preserve_original`: whether the metadata of a translated message has the original text.
    - `min_text_length`: shorter texts are not judged, in characters.
    - `include_detection_details`: whether each verdict is logged, at level `INFO`, without the
      text.
    - `translation_quality` has no effect.
    - `error_strategy`, `instructions`, `last_message_only`, `max_cost`, `provider_options`: as for
      all judges (B-020 to B-025).

    What was found stands in the metadata of the message, under `language_detection`. Images, files
    and tool calls stay as they are. Raises `OptionError`, a `ValueError`, for an option that is
    none.
    """

    fixed_id = "language-detector"

    def __init__(
        self,
        *,
        model: ModelSpec | None = None,
        target_languages: Sequence[str] = ("English", "en"),
        threshold: float = 0.7,
        strategy: Literal["detect", "translate", "block", "warn"] = "detect",
        preserve_original: bool = True,
        min_text_length: int = 10,
        include_detection_details: bool = False,
        translation_quality: Any = None,
        error_strategy: Literal["warn", "strict"] = "warn",
        max_cost: float | JudgeBudget | None = None,
        instructions: str | None = None,
        last_message_only: bool = False,
        provider_options: Mapping[str, Any] | None = None,
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=callback(_OWNER, "on_violation", on_violation), policy=policy)
        self.target_languages = names(_OWNER, "target_languages", target_languages, None)
        if not self.target_languages:
            raise OptionError(f"{_OWNER}: target_languages must name at least one")
        self.threshold = number(_OWNER, "threshold", threshold, most=1.0)
        self.strategy = one_of(
            _OWNER, "strategy", strategy, ("detect", "translate", "block", "warn")
        )
        self.preserve_original = flag(_OWNER, "preserve_original", preserve_original)
        self.min_text_length = whole(_OWNER, "min_text_length", min_text_length)
        self.include_detection_details = flag(
            _OWNER, "include_detection_details", include_detection_details
        )
        self.last_message_only = flag(_OWNER, "last_message_only", last_message_only)
        self._targets = {_language(target) for target in self.target_languages}
        self._first = name_of(code_of(self.target_languages[0]) or self.target_languages[0])
        into = self._first if strategy == "translate" else None
        self._judge = Judge(
            _OWNER,
            task=text_or_none(_OWNER, "instructions", instructions) or task_of(into),
            schema=schema_of(translates=into is not None),
            accepts=accepted(translates=into is not None),
            model=model,
            error_strategy=error_strategy,
            max_cost=max_cost,
            provider_options=provider_options,
        )

    async def process_input(self, args: ProcessInputArgs[Any]) -> list[Message] | None:
        """Judge each message that says enough (B-171)."""

        async def check(message: Message, text: str) -> Message:
            if len(text.strip()) < self.min_text_length:
                return message
            answer = await self._judge.ask(args, text, self._about(message))
            return await self._judged(args, message, text, LanguageVerdict.of(answer))

        return await one_by_one(args.messages, check, last_only=self.last_message_only)

    async def _judged(
        self, args: Any, message: Message, text: str, verdict: LanguageVerdict
    ) -> Message:
        """What becomes of a message."""
        code, confidence = verdict.code, verdict.confidence
        if self.include_detection_details:
            shown = "no confidence" if confidence is None else f"confidence {confidence:.2f}"
            _log.info("%s: message %r: %s, %s", self.id, message.id, code, shown)
        if code is None or confidence is None:
            return _noted(message, self._found(None, None, is_target=True))  # B-173
        if confidence < self.threshold:
            return message
        if whole_of(code) in self._targets:
            return _noted(message, self._found(code, TARGET_CONFIDENCE, is_target=True))
        found = self._found(code, confidence, is_target=False)
        if self.strategy == "detect" or (self.strategy == "block" and is_remembered(args, message)):
            return _noted(message, found)
        made = self._translated(message, text, verdict, found)
        if made is not None or self.strategy != "translate":
            await self._tell(args, message, found)
        return made or _noted(message, found)

    def _translated(
        self, message: Message, text: str, verdict: LanguageVerdict, found: dict[str, Any]
    ) -> Message | None:
        """The message in the first target language; `None`: it is not to be, or was not."""
        if self.strategy != "translate":
            return None
        if verdict.translation is None:
            _log.warning("%s: message %r came back untranslated: it stays", self.id, message.id)
            return None
        translation = {
            "original_language": found["detected_language"],
            "target_language": self._first,
            "translation_confidence": found["confidence"],
        }
        more = {"original_content": text} if self.preserve_original else {}
        made = with_text(message, verdict.translation)
        return _noted(made, {**found, "translation": translation, **more})

    async def _tell(self, args: Any, message: Message, found: dict[str, Any]) -> None:
        language, code, confidence = (
            found[key] for key in ("detected_language", "iso_code", "confidence")
        )
        reason = f"The language is {language} ({code}), confidence {confidence:.2f}."
        detail: dict[str, Any] = {
            **self._about(message),
            "types": [],
            "language": language,
            "iso_code": code,
            "confidence": confidence,
        }
        if self.strategy == "block":
            args.abort(reason, metadata=detail)
        if self.strategy == "warn":
            fields = log_fields(self.id, args)
            _log.warning("%s, in %s: %s", self.id, INPUT, reason, extra=fields)
        waiting = self.report(reason, detail)
        if waiting is not None:
            await waiting

    def _about(self, message: Message) -> dict[str, Any]:
        return {
            "processor_id": self.id,
            "strategy": self.strategy,
            "phase": INPUT,
            "message_id": message.id,
        }

    def _found(
        self, code: str | None, confidence: float | None, *, is_target: bool
    ) -> dict[str, Any]:
        return {
            "detected_language": None if code is None else name_of(code),
            "iso_code": code,
            "confidence": confidence,
            "is_target_language": is_target,
            "target_languages": list(self.target_languages),
        }


def _language(target: str) -> str:
    code = code_of(target)
    return target.strip().casefold() if code is None else whole_of(code)


def _noted(message: Message, found: dict[str, Any]) -> Message:
    """The message with what was found in its metadata; a copy (B-012)."""
    content = copy(message.content)
    content.metadata = {**(content.metadata or {}), KEY: found}
    made = copy(message)
    made.content = content
    return made
