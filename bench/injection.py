"""How much prompt injection the local rules find, and how much they find wrongly.

    python -m bench.injection --seed 21            # what is reported: templates nobody tuned on
    python -m bench.injection --tune --show        # what the rules may be tuned on

Texts are made of the templates in `injection_texts.txt`: sentences with slots, within harmless
sentences of the same language, one in three in a disguise. The `tune` templates go with the seeds 1
to 20, the `held` ones with those after. No model, no network.
"""

from __future__ import annotations

import argparse
import base64
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from procession.detection.injection import TYPES, find_injections

THRESHOLD = 0.7
LAST_TUNED = 20
SLOT = re.compile(r"(?<!\{)\{((?:[^{}]*\|)+[^{}]*)\}")


class Template(NamedTuple):
    """A sentence with slots. `kind`: the type of attack, or `-`."""

    language: str
    kind: str
    text: str


class Text(NamedTuple):
    """A text that was made, and what it is. `disguise` is empty for one that shows itself."""

    language: str
    kind: str
    disguise: str
    text: str


def templates(*, held: bool) -> list[Template]:
    """The templates that may be tuned on, or the others."""
    found: list[Template] = []
    language = ""
    path = Path(__file__).with_name("injection_texts.txt")
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            language = line[1:-1]
        elif line.startswith(("held ", "tune ")):
            use, kind, text = line.split(" ", 2)
            if (use == "held") == held:
                found.append(Template(language, kind, text))
    return found


def filled(text: str, dice: random.Random) -> str:
    """A template with one choice in each slot."""
    made = SLOT.sub(lambda slot: dice.choice(slot.group(1).split("|")), text)
    return made.replace("{{", "{").replace("}}", "}")


DISGUISES = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "entities": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "zero width": lambda text: "\u200b".join(text),
    "tags": lambda text: "".join(
        chr(0xE0000 + ord(char)) if char.isascii() else char for char in text
    ),
    "comment": lambda text: f"<!-- {text} -->",
    "quoted": lambda text: f"> {text}",
    "capitals": str.upper,
}


def texts(seed: int, each: int) -> list[Text]:
    """`each` texts of every template, and harmless data among them."""
    dice = random.Random(seed)
    known = templates(held=seed > LAST_TUNED)
    harmless = defaultdict(list)
    for template in known:
        if template.kind == "-":
            harmless[template.language].append(template.text)
    made: list[Text] = []
    for language, kind, text in known:
        for _ in range(each):
            body, disguise = filled(text, dice), ""
            around = [filled(dice.choice(harmless[language]), dice) for _ in range(2)]
            if kind == "-":
                made.append(Text(language, kind, "", " ".join([body, *around])))
                continue
            if dice.random() < 1 / 3:
                disguise = dice.choice(list(DISGUISES))
                if disguise == "tags" and not body.isascii():
                    disguise = "zero width"
                body = DISGUISES[disguise](body)
            before = "\n".join(around[:1] * dice.randint(0, 1))
            made.append(Text(language, kind, disguise, f"{before}\n{body}\n{around[1]}"))
    made += [Text("data", "-", "", data) for data in harmless_data(dice, each * 4)]
    return made


def harmless_data(dice: random.Random, count: int) -> list[str]:
    """Pictures, hashes and code: what may look encoded, and is."""
    made: list[str] = []
    for _ in range(count):
        octets = dice.randbytes(dice.randint(20, 300))
        made += [
            f"data:image/png;base64,{base64.b64encode(octets).decode()}",
            f"sha256:{octets[:32].hex()} ok",
            f'{{"name": "item-{octets[0]}", "tools": ["hammer"], "rules": {octets[1]}}}',
            f"for line in lines[{octets[0]}:]:\n    show(line, all=True)  # skip the system rows",
        ]
    return made


class Count(NamedTuple):
    """How many attacks there were, how many counted, how many with the type they have."""

    there: int = 0
    found: int = 0
    right: int = 0


def flagged(text: str) -> set[str]:
    """The types that count in a text."""
    return {one.type for one in find_injections(text) if one.score >= THRESHOLD}


def table(made: list[Text], *, show: bool) -> None:
    """Print recall by type and language, and what was found in harmless texts."""
    by_type: dict[str, Count] = defaultdict(Count)
    by_language: dict[str, Count] = defaultdict(Count)
    by_disguise: dict[str, Count] = defaultdict(Count)
    wrong: dict[str, Count] = defaultdict(Count)
    wrong_types: dict[str, int] = defaultdict(int)
    for text in made:
        types = flagged(text.text)
        if text.kind == "-":
            _add(wrong, text.language, bool(types), False)
            for kind in types:
                wrong_types[kind] += 1
        else:
            for counts, key in ((by_type, text.kind), (by_language, text.language)):
                _add(counts, key, bool(types), text.kind in types)
            _add(by_disguise, text.disguise or "none", bool(types), text.kind in types)
        if show and bool(types) != (text.kind != "-"):
            print(f"{text.language} {text.kind} {text.disguise!r} {sorted(types)} {text.text!r}")
    print("| type | texts | recall | precision | of that type |\n|---|---|---|---|---|")
    for kind in TYPES:
        count = by_type[kind]
        precise = count.right / max(1, count.right + wrong_types[kind])
        print(
            f"| `{kind}` | {count.there} | {_share(count.found, count.there)} | {precise:.3f} "
            f"| {_share(count.right, count.there)} |"
        )
    print("\n| language | attacks | recall | harmless texts | flagged | precision |")
    print("|---|---|---|---|---|---|")
    for language in [*by_language, "data", "all"]:
        count, false = by_language[language], wrong[language]
        if language == "all":
            count = Count(*map(sum, zip(*by_language.values(), strict=True)))
            false = Count(*map(sum, zip(*wrong.values(), strict=True)))
        precise = _share(count.found, count.found + false.found) if count.there else "-"
        print(
            f"| {language} | {count.there} | {_share(count.found, count.there)} | {false.there} "
            f"| {false.found} | {precise} |"
        )
    print("\n| disguise | attacks | recall |\n|---|---|---|")
    for disguise, count in sorted(by_disguise.items()):
        print(f"| {disguise} | {count.there} | {_share(count.found, count.there)} |")


def _add(counts: dict[str, Count], key: str, found: bool, right: bool) -> None:
    there, before, rightly = counts[key]
    counts[key] = Count(there + 1, before + found, rightly + right)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def main() -> None:
    """Read the options, make the texts, print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--each", type=int, default=10, help="texts of each template")
    parser.add_argument("--tune", action="store_true", help="seed 1, which may be tuned on")
    parser.add_argument(
        "--show", action="store_true", help="print what was missed or found wrongly"
    )
    options = parser.parse_args()
    seed = 1 if options.tune else options.seed
    if options.show and seed > LAST_TUNED:
        parser.error("what is reported is not looked at: --show goes with seeds up to 20")
    table(texts(seed, options.each), show=options.show)


if __name__ == "__main__":
    main()
