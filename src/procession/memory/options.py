"""What memory can be told: options, checked once, and merged with those of a call (M-020)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict, cast

from msgspec import Struct

from ..errors import OptionError
from ..keywords import check_keywords
from ..processors.option_checks import flag, mapping_or_none, number, one_of, text_or_none, whole

__all__ = [
    "DEFAULT_LAST_MESSAGES",
    "HistoryBudget",
    "MemoryOptions",
    "MessageHistoryDict",
    "OptionsDict",
    "RecallOptions",
    "SemanticRecallDict",
    "TitleDict",
    "TitleOptions",
    "WorkingMemoryDict",
    "WorkingMemoryOptions",
    "merged_options",
    "read_options",
    "read_recall",
]

DEFAULT_LAST_MESSAGES = 10
DEFAULT_MIN_MESSAGES = 2

Scope = Literal["resource", "thread"]
_SCOPES = ("resource", "thread")


class MessageHistoryDict(TypedDict):
    """How much of the history a prompt may hold, in tokens (M-091)."""

    max_tokens: int
    at_max_remove_tokens: NotRequired[int]


class SemanticRecallDict(TypedDict, total=False):
    """What is looked for, and how much comes with it."""

    top_k: int
    message_range: int | Mapping[str, int]
    scope: Scope
    threshold: float | None
    filter: Mapping[str, Any] | None
    index_name: str | None
    index_config: Mapping[str, Any] | None
    embedder_options: Mapping[str, Any] | None


class WorkingMemoryDict(TypedDict, total=False):
    """The agent's own notes: `template` is Markdown, `schema` a pydantic model or JSON Schema."""

    enabled: bool
    scope: Scope
    template: str
    schema: Any
    agent_managed: bool
    use_state_signals: bool
    version: Literal["stable"]


class TitleDict(TypedDict, total=False):
    """How titles are made; `model` is the agent's own unless given (M-160)."""

    model: Any
    instructions: str
    min_messages: int
    emit_event: bool


class OptionsDict(TypedDict, total=False):
    """The options of a `Memory`, and of one call."""

    last_messages: int | Literal[False]
    message_history: MessageHistoryDict | None
    semantic_recall: bool | SemanticRecallDict
    working_memory: WorkingMemoryDict
    generate_title: bool | TitleDict
    read_only: bool
    retain_full_input: bool
    save_on_abort: bool


class HistoryBudget(Struct, frozen=True, kw_only=True):
    """A prompt of more than `max_tokens` is cut down by its history, `remove` tokens further."""

    max_tokens: int
    remove: int


class RecallOptions(Struct, frozen=True, kw_only=True):
    """`semantic_recall`; `before` and `after` are the neighbours that come with a hit."""

    top_k: int = 4
    before: int = 1
    after: int = 1
    scope: Scope = "resource"
    threshold: float | None = None
    filter: Mapping[str, Any] | None = None
    index_name: str | None = None
    index_config: Mapping[str, Any] | None = None
    embedder_options: Mapping[str, Any] | None = None


class WorkingMemoryOptions(Struct, frozen=True, kw_only=True):
    """`working_memory`, when it is enabled."""

    scope: Scope = "resource"
    template: str | None = None
    schema: Any = None
    agent_managed: bool = True
    use_state_signals: bool = False


class TitleOptions(Struct, frozen=True, kw_only=True):
    """`generate_title`, when it is wanted."""

    model: Any = None
    instructions: str | None = None
    min_messages: int = DEFAULT_MIN_MESSAGES
    emit_event: bool = False


class MemoryOptions(Struct, frozen=True, kw_only=True):
    """The options in force: what is `None`, or 0, is switched off.

    `last_messages` is `None` where only `budget` limits the history.
    """

    last_messages: int | None = DEFAULT_LAST_MESSAGES
    budget: HistoryBudget | None = None
    semantic_recall: RecallOptions | None = None
    working_memory: WorkingMemoryOptions | None = None
    generate_title: TitleOptions | None = None
    read_only: bool = False
    retain_full_input: bool = False
    save_on_abort: bool = False

    @property
    def has_history(self) -> bool:
        """Whether messages are loaded and saved (M-023)."""
        return self.last_messages != 0


_KEYS = tuple(OptionsDict.__annotations__)


def merged_options(owner: str, known: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """`given` over `known`: what both say in a mapping is merged, `True` keeps what is known."""
    merged = dict(known)
    for key, value in _named(owner, "options", given, _KEYS).items():
        before = merged.get(key)
        if isinstance(before, Mapping) and value is True:
            continue
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            keys = _NESTED[key]
            value = {
                **_named(owner, key, before, keys),
                **_named(owner, key, value, keys),
            }
        merged[key] = value
    return merged


def read_options(owner: str, given: Any) -> MemoryOptions:
    """The options, checked; raises `OptionError`, which names the option (M-026)."""
    asked = _named(owner, "options", given, _KEYS)
    budget = _budget(owner, asked.get("message_history"))
    return MemoryOptions(
        last_messages=_last_messages(owner, asked, budget),
        budget=budget,
        semantic_recall=read_recall(owner, asked.get("semantic_recall", False)),
        working_memory=_working(owner, asked.get("working_memory")),
        generate_title=_title(owner, asked.get("generate_title", False)),
        **{
            name: flag(owner, name, asked[name])
            for name in ("read_only", "retain_full_input", "save_on_abort")
            if name in asked
        },
    )


def _last_messages(
    owner: str, asked: Mapping[str, Any], budget: HistoryBudget | None
) -> int | None:
    last: Any = asked.get("last_messages")
    if last is False:
        return 0
    if last is None:
        return DEFAULT_LAST_MESSAGES if budget is None else None
    if last is True:
        raise OptionError(f"{owner}: last_messages must be a whole number, or False for none")
    return whole(owner, "last_messages", last)


def _budget(owner: str, given: Any) -> HistoryBudget | None:
    asked = _named(owner, "message_history", given, MessageHistoryDict.__annotations__)
    if not asked:
        return None
    if "max_tokens" not in asked:
        raise OptionError(f"{owner}: message_history needs max_tokens")
    most = whole(owner, "message_history: max_tokens", asked["max_tokens"])
    remove: Any = asked.get("at_max_remove_tokens")
    remove = most // 4 if remove is None else remove
    if whole(owner, "message_history: at_max_remove_tokens", remove) > most:
        raise OptionError(
            f"{owner}: message_history: at_max_remove_tokens must be at most max_tokens, {most}"
        )
    return HistoryBudget(max_tokens=most, remove=remove) if most else None


def read_recall(owner: str, given: Any) -> RecallOptions | None:
    """`semantic_recall`, checked; `None` when it is off."""
    name = "semantic_recall"
    asked = _switched(owner, name, given)
    if asked is None:
        return None
    before, after = _range(owner, asked.pop("message_range", 1))
    threshold = asked.get("threshold")
    if threshold is not None:
        number(owner, f"{name}: threshold", threshold, most=1.0)
    whole(owner, f"{name}: top_k", asked.get("top_k", 4), least=1)
    one_of(owner, f"{name}: scope", asked.get("scope", "resource"), _SCOPES)
    text_or_none(owner, f"{name}: index_name", asked.get("index_name"))
    for key in ("filter", "index_config", "embedder_options"):
        mapping_or_none(owner, f"{name}: {key}", asked.get(key))
    return RecallOptions(before=before, after=after, **asked)


def _range(owner: str, given: Any) -> tuple[int, int]:
    name = "semantic_recall: message_range"
    if isinstance(given, Mapping):
        asked = _named(owner, name, given, ("before", "after"))
        return tuple(whole(owner, f"{name}: {k}", asked.get(k, 0)) for k in ("before", "after"))  # pyright: ignore[reportReturnType]
    count = whole(owner, name, given)
    return count, count


def _working(owner: str, given: Any) -> WorkingMemoryOptions | None:
    name = "working_memory"
    asked = _named(owner, name, given, _NESTED[name])
    for key in ("enabled", "agent_managed", "use_state_signals"):
        if key in asked:
            flag(owner, f"{name}: {key}", asked[key])
    one_of(owner, f"{name}: scope", asked.get("scope", "resource"), _SCOPES)
    one_of(owner, f"{name}: version", asked.pop("version", "stable"), ("stable",))
    text_or_none(owner, f"{name}: template", asked.get("template"))
    if asked.get("template") is not None and asked.get("schema") is not None:
        raise OptionError(f"{owner}: {name} takes a template or a schema, not both")
    return WorkingMemoryOptions(**asked) if asked.pop("enabled", False) else None


def _title(owner: str, given: Any) -> TitleOptions | None:
    name = "generate_title"
    asked = _switched(owner, name, given)
    if asked is None:
        return None
    text_or_none(owner, f"{name}: instructions", asked.get("instructions"))
    flag(owner, f"{name}: emit_event", asked.get("emit_event", False))
    least = asked.get("min_messages", DEFAULT_MIN_MESSAGES)
    whole(owner, f"{name}: min_messages", least, least=1)
    return TitleOptions(**asked)


def _switched(owner: str, name: str, given: Any) -> dict[str, Any] | None:
    """The details of what is on; `None` for what is off."""
    if given is None or isinstance(given, bool):
        return {} if given else None
    return _named(owner, name, given, _NESTED[name])


_NESTED: dict[str, tuple[str, ...]] = {
    "message_history": tuple(MessageHistoryDict.__annotations__),
    "semantic_recall": tuple(SemanticRecallDict.__annotations__),
    "working_memory": tuple(WorkingMemoryDict.__annotations__),
    "generate_title": tuple(TitleDict.__annotations__),
}

_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")


def _named(owner: str, what: str, given: Any, known: Any) -> dict[str, Any]:
    """A mapping of options in snake_case; clients that speak JSON may write camelCase."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise OptionError(f"{owner}: {what} must be a mapping, not {type(given).__name__}")
    found = {
        _CAPITAL.sub(r"_\1", str(key)).lower(): value
        for key, value in cast("Mapping[Any, Any]", given).items()
    }
    check_keywords(owner if what == "options" else f"{owner}: {what}", found, known)
    return found
