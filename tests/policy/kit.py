"""What the tests of policies have in common: a processor that fails at its worst, and outcomes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from procession.messages import TextPart
from procession.processor import HOOKS
from tests.laws.kit import PlayedModel, agent_with, bare, outcome_of

if TYPE_CHECKING:
    from procession import Policy

PATIENT = 0.005
"""Seconds of the timeouts that are to run out."""


def spoil(args: Any) -> None:  # noqa: C901  # one thing after another
    """Change everything within reach, so that half a change would show."""
    part = getattr(args, "part", None)
    if part is not None:
        part.type = "text-delta" if part.type == "text-end" else part.type
        payload = part.payload
        if hasattr(payload, "text"):
            payload.text = "SPOILT"
        if hasattr(payload, "args") and isinstance(payload.args, dict):
            payload.args["value"] = "SPOILT"
        part.metadata = {"spoilt": True}
    messages = args.message_list
    if messages is not None:
        for message in args.messages:
            for piece in message.content.parts:
                if isinstance(piece, TextPart):
                    piece.text = "SPOILT"
                if piece.type == "tool-invocation":
                    piece.tool_invocation.args["value"] = "SPOILT"
            message.content.metadata = {"spoilt": True}
            message.content.parts.append(TextPart(text="SPOILT"))
        messages.add("SPOILT", "input")
        messages.add({"role": "assistant", "content": "SPOILT"}, "response")
        messages.add_system("SPOILT")
        messages.remove_by_ids([args.messages[0].id] if args.messages else [])
    for name in ("tools", "model_settings", "provider_options"):
        held = getattr(args, name, None)
        if isinstance(held, dict):
            held["spoilt"] = True
    for name in ("chunks", "warnings", "steps", "tool_calls"):
        held = getattr(args, name, None)
        if isinstance(held, list):
            held.append("SPOILT")
    for chunk in getattr(args, "chunks", None) or ():
        if hasattr(chunk, "payload"):
            chunk.payload["text"] = "SPOILT"
    prompt = getattr(args, "prompt", None)
    if prompt:
        prompt.clear()
    for name in ("text", "model", "tool_name", "tool_choice"):
        if hasattr(args, name):
            setattr(args, name, "SPOILT")


async def _error(args: Any) -> None:
    raise ValueError("SECRET")


async def _timeout(args: Any) -> None:
    await asyncio.Event().wait()


async def _wrong(args: Any) -> Any:
    return 4711


async def _deaf(args: Any) -> Any:
    """Does not want to hear that it is cancelled, and lets everything pass then."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return getattr(args, "part", None)


async def _cancelled(args: Any) -> None:
    """Nobody has cancelled the run: what the hook waited for was cancelled."""
    lost = asyncio.get_running_loop().create_future()
    lost.cancel()
    await lost


FAILURES: dict[str, Any] = {
    "error": _error,
    "timeout": _timeout,
    "wrong": _wrong,
    "deaf": _deaf,
    "cancelled": _cancelled,
}
KINDS = {
    "error": ("error", "ValueError"),
    "timeout": ("timeout", None),
    "wrong": ("error", "ProcessorError"),
    "deaf": ("timeout", None),
    "cancelled": ("error", "CancelledError"),
}
NO_WRONG = frozenset({"process_llm_response"})
"""Hooks of which every return is ignored."""


class Shaky:
    """Fails in one hook, at every call or only for some types of chunks, after spoiling all."""

    def __init__(
        self, hook: str, failure: str, policy: Policy | None, *, plain: bool = False
    ) -> None:
        self.id = "shaky"
        self.policy = policy
        self.calls = 0
        fail = FAILURES[failure]

        async def awaited(args: Any) -> Any:
            self.calls += 1
            spoil(args)
            return await fail(args)

        def called(args: Any) -> Any:
            self.calls += 1
            spoil(args)
            if failure == "error":
                raise ValueError("SECRET")
            return fail(args)

        setattr(self, hook, called if plain else awaited)


class Stand:
    """A fallback with all hooks, which notes its calls and marks texts."""

    process_data_parts = True

    def __init__(self, id: str = "stand") -> None:
        self.id = id
        self.log: list[str] = []

    def process_output_stream(self, args: Any) -> Any:
        self.log.append("process_output_stream")
        if args.part.type != "text-delta":
            return args.part
        text = args.part.payload.text.upper()
        return args.part.replace(payload=args.part.payload.replace(text=text))


def _noting(name: str) -> Any:
    async def hook(self: Stand, args: Any) -> Any:
        self.log.append(name)
        if name in ("process_input", "process_output_result"):
            for message in args.messages:
                for part in message.content.parts:
                    if isinstance(part, TextPart):
                        part.text += "!"
        if name == "process_llm_request":
            return {"prompt": [*args.prompt, {"role": "user", "content": "and"}]}
        return None

    return hook


for _name in HOOKS:
    if _name != "process_output_stream":
        setattr(Stand, _name, _noting(_name))


def without_events(value: Any) -> Any:
    """Plain data without what is said of policies."""
    if isinstance(value, dict):
        return {k: without_events(v) for k, v in value.items() if k != "policyEvents"}
    return [without_events(v) for v in value] if isinstance(value, list) else value


async def trace(answers: Any, *processors: Any, **options: Any) -> dict[str, Any]:
    """All that can be seen of a run: chunks, outcome, prompts; without events of policies."""
    model = PlayedModel(answers)
    agent = agent_with(model, *processors)
    run = await agent.stream("go", **options)
    chunks = without_events([bare(chunk) for chunk in [c async for c in run]])
    return {
        "chunks": chunks,
        "outcome": without_events(await outcome_of(run)),
        "prompts": bare(model.prompts),
        "open": model.open,
    }
