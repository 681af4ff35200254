"""Forms that need no words: roles and templates that are forged, calls of tools that are written
into a text, and pictures whose address carries data away.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["comments_in", "read_markers"]

TEMPLATE = re.compile(
    r"<\|(?:im_(?:start|end|sep)|system|user|assistant|end(?:oftext|_of_text|ofprompt)?|eot_id|eom_id"
    r"|begin_of_text|start_header_id|end_header_id|channel|message|python_tag)\|>"
    r"|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<\uff5c[\w\u2581 ]{3,24}\uff5c>",
    re.IGNORECASE,
)
"""Tokens that divide turns in the chat templates of models."""

_ROLE = (
    r"system|assistant|developer|ai|sistema|syst[e\xe8]me|\u7cfb\u7edf|\u30b7\u30b9\u30c6\u30e0"
    r"|\uc2dc\uc2a4\ud15c|\u0441\u0438\u0441\u0442\u0435\u043c\u0430"
)
ROLE_LINE = re.compile(
    rf"^[ \t>]{{0,8}}(?:#{{1,6}} {{0,2}}|\*\*|\[|<|={{2,8}} ?|-{{2,8}} ?)?"
    rf"(?P<role>{_ROLE})(?: (?:message|prompt|instructions?|note))?"
    r"(?:\*\*|\]|>| ?={2,8}| ?-{2,8})?[ \t]{0,4}[:\uff1a](?P<rest>[^\n]{0,200})",
    re.IGNORECASE | re.MULTILINE,
)
ORDERED = re.compile(
    r"\b(?:you (?:are|must|will|shall|should|may|can)|from now on|new (?:task|instructions?|rules?)"
    r"|ignore|disregard|override|comply|obey|grant(?:ed)?|authori[sz]|unlock|disable|mode|reveal"
    r"|restrictions?|safety|policy|tu (?:es|dois)|vous devez|du (?:bist|musst)|eres|debes|sei|devi"
    r"|voc\xea)\b|\u4f60|\u5fc5\u987b|\u3042\u306a\u305f|\u3057\u306a\u3055\u3044|\ub108\ub294"
    r"|\ub2f9\uc2e0|\u0442\u044b ",
    re.IGNORECASE,
)
TAG = re.compile(
    r"<(?P<end>/?)(?P<role>system|assistant|user|developer|instructions?)(?:_prompt)?>",
    re.IGNORECASE,
)
CLOSING = re.compile(
    r"</(?:system|assistant|user|developer|instructions?|context|documents?|data|input"
    r"|query|untrusted|(?:tool|search)_results?)(?:_(?:prompt|message|input|data|content|text))?>"
    r"|\[/(?:system|assistant|user|instructions?|context)\]",
    re.IGNORECASE,
)
"""The end of what is given to a model as data, as a forger would write it."""
TURNED = re.compile(
    rf"\s*(?:[<\[#*=-]{{1,6}} ?)?(?:new |updated |real )?(?:{_ROLE}|instructions?|task)"
    r"(?:[ _](?:message|prompt|instructions?|note|override|update))?"
    r"(?:[>\]*= ]{0,6}[:\uff1a]|[>\]])"
    r"|\s*(?:you (?:are|must|will|shall) |from now on|ignore |disregard |forget )",
    re.IGNORECASE,
)
"""What a forger goes on with: another who speaks, or orders."""
DIVIDER = re.compile(
    r"(?:^|\n)[ \t]{0,8}[-=#*<\[]{2,12} ?(?:end|begin|start) (?:of )?(?:the )?"
    r"(?:user(?:'s)? (?:input|message|prompt|query)|system (?:prompt|message|instructions?)"
    r"|instructions?|document|context)\b",
    re.IGNORECASE,
)
CALL_TAG = re.compile(
    r"<(?:tool_call|tool_use|function_calls?|invoke name=|function=|\|?tool_calls?_begin|tool_code)"
    r"\b[^<]{0,40}",
    re.IGNORECASE,
)
CALL_JSON = re.compile(
    r"\"(?:tool_calls?|function_call|tool_use|tool_name)\"\s{0,8}:\s{0,8}[\[{\"]"
    r"|\"(?:name|tool|function)\"\s{0,8}:\s{0,8}\"[\w.-]{1,64}\"\s{0,8},\s{0,8}"
    r"\"(?:arguments|parameters|tool_input)\"\s{0,8}:\s{0,8}[{\"]"
)
IMAGE = re.compile(
    r"!\[[^\]\n]{0,200}\]\(\s{0,4}<?(?P<url>https?://[^\s>)]{1,2000})"
    r"|<img\b[^>]{0,200}?\bsrc\s{0,4}=\s{0,4}[\"']?(?P<src>https?://[^\"'\s>]{1,2000})",
    re.IGNORECASE,
)
LINK = re.compile(r"(?<!!)\[[^\]\n]{0,200}\]\(\s{0,4}<?(?P<url>https?://[^\s>)]{1,2000})")
BLANKS = re.compile(
    r"[?&/=][^?&=/\s]{0,40}(?:\{\{?[^{}\s]{0,60}\}|\[[A-Za-z_ -]{3,40}\]|<[A-Za-z_ -]{3,40}>?"
    r"|\$\{|%7B|%s"
    r"|\b(?:YOUR|INSERT|DATA|SECRET|PROMPT|CONVERSATION|SUMMARY|HISTORY|BASE64)(?:_[A-Z0-9]+)*\b)"
)
"""Something that is to be filled in, in a query or a path."""
SPOKEN = re.compile(
    r"[?&](?:conversation|history|chat|prompt|secrets?|system|leak|exfil\w*|memory|passwords?|api_?keys?)=",
    re.IGNORECASE,
)
MD_COMMENT = re.compile(
    r"^\[(?://|comment)\]: ?#? ?[(\"'][^\n]{1,2000}", re.MULTILINE | re.IGNORECASE
)


def read_markers(text: str) -> Iterator[Finding]:
    """The forms in a text, as it was written."""
    if "<" in text or "[" in text:
        yield from _templates(text)
        yield from _images(text)
    if ":" in text or "\uff1a" in text:
        yield from _roles(text)
    for match in DIVIDER.finditer(text):
        yield Finding("system-override", 0.75, match.start(), match.end())
    if '"' in text:
        for match in CALL_JSON.finditer(text):
            yield Finding("tool-exfiltration", 0.5, match.start(), match.end())


def _templates(text: str) -> Iterator[Finding]:
    for match in TEMPLATE.finditer(text):
        score = 0.55 if _is_code(text, match.start()) else 0.8
        yield Finding("system-override", score, match.start(), match.end())
    for match in CALL_TAG.finditer(text):
        score = 0.5 if _is_code(text, match.start()) else 0.75
        yield Finding("tool-exfiltration", score, match.start(), match.end())
    for match in CLOSING.finditer(text):
        if TURNED.match(text, match.end()) and not _was_opened(text, match):
            score = 0.55 if _is_code(text, match.start()) else 0.8
            end = min(match.end() + 200, len(text))
            yield Finding("system-override", score, match.start(), end)
    for match in TAG.finditer(text):
        rest = text[match.end() : match.end() + 200]
        if match["role"].lower() in ("system", "developer") and not match["end"]:
            score = 0.8 if ORDERED.search(rest) else 0.55
            score -= 0.25 if _is_code(text, match.start()) else 0
            yield Finding("system-override", score, match.start(), match.end() + len(rest))


def _was_opened(text: str, closing: re.Match[str]) -> bool:
    """Whether it closes what has been opened, as far as can be seen from close by."""
    opening = closing.group().replace("/", "", 1).lower()
    return opening in text[max(0, closing.start() - 2000) : closing.start()].lower()


def _roles(text: str) -> Iterator[Finding]:
    for match in ROLE_LINE.finditer(text):
        score = 0.75 if ORDERED.search(match["rest"] or _next_line(text, match.end())) else 0.35
        yield Finding("system-override", score, match.start(), match.end())


def _next_line(text: str, at: int) -> str:
    return text[at : at + 200]


def _images(text: str) -> Iterator[Finding]:
    for pattern, score in ((IMAGE, 0.85), (LINK, 0.6)):
        for match in pattern.finditer(text):
            url = match.groupdict().get("url") or match.groupdict().get("src") or ""
            if BLANKS.search(url) or SPOKEN.search(url):
                yield Finding("data-exfiltration", score, match.start(), match.end())


def _is_code(text: str, at: int) -> bool:
    """Whether a place is within backticks, as far as can be seen from close by."""
    before = text[max(0, at - 2000) : at]
    return before.count("```") % 2 == 1 or before.rpartition("\n")[2].count("`") % 2 == 1


def comments_in(text: str) -> list[tuple[int, int]]:
    """Where comments stand, of HTML and of Markdown: what a page that is rendered does not show."""
    spans = [match.span() for match in MD_COMMENT.finditer(text)] if "]: " in text else []
    at = text.find("<!--")
    while at >= 0:
        end = text.find("-->", at)
        if end < 0:
            return [*spans, (at, len(text))]
        spans.append((at, end + 3))
        at = text.find("<!--", end)
    return spans
