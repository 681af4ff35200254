"""What a stream hook has returned, made to belong to its run (R-122 to R-130)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..chunks import Chunk, payload_from_json
from ..errors import ProcessorError
from .mending import mend_returned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .pipeline import Link
    from .run_state import RunState

__all__ = ["FRAMES", "NOTHING", "all_fitting", "check", "fitting", "fitting_part"]

AGENT = "AGENT"
FRAMES = frozenset({"step-start", "response-metadata", "finish", "step-finish"})
"""Chunks that hold nothing a hook's edit could spoil for others."""
_OPEN = frozenset({"tool-call-approval", "tool-call-suspended", "tool-output-denied"})
"""Chunks that say what becomes of a call."""
_ENGINES_OWN = FRAMES | _OPEN | {"start", "stream-start", "tripwire", "abort"}
"""Chunks that only the engine makes."""
_ALONE = _ENGINES_OWN | {"tool-call", "tool-result", "tool-error", "error"}
"""Chunks that there is one of."""
_CONTENT = ("text-", "reasoning-", "source", "file", "tool-call")
"""What the types of chunks begin with of which the answer is made."""
NOTHING = Chunk("")
"""What a chunk that is let go takes the place of."""


def check(run: RunState, link: Link, returned: Any, part: Chunk) -> None:
    """Raise `ProcessorError` for what a hook cannot return in place of `part`."""
    if returned and returned.__class__ in (list, tuple):
        all_fitting(run, link, returned, part)
    else:
        fitting(run, link, returned, part)


def all_fitting(run: RunState, link: Link, returned: Sequence[Any], part: Chunk) -> list[Chunk]:
    """`fitting` for several chunks in place of one."""
    made = [fitting(run, link, chunk, part) for chunk in returned]
    for chunk in made[:-1]:
        if chunk.type == part.type and part.type in _ALONE:
            raise _wrong(link, f"returned {part.type!r} within a list: it can only be the last")
    return made


def fitting(run: RunState, link: Link, returned: Any, part: Chunk) -> Chunk:
    """The chunk, with what it lacks to be one of the run; raises `ProcessorError`."""
    if not isinstance(returned, Chunk):
        kind = "an empty list" if returned == [] else type(returned).__name__
        raise _wrong(link, f"must return a chunk, a list of chunks, or None, not {kind}")
    payload: Any = returned.payload
    if payload.__class__ is dict:
        returned.payload = payload_from_json(returned.type, payload)
    problem = mend_returned(returned)
    if problem is not None:
        raise _wrong(link, f"returned a chunk that cannot be used: {problem}")
    if returned.type != part.type:
        _check_type(run, link, returned.type, part.type)
    if not returned.type.startswith("data-"):
        returned.run_id = returned.run_id or run.run_id
        returned.from_ = returned.from_ or part.from_ or AGENT
    return returned


def fitting_part(run: RunState, link: Link, returned: Any) -> Chunk:
    """The same for what a hook has made of part of an object."""
    is_text = isinstance(returned, Chunk) and returned.type == "text-delta"
    return fitting(run, link, returned, returned if is_text else NOTHING)


def _check_type(run: RunState, link: Link, kind: str, offered: str) -> None:
    """Only some types can take the place of another."""
    if kind in _ENGINES_OWN:
        raise _wrong(link, f"returned a {kind!r} chunk: only the engine makes these")
    if run.answer is None and kind.startswith(_CONTENT):
        raise _wrong(
            link,
            f"returned a {kind!r} chunk for {offered!r}: the model's answer is complete; "
            "let go of what you hold back when its block ends",
        )


def _wrong(link: Link, problem: str) -> ProcessorError:
    return ProcessorError(link.processor_id, "process_output_stream", problem)
