"""Objects asked for past guards, and hooks that tell what they see of them."""

from __future__ import annotations

from typing import Any

from procession import Agent, processor
from procession.hold import Literals
from procession.testing import ScriptedModel, answer
from tests.laws.kit import METADATA, PlayedModel, end

SECRET = Literals("secret")


async def asked(text: Any, *guards: Any, **options: Any) -> Any:
    """What comes of an answer that is to be an object."""
    model = ScriptedModel([answer(*([text] if isinstance(text, str) else text))])
    agent = Agent(id="a", model=model, output_processors=guards)
    wanted: Any = {"schema": None, **options}
    return await agent.generate("go", structured_output=wanted)


def noting(shown: list[Any], watches: Any, **more: Any) -> Any:
    """A hook that notes its pieces."""

    def note(args: Any) -> Any:
        if args.piece is not None:
            shown.append(args.piece)
        return args.part

    return processor(id="noting", process_output_stream=note, watches=watches, **more)


def in_two_blocks() -> PlayedModel:
    """An object whose text is words in the second block: it is seen when it is put together."""
    parts = [METADATA]
    for id, text in (("t1", '{"a": "'), ("t2", '\\u0073ecret"}')):
        parts += [
            {"type": "text-start", "id": id},
            {"type": "text-delta", "id": id, "delta": text},
            {"type": "text-end", "id": id},
        ]
    return PlayedModel([[*parts, end()]])
