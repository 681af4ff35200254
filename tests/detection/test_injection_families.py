"""Rules that are said to be void, new selves, refusals, orders to obey one only: by family."""

from pathlib import Path

import pytest

from procession.detection.injection import find_injections

LINES = (
    (Path(__file__).parent.parent / "data" / "injection_families.txt")
    .read_text(encoding="utf-8")
    .splitlines()
)


def said(kind: str) -> list[str]:
    """The texts of one kind: `attack` or `harmless`."""
    return [line.partition("\t")[2] for line in LINES if line.startswith(f"{kind}\t")]


def highest(text: str) -> float:
    """The highest score of anything in the text."""
    return max((found.score for found in find_injections(text)), default=0.0)


@pytest.mark.parametrize("text", said("attack"))
def test_rules_are_not_voided_by_saying_so(text: str) -> None:
    """B-150: what ends, replaces, asks for or turns against the rules counts, in each language."""
    assert highest(text) >= 0.7


@pytest.mark.parametrize("text", said("harmless"))
def test_rules_of_other_things_may_end(text: str) -> None:
    """B-024: rules for parking, gift cards and shells end, are shown and are replaced every day."""
    assert highest(text) < 0.7
