"""Keys and tokens: by the prefix their vendor gives them, or by the name they are assigned to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scan import Scan

__all__ = ["api_keys", "aws_keys", "bearer_tokens", "json_web_tokens"]

Found = tuple[int, int, float]

EDGE = r"(?<![A-Za-z0-9\xe9])"
PREFIXED = (
    r"sk-(?:ant-|proj-|svcacct-|admin-|or-v1-|lf-)?[A-Za-z0-9_-]{20,250}",  # OpenAI, Anthropic, …
    r"(?:gh[opsur]_[A-Za-z0-9]{30,250}|github_pat_[A-Za-z0-9_]{22,250})",
    r"gl(?:pat|oas|dt|rt|ptt|cbt|ft|soat|agent|imt|ffct)-[A-Za-z0-9_-]{18,300}(?:\.[A-Za-z0-9_-]{2,20}){0,2}",
    r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,250}",  # Slack
    r"xapp-[0-9]-[A-Za-z0-9-]{20,250}",
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,250}",  # Stripe
    r"whsec_[A-Za-z0-9+/=]{20,250}",
    r"AIza[A-Za-z0-9_-]{35}",  # Google
    r"ya29\.[A-Za-z0-9_-]{20,500}",
    r"GOCSPX-[A-Za-z0-9_-]{20,60}",
    r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}",  # SendGrid
    r"(?:SK|AC)[0-9a-f]{32}(?![A-Za-z0-9])",  # Twilio
    r"npm_[A-Za-z0-9]{30,250}",
    r"pypi-[A-Za-z0-9_-]{30,500}",
    r"hf_[A-Za-z0-9]{30,100}",  # Hugging Face
    r"api_org_[A-Za-z0-9]{30,100}",
    r"(?:gsk|xai|r8|nvapi|pplx|fw|tgp_v1|csk|dop_v1|doo_v1|dor_v1|lin_api|rpa)[_-][A-Za-z0-9_-]{20,250}",
    r"key-[0-9a-f]{32}(?![A-Za-z0-9])",  # Mailgun
    r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32,64}",  # Shopify
    r"(?:secret|ntn)_[A-Za-z0-9]{40,60}",  # Notion
    r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,60}",  # Square
    r"EAA[A-Za-z0-9]{60,300}",  # Meta
    r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",  # Postman
    r"hv[sbr]\.[A-Za-z0-9_-]{24,300}",  # Vault
    r"dckr_pat_[A-Za-z0-9_-]{20,60}",
    r"glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}",  # Grafana
    r"NRAK-[A-Z0-9]{27}",  # New Relic
    r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
    r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}(?![A-Za-z0-9_-])",  # Telegram
    # Discord
    r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_-])",
)
VENDORS = re.compile(rf"{EDGE}(?:{'|'.join(PREFIXED)})")
# What every prefix has, so that most texts are dismissed by one search.
VENDOR_SIGN = re.compile(
    r"sk[-_]|gh[opsur]_|hub_pat_|gl[a-z]{2,5}-|xox|xapp-|[rp]k_|whsec_|AIza|ya29|GOCSPX|SG\."
    r"|(?:SK|AC)[0-9a-f]{8}|npm_|pypi-|hf_|api_org_|(?:gsk|xai|r8|nvapi|pplx|fw|_v1|csk|lin_api|rpa)[_-]"
    r"|key-|shp[a-z]{2}_|secret_|ntn_|sq0|EAA|PMAK-|hv[sbr]\.|dckr_|glsa_|NRAK-|AGE-S|:AA"
    r"|[MNO][A-Za-z0-9_-]{23,27}\."
)

AWS_ID = re.compile(
    r"(?<![A-Za-z0-9\xe9])(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{16}(?![A-Za-z0-9])"
)
AWS_SECRET = re.compile(r"(?<![A-Za-z0-9\xe9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])")
AWS_BEFORE = re.compile(
    r"(?:aws|amazon|secret)[ \t_.-]?\w{0,16}[ \t_.-]?(?:key|secret)[\w ]{0,12}[\"'`]?[ \t]*"
    r"(?:[:=]{1,2}>?|is)[ \t]*[\"'`]?\Z",
    re.IGNORECASE,
)

JWT = re.compile(
    r"(?<![A-Za-z0-9\xe9_-])eyJ[A-Za-z0-9_-]{6,4000}\.[A-Za-z0-9_-]{2,4000}"
    r"(?:\.[A-Za-z0-9_-]{1,4000}){0,3}"
)

BEARER_VALUE = re.compile(
    r"(?<![A-Za-z0-9\xe9_.+/=-])(?=[A-Za-z_.+/=-]{0,60}[0-9]|[A-Za-z_.+/=-]{20})"
    r"[A-Za-z0-9_+/-][A-Za-z0-9_.~+/-]{15,4000}={0,2}"
)
BEARER_BEFORE = re.compile(
    r"\b(?:bearer|authorization[\"']?[ \t]*[:=][ \t]*[\"']?(?:token|basic))"
    r"[ \t]*[:=]?[ \t]+[\"'`]?\Z",
    re.IGNORECASE,
)

NAMES = (
    r"(?:api|app|access|auth|secret|private|signing|encryption|master|service|account|client|session|"
    r"refresh|id|bot|webhook|consumer|storage|shared|license|deploy|personal|bearer|csrf|oauth)"
    r"[ _.-]?(?:access[ _.-]?)?(?:key|token|secret|password|passwd|pwd)(?:[ _.-]?(?:id|key|value))?"
    r"|apikey|api[ _.-]?token|passw(?:or)?d|passphrase|pwd|secret|token|credentials?|"
    r"[a-z0-9]{1,20}_(?:key|token|secret|password|pass|pwd)"
)
ASSIGNED = re.compile(
    rf"(?:{NAMES})[\"'`\])]?[ \t]{{0,3}}(?:=>|:=|[:=]{{1,2}}|\bis\b)[ \t]{{0,3}}[\"'`(]?\Z",
    re.IGNORECASE,
)
VALUE = re.compile(
    r"(?<![^\s\"'`=:>(,;&?])(?=([^\s\"'`<>(),;&=:{}\[\]][^\s\"'`<>(),;&{}\[\]]{7,250}))"
)
MIXED = re.compile(r"(?=[^A-Za-z]*[A-Za-z])(?=[^0-9]*[0-9])")
CASES = re.compile(r"(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])")
SHORTEST = 8
QUOTES = ('"', "'", "`")
REDACTED = re.compile(r"XXX-XXX-[0-9]{4}|\*{3}-\*{2}-[0-9]{4}|[A-Z]{2}\*{4,}[0-9A-Z]{4}")
"""What `redaction` makes of a phone number, a social security number or an account."""
PLACEHOLDER = re.compile(
    r"\[(?:API-KEY|AWS-KEY|PRIVATE-KEY|BEARER-TOKEN|URL-CREDENTIALS)\][ \t]{0,3}[:=>]"
)
"""A placeholder whose name would count as that of a secret."""
SIGN_BEFORE = re.compile(r"[:=>s][ \t]{0,3}[\"'`(]?\Z")


def api_keys(scan: Scan) -> Iterator[Found]:
    """Keys and tokens of all kinds: vendors', AWS's, JWTs, bearer tokens, assigned secrets."""
    text = scan.text
    if len(text) >= 16 and VENDOR_SIGN.search(text):
        for match in VENDORS.finditer(text):
            if varied(match[0]):
                yield *match.span(), 1.0
    yield from aws_keys(scan)
    yield from json_web_tokens(scan)
    yield from bearer_tokens(scan)
    yield from assigned_secrets(scan)


def varied(value: str) -> bool:
    """Whether it is no row of one character, as in `sk-xxxxxxxxxxxxxxxxxxxxxxxx`."""
    return len(set(value[-16:].lower())) > 3


def aws_keys(scan: Scan) -> Iterator[Found]:
    """Ids of AWS keys, and secrets where the words before say so."""
    if len(scan.text) < 20:
        return
    for match in AWS_ID.finditer(scan.text):
        yield *match.span(), 1.0
    for match in AWS_SECRET.finditer(scan.text):
        if CASES.match(match[0]) and AWS_BEFORE.search(scan.before(match.start())):
            yield *match.span(), 0.95


def json_web_tokens(scan: Scan) -> Iterator[Found]:
    """JSON web tokens, encrypted ones too."""
    if "eyJ" in scan.text:
        for match in JWT.finditer(scan.text):
            yield *match.span(), 1.0


def bearer_tokens(scan: Scan) -> Iterator[Found]:
    """The token that stands behind `Bearer`."""
    if len(scan.text) < 16:
        return
    for match in BEARER_VALUE.finditer(scan.text):
        if BEARER_BEFORE.search(scan.before(match.start())):
            yield *match.span(), 0.9


def assigned_secrets(scan: Scan) -> Iterator[Found]:
    """What is assigned to a name such as `api_key` or `password`."""
    for match in VALUE.finditer(scan.text):
        start, value = match.start(), match[1]
        if scan.text[match.end(1) : match.end(1) + 1] not in QUOTES:
            value = value.rstrip(".,;:!?")
        if not MIXED.match(value) or len(value) < SHORTEST or "://" in value or is_redacted(value):
            continue
        before = scan.before(start)
        if SIGN_BEFORE.search(before) and is_assigned(before):
            yield start, start + len(value), 0.85


def is_redacted(value: str) -> bool:
    """Whether it stands for a value that was taken out before."""
    mask = REDACTED.match(value)
    return "*****" in value or (mask is not None and len(value) - mask.end() < SHORTEST)


def is_assigned(before: str) -> bool:
    """Whether the name of a secret stands before its sign; a placeholder is no name."""
    return ASSIGNED.search(before) is not None and not PLACEHOLDER.search(before[-24:])
