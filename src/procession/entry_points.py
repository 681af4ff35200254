"""What installed packages offer by name, and what to install where something is missing for it."""

from __future__ import annotations

import re
from typing import Any

from .errors import ConfigurationError

__all__ = ["load_entry", "registered"]


def registered(group: str, name: str | None = None) -> list[Any]:
    """Entry points of installed packages; looked up when needed, for that takes milliseconds."""
    from importlib.metadata import entry_points

    return [entry for entry in entry_points(group=group) if name is None or entry.name == name]


def load_entry(entry: Any) -> Any:
    """What an entry point names.

    Raises `ConfigurationError` for a missing package, with the extra that brings it.
    """
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        brings = f"pip install '{_extra_of(entry, error.name or '')}'"
        raise ConfigurationError(
            f"provider {entry.name!r} needs the package {error.name!r}: {brings}"
        ) from error


def _extra_of(entry: Any, module: str) -> str:
    """What to install for a missing module: the provider's own extra, or the smallest with it."""
    source: Any = entry.dist
    if source is None:
        return module
    wanted = module.partition(".")[0].replace("_", "-").lower()
    extras: dict[str, list[str]] = {}
    for requirement in source.requires or ():
        name, _, condition = requirement.partition(";")
        extra = re.search("extra *== *['\"]([^'\"]+)", condition)
        if extra:
            extras.setdefault(extra[1], []).append(name.lower().replace("_", "-"))
    bringing = [
        extra for extra, names in extras.items() if any(n.startswith(wanted) for n in names)
    ]
    if not bringing:
        return module
    best = min(bringing, key=lambda extra: (extra != entry.name, len(extras[extra])))
    return f"{source.name}[{best}]"
