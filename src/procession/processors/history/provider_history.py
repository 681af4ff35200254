"""`ProviderHistoryCompat`: what one provider has left, fit for another (B-440 to B-444)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ...causes import words_of
from ...errors import OptionError
from ...message_list import isolated
from ...processor import ProcessAPIErrorResult, ProcessLLMRequestResult
from ..builtin import BuiltIn
from .history_repairs import REPAIRS
from .history_rule import HistoryRule, RulePrompt, compiled
from .prompt_rules import PROMPT_RULES

if TYPE_CHECKING:
    from ...model import Prompt
    from ...policy import Policy
    from ...processor import ProcessAPIErrorArgs, ProcessLLMRequestArgs, ProcessorViolation

__all__ = ["ProviderHistoryCompat"]

_BUILT_IN = tuple(compiled(rule, rule.name) for rule in (*REPAIRS, *PROMPT_RULES))


class ProviderHistoryCompat(BuiltIn):
    """Makes what other models have said fit for the one that is asked.

    Before a call, rules take from its prompt what the model's provider refuses. After a refusal
    that a rule knows, it repairs the messages and asks for another attempt, once in a call of
    `generate` or `stream`. For both it must stand in `input_processors` and in `error_processors`;
    it is never there by itself.

    The built-in rules, in this order:

    - `anthropic-tool-id-format` (repair): ids of tool calls get the characters Anthropic takes;
    - `openai-orphan-item-id` (repair): item ids go where the reasoning they belong to is missing;
    - `cerebras-strip-reasoning-content`: no thoughts for Cerebras;
    - `anthropic-strip-foreign-reasoning-content`, `anthropic-strip-foreign-signed-reasoning`,
      `anthropic-strip-empty-signed-reasoning`: for Anthropic, no thoughts that are unsigned, that
      another provider has signed, or that have lost their text;
    - `azure-system-reminder-transform`: `<system-reminder>` is `<reminder>` for Azure;
    - `strip-foreign-provider-executed-tools`: no calls that another provider has executed.

    `additional_rules` follow them, each a `HistoryRule` or a mapping of its fields. Prompts are
    changed for one call only. Repairs are kept: in remembered messages they replace the stored
    ones. No rule takes a tool call from its result.

    Rules go by the model's `provider`; of a list of models, that is the first one's.

    Raises `OptionError` for rules that cannot work.
    """

    fixed_id = "provider-history-compat"
    name = "Provider History Compat"

    def __init__(
        self,
        *,
        additional_rules: Iterable[HistoryRule | Mapping[str, Any]] = (),
        on_violation: Callable[[ProcessorViolation], object] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(on_violation=on_violation, policy=policy)
        given: Any = additional_rules
        if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
            kind = type(cast("Any", given)).__name__
            raise OptionError(f"ProviderHistoryCompat: additional_rules must be a list, not {kind}")
        own = [
            compiled(rule, f"additional_rules[{place}]")
            for place, rule in enumerate(cast("Iterable[Any]", given))
        ]
        self._rules = (*_BUILT_IN, *own)

    def process_llm_request(
        self, args: ProcessLLMRequestArgs[Any]
    ) -> ProcessLLMRequestResult | None:
        """Apply the rules about prompts, each to what the one before has left (B-442)."""
        prompt: Prompt = args.prompt
        changed = False
        for rule in self._rules:
            if rule.apply_to_prompt is None:
                continue
            told = RulePrompt(prompt=prompt, model=args.model, message_list=args.message_list)
            made = rule.apply_to_prompt(told)
            if made is not None:
                prompt, changed = made, True
        return ProcessLLMRequestResult(prompt=prompt) if changed else None

    def process_api_error(self, args: ProcessAPIErrorArgs[Any]) -> ProcessAPIErrorResult | None:
        """Repair the messages after a refusal that a rule knows, and retry (B-442)."""
        if args.retry_count or not args.may_retry:
            return None
        said = words_of(args.error)
        known = [rule for rule in self._rules if rule.fix is not None and rule.is_about(said)]
        if not known:
            return None
        remembered = [(m, isolated(m)) for m in args.message_list.get.remembered.db()]
        messages = args.messages
        # All are called: each repairs something else.
        changed = [bool(rule.fix(messages)) for rule in known if rule.fix is not None]
        if not any(changed):
            return None
        for message, before in remembered:
            if message != before:
                args.message_list.replace_stored(message)
        return ProcessAPIErrorResult(retry=True)
