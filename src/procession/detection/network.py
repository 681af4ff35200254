"""What names a place or a machine on a network: mail addresses, URLs, IP addresses, UUIDs."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scan import Scan

__all__ = ["emails", "ip_addresses", "urls", "urls_with_credentials", "uuids"]

Found = tuple[int, int, float]

AT = re.compile(
    r"@|[(\[{]@[)\]}]|[(\[{][aA][tT][)\]}]|%40|&(?:#0{0,4}64|#[xX]0{0,4}40|commat);|\\u0040"
)
"""The sign, in disguise, or as URLs, HTML and JSON have it."""
DOT = r"(?:\.|[(\[{](?:\.|[dD][oO][tT])[)\]}])"
LOCAL_CHARS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\xe9._%+-'"
LOCAL_DOT = re.compile(r"[(\[{](?:\.|[dD][oO][tT])[)\]}]\Z")
DOMAIN = re.compile(
    rf"(?:[A-Za-z0-9\xe9](?:[A-Za-z0-9\xe9-]{{0,61}}[A-Za-z0-9\xe9])?{DOT}){{1,8}}"
    r"(?:[xX][nN]--[A-Za-z0-9-]{2,59}|[A-Za-z\xe9]{2,24})(?![A-Za-z0-9\xe9_@])"
)
"""Host names; the last label is of letters, or an encoded one."""


def emails(scan: Scan) -> Iterator[Found]:
    """Mail addresses, with `(at)` and `[dot]` as well."""
    text = scan.text
    done = 0
    for sign in AT.finditer(text):
        start = local_start(text, done, sign.start())
        if start == sign.start():
            continue
        domain = DOMAIN.match(text, sign.end())
        if domain is None or is_git_remote(text, start, sign, domain.end()):
            continue
        done = domain.end()
        yield start, done, 1.0 if sign[0] == "@" else 0.9


def local_start(text: str, floor: int, end: int) -> int:
    """Where the part before the `@` begins, at most 64 characters back."""
    start = end
    while True:
        floor = max(floor, end - 64)
        start = floor + len(text[floor:start].rstrip(LOCAL_CHARS))
        dot = LOCAL_DOT.search(text, max(floor, start - 5), start)
        if dot is None or dot.start() <= floor:
            break
        start = dot.start()
    while start < end and text[start] in ".%+-'":
        start += 1
    return start if text[end - 1 : end] != "." else end


def is_git_remote(text: str, start: int, sign: re.Match[str], end: int) -> bool:
    """Whether it is the `git@host:` of a repository's address."""
    return text[start : sign.start()] == "git" and text[end : end + 1] == ":"


URL = re.compile(
    r"(?<![A-Za-z0-9\xe9])(?:(?:[hH][tT][tT][pP][sS]?|[fF][tT][pP][sS]?|[sS][fF][tT][pP]|[wW][sS][sS]?)"
    r"://|[wW][wW][wW]\d?\.(?=[A-Za-z0-9\xe9-]+\.))[^\s<>\"`{}|\\^]{2,4096}"
)
ANY_URL = re.compile(
    r"(?<![A-Za-z0-9\xe9])[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s<>\"`|\\^/@:]{0,256}:[^\s<>\"`|\\^/@]{1,256}"
    r"@[^\s<>\"`|\\^]{1,4096}"
)
TRAILING = ".,;:!?'*_~"
PAIRS = {")": "(", "]": "[", "}": "{"}


def urls(scan: Scan) -> Iterator[Found]:
    """Addresses with a scheme of the web, or that begin with `www.`."""
    if "://" not in scan.text and "www" not in scan.text.lower():
        return
    for match in URL.finditer(scan.text):
        end = url_end(scan.text, match.start(), match.end())
        if scan.text[match.start() : end].rstrip("/").rpartition("//")[2]:
            yield match.start(), end, 1.0


def urls_with_credentials(scan: Scan) -> Iterator[Found]:
    """Addresses of any scheme with a user and a password in them."""
    if "://" not in scan.text or "@" not in scan.text:
        return
    for match in ANY_URL.finditer(scan.text):
        yield match.start(), url_end(scan.text, match.start(), match.end()), 1.0


def url_end(text: str, start: int, end: int) -> int:
    """The end without what belongs to the sentence around the URL."""
    while end > start:
        last = text[end - 1]
        opening = PAIRS.get(last)
        if opening is not None and text.count(opening, start, end) < text.count(last, start, end):
            end -= 1
        elif last in TRAILING:
            end -= 1
        else:
            break
    return end


OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = re.compile(rf"(?<![A-Za-z0-9\xe9_.])(?:{OCTET}\.){{3}}{OCTET}(?![A-Za-z0-9\xe9_]|\.[0-9])")
IPV6 = re.compile(
    r"(?<![A-Za-z0-9\xe9_.])(?<![0-9A-Fa-f:]:)(?=[0-9A-Fa-f]{1,4}:|::)(?=[0-9A-Fa-f:.]*:[0-9A-Fa-f.]*:?)[0-9A-Fa-f:]{2,39}"
    r"(?:(?<=:)[0-9]{1,3}(?:\.[0-9]{1,3}){3})?(?![A-Za-z0-9\xe9_:])"
)
VERSION_BEFORE = re.compile(
    r"(?:\b(?:v|ver|vers\w{0,7}|release\w*|build|firmware|driver|revision|rev|section|sec|chapter"
    r"|clause|figure|fig|table|paragraph|assembly|upgrad\w*|sdk|chrome|chromium|edge|schema)"
    r"[.:#]?(?: to| from| is| no\.?| number)?[ \t]*[=:]?[ \t]*[\"'(]?"
    r"|(?:\xa7|版本|版|バージョン|버전|संस्करण)[ :\uff1a]?|[a-z][/_-]|(?:[=~^<>!]=|[~^])[ \t]?)\Z",
    re.IGNORECASE,
)


def ip_addresses(scan: Scan) -> Iterator[Found]:
    """Addresses of version 4 and 6; no version numbers, no times of day."""
    for match in IPV4.finditer(scan.text):
        if not is_version(scan, match.start()):
            yield *match.span(), 0.95
    if ":" in scan.text:
        for match in IPV6.finditer(scan.text):
            if is_ipv6(match[0]):
                yield *match.span(), 0.95


MAIL_BEFORE = re.compile(r"@[A-Za-z0-9\xe9.-]+[/_-]\Z")


def is_version(scan: Scan, start: int) -> bool:
    """Whether what stands before says that a number with dots is no address."""
    return scan.said(VERSION_BEFORE, start) and not MAIL_BEFORE.search(scan.before(start))


def is_ipv6(value: str) -> bool:
    """Whether it is an address and not `a::b` of a program or a time."""
    if value.count(":") < 2 or not any(char.isdigit() for char in value):
        return False
    try:
        ipaddress.IPv6Address(value)
    except ValueError:
        return False
    return True


UUID = re.compile(
    r"(?<![A-Za-z0-9\xe9_-])[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"(?![A-Za-z0-9\xe9_-])"
)


def uuids(scan: Scan) -> Iterator[Found]:
    """UUIDs in their usual form."""
    if scan.text.count("-") >= 4:
        for match in UUID.finditer(scan.text):
            yield *match.span(), 1.0
