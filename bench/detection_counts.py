"""Right and wrong finds, counted; and the table of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from .detection_texts import Labelled

    Span = tuple[str, int, int]
    Row = tuple[str, str, int, int, int]

__all__ = ["Tally", "counts", "languages_table", "misses", "tallies", "types_table"]


class Tally(NamedTuple):
    """Values that were found, wrong finds, values that were missed."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    def __add__(self, other: object) -> Tally:
        """Both together."""
        if not isinstance(other, Tally):
            return NotImplemented
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def precision(self) -> str:
        """The share of finds that are right."""
        return share(self.right, self.right + self.wrong)

    @property
    def recall(self) -> str:
        """The share of values that are found."""
        return share(self.right, self.right + self.missed)


def share(part: int, whole: int) -> str:
    """Three decimals, cut off: what rounds to 1 is no 1."""
    return f"{part * 1000 // whole / 1000:.3f}" if whole else "-"


def counts(
    texts: Iterable[Labelled],
    found: Iterable[Iterable[Span]],
    types: Collection[str] | None = None,
) -> list[Row]:
    """For each language and type: right, wrong, missed. A find is right if its type and both of
    its ends are those of a value. `types`: no others are counted."""
    right: Counter[tuple[str, str]] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    missed: Counter[tuple[str, str]] = Counter()
    for text, spans in zip(texts, found, strict=True):
        labels = {tuple(label) for label in text.labels if types is None or label[0] in types}
        hits = {tuple(span) for span in spans}
        right.update((text.language, str(span[0])) for span in labels & hits)
        wrong.update((text.language, str(span[0])) for span in hits - labels)
        missed.update((text.language, str(span[0])) for span in labels - hits)
    keys = sorted({*right, *wrong, *missed})
    return [(*key, right[key], wrong[key], missed[key]) for key in keys]


def misses(texts: Iterable[Labelled], found: Iterable[Iterable[Span]]) -> list[str]:
    """What was missed (-) or found wrongly (+), with its text, for whoever tunes the detector."""
    lines: list[str] = []
    for text, spans in zip(texts, found, strict=True):
        labels, hits = {tuple(label) for label in text.labels}, {tuple(span) for span in spans}
        for sign, some in (("-", labels - hits), ("+", hits - labels)):
            for kind, start, end in sorted(some):
                value = text.text[start:end]
                lines.append(f"{sign} {text.language} {kind} {value!r} in {text.text!r}")
    return lines


def tallies(rows: Iterable[Row], column: int) -> dict[str, Tally]:
    """Totals by language (column 0) or type (column 1)."""
    found: dict[str, Tally] = {}
    for row in rows:
        name = str(row[column])
        found[name] = found.get(name, Tally()) + Tally(*row[2:])
    return dict(sorted(found.items()))


def types_table(rows: Sequence[Row]) -> list[str]:
    """Precision and recall by type, over all languages."""
    lines = ["| type | values | precision | recall |", "| --- | ---: | ---: | ---: |"]
    for name, tally in tallies(rows, 1).items():
        values = tally.right + tally.missed
        lines.append(f"| {name} | {values} | {tally.precision} | {tally.recall} |")
    return lines


def languages_table(rows: Sequence[Row]) -> list[str]:
    """Precision / recall by type and language."""
    languages = list(tallies(rows, 0))
    lines = [f"| type | {' | '.join(languages)} |", f"| --- |{' ---: |' * len(languages)}"]
    cells = {(row[0], row[1]): Tally(*row[2:]) for row in rows}
    for name in tallies(rows, 1):
        shown = [cell(cells.get((language, name))) for language in languages]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    totals = tallies(rows, 0)
    lines.append(f"| all | {' | '.join(cell(totals[language]) for language in languages)} |")
    return lines


def cell(tally: Tally | None) -> str:
    """Precision and recall of one type in one language."""
    return f"{tally.precision} / {tally.recall}" if tally else ""
