"""Matching JSON values against expected ones that may hold wildcards."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .names import camel

ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "nothing"})()
"""Stands for a value that is not there."""

Difference = tuple[str, Any, Any]

_ID = re.compile(r"<id:\d+>")
_MENTIONING = re.compile(r"<unscripted text(?: mentioning: (?P<words>.*))?>", re.DOTALL)
_FEEDBACK = re.compile(r"<processor feedback: (?P<reason>.*)>", re.DOTALL)
_TOKENS = ("inputTokens", "outputTokens", "totalTokens")
_EVERYWHERE_FREE = frozenset(("kind", "cause"))
_MADE_BY_BUILTIN = frozenset(("processorId", "strategy", "threshold", "limit"))


class Bindings:
    """Which text each id wildcard stands for; two never stand for the same."""

    def __init__(self, meaning: Mapping[str, str] | None = None) -> None:
        self._meaning = dict(meaning or {})

    def copy(self) -> "Bindings":
        """Bindings to try something out with."""
        return Bindings(self._meaning)

    def adopt(self, other: "Bindings") -> None:
        """Take over what a try has bound."""
        self._meaning = other._meaning

    def bind(self, name: str, text: str) -> bool:
        """Whether `name` may stand for `text`; from now on it does."""
        if name in self._meaning:
            return self._meaning[name] == text
        if text in self._meaning.values():
            return False
        self._meaning[name] = text
        return True


def differences(
    expected: Any, found: Any, path: str, bindings: Bindings, key: str = ""
) -> Iterator[Difference]:
    """Every place below `path` where `found` is not what was expected. `key` names the value."""
    if expected == "<any>" or (key == "usage" and _no_tokens(expected) and _no_tokens(found)):
        return
    if key == "argNames" and isinstance(expected, list) and isinstance(found, list):
        lacking = [name for name in expected if name not in found]
        if lacking:
            yield path, lacking, found
        return
    if isinstance(expected, dict) and isinstance(found, dict):
        if key in ("metadata", "detail") and _MADE_BY_BUILTIN & set(expected):
            expected, found = _camel_keys(expected), _camel_keys(found)
        yield from _objects(expected, found, path, bindings, key)
    elif isinstance(expected, list) and isinstance(found, list):
        yield from _lists(expected, found, path, bindings)
    elif not _equal(expected, found, bindings):
        yield path, expected, found


def _equal(expected: Any, found: Any, bindings: Bindings) -> bool:
    if isinstance(expected, str):
        return _text_matches(expected, found, bindings)
    if expected is None or expected is ABSENT:
        return found is None or found is ABSENT
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    return expected == found


def _text_matches(expected: str, found: Any, bindings: Bindings) -> bool:
    if expected == "<number>":
        return isinstance(found, int | float) and not isinstance(found, bool)
    if not isinstance(found, str):
        return False
    mentioning = _MENTIONING.fullmatch(expected)
    if mentioning:
        words = (mentioning["words"] or "").split(" | ")
        return bool(found.strip()) and all(word.lower() in found.lower() for word in words)
    feedback = _FEEDBACK.fullmatch(expected)
    if feedback:
        return found.startswith("[Processor Feedback]") and feedback["reason"] in found
    if expected.startswith("msg_<id:"):
        return found != ""
    if _ID.search(expected):
        return _ids_match(expected, found, bindings)
    return expected == found


def _ids_match(expected: str, found: str, bindings: Bindings) -> bool:
    """Texts that are ids, or hold some."""
    pattern = "(.+)".join(re.escape(piece) for piece in _ID.split(expected))
    match = re.fullmatch(pattern, found, re.DOTALL)
    return match is not None and all(
        bindings.bind(name, text)
        for name, text in zip(_ID.findall(expected), match.groups(), strict=True)
    )


def _no_tokens(usage: Any) -> bool:
    if isinstance(usage, Mapping):
        return all(usage.get(name) in (None, 0) for name in _TOKENS)
    return usage is None or usage is ABSENT


def _camel_keys(value: Any) -> Any:
    """For what a built-in made: its keys, and the names of hooks in it, in one spelling."""
    if isinstance(value, dict):
        return {
            camel(name): camel(entry)
            if name == "phase" and isinstance(entry, str)
            else _camel_keys(entry)
            for name, entry in value.items()
        }
    return [_camel_keys(entry) for entry in value] if isinstance(value, list) else value


def _objects(
    expected: dict[str, Any], found: dict[str, Any], path: str, bindings: Bindings, key: str
) -> Iterator[Difference]:
    free = _free_keys(expected, found, key)
    for name in sorted(set(expected) | set(found)):
        if name in free or name == "<rest>":
            continue
        if name in expected:
            have = found.get(name, ABSENT)
            yield from differences(expected[name], have, f"{path}.{name}", bindings, name)
        elif "<rest>" not in expected and found[name] is not None:
            yield f"{path}.{name}", ABSENT, found[name]


def _free_keys(expected: dict[str, Any], found: dict[str, Any], key: str) -> set[str]:
    """Keys that do not count in an object of this kind."""
    free = set(_EVERYWHERE_FREE)
    if "role" in expected and "parts" in expected:
        free.add("content")
    if expected.get("type") == "tool-result" and "output" in expected:
        free.add("input")
    if key == "modelSettings":
        free.add("maxRetries")
    is_verdict = "reason" in expected and "processorId" in expected
    if is_verdict and not expected.get("retry") and found.get("retry") is False:
        free.add("retry")
    return free


def _lists(
    expected: Sequence[Any], found: Sequence[Any], path: str, bindings: Bindings
) -> Iterator[Difference]:
    position = 0
    for item in expected:
        if item == "<rest>":
            return
        if isinstance(item, dict) and "<optional>" in item:
            position += _tried(item["<optional>"], found, position, bindings)
        elif isinstance(item, dict) and "<unordered>" in item:
            yield from _unordered(item["<unordered>"], found, position, path, bindings)
            position += len(item["<unordered>"])
        else:
            if position < len(found):
                yield from differences(item, found[position], f"{path}[{position}]", bindings)
            else:
                yield f"{path}[{position}]", item, ABSENT
            position += 1
    for extra in range(position, len(found)):
        yield f"{path}[{extra}]", ABSENT, found[extra]


def _tried(item: Any, found: Sequence[Any], position: int, bindings: Bindings) -> bool:
    """Whether the item stands at `position`; nothing is bound when it does not."""
    if position >= len(found):
        return False
    attempt = bindings.copy()
    if next(differences(item, found[position], "", attempt), None) is not None:
        return False
    bindings.adopt(attempt)
    return True


def _unordered(
    items: Sequence[Any], found: Sequence[Any], start: int, path: str, bindings: Bindings
) -> Iterator[Difference]:
    left = list(items)
    for position in range(start, start + len(items)):
        fitting = next((item for item in left if _tried(item, found, position, bindings)), None)
        if fitting is None:
            have = found[position] if position < len(found) else ABSENT
            yield f"{path}[{position}]", {"one of": left}, have
        else:
            left.remove(fitting)
