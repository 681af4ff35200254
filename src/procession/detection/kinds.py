"""The types that are found locally, and what finds each."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from ..errors import OptionError
from . import money, national, network, phones, secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .scan import Scan

__all__ = ["GROUPS", "LOCAL_TYPES", "PRIVATE_KEY", "Kind", "kinds_for"]


class Kind(NamedTuple):
    """One type: `find` yields start, end and confidence. The lower rank names a region that two
    equally long and equally certain finds share. No value has fewer characters than `length`, nor
    fewer digits than `digits`."""

    type: str
    rank: int
    find: Callable[[Scan], Iterator[tuple[int, int, float]]]
    length: int = 1
    digits: int = 0

    def fits(self, length: int, digits: int) -> bool:
        """Whether a text of so many characters and digits can hold a value."""
        return length >= self.length and digits >= self.digits


def nothing(scan: Scan) -> Iterator[tuple[int, int, float]]:
    """Private keys are found where the text is divided."""
    return iter(())


PRIVATE_KEY = Kind("private-key", 0, nothing)

# In the order of their ranks: what says more stands before what says less.
FIXED: dict[str, Callable[[Scan], Iterator[tuple[int, int, float]]]] = {
    "url-credentials": network.urls_with_credentials,
    "aws-key": secrets.aws_keys,
    "jwt": secrets.json_web_tokens,
    "bearer-token": secrets.bearer_tokens,
    "api-key": secrets.api_keys,
    "email": network.emails,
    "url": network.urls,
    "uuid": network.uuids,
    "ip-address": network.ip_addresses,
}
WITH_LIBRARY: dict[str, Callable[[], Callable[[Scan], Iterator[tuple[int, int, float]]]]] = {
    "iban": money.iban_finder,
    "credit-card": money.card_finder,
    "crypto-wallet": money.wallet_finder,
}
PHONE = "phone"

LOCAL_TYPES: tuple[str, ...] = (
    PRIVATE_KEY.type,
    *FIXED,
    *national.NATIONAL_IDS,
    *WITH_LIBRARY,
    PHONE,
)
"""All ids of types that are found locally, in the order of their ranks."""

GROUPS: dict[str, tuple[str, ...]] = {"national-id": tuple(national.NATIONAL_IDS)}
"""Names that stand for several types."""


LEAST: dict[str, tuple[int, int]] = {
    "url-credentials": (9, 0),
    "aws-key": (20, 0),
    "jwt": (12, 0),
    "bearer-token": (16, 0),
    "api-key": (8, 0),
    "email": (6, 0),
    "url": (7, 0),
    "uuid": (36, 0),
    "ip-address": (3, 1),
    "iban": (15, 4),
    "credit-card": (12, 12),
    "crypto-wallet": (14, 1),
    "it-cf": (16, 0),
    "in-pan": (10, 4),
    "es-dni": (9, 8),
    "es-nie": (9, 7),
    "uk-nino": (9, 6),
    PHONE: (7, 7),
}
"""How many characters and digits a value has at least; other national ids have nine of both."""


def kinds_for(types: Iterable[str] | None, regions: Iterable[str] | None) -> tuple[Kind, ...]:
    """The kinds of these types, in the order of their ranks."""
    wanted = chosen(types)
    checked = phones.checked_regions(regions)
    return tuple(
        kind_of(type_id, rank, checked)
        for rank, type_id in enumerate(LOCAL_TYPES)
        if type_id in wanted
    )


def chosen(types: Iterable[str] | None) -> frozenset[str]:
    """The ids that are meant; raises `OptionError` for a name that nothing answers to."""
    if types is None:
        return frozenset(LOCAL_TYPES)
    if isinstance(types, str):
        raise OptionError(f"LocalDetector: types must be a list of texts, not {types!r}")
    wanted: set[str] = set()
    for name in types:
        if name not in GROUPS and name not in LOCAL_TYPES:
            near = get_close_matches(str(name), (*GROUPS, *LOCAL_TYPES), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise OptionError(f"LocalDetector: types: nothing finds {name!r} locally{hint}")
        wanted.update(GROUPS.get(name, (name,)))
    return frozenset(wanted)


def kind_of(type_id: str, rank: int, regions: tuple[str, ...]) -> Kind:
    """The kind of a type; loads the library that it needs."""
    if type_id == PRIVATE_KEY.type:
        return PRIVATE_KEY
    return Kind(type_id, rank, find_of(type_id, regions), *LEAST.get(type_id, (9, 9)))


def find_of(
    type_id: str, regions: tuple[str, ...]
) -> Callable[[Scan], Iterator[tuple[int, int, float]]]:
    """What finds the values of a type."""
    if type_id == PHONE:
        return phones.phone_finder(regions)
    if type_id in WITH_LIBRARY:
        return WITH_LIBRARY[type_id]()
    return FIXED.get(type_id) or national.finder(type_id)
