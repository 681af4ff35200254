"""Options that are given by name: one that does not exist is refused, and not passed over."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from .errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

__all__ = ["TakesOptions", "check_keywords"]

_BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def check_keywords(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise `OptionError` for a name that `owner` does not know, with the nearest it does.

    Where options are collected (`**options`), Python itself would not notice.
    """
    names = list(known)
    for name in given:
        if name not in names:
            near = _nearest(name, names)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(names))}"
            raise OptionError(f"{owner} has no option {name!r}; {hint}")


def _nearest(name: str, names: list[str]) -> str | None:
    """The option that was meant: one that is written alike, or the only one that has the word."""
    import difflib  # only where a mistake is explained

    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return near[0]
    longer = [other for other in names if f"_{name}_" in f"_{other}_"]
    return longer[0] if len(longer) == 1 else None


class TakesOptions:
    """Base of classes that are made with options: an unknown one is told with what was meant.

    Python's own `TypeError` for it says neither. A class whose `__init__` collects keywords is left
    to itself.
    """

    __slots__ = ()

    def __new__(cls, *_given: Any, **options: Any) -> Self:
        """The object, not yet filled; raises `OptionError` for a keyword that is no option."""
        if options:
            parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
            if all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in parameters):
                known = [each.name for each in parameters if each.kind in _BY_NAME]
                check_keywords(cls.__name__, options, known)
        return super().__new__(cls)
