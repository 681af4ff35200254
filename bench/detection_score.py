"""Finds what is in labelled texts, and counts; runs in an environment that has the generator.

Prints JSON: the counts, with `--texts-only` the texts, with `--sizes` what a chunk costs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING

from .detection_counts import counts, misses
from .detection_prose import chunks, prose
from .detection_texts import labelled

if TYPE_CHECKING:
    from procession.detection import LocalDetector

ROUNDS = 5
SAMPLES = 200


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--texts", type=int, default=0)
    parser.add_argument("--misses", type=int, default=0, help="print so many mistakes to stderr")
    parser.add_argument("--texts-only", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="*")
    options = parser.parse_args()
    if options.sizes:
        print(json.dumps({str(size): timed(detector(), size) for size in options.sizes}))
        return 0
    texts = list(labelled(options.seed, options.texts))
    if options.texts_only:
        print(json.dumps(texts))
        return 0
    find = detector().find
    found = [[(hit.type, hit.start, hit.end) for hit in find(text.text)] for text in texts]
    for line in misses(texts, found)[: options.misses]:
        print(line, file=sys.stderr)
    print(json.dumps(counts(texts, found)))
    return 0


def detector() -> LocalDetector:
    """All types that are found locally."""
    from procession.detection import LocalDetector

    return LocalDetector()


def timed(local: LocalDetector, size: int) -> dict[str, float]:
    """CPU microseconds of a chunk: held back and let go, and when all of the text so far is
    looked at again with each chunk."""
    pieces = chunks(prose(size))
    held = min(streamed(local, pieces) for _ in range(ROUNDS))
    every = max(1, len(pieces) // SAMPLES)
    text = "".join(pieces)
    ends = [len("".join(pieces[: number + 1])) for number in range(0, len(pieces), every)]
    start = time.process_time()
    for end in ends:
        local.find(text[:end])
    again = (time.process_time() - start) / len(ends)
    return {"procession": held * 1e6, "procession, all again": again * 1e6}


def streamed(local: LocalDetector, pieces: list[str]) -> float:
    """CPU seconds of a chunk when no more is held back than has to be."""
    before = held = ""
    start = time.process_time()
    for piece in pieces:
        shown = before + held + piece
        begin = len(before)
        place = local.release(shown, begin, len(shown))
        if place > begin:
            local.find(shown, begin, place)
            before = shown[max(0, place - local.look_behind) : place]
        held = shown[place:]
    return (time.process_time() - start) / len(pieces)


if __name__ == "__main__":
    sys.exit(main())
