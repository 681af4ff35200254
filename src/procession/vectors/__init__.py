"""Stores of vectors: in memory, in the file of a `SQLiteStore`, in PostgreSQL."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .in_memory import InMemoryVectors
    from .postgres import PostgresVectors
    from .sqlite import SQLiteVectors

__all__ = ["InMemoryVectors", "PostgresVectors", "SQLiteVectors"]

_PLACES = {
    "InMemoryVectors": "in_memory",
    "PostgresVectors": "postgres",
    "SQLiteVectors": "sqlite",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:  # not before it is asked for: they need packages of extras
        return getattr(import_module(f".{_PLACES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
