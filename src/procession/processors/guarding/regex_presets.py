"""The rules behind the presets of `RegexFilterProcessor` (B-231).

Better a little too much than too little. But what looks like a number is taken whole or not at all:
half of a card, or of an IBAN, is neither hidden nor of use to anybody.
"""

from __future__ import annotations

import re

from .regex_rules import RegexRule

__all__ = ["PRESETS"]

_WORD = "0-9A-Za-zÀ-ӿ"
"""Letters of the scripts that put spaces between words: in others an address has no border."""

_EMAIL = rf"[{_WORD}_][{_WORD}._%+\-]{{0,63}}@(?:[{_WORD}\-]{{1,63}}\.){{1,8}}[A-Za-zÀ-ӿ]{{2,24}}"

# With a country code; as in North America, or a run of ten digits and more; as written in Germany;
# in Britain; in France.
_PHONE = "|".join(
    (
        r"\+[0-9](?:[ ().\-]{0,2}[0-9]){7,14}\b",
        r"(?:\b1[ .\-]?)?(?:\([0-9]{3}\) ?|\b[0-9]{3}[ .\-]?)[0-9]{3}[ .\-]?[0-9]{4,34}\b",
        r"\b0[0-9]{2,4}[ /\-][0-9]{5,12}\b",
        r"\b0[0-9]{2,4} [0-9]{3,4} [0-9]{3,4}\b",
        r"\b0[0-9](?:[ .\-][0-9]{2}){4}\b",
    )
)

# No area 000, 666 or from 900 on, no group 00, no serial number 0000: these are never given.
_SSN = (
    r"\b(?:00[1-9]|0[1-9][0-9]|[1-57-8][0-9]{2}|6[0-57-9][0-9]|66[0-57-9])[ \-]"
    r"(?:0[1-9]|[1-9][0-9])[ \-](?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})\b"
)

# Sixteen digits, or nineteen, in fours; fifteen as 4-6-5; fourteen as 4-6-4.
_NUMBER = "|".join(
    (
        r"[2-6][0-9]{3}(?:[ \-]?[0-9]{4}){3}(?:[ \-]?[0-9]{3})?",
        r"3[47][0-9]{2}[ \-]?[0-9]{6}[ \-]?[0-9]{5}",
        r"3[068][0-9]{2}[ \-]?[0-9]{6}[ \-]?[0-9]{4}",
    )
)
# Underscores, which count as letters, stand beside numbers in names and between them in lists.
_CARD = rf"(?:\b|_)(?:{_NUMBER})(?:_(?:{_NUMBER})){{0,3}}(?:\b|_)"

# In groups of four, or without gaps. Without a rule for it, the others would find a card or a phone
# number within, and leave the rest.
_IBAN = "|".join(
    (
        r"\b[A-Z]{2}[0-9]{2}(?:[ \-][A-Z0-9]{4}){0,2}(?:[ \-][0-9]{4}){2,6}[ \-][0-9]{2,4}"
        r"(?:[ \-][0-9][A-Z0-9]{3}[ \-][0-9]{2,3})?\b",
        r"\b[A-Z]{2}[0-9]{2}[A-Z0-9]{0,6}[0-9]{8,24}[A-Z0-9]{0,11}\b",
    )
)

# What providers begin their keys with, and a key that is called one.
_API_KEY = "|".join(
    (
        r"\bsk-[A-Za-z0-9_\-]{16,}",
        r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
        r"\bgh[oprsu]_[A-Za-z0-9]{30,}",
        r"\bgithub_pat_[A-Za-z0-9_]{22,}",
        r"\bglpat-[A-Za-z0-9_\-]{20,}",
        r"\bxox[abeoprs]-[A-Za-z0-9\-]{10,}",
        r"\bAIza[A-Za-z0-9_\-]{35}",
        r"\bnpm_[A-Za-z0-9]{30,}",
        r"\bhf_[A-Za-z0-9]{30,}",
        r"\bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}",
        r"""[Aa][Pp][Ii][ _\-]?[Kk][Ee][Yy]["']? ?[:=] ?["']?[A-Za-z0-9_\-]{16,}""",
    )
)

_TOKEN = r"A-Za-z0-9._~+/\-"
_BEARER = (
    r"\bbearer[ \t]{1,4}(?:"
    rf"[A-Za-z._~+/\-]{{4,}}[0-9][{_TOKEN}]*|[A-Za-z._~+/\-]{{0,3}}[0-9][{_TOKEN}]{{5,}}"
    rf"|[{_TOKEN}]{{16,}})={{0,2}}"
)

_AWS_KEY = r"\b(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AIPA|ANPA|ANVA|APKA|AROA)[A-Z0-9]{16}"

_IN_URL = r"\s<>\"'`{}|\\^"
_URL = rf"https?://[^{_IN_URL}]*[^{_IN_URL}.,;:!?)\]]"

PRESETS: dict[str, list[RegexRule]] = {
    "pii": [
        RegexRule("email", _EMAIL, "[EMAIL]"),
        RegexRule("credit-card", _CARD, "[CREDIT_CARD]"),  # first: a phone number may be as long
        RegexRule("phone", _PHONE, "[PHONE]"),
        RegexRule("ssn", _SSN, "[SSN]"),
        RegexRule("iban", _IBAN, "[IBAN]"),
    ],
    "secrets": [
        RegexRule("api-key", _API_KEY, "[API_KEY]"),
        RegexRule("bearer-token", _BEARER, "[BEARER_TOKEN]", re.IGNORECASE),
        RegexRule("aws-key", _AWS_KEY, "[AWS_KEY]"),
    ],
    "urls": [RegexRule("url", _URL, "[URL]", re.IGNORECASE)],
}
