"""The head of a `SKILL.md`: the texts that stand by name between two lines `---`.

Of YAML this is what skills are described with: texts that are plain, quoted, or blocks after `|`
and `>`. A YAML parser is a package more, and does more than a file from elsewhere should be able
to ask for. Lists and mappings (`metadata`, `allowed-tools`) are passed over.
"""

from __future__ import annotations

import re

import msgspec

from ...errors import InputError

__all__ = ["front_matter"]

_KEY = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?")
_BLOCK = re.compile(r"[|>][0-9+-]{0,2}(?:[ \t]+#.*)?")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")


def front_matter(text: str) -> tuple[dict[str, str], str]:
    """The texts of the head by name, and what comes after it.

    Raises `InputError`, which repeats nothing of the text, when there is no head or one of its
    lines cannot be read.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    ends = [at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"]
    if not lines or lines[0].rstrip() != "---" or not ends:
        raise InputError("it does not begin with front matter between two lines '---'")
    head: dict[str, str] = {}
    for key, first, more in _entries(lines[1 : ends[0]]):
        value = _value(first, more)
        if value is not None:
            head.setdefault(key, value)
    return head, "\n".join(lines[ends[0] + 1 :]).strip("\n")


def _entries(lines: list[str]) -> list[tuple[str, str, list[str]]]:
    """Each key with the rest of its line, and the lines that belong to it."""
    found: list[tuple[str, str, list[str]]] = []
    for at, line in enumerate(lines, 2):
        is_more = line[:1] in (" ", "\t") or not line.strip() or line.startswith(("#", "-"))
        if is_more:
            if found and not line.startswith("#"):
                found[-1][2].append(line)
            continue
        match = _KEY.fullmatch(line.rstrip())
        if match is None:
            raise InputError(f"line {at} of its front matter is no 'name: text'")
        found.append((match[1], match[2] or "", []))
    return found


def _value(first: str, more: list[str]) -> str | None:
    """A text; `None` for what is none."""
    first = first.strip()
    if _BLOCK.fullmatch(first):
        return _block(more, folded=first[0] == ">")
    if not first and any(line.strip().startswith("- ") or _key_in(line) for line in more):
        return None
    whole = " ".join(part for part in (first, *(line.strip() for line in more)) if part)
    if whole.startswith(('"', "'")):
        return _unquoted(whole)
    if whole.startswith(("[", "{", "&", "*", "!")):
        return None
    return _COMMENT.sub("", whole).strip()


def _key_in(line: str) -> bool:
    return _KEY.fullmatch(line.strip()) is not None


def _block(lines: list[str], *, folded: bool) -> str:
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    least = min(indents, default=0)
    text = "\n".join(line[least:].rstrip() for line in lines).strip("\n")
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text) if folded else text


def _unquoted(text: str) -> str:
    quote = text[0]
    body = re.match(r"'((?:[^']|'')*)'" if quote == "'" else r'"((?:[^"\\]|\\.)*)"', text)
    if body is None or _COMMENT.sub("", text[body.end() :]).strip():
        raise InputError("a quoted text in its front matter does not end")
    if quote == "'":
        return body[1].replace("''", "'")
    try:
        return msgspec.json.decode(body[0], type=str)
    except (msgspec.DecodeError, UnicodeError):
        raise InputError("a quoted text in its front matter has an unknown escape") from None
