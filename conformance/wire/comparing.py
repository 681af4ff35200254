"""Where a reading differs from what the provider's own SDK makes of the same bytes."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["differences"]


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The place and the values of each field of `expected` that `found` has otherwise.

    What is absent equals `null`: both mean that the provider gave none. Of errors only the status
    counts, and that there is one: class name and wording are the SDK's.
    """
    if "error" not in expected or "error" not in found:
        return list(_fields(expected, found))
    want, have = expected["error"].get("status"), found["error"].get("status")
    return [] if str(want) == str(have) else [("error.status", _values(want, have))]


def _fields(expected: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if ("error" in expected) != ("error" in found):
        yield "error", _values(expected.get("error"), found.get("error"))
        return
    for key, want in expected.items():
        yield from _compared(key, want, found.get(key))


def _compared(path: str, want: Any, have: Any) -> Iterator[tuple[str, str]]:
    if isinstance(want, dict) and isinstance(have, dict) and not path.endswith(".args"):
        for key, value in want.items():
            yield from _compared(f"{path}.{key}", value, have.get(key))
    elif isinstance(want, list) and isinstance(have, list) and len(want) == len(have):
        for at, (left, right) in enumerate(zip(want, have, strict=True)):
            yield from _compared(f"{path}[{at}]", left, right)
    elif want != have:
        yield path, _values(want, have)


def _values(want: Any, have: Any) -> str:
    return f"expected {_shown(want)}, got {_shown(have)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else f"{text[:197]}..."
