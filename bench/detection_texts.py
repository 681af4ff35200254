"""Labelled texts: values in sentences of ten languages, and sentences that only look like it."""

from __future__ import annotations

from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from .detection_lookalikes import LOOKALIKES, order, version
from .detection_sentences import FILLERS, PLAIN, SAID, UNLIKE
from .detection_values import BROKEN, NATIONAL, VALUES, broken_id, phone, stdnum

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LANGUAGES", "Label", "Labelled", "labelled"]

LANGUAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "en": (("en_US", "en_IN"), ("US", "GB", "IN")),
    "fr": (("fr_FR",), ("FR",)),
    "de": (("de_DE",), ("DE",)),
    "es": (("es_ES",), ("ES",)),
    "it": (("it_IT",), ("IT",)),
    "zh": (("zh_CN",), ("CN",)),
    "ko": (("ko_KR",), ("KR",)),
    "ja": (("ja_JP",), ("JP",)),
    "pt": (("pt_BR",), ("BR",)),
    "hi": (("hi_IN", "en_IN"), ("IN",)),
}
"""Languages, with the locales of the generator and the countries of the phone numbers."""

NEEDS_WORDS = {"phone", "assigned", "bearer-token", "aws-secret", "national-id"}
FOUND_AS = {"assigned": "api-key", "aws-secret": "aws-key"}


GENERATED = {
    "credit-card": ("credit_card_number", "luhn"),
    "iban": ("iban", "iban"),
    "url": ("url", ""),
    "uuid": ("uuid4", ""),
    "ssn": ("ssn", "us.ssn"),
    "fr-nir": ("ssn", "fr.nir"),
    "it-cf": ("ssn", "it.codicefiscale"),
    "es-dni": ("nif", "es.dni"),
    "es-nie": ("nie", "es.nie"),
    "cn-ric": ("ssn", ""),
    "br-cpf": ("cpf", "br.cpf"),
    "br-cnpj": ("cnpj", "br.cnpj"),
}
"""What the generator of fake data makes itself, half of the time, and what checks it."""


class Label(NamedTuple):
    """A value of a type: `text[start:end]`."""

    type: str
    start: int
    end: int


class Labelled(NamedTuple):
    """A text and all the values in it."""

    language: str
    text: str
    labels: list[Label]


class Writer:
    """Writes texts in one language."""

    def __init__(self, language: str, seed: int) -> None:
        self._language = language
        self._rng = Random(f"{seed}-{language}")
        locales, self._regions = LANGUAGES[language]
        faker: Any = import_module("faker")
        self._fakers = [faker.Faker(locale) for locale in locales]
        for number, fake in enumerate(self._fakers):
            fake.seed_instance(f"{seed}-{language}-{number}")

    def text(self) -> Labelled:
        """One to four sentences."""
        between = "" if self._language in ("zh", "ja") else " "
        text = ""
        labels: list[Label] = []
        for number in range(self._rng.randint(1, 4)):
            sentence, found = self._sentence()
            if number:
                text += " " if text[-1:].isascii() else between
            labels += [Label(kind, at + len(text), to + len(text)) for kind, at, to in found]
            text += sentence
        return Labelled(self._language, text, labels)

    def _sentence(self) -> tuple[str, list[Label]]:
        chance = self._rng.random()
        if chance < 0.6:
            return self._with_value()
        if chance < 0.85:
            return self._unlike(), []
        return self._rng.choice(FILLERS[self._language]), []

    def _with_value(self) -> tuple[str, list[Label]]:
        rng = self._rng
        kinds = ["email", "email", "phone", "phone", *VALUES, *NATIONAL[self._language]]
        kind = rng.choice(kinds)
        value = self._value(kind)
        frame = self._frame(kind)
        before, _, after = frame.partition("{v}")
        end = len(before) + len(value)
        return f"{before}{value}{after}", [Label(FOUND_AS.get(kind, kind), len(before), end)]

    def _value(self, kind: str) -> str:
        rng = self._rng
        if kind == "email":
            return rng.choice(self._fakers).email()
        if kind == "phone":
            if rng.random() < 0.5:
                return rng.choice(self._fakers).phone_number()
            return phone(rng, rng.choice(self._regions))
        faked = GENERATED.get(kind)
        if faked and rng.random() < 0.5:
            value = self._generated(*faked)
            if value:
                return value
        make = NATIONAL[self._language].get(kind) or VALUES[kind]
        return make(rng)

    def _generated(self, method: str, check: str) -> str:
        """A value of the generator's own; empty if it is none by its own country's rules."""
        value = str(getattr(self._fakers[0], method)())
        return value if not check or stdnum(check).is_valid(value) else ""

    def _frame(self, kind: str) -> str:
        """A sentence for a value: with a word that says what it is, or without where none is
        needed."""
        group = "national-id" if kind in NATIONAL[self._language] else kind
        said = SAID.get(kind) or SAID.get(group) or {}
        frames = said.get(self._language) or said.get("") or ()
        if group in NEEDS_WORDS or (frames and self._rng.random() < 0.5):
            return self._rng.choice(frames)
        return self._rng.choice(PLAIN[self._language])

    def _unlike(self) -> str:
        rng = self._rng
        chance = rng.random()
        if chance < 0.25:
            return rng.choice(UNLIKE["order"][self._language]).format(v=order(rng))
        if chance < 0.4:
            return rng.choice(UNLIKE["version"][self._language]).format(v=version(rng))
        if chance < 0.65:
            return self._broken()
        value = rng.choice(list(LOOKALIKES.values()))(rng)
        return rng.choice(PLAIN[self._language]).format(v=value)

    def _broken(self) -> str:
        """A value whose checksum is wrong, in a sentence that names its type."""
        rng = self._rng
        if rng.random() < 0.4:
            value = broken_id(self._language)(rng)
            return rng.choice(SAID["national-id"][self._language]).format(v=value)
        value = rng.choice(list(BROKEN.values()))(rng)
        frames = (*SAID["credit-card"][self._language], *PLAIN[self._language])
        return rng.choice(frames).format(v=value)


def labelled(seed: int, texts: int) -> Iterator[Labelled]:
    """So many texts of each language; the same ones for the same seed."""
    for language in LANGUAGES:
        writer = Writer(language, seed)
        for _ in range(texts):
            yield writer.text()
