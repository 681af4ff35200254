"""Threads and resources that are nobody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET, UnsetType

from ...records import plain
from ...store import Resource, Thread
from ..encoding import moment, now, optional_json, optional_object, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["copied", "merged"]

_R = TypeVar("_R", Thread, Resource)


def copied(row: _R) -> _R:
    """A copy that shares nothing with `row`, and holds plain data only."""
    metadata = optional_object(optional_json(row.metadata))
    extra = optional_object(optional_json(row.extra))
    times = {
        "created_at": moment(stamp(row.created_at)),
        "updated_at": moment(stamp(row.updated_at)),
    }
    return row.replace(metadata=metadata, extra=extra, **times)


def merged(row: _R, metadata: Mapping[str, Any] | UnsetType) -> _R:
    """A copy with keys of metadata written over the earlier ones, changed now."""
    changed = copied(row.replace(updated_at=max(row.updated_at, moment(now()))))
    if metadata is not UNSET:
        changed.metadata = {**(changed.metadata or {}), **plain(metadata)}
    return changed
