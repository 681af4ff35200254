"""Names and codes of languages (B-172)."""

from __future__ import annotations

import pytest

from procession.processors.judging.languages import code_of, name_of, whole_of

NAMED = {
    "ar": ("Arabic", "ara", "العربية"),
    "de": ("German", "deu", "ger", "Deutsch"),
    "en": ("English", "eng"),
    "es": ("Spanish", "spa", "español", "Castilian"),
    "fa": ("Persian", "fas", "per", "Farsi"),
    "fr": ("French", "fra", "fre", "français"),
    "hi": ("Hindi", "hin", "हिन्दी"),
    "ja": ("Japanese", "jpn", "日本語"),
    "ko": ("Korean", "kor", "한국어"),
    "pt": ("Portuguese", "por", "português"),
    "zh": ("Chinese", "zho", "chi", "中文", "Mandarin", "cmn"),
    "gd": ("Scottish Gaelic", "gla"),
    "ht": ("Haitian Creole", "hat", "Haitian"),
}


@pytest.mark.parametrize("code", NAMED)
def test_all_names_of_a_language(code: str) -> None:
    """In any case, with a region, with white space around."""
    assert name_of(code) == NAMED[code][0]
    for name in (code, *NAMED[code]):
        assert code_of(name) == code_of(name.upper()) == code_of(f" {name}\n") == code
    assert code_of(f"{code}-XX") == code_of(f"{code}_Latn_XX") == code


@pytest.mark.parametrize("text", ["", " ", "Klingon", "xx", "english-ish text", "e", "-", "enough"])
def test_what_names_none(text: str) -> None:
    assert code_of(text) is None


def test_an_unknown_code_is_its_own_name() -> None:
    assert name_of("tlh") == "tlh"


def test_forms_of_a_language() -> None:
    assert [whole_of(code) for code in ("nb", "nn", "no", "fr")] == ["no", "no", "no", "fr"]
