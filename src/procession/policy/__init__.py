"""Policies: what a processor's failures, delays and verdicts are to mean for the run."""

from .aside import Aside, GuardedFlush
from .events import PolicyEvent, events_of, in_metadata
from .guard import Guard, call
from .observing import observe
from .options import Breaker, Policy, policy_of
from .streaming import guarded_hook

__all__ = [
    "Aside",
    "Breaker",
    "Guard",
    "GuardedFlush",
    "Policy",
    "PolicyEvent",
    "call",
    "events_of",
    "guarded_hook",
    "in_metadata",
    "observe",
    "policy_of",
]
