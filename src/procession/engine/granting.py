"""Who is asked for a retry when a call of the model has failed, and who is granted one."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ..prefill import PrefillErrorHandler
from .pipeline import Link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .run_state import RunState

__all__ = ["error_links", "grant", "may_grant", "with_automatic"]

_HOOK = "process_api_error"


def error_links(run: RunState) -> Sequence[Link]:
    """The error processors of the call, then the automatic one (R-219).

    It joins only now: a run whose calls succeed does not pay for it, and knows that nobody changes
    its messages.
    """
    return with_automatic(run.pipeline.process_api_error)


def with_automatic(own: Sequence[Link]) -> Sequence[Link]:
    """Error processors, and the automatic one, unless one of them takes its place."""
    if any(link.processor_id == PrefillErrorHandler.id for link in own):
        return own
    return (*own, _automatic())


@cache
def _automatic() -> Link:
    handler = PrefillErrorHandler()
    handler.own_retries = 1
    return Link(handler, _HOOK)


def may_grant(run: RunState, link: Link) -> bool:
    """Whether a retry would be granted to an error processor (R-116)."""
    return _brings_one(run, link) or run.retry_count < run.retry_budget


def grant(run: RunState, link: Link) -> bool:
    """Grant an error processor a retry, if there is one left for it.

    One of its own is taken first. It leaves nothing more to the others, and takes nothing from
    them: the budget grows by one with the attempt that will be counted (R-220).
    """
    if _brings_one(run, link):
        used = run.own_retries = run.own_retries or {}
        used[link.processor_id] = used.get(link.processor_id, 0) + 1
        run.retry_budget += 1
        return True
    return run.retry_count < run.retry_budget


def _brings_one(run: RunState, link: Link) -> bool:
    if run.forbids_retries:
        return False
    used = (run.own_retries or {}).get(link.processor_id, 0)
    return used < getattr(link.processor, "own_retries", 0)
