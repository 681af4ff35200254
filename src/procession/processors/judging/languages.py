"""Languages by name and by code: which texts name the same one, and what it is called (B-172).

`languages.txt` holds the facts.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

__all__ = ["code_of", "name_of", "whole_of"]

_WHOLES = {"nb": "no", "nn": "no", "tw": "ak"}
"""Languages that are a form of another one with a code of its own."""


def code_of(language: str) -> str | None:
    """The code of two letters for a name or code, in any case; `None` for one not known here.

    Names are English ones, and those of many languages in themselves. Of a code with a region or a
    script (`pt-BR`, `zh_Hant`) the language counts.
    """
    wanted = language.strip().casefold()
    codes = _known()[1]
    found = codes.get(wanted)
    if found is None:
        code = wanted.replace("_", "-").partition("-")[0]
        found = codes.get(code) if len(code) <= 3 else None
    return found


def name_of(code: str) -> str:
    """The English name of a language; of an unknown one the code itself."""
    return _known()[0].get(code, code)


def whole_of(code: str) -> str:
    """The language that this one is a form of, or itself: `nb` and `nn` are both `no`."""
    return _WHOLES.get(code, code)


@cache
def _known() -> tuple[dict[str, str], dict[str, str]]:
    """The names by their codes, and the codes by all that is known of a language."""
    text = files(__package__ or "").joinpath("languages.txt").read_text(encoding="utf-8")
    names: dict[str, str] = {}
    codes: dict[str, str] = {}
    for line in text.splitlines()[1:]:
        code, name, *others = line.split(", ")
        names[code] = name
        codes |= {other.casefold(): code for other in (code, name, *others)}
    return names, codes
