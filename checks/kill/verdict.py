"""What must hold of threads, whenever the process that wrote them was killed."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from procession import Agent, ProcessionError
from procession.memory import Memory
from procession.testing import ScriptedModel

from .script import Turn, agent_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from multiprocessing.connection import Connection

    from procession.messages import Message

    from .places import Place

__all__ = ["Report", "judge", "prompt_problems", "thread_problems"]

_CLOSED = {"result", "output-error"}
_LAST = 30


class Report(NamedTuple):
    """A turn that a process has said it has finished."""

    thread: str
    name: str
    run_id: str


def judge(
    place: Place, reported: Sequence[Report], threads: Sequence[str], out: Connection
) -> None:
    """In a process of its own: send a JSON list with the number of turns, and what is wrong."""
    out.send_bytes(json.dumps(asyncio.run(_judge(place, reported, threads))).encode())


async def _judge(place: Place, reported: Sequence[Report], threads: Sequence[str]) -> Any:
    async with place.store() as store:
        memory, found, turns = Memory(storage=store, last_messages=_LAST), list[str](), 0
        for thread in threads:
            own = {report.name: report for report in reported if report.thread == thread}
            stored = (await memory.recall(thread, per_page=False)).messages
            found += thread_problems(thread, stored, own)
            found += await _goes_on(memory, thread)
            for report in own.values():
                found += await _approved(memory, Turn.of(thread, report.name), report.run_id)
            turns += sum(message.role == "user" for message in stored)
        return [turns, found]


def thread_problems(
    thread: str, stored: Iterable[Message], reported: Mapping[str, Report]
) -> list[str]:
    """A thread as it is stored: every turn whole or not there, those that were reported there."""
    found: list[str] = []
    roles: dict[str, list[Message]] = {}
    order: list[str] = []
    for message in stored:
        name = _turn_name(message)
        if name is None:
            found.append(f"{thread}: a message that no turn has said: {message.role}")
            continue
        roles.setdefault(name, []).append(message)
        if message.role == "user":
            order.append(name)
    for name, messages in roles.items():
        found += [f"{name}: {problem}" for problem in _turn_problems(name, thread, messages)]
    for name in reported:
        if name not in roles and Turn.of(thread, name).outcome != "blocked":
            found.append(f"{name}: was reported, and is not there")
    for talker in {name.rpartition(".")[0] for name in order}:
        own = [name for name in order if name.rpartition(".")[0] == talker]
        if own != sorted(own):
            found.append(f"{talker}: the turns are not in order")
    return found


def _turn_name(message: Message) -> str | None:
    for part in message.content.parts:
        if part.type == "text":
            return part.text.partition(" ")[2]
        if part.type == "tool-invocation":
            return part.tool_invocation.tool_call_id.partition("/")[0]
    return None


def _turn_problems(name: str, thread: str, messages: Sequence[Message]) -> list[str]:
    turn, found = Turn.of(thread, name), list[str]()
    if turn.outcome == "blocked":
        return ["was blocked, and is stored"]
    roles = [message.role for message in messages]
    if roles != ["user", "assistant"]:
        return [f"is stored as {roles}"]
    question, said = messages
    if question.text != turn.question:
        found.append(f"asks {question.text!r}")
    calls = [p.tool_invocation for p in said.content.parts if p.type == "tool-invocation"]
    made = [call.tool_call_id for call in calls]
    if made != turn.calls:
        found.append(f"has the calls {made}")
    if turn.outcome == "waiting" and not said.text:
        allowed = {"approval-requested"}
    else:
        allowed = _CLOSED
        if turn.answer != said.text and turn.outcome != "stopped":
            found.append(f"answers {said.text!r}")
    states = {call.state for call in calls}
    if states - allowed:
        found.append(f"has calls that are {sorted(states - allowed)}")
    return found


async def _goes_on(memory: Memory, thread: str) -> list[str]:
    """The next turn is asked of the model in a form that providers accept; nothing is saved."""
    model = ScriptedModel(["Well."])
    options = {"read_only": True}
    call: Any = {"thread": thread, "resource": "u1", "options": options}
    await Agent(id="desk", model=model, memory=memory).generate("And now?", memory=call)
    return [f"{thread}: {problem}" for problem in prompt_problems(model.calls[0].prompt)]


def prompt_problems(prompt: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a provider would refuse: each call has its result right behind it, and no other has."""
    found, open_calls = list[str](), Counter[str]()
    for entry in prompt:
        parts = [part for part in entry["content"] if not isinstance(part, str)]
        results = Counter(p["toolCallId"] for p in parts if p["type"] == "tool-result")
        if results != open_calls:
            found.append(f"{dict(open_calls)} is answered by {dict(results)}")
        open_calls = Counter(p["toolCallId"] for p in parts if p["type"] == "tool-call")
        if not parts and not entry["content"]:
            found.append(f"an empty entry of {entry['role']}")
    if open_calls:
        found.append(f"{dict(open_calls)} is not answered")
    return found


async def _approved(memory: Memory, turn: Turn, run_id: str) -> list[str]:
    """A run that was reported as waiting goes on, and its turn is whole then."""
    if turn.outcome != "waiting":
        return []
    agent = agent_for(turn, memory, answers=[turn.answer])
    try:
        result = await agent.approve_tool_call_generate(run_id)
    except ProcessionError as error:
        return [f"{turn.name}: cannot go on: {error}"]
    stored = (await memory.recall(turn.thread, per_page=False)).messages
    own = [message for message in stored if _turn_name(message) == turn.name]
    if result.text != turn.answer or len(own) != 2 or own[1].text != turn.answer:
        return [f"{turn.name}: has not gone on: {result.text!r}"]
    return _turn_problems(turn.name, turn.thread, own)
