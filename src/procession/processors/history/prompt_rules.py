"""Built-in rules about the prompt of one call: what its provider would refuse is left out (B-443).

A provider is known by the words of its name: rules for `azure` hold for `azure-openai` as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from .history_rule import HistoryRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...message_list import MessageList
    from ...model import LanguageModel, Prompt
    from .history_rule import RulePrompt

__all__ = ["PROMPT_RULES"]

Json = dict[str, Any]


def _words(provider: str) -> frozenset[str]:
    words = frozenset(re.findall("[a-z0-9]+", provider.lower()))
    return words | {_AKA[word] for word in words & _AKA.keys()}


_AKA = {"azure": "openai", "vertex": "google", "gemini": "google"}
"""Providers that say things under the name of another one, too."""


def _is(model: LanguageModel, word: str) -> bool:
    return word in _words(model.provider)


def _without(prompt: Prompt, unwanted: Callable[[Json], bool]) -> Prompt | None:
    """The prompt without some parts of the assistant's and of tools; `None`: there are none.

    What is left empty by that disappears.
    """
    made: Prompt = []
    changed = False
    for entry in prompt:
        content = entry["content"]
        if entry["role"] in ("assistant", "tool") and isinstance(content, list):
            parts = cast("list[Json]", content)
            kept = [part for part in parts if not unwanted(part)]
            if len(kept) != len(parts):
                changed = True
                if not kept:
                    continue
                entry = {**entry, "content": kept}
        made.append(entry)
    return made if changed else None


# ── thoughts ───────────────────────────────────────────────────────────────────────────────────


def _no_thoughts(told: RulePrompt) -> Prompt | None:
    """Cerebras: none are taken."""
    if not _is(told.model, "cerebras"):
        return None
    return _without(told.prompt, _is_thought)


def _is_thought(part: Json) -> bool:
    return part.get("type") == "reasoning"


def _no_plain_thoughts(told: RulePrompt) -> Prompt | None:
    """Anthropic: those that nobody has signed are another provider's."""
    model = told.model
    if not _is(model, "anthropic"):
        return None
    return _without(
        told.prompt,
        lambda part: _is_thought(part) and not _own(part, model) and not _said_of(part),
    )


def _no_foreign_signatures(told: RulePrompt) -> Prompt | None:
    """Anthropic: those that another provider has signed."""
    model = told.model
    if not _is(model, "anthropic"):
        return None
    return _without(
        told.prompt,
        lambda part: _is_thought(part) and not _own(part, model) and bool(_said_of(part)),
    )


def _no_empty_thoughts(told: RulePrompt) -> Prompt | None:
    """Anthropic: those with a signature and without a text, which had one when it was signed.

    Left alone are those of which it is known that they came so, and what belongs to the turn under
    way, where the provider wants all back as it came.
    """
    if not _is(told.model, "anthropic"):
        return None
    prompt = told.prompt
    asked = [place for place, entry in enumerate(prompt) if entry["role"] == "user"]
    before = asked[-1] if asked else 0
    made = _without(prompt[:before], lambda part: _is_emptied(part, told.model))
    return None if made is None else [*made, *prompt[before:]]


def _is_emptied(part: Json, model: LanguageModel) -> bool:
    if not _is_thought(part) or str(part.get("text") or "").strip():
        return False
    own = _own(part, model)
    return bool(own.get("signature")) and "signedText" not in own and "redactedData" not in own


def _said_of(part: Json) -> Json:
    """What providers said of a part, by provider; `mastra` is none."""
    options: Any = part.get("providerOptions")
    if not isinstance(options, dict):
        return {}
    given = cast("Json", options)
    return {provider: given[provider] for provider in given if provider != "mastra"}


def _own(part: Json, model: LanguageModel) -> Json:
    """What the target itself has signed or hidden in a thought; empty when that is nothing."""
    words = _words(model.provider)
    for provider, said in _said_of(part).items():
        if isinstance(said, dict) and (provider == model.provider or provider in words):
            own = cast("Json", said)
            if own.get("signature") or own.get("redactedData") is not None:
                return own
    return {}


# ── reminders ──────────────────────────────────────────────────────────────────────────────────

_REMINDER = re.compile(r"<system-reminder(\s[^>]*|)>(.*)</system-reminder>", re.DOTALL)
_SHORT_REMINDER = re.compile(r"<system-reminder(\s[^>]*)?/>")
_OTHER_TAG = "reminder"


def _other_reminders(told: RulePrompt) -> Prompt | None:
    """Azure: its filter takes a user's turn in the system's name for an attack."""
    if not _is(told.model, "azure"):
        return None
    made: Prompt = []
    changed = False
    for entry in told.prompt:
        content = entry["content"]
        if entry["role"] == "user" and isinstance(content, list):
            parts = [_renamed(part) for part in cast("list[Json]", content)]
            if parts != content:
                changed = True
                entry = {**entry, "content": parts}
        made.append(entry)
    return made if changed else None


def _renamed(part: Json) -> Json:
    text = part.get("text")
    if part.get("type") != "text" or not isinstance(text, str):
        return part
    found = _REMINDER.fullmatch(text)
    if found is not None:
        return {**part, "text": f"<{_OTHER_TAG}{found[1]}>{found[2]}</{_OTHER_TAG}>"}
    found = _SHORT_REMINDER.fullmatch(text)
    return part if found is None else {**part, "text": f"<{_OTHER_TAG}{found[1] or ''}/>"}


# ── tools that providers execute ───────────────────────────────────────────────────────────────


def _no_foreign_tools(told: RulePrompt) -> Prompt | None:
    """All providers: calls that another one has executed itself, together with their results."""
    calls = [
        part
        for entry in told.prompt
        if entry["role"] == "assistant" and isinstance(entry["content"], list)
        for part in cast("list[Json]", entry["content"])
        if part.get("type") == "tool-call" and part.get("providerExecuted")
    ]
    if not calls:
        return None
    words = _words(told.model.provider)
    labels = _labels(told.message_list)
    foreign: set[Any] = set()
    for call in calls:
        by = _executed_by(call, labels)
        if by and by.isdisjoint(words):
            foreign.add(call.get("toolCallId"))
    return _without(
        told.prompt,
        lambda part: "toolCallId" in part and part["toolCallId"] in foreign,
    )


def _labels(message_list: MessageList) -> dict[str, str]:
    """Which provider's answer a call stands in, by the id of the call."""
    labels: dict[str, str] = {}
    for message in message_list.get.all.db():
        provider = (message.content.metadata or {}).get("provider")
        if message.role != "assistant" or not isinstance(provider, str):
            continue
        for part in message.content.parts:
            if part.type == "tool-invocation":
                labels[part.tool_invocation.tool_call_id] = provider
    return labels


def _executed_by(call: Json, labels: dict[str, str]) -> frozenset[str]:
    """The words of the providers that may have executed a call; none, when nothing tells."""
    said = _said_of(call)
    if said:
        return frozenset(word for provider in said for word in _words(provider))
    call_id = str(call.get("toolCallId", ""))
    if call_id.startswith(("srvtoolu_", "mcptoolu_")):
        return frozenset({"anthropic"})
    return _words(labels.get(call_id, ""))


PROMPT_RULES = (
    HistoryRule(name="cerebras-strip-reasoning-content", apply_to_prompt=_no_thoughts),
    HistoryRule(
        name="anthropic-strip-foreign-reasoning-content", apply_to_prompt=_no_plain_thoughts
    ),
    HistoryRule(
        name="anthropic-strip-foreign-signed-reasoning", apply_to_prompt=_no_foreign_signatures
    ),
    HistoryRule(name="anthropic-strip-empty-signed-reasoning", apply_to_prompt=_no_empty_thoughts),
    HistoryRule(name="azure-system-reminder-transform", apply_to_prompt=_other_reminders),
    HistoryRule(name="strip-foreign-provider-executed-tools", apply_to_prompt=_no_foreign_tools),
)
