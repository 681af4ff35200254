"""Ids of traces and spans, as OpenTelemetry has them."""

from __future__ import annotations

import os
from random import Random

__all__ = ["new_span_id", "new_trace_id", "share_of"]

_random = Random()
# Who is forked off would make the same ids.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def new_trace_id() -> str:
    """32 hexadecimal digits, not all of them 0."""
    return f"{_random.getrandbits(128) or 1:032x}"


def new_span_id() -> str:
    """16 hexadecimal digits, not all of them 0."""
    return f"{_random.getrandbits(64) or 1:016x}"


def share_of(trace_id: str) -> float:
    """Where an id stands between 0 and 1, by its last 56 bits: whoever samples a trace by its id,
    in whatever process, decides the same.
    """
    return int(trace_id[-14:], 16) / (1 << 56)
