"""Packages that an extra brings: who imports without it is told which one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from .errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["brought_by"]


@contextmanager
def brought_by(extra: str, *packages: str) -> Generator[None]:
    """Where `packages` are imported: if one of them is missing, the error names the extra.

    It is a `MissingExtraError`, and so a `ModuleNotFoundError` with the missing module's `name`,
    for who tries an import to see whether it works.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in packages:
            raise
        raise MissingExtraError(
            f"the package {missing!r} is needed: pip install 'procession[{extra}]'",
            name=error.name,
        ) from error
