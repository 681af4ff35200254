"""What one call asks of the response cache, in its request context (C-020 to C-025)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from ...errors import OptionError
from ..option_checks import flag, text_or_none

if TYPE_CHECKING:
    from ...request_context import RequestContext

__all__ = ["RESPONSE_CACHE_CONTEXT_KEY", "Key", "Overrides", "checked_key", "overrides_in"]

RESPONSE_CACHE_CONTEXT_KEY = "procession__responseCache"
"""Where the overrides of a call stand in its request context; use `ResponseCache.apply_context`."""

Key = str | Callable[..., Any]
"""A key as it is, or a plain or async function that makes one of `CacheKeyInputs`."""


class Overrides:
    """What takes the place of the processor's own options; what is not given does not.

    It has no JSON form, so that a context that is written down leaves it out (C-023). Raises
    `OptionError` for what is none of the kinds that are taken.
    """

    __slots__ = ("bust", "key", "scope")

    def __init__(
        self,
        *,
        key: Key | UnsetType | None = UNSET,
        scope: str | UnsetType | None = UNSET,
        bust: bool | UnsetType = UNSET,
    ) -> None:
        self.key = key if key is UNSET else checked_key(key)
        self.scope = scope if scope is UNSET else text_or_none("ResponseCache", "scope", scope)
        self.bust = bust if bust is UNSET else flag("ResponseCache", "bust", bust)


NONE = Overrides()


def overrides_in(context: RequestContext | None) -> Overrides:
    """Those of a call; what somebody else has put there counts for nothing."""
    found = None if context is None else context.get(RESPONSE_CACHE_CONTEXT_KEY)
    return found if isinstance(found, Overrides) else NONE


def checked_key(key: Any) -> Key | None:
    """`key`, which must be a text that is not empty, a function, or `None`."""
    if key is None or callable(key) or (isinstance(key, str) and key):
        return key
    raise OptionError(
        f"ResponseCache: key must be a text that is not empty, or a function of the inputs, "
        f"not {'an empty text' if key == '' else type(key).__name__}"
    )
