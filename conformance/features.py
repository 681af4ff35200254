"""What a scenario needs, and what of it the library has.

A need is a feature group and, where it matters, the name of what must exist. Groups that every
version has are not looked for.
"""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

GROUPS = (
    "core-loop",
    "memory",
    "signals",
    "builtins",
    "tool-search",
    "structured-output",
    "cache",
    "workflows",
)
ALWAYS = frozenset(("core-loop", "signals"))

PUBLIC = (
    "procession",
    "procession.processors",
    "procession.memory",
    "procession.workflows",
    "procession.cache",
    "procession.stores",
)
"""Where public names may live."""

NAMES: dict[str, tuple[str, ...]] = {
    "memory": ("Memory", "InMemoryStore"),
    "tool-search": ("ToolSearchProcessor",),
    "structured-output": ("StructuredOutputProcessor",),
    "cache": ("ResponseCache", "InMemoryServerCache"),
    "workflows": ("create_workflow", "create_step", "ProcessorStepSchema"),
}
"""The names whose presence means that a group exists. Built-ins are looked for one by one."""

_GROUP_OF_BUILTIN = {"ResponseCache": "cache", "ToolSearchProcessor": "tool-search"}
_JUDGES = frozenset(
    (
        "LanguageDetector",
        "ModerationProcessor",
        "PIIDetector",
        "PromptInjectionDetector",
        "SystemPromptScrubber",
    )
)


class Need(NamedTuple):
    """A feature group, and the public name that must exist; `""` for the group as a whole."""

    group: str
    name: str = ""


def find(name: str) -> Any:
    """The library's public object of that name, `None` when there is none."""
    for module in PUBLIC:
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith("procession"):
                raise
            continue
        if found is not None:
            return found
    return None


def has(need: Need) -> bool:
    """Whether the library has it."""
    if need.group in ALWAYS:
        return True
    names = (need.name,) if need.name else NAMES.get(need.group, ())
    return all(find(name) is not None for name in names)


def needs(scenario: Mapping[str, Any]) -> set[Need]:
    """What a scenario needs beyond the core loop."""
    found = set(_found_in(scenario))
    if scenario["agent"].get("memory") is not None:
        found.add(Need("memory"))
    return found


def missing(scenario: Mapping[str, Any]) -> list[Need]:
    """What a scenario needs and the library does not have, sorted."""
    return sorted(need for need in needs(scenario) if not has(need))


def described(absent: list[Need]) -> str:
    """Missing needs in words: `builtins (TokenLimiter), cache`."""
    groups: dict[str, list[str]] = {}
    for need in absent:
        groups.setdefault(need.group, []).extend([need.name] if need.name else [])
    return ", ".join(
        f"{group} ({', '.join(names)})" if names else group for group, names in groups.items()
    )


def _found_in(value: Any) -> Iterator[Need]:
    """Needs that show in what is used, wherever in the scenario it stands."""
    if isinstance(value, Mapping):
        yield from _shown_by(value)
    if isinstance(value, list | Mapping):
        for entry in value.values() if isinstance(value, Mapping) else value:
            yield from _found_in(entry)


def _shown_by(value: Mapping[str, Any]) -> Iterator[Need]:
    """Needs that the keys of one object show."""
    if isinstance(value.get("builtin"), str):
        yield from _builtin(value)
    if value.get("op") == "send_signal":
        yield Need("signals")
    if "structured_output" in value or "structuredOutput" in value:
        yield Need("structured-output")
    if isinstance(value.get("workflow"), Mapping):
        yield Need("workflows")
    if "response_cache" in value:
        yield Need("cache")
    if _is_prefill_error(value.get("error")):
        # The library recovers from this refusal by itself.
        yield Need("builtins", "PrefillErrorHandler")
        yield Need("signals")


def _builtin(value: Mapping[str, Any]) -> Iterator[Need]:
    name: str = value["builtin"]
    group = _GROUP_OF_BUILTIN.get(name, "builtins")
    yield Need(group) if group in NAMES else Need(group, name)
    if name in _JUDGES:
        yield Need("structured-output")
    if name == "PrefillErrorHandler":
        yield Need("signals")


def _is_prefill_error(error: Any) -> bool:
    return isinstance(error, Mapping) and "prefill" in str(error.get("message", "")).lower()
