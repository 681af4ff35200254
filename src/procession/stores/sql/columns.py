"""Texts as columns take them: PostgreSQL refuses NUL, both refuse lone surrogates (M-205).

A text is kept as it is, but for these and the backslash, which are escaped. An id is found by its
key: the text itself, or of a long one its digest, because an index takes no long entries; the text
then stands beside it.
"""

from __future__ import annotations

import hashlib
import json
import re

__all__ = [
    "full",
    "key_of",
    "long_ids",
    "optional_plain",
    "optional_safe",
    "plain_text",
    "safe_text",
]

_UNSAFE = re.compile("[\\\\\x00\ud800-\udfff]")
_ESCAPE = re.compile(r"\\u([0-9a-f]{4})")
_LONGEST = 400
_DIGEST = "\\#"


def safe_text(text: str) -> str:
    """A text for a column."""
    if _UNSAFE.search(text) is None:
        return text
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain_text(text: str) -> str:
    """The text that a column holds."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def optional_safe(text: str | None) -> str | None:
    """As `safe_text`; `None` stays `None`."""
    return None if text is None else safe_text(text)


def optional_plain(text: str | None) -> str | None:
    """As `plain_text`; `None` stays `None`."""
    return None if text is None else plain_text(text)


def key_of(id: str) -> str:
    """What an id is found by: the same for the same id, and for no other."""
    if len(id) <= _LONGEST:
        key = safe_text(id)
        if len(key.encode()) <= _LONGEST:
            return key
    return _DIGEST + hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()


def long_ids(**ids: str) -> str | None:
    """Those of a row's ids that their keys do not tell, as JSON; mostly there are none."""
    found = {name: id for name, id in ids.items() if key_of(id).startswith(_DIGEST)}
    return json.dumps(found) if found else None


def full(name: str, key: str, long: str | None) -> str:
    """The id of a key, from the row's long ones if it is one."""
    return json.loads(long)[name] if long and key.startswith(_DIGEST) else plain_text(key)
