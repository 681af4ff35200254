"""Regular expressions taken apart: how long a match can be, and what may still become one.

RE2 has no partial match. Its stand-in is a second expression, made of the beginnings of the first:
tied to the end of a text, it finds the first place from which on the text could go on to a match.
Expressions are read as RE2 reads them, and have been found to be good ones before; characters and
classes are handed on as they were written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Node", "parsed"]

_QUANTIFIER = re.compile(r"([*+?])|\{(\d+)(?:(,)(\d*))?\}")
_GROUP = re.compile(r"\(\?(?:P?<\w+>|([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)]))")
_ESCAPE = re.compile(
    r"\\(?:x\{[^}]*\}|x..|[pP]\{[^}]*\}|[pP].|0[0-7]{0,2}|[1-7][0-7]{1,2}|.)", re.S
)
_CLASS = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\[pPx]\{[^}]*\}|\\.|[^\]\\])*\]", re.S)
_BEHIND = frozenset({"^", "\\A", "\\b", "\\B"})
_AHEAD = frozenset({"$", "\\z", "\\b", "\\B"})


class Node:
    """A part of an expression, and what it says about its matches."""

    __slots__ = ("begun", "first", "full", "longest", "shortest")

    def __init__(
        self,
        full: str,
        begun: str,
        shortest: int,
        longest: int | None,
        first: frozenset[str] = frozenset(),
    ) -> None:
        self.full = full
        """The part itself, so that it can be put together with others."""
        self.begun = begun
        """What may go on to a match of the part: its beginnings, and matches that may grow."""
        self.shortest = shortest
        self.longest = longest
        """Lengths in characters; `None`: there is no longest one."""
        self.first = first
        """The atoms that a match can begin with."""


class Parsed:
    """A whole expression."""

    __slots__ = ("atoms", "looks_ahead", "looks_behind", "loops", "node")

    def __init__(self, source: str) -> None:
        self.atoms: set[str] = set()
        """Its characters and classes, as expressions of their own."""
        self.loops: set[str] = set()
        """Those of them that may be repeated without bound."""
        self.looks_behind = self.looks_ahead = False
        """Whether what stands before or behind a match may decide whether it is one."""
        self.node = _Reader(source, self).whole()


def parsed(source: str) -> Parsed:
    """Take apart an expression that RE2 takes."""
    return Parsed(source)


class _Reader:
    def __init__(self, source: str, found: Parsed) -> None:
        self._source = source
        self._found = found
        self._at = 0
        self._flags: frozenset[str] = frozenset()

    def whole(self) -> Node:
        return self._alternatives()

    def _alternatives(self) -> Node:
        branches = [self._sequence()]
        while self._source.startswith("|", self._at):
            self._at += 1
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        longest = [branch.longest for branch in branches]
        return Node(
            f"(?:{'|'.join(branch.full for branch in branches)})",
            f"(?:{'|'.join(branch.begun for branch in branches)})",
            min(branch.shortest for branch in branches),
            None if None in longest else max(length for length in longest if length is not None),
            frozenset(atom for branch in branches for atom in branch.first),
        )

    def _sequence(self) -> Node:
        return _in_a_row(list(self._items()))

    def _items(self) -> Iterator[Node]:
        source, size = self._source, len(self._source)
        while self._at < size and source[self._at] not in "|)":
            before = set(self._found.atoms)
            self._found.atoms.clear()
            node = self._item()
            if node is not None:
                yield self._repeated(node)
            self._found.atoms |= before

    def _item(self) -> Node | None:
        source, at = self._source, self._at
        first = source[at]
        if first == "(":
            return self._group()
        if first == "[":
            return self._atom(_CLASS, at)
        if first == "\\":
            if source.startswith("\\Q", at):
                return self._quoted()
            return self._atom(_ESCAPE, at)
        self._at += 1
        if first in "^$":
            return self._assertion(first)
        return self._character(first)

    def _atom(self, form: re.Pattern[str], at: int) -> Node:
        match = form.match(self._source, at)
        assert match is not None, "RE2 has taken it"
        self._at = match.end()
        if match[0] in _BEHIND or match[0] in _AHEAD:
            return self._assertion(match[0])
        return self._character(match[0])

    def _quoted(self) -> Node:
        end = self._source.find("\\E", self._at)
        end = len(self._source) if end < 0 else end
        text = self._source[self._at + 2 : end]
        self._at = end + 2
        return _in_a_row([self._character(re.escape(character)) for character in text])

    def _character(self, written: str) -> Node:
        written = self._flagged(written)
        self._found.atoms.add(written)
        return Node(written, "", 1, 1, frozenset({written}))

    def _assertion(self, written: str) -> Node:
        many_lines = "m" in self._flags
        self._found.looks_behind |= written in _BEHIND
        self._found.looks_ahead |= written in _AHEAD
        return Node(f"(?m:{written})" if many_lines else written, "", 0, 0)

    def _flagged(self, written: str) -> str:
        flags = "".join(sorted(self._flags & {"i", "s"}))
        return f"(?{flags}:{written})" if flags else written

    def _group(self) -> Node | None:
        outer = self._flags
        match = _GROUP.match(self._source, self._at)
        if match is None:
            self._at += 1
        else:
            self._at = match.end()
            if match[3]:
                self._flags = (outer | set(match[1])) - set(match[2] or "")
            if match[3] == ")":
                return None  # the flags hold until the group around ends
        node = self._alternatives()
        self._at += 1
        self._flags = outer
        return Node(f"(?:{node.full})", node.begun, node.shortest, node.longest, node.first)

    def _repeated(self, node: Node) -> Node:
        while (match := _QUANTIFIER.match(self._source, self._at)) is not None:
            self._at = match.end()
            if self._source.startswith("?", self._at):
                self._at += 1
            node = self._times(node, *_bounds(match))
        return node

    def _times(self, node: Node, least: int, most: int | None) -> Node:
        if most is None:
            self._found.loops |= self._found.atoms
            again = f"(?:{node.full})*"
        else:
            again = f"(?:{node.full}){{0,{most - 1}}}" if most > 1 else ""
        begun = f"{again}(?:{node.begun})" if node.begun else again
        longest = None if most is None or node.longest is None else most * node.longest
        if node.longest == 0 or most == 0:
            begun, longest = node.begun, 0
        bounds = f"{{{least},{'' if most is None else most}}}"
        shortest = least * node.shortest
        return Node(f"(?:{node.full}){bounds}", begun, shortest, longest, node.first)


def _bounds(match: re.Match[str]) -> tuple[int, int | None]:
    if match[1]:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[match[1]]
    least = int(match[2])
    if not match[3]:
        return least, least
    return least, int(match[4]) if match[4] else None


def _in_a_row(nodes: list[Node]) -> Node:
    if len(nodes) == 1:
        return nodes[0]
    longest = [node.longest for node in nodes]
    return Node(
        "".join(node.full for node in nodes),
        _beginnings(nodes),
        sum(node.shortest for node in nodes),
        None if None in longest else sum(length for length in longest if length is not None),
        _first(nodes),
    )


def _first(nodes: list[Node]) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for node in nodes:
        found |= node.first
        if node.shortest:
            break
    return found


def _beginnings(nodes: list[Node]) -> str:
    """Beginnings of the first node, or all of it and beginnings of what follows."""
    begun = nodes[-1].begun if nodes else ""
    for node in reversed(nodes[:-1]):
        further = f"{node.full}(?:{begun})" if begun else node.full
        begun = f"(?:{node.begun}|{further})" if node.begun else f"(?:{further})?"
    return begun
