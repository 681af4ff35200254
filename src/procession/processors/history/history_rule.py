"""One rule about what a provider takes of a conversation, in the form that users write."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn, cast

from msgspec import Struct

from ...errors import OptionError
from ...message_list import MessageList
from ...messages import Message
from ...model import LanguageModel, Prompt

__all__ = ["CompiledRule", "HistoryRule", "RulePrompt", "compiled"]


class RulePrompt(Struct, kw_only=True):
    """What a rule is told before a call: the prompt, the model that is asked, the conversation."""

    prompt: Prompt
    """As the rules before have left it. It is this call's own: it may be edited and returned."""
    model: LanguageModel
    message_list: MessageList


class HistoryRule(Struct, frozen=True, kw_only=True):
    """A rule of `ProviderHistoryCompat` (B-441). It acts before a call, after an error, or both.

    `apply_to_prompt` gives the prompt to send instead, or `None` to leave it as it is. It changes
    this call only.

    `fix` edits the messages in place, once a call has failed with an error that one of
    `error_patterns` finds in its message or response body, or in those of its causes; it says
    whether it changed anything. Patterns are regular expressions, texts among them ignoring case.

    Both functions are plain, not async.
    """

    name: str
    error_patterns: Sequence[str | re.Pattern[str]] = ()
    fix: Callable[[list[Message]], bool] | None = None
    apply_to_prompt: Callable[[RulePrompt], Prompt | None] | None = None


class CompiledRule(NamedTuple):
    """A rule with its patterns made ready."""

    name: str
    patterns: tuple[re.Pattern[str], ...]
    fix: Callable[[list[Message]], Any] | None
    apply_to_prompt: Callable[[RulePrompt], Any] | None

    def is_about(self, words: str) -> bool:
        """Whether an error that says this is one to repair."""
        return any(pattern.search(words) for pattern in self.patterns)


_KEYS = HistoryRule.__struct_fields__


def compiled(given: Any, where: str) -> CompiledRule:
    """A rule, checked; it may be a mapping with the fields of a `HistoryRule` as keys.

    Raises `OptionError` for one that cannot work; `where` names it.
    """
    if isinstance(given, Mapping):
        given = _from_mapping(cast("Mapping[str, Any]", given), where)
    if not isinstance(given, HistoryRule):
        _refuse(where, f"must be a HistoryRule, or a mapping of its fields, not {_kind(given)}")
    name: Any = given.name
    if not isinstance(name, str) or not name:
        _refuse(where, "needs a name")
    patterns = _patterns(given.error_patterns, where)
    for option in ("fix", "apply_to_prompt"):
        function = getattr(given, option)
        if function is not None and not callable(function):
            _refuse(where, f"{option} must be callable, not {_kind(function)}")
        if inspect.iscoroutinefunction(function):
            _refuse(where, f"{option} must be a plain function, not an async one")
    if given.fix is None and given.apply_to_prompt is None:
        _refuse(where, "needs fix or apply_to_prompt, or it does nothing")
    if (given.fix is not None) != bool(patterns):
        _refuse(where, "needs both fix and error_patterns, or neither")
    return CompiledRule(name, patterns, given.fix, given.apply_to_prompt)


def _from_mapping(given: Mapping[str, Any], where: str) -> HistoryRule:
    for key in given:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f": it takes {', '.join(_KEYS)}"
            _refuse(where, f"has an unknown key {key!r}{hint}")
    fields: dict[str, Any] = {"name": "", **given}
    return HistoryRule(**fields)


def _patterns(given: Any, where: str) -> tuple[re.Pattern[str], ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        _refuse(where, f"error_patterns must be a list, not {_kind(given)}")
    found: list[re.Pattern[str]] = []
    for pattern in cast("Iterable[Any]", given):
        if isinstance(pattern, re.Pattern) and isinstance(cast("Any", pattern).pattern, str):
            found.append(cast("re.Pattern[str]", pattern))
            continue
        if not isinstance(pattern, str):
            _refuse(where, f"each of error_patterns must be a text, not {_kind(pattern)}")
        try:
            found.append(re.compile(pattern, re.IGNORECASE))
        except re.error as error:
            _refuse(where, f"error_patterns: {pattern[:40]!r} is no regular expression: {error}")
    return tuple(found)


def _kind(value: Any) -> str:
    return type(value).__name__


def _refuse(where: str, problem: str) -> NoReturn:
    raise OptionError(f"ProviderHistoryCompat: {where} {problem}")
