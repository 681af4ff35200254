"""The options of `PIIDetector` that take more than a look: types, countries, instructions."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ...detection import GROUPS, LOCAL_TYPES
from ...errors import OptionError
from ..option_checks import names

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["regions_of", "text_of", "types_of"]

_OWNER = "PIIDetector"

LOCAL_BY_DEFAULT = (
    "email",
    "phone",
    "credit-card",
    "ssn",
    "api-key",
    "ip-address",
    "url",
    "uuid",
    "crypto-wallet",
    "iban",
)
JUDGED_BY_DEFAULT = ("name", "address", "date-of-birth")


def types_of(given: Any, model: Any) -> tuple[list[str], tuple[str, ...]]:
    """Which types are looked for locally, and which are judged."""
    if given is None:
        return list(LOCAL_BY_DEFAULT), () if model in (None, False) else JUDGED_BY_DEFAULT
    chosen = names(_OWNER, "detection_types", given, None)
    if not chosen:
        raise OptionError(f"{_OWNER}: detection_types must not be empty")
    local = [kind for kind in chosen if kind in LOCAL_TYPES or kind in GROUPS]
    judged = tuple(kind for kind in chosen if kind not in local)
    for kind in judged:
        near = get_close_matches(kind, (*LOCAL_TYPES, *GROUPS, *JUDGED_BY_DEFAULT), 1, 0.8)
        if near and near[0] != kind:
            raise OptionError(f"{_OWNER}: detection_types: {kind!r}; did you mean {near[0]!r}?")
    if judged and model is False:
        raise OptionError(
            f"{_OWNER}: detection_types: {judged[0]!r} takes judgement, so model cannot be False"
        )
    return local, judged


def regions_of(given: Any) -> Sequence[str] | None:
    """The countries, of which there must be some; one may be given by itself."""
    if given is None or isinstance(given, str):
        return given
    chosen = names(_OWNER, "regions", given, None)
    if not chosen:
        raise OptionError(f"{_OWNER}: regions must not be empty; leave 'phone' out of the types")
    return chosen


def text_of(instructions: Any) -> str | None:
    """The instructions for a judge, if there are any."""
    if instructions is not None and not isinstance(instructions, str):
        raise OptionError(
            f"{_OWNER}: instructions must be a text, not {type(instructions).__name__}"
        )
    return instructions
