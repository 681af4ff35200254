"""The pattern recognisers of presidio-analyzer on the same texts; runs in an environment of theirs.

Reads a JSON object: `texts` to look at, or `sizes` of prose to time. Prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any

from .detection_prose import chunks, prose

RECOGNISERS = {
    "EmailRecognizer": "email",
    "CreditCardRecognizer": "credit-card",
    "IbanRecognizer": "iban",
    "IpRecognizer": "ip-address",
    "UrlRecognizer": "url",
    "UuidRecognizer": "uuid",
    "CryptoRecognizer": "crypto-wallet",
    "PhoneRecognizer": "phone",
    "UsSsnRecognizer": "ssn",
    "UsItinRecognizer": "us-itin",
    "UkNinoRecognizer": "uk-nino",
    "NhsRecognizer": "uk-nhs",
    "DeTaxIdRecognizer": "de-idnr",
    "EsNifRecognizer": "es-dni",
    "EsNieRecognizer": "es-nie",
    "ItFiscalCodeRecognizer": "it-cf",
    "KrRrnRecognizer": "kr-rrn",
    "InAadhaarRecognizer": "in-aadhaar",
    "InPanRecognizer": "in-pan",
}
"""Its recognisers of the types that we have too."""
REGIONS = ("US", "GB", "FR", "DE", "ES", "IT", "CN", "KR", "JP", "BR", "IN")
SAMPLES = 200
"""Rescans that are timed of a text; they are spread evenly over its chunks."""

Spans = list[tuple[str, int, int]]


class Recognisers:
    """All of them, one after the other, as the analyser runs them; what scores less than
    `least` is left out."""

    def __init__(self, least: float) -> None:
        offline()
        found: Any = import_module("presidio_analyzer.predefined_recognizers")
        self._least = least
        self._all = [(make(found, name), type_id) for name, type_id in RECOGNISERS.items()]

    def find(self, text: str) -> Spans:
        """Types and places; of one type none lies within another."""
        spans: Spans = []
        for recogniser, type_id in self._all:
            hits = recogniser.analyze(text, recogniser.supported_entities, None) or []
            some = [(type_id, hit.start, hit.end) for hit in hits if hit.score >= self._least]
            spans += [span for span in some if not any(within(span, other) for other in some)]
        return list(dict.fromkeys(spans))


def make(module: Any, name: str) -> Any:
    """One recogniser; phone numbers are looked for in the same countries as ours."""
    recogniser = getattr(module, name)
    return recogniser(supported_regions=REGIONS) if name == "PhoneRecognizer" else recogniser()


def within(span: tuple[str, int, int], other: tuple[str, int, int]) -> bool:
    """Whether it lies in a longer one."""
    return span != other and other[1] <= span[1] and span[2] <= other[2]


def offline() -> None:
    """Have the list of top-level domains read from the package, not from the network."""
    domains: Any = import_module("tldextract")
    domains.extract = domains.TLDExtract(suffix_list_urls=())


def timed(recognisers: Recognisers, size: int) -> dict[str, float]:
    """CPU microseconds of a chunk: by itself, and when all of the text so far is looked at."""
    pieces = chunks(prose(size))
    start = time.process_time()
    for piece in pieces:
        recognisers.find(piece)
    alone = (time.process_time() - start) / len(pieces)
    every = max(1, len(pieces) // SAMPLES)
    sampled = range(0, len(pieces), every)
    text = "".join(pieces)
    ends = [len("".join(pieces[: number + 1])) for number in sampled]
    start = time.process_time()
    for end in ends:
        recognisers.find(text[:end])
    again = (time.process_time() - start) / len(ends)
    return {"presidio, each chunk by itself": alone * 1e6, "presidio, all again": again * 1e6}


def main() -> int:
    """Answer one request."""
    request = json.load(sys.stdin)
    recognisers = Recognisers(request["least"])
    recognisers.find("warm up: joe@example.com")
    if "texts" in request:
        answer: Any = [recognisers.find(text) for text in request["texts"]]
    else:
        answer = {str(size): timed(recognisers, size) for size in request["sizes"]}
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
