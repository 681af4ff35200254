"""What belongs to one request: settings, ids, anything a caller adds (R-800)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from .errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "MASTRA_AUTH_TOKEN_KEY",
    "MASTRA_RESOURCE_ID_KEY",
    "MASTRA_THREAD_ID_KEY",
    "RequestContext",
]

MASTRA_RESOURCE_ID_KEY = "mastra__resourceId"
MASTRA_THREAD_ID_KEY = "mastra__threadId"
MASTRA_AUTH_TOKEN_KEY = "mastra__authToken"


class RequestContext:
    """String-keyed values of one request, in insertion order (R-800 to R-807).

    It is handed to dynamic options, processor-list functions, hooks and tools; what one of them
    sets, later ones see. Its content never reaches a prompt (R-806). Raises `InputError` for
    entries that are neither a mapping nor pairs.
    """

    __slots__ = ("_entries", "_fixed")

    def __init__(
        self, entries: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None
    ) -> None:
        try:
            self._entries: dict[str, Any] = dict(entries) if entries else {}
        except (TypeError, ValueError):
            raise InputError(
                f"a RequestContext is made of a mapping or of (key, value) pairs; "
                f"this {type(entries).__name__} is neither"
            ) from None
        self._fixed: Mapping[str, Any] = {}

    def for_run(self, fixed: Mapping[str, Any]) -> RequestContext:
        """A view that shares this instance's entries and shows `fixed` on top of them (R-816).

        The ids resolved for one run are visible in that run only: nothing is left behind here.
        """
        if not fixed:
            return self
        view = RequestContext()
        view._entries = self._entries
        view._fixed = {**self._fixed, **fixed}
        return view

    def pin(self, key: str, value: Any) -> None:
        """Show `key` in this view only; for extensions, whose entries are those of one run (R-816).

        A later `set` of `key` does not show here.
        """
        self._fixed = {**self._fixed, key: value}

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default` (R-801)."""
        if key in self._fixed:
            return self._fixed[key]
        return self._entries.get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Set `key`."""
        self._entries[key] = value

    def has(self, key: str) -> bool:
        """Whether `key` has a value."""
        return key in self._fixed or key in self._entries

    def delete(self, key: str) -> bool:
        """Remove `key`; whether it was there."""
        return self._entries.pop(key, self) is not self

    def clear(self) -> None:
        """Remove every entry."""
        self._entries.clear()

    @property
    def all(self) -> dict[str, Any]:
        """Everything, as a plain dict of its own."""
        return {**self._entries, **self._fixed}

    def keys(self) -> list[str]:
        """The keys in insertion order."""
        return list(self.all)

    def values(self) -> list[Any]:
        """The values in insertion order."""
        return list(self.all.values())

    def entries(self) -> list[tuple[str, Any]]:
        """Key and value pairs in insertion order."""
        return list(self.all.items())

    def size(self) -> int:
        """The number of entries."""
        return len(self.all)

    def for_each(self, visit: Callable[[Any, str], object]) -> None:
        """Call `visit(value, key)` for each entry."""
        for key, value in self.all.items():
            visit(value, key)

    def to_json(self) -> dict[str, Any]:
        """The entries that JSON can hold; others are left out silently (R-803)."""
        kept: dict[str, Any] = {}
        for key, value in self.all.items():
            try:
                kept[key] = msgspec.json.decode(msgspec.json.encode(value))
            except (TypeError, ValueError, RecursionError, OverflowError):
                continue
        return kept

    get_raw = get
    set_raw = set
    has_raw = has
    delete_raw = delete

    def __repr__(self) -> str:
        # Values may be secrets: only the names are shown.
        return f"RequestContext({', '.join(map(str, self.all))})"
