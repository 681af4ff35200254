"""Ways to cut the bytes of an answer; each piece becomes an HTTP chunk, so a read of its own."""

import random
import re
from collections.abc import Iterator
from itertools import pairwise

__all__ = ["WAYS", "cut"]

WAYS = ("whole", "bytes", "edges", "random", "crlf")
"""In one piece; byte by byte; long ones so only at both ends; at random places; with lines that end
with CR LF, and cut between the two."""

EDGE = 5000


def cut(body: bytes, way: str, seed: int = 0) -> list[bytes]:
    """The pieces of a body; `seed` chooses the random places."""
    if way == "whole":
        return [body]
    if way == "edges" and len(body) > 2 * EDGE:
        middle = body[EDGE:-EDGE]
        return [*cut(body[:EDGE], "bytes"), *cut(middle, "random"), *cut(body[-EDGE:], "bytes")]
    if way in ("bytes", "edges"):
        return [body[at : at + 1] for at in range(len(body))]
    if way == "crlf":
        lines = body if b"\r" in body else body.replace(b"\n", b"\r\n")
        return _between(lines, [found.start() + 1 for found in re.finditer(b"\r\n", lines)])
    return _between(body, list(_places(len(body), random.Random(seed))))


def _places(length: int, chance: random.Random) -> Iterator[int]:
    """Places near to each other and far from each other, by turns."""
    at = 0
    while True:
        for _ in range(chance.randrange(1, 20)):
            at += chance.randrange(1, 12)
            if at >= length:
                return
            yield at
        at += chance.randrange(1, 3000)


def _between(body: bytes, places: list[int]) -> list[bytes]:
    pieces = [body[start:end] for start, end in pairwise([0, *places, len(body)])]
    return [piece for piece in pieces if piece]
