"""Answers that are to be objects, played past guards, and all that shows of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from procession import Agent
from procession.testing import ScriptedModel, answer
from tests.laws.kit import METADATA, PlayedModel, end, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from procession.chunks import Chunk

FRAMES = ("step-finish", "finish")


class Shown(NamedTuple):
    """What came of an answer."""

    deltas: list[str]
    partials: list[Any]
    object: Any
    text: str
    stored_text: str
    elsewhere: list[Any]
    """The object in `object-result`, `step-finish`, `finish` and the stored metadata."""
    tripwire: Any
    error: Any
    told: list[Any]
    everything: str
    """All chunks and the stored messages as JSON, without escapes."""

    @property
    def delivered(self) -> str:
        return "".join(self.deltas)


async def show(guards: Any, pieces: Sequence[str], **options: Any) -> Shown:
    """Ask for an object; the answer is `pieces`."""
    model = PlayedModel([[METADATA, *said(*pieces), end()]])
    return await shown_of(guards, model, {"schema": None, "error_strategy": "warn", **options})


async def show_second(guards: Any, pieces: Sequence[str], **options: Any) -> Shown:
    """The same, made by a model of its own."""
    second = ScriptedModel([answer(*pieces)])
    asked = {"schema": None, "error_strategy": "warn", "model": second, **options}
    return await shown_of(guards, ScriptedModel("Here it is."), asked)


async def shown_of(guards: Any, model: Any, asked: Any) -> Shown:
    guards = guards if isinstance(guards, list) else [guards]
    told: list[Any] = []
    for guard in guards:
        guard.on_violation = told.append
    run = await Agent(id="a", model=model, output_processors=guards).stream(
        "go", structured_output=asked
    )
    chunks: list[Chunk] = []
    partials: list[Any] = []
    async for chunk in run.full_stream:
        chunks.append(chunk)
        if chunk.type == "object":
            partials.append(chunk.object)
    messages = run.message_list.get.response.db()
    metadata = [message.content.metadata or {} for message in messages]
    known = [chunk.to_json() for chunk in chunks]
    stored = [message.to_json() for message in messages]
    return Shown(
        deltas=[c.payload.text for c in chunks if c.type == "text-delta"],
        partials=partials,
        object=await run.object if run.error is None else None,
        text=await run.text,
        stored_text="".join(p.text for m in messages for p in m.parts if p.type == "text"),
        elsewhere=[
            *(c.object for c in chunks if c.type == "object-result"),
            *(
                c.payload.output.object
                for c in chunks
                if c.type in FRAMES and c.payload.output.object
            ),
            *(one["structuredOutput"] for one in metadata if "structuredOutput" in one),
        ],
        tripwire=run.tripwire,
        error=run.error,
        told=told,
        everything=json.dumps([known, stored], ensure_ascii=False, default=str),
    )


def leaves(value: Any) -> Iterator[Any]:
    """The strings, keys and numbers of a value."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield key
            yield from leaves(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from leaves(entry)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def as_text(leaf: Any) -> str:
    """A leaf as guards see it."""
    return leaf if isinstance(leaf, str) else json.dumps(leaf)


def changed(value: Any, change: Any) -> Any:
    """The value with its leaves changed; a number that is changed is a text."""
    if isinstance(value, dict):
        return {change(key): changed(entry, change) for key, entry in value.items()}
    if isinstance(value, list):
        return [changed(entry, change) for entry in value]
    if isinstance(value, str):
        return change(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        plain = json.dumps(value)
        made = change(plain)
        return value if made == plain else made
    return value


def is_beginning(part: Any, whole: Any) -> bool:
    """Whether a partial value is the whole one, as far as it has come."""
    if isinstance(part, dict) and isinstance(whole, dict):
        keys = list(whole)[: len(part)]
        pairs = zip(part.values(), (whole[key] for key in keys), strict=True)
        return list(part) == keys and all(is_beginning(a, b) for a, b in pairs)
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_beginning, part, whole))
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    return part == whole and type(part) is type(whole)


def escaped(text: str, every: int) -> str:
    """A JSON string in which one character in `every` is written as an escape; 0: none is."""
    units: list[str] = []
    for at, letter in enumerate(text):
        if every and at % every == 0:
            code = letter.encode("utf-16-be")
            units += (f"\\u{code[i : i + 2].hex()}" for i in range(0, len(code), 2))
        else:
            units.append(json.dumps(letter, ensure_ascii=False)[1:-1])
    return f'"{"".join(units)}"'


def written(value: Any, every: int, space: str = "") -> str:
    """A value as JSON, with escapes and white space."""
    if isinstance(value, dict):
        pairs = (
            f"{escaped(k, every)}{space}:{space}{written(v, every, space)}"
            for k, v in value.items()
        )
        return f"{{{space}{f',{space}'.join(pairs)}{space}}}"
    if isinstance(value, list):
        return f"[{space}{f',{space}'.join(written(v, every, space) for v in value)}{space}]"
    return escaped(value, every) if isinstance(value, str) else json.dumps(value)
