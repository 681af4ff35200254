"""Options that are given by name: one that does not exist is refused, and not passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["check_keywords"]


def check_keywords(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise `ConfigurationError` for a name that `owner` does not know, with the nearest it does.

    Where options are collected (`**options`), Python itself would not notice.
    """
    names = list(known)
    for name in given:
        if name not in names:
            import difflib  # only where a mistake is explained

            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(names))}"
            raise ConfigurationError(f"{owner} has no option {name!r}; {hint}")
