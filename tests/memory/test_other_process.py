"""What one process has begun another one goes on with: history, and runs that wait (G-F5)."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from procession.memory import Memory
from procession.stores import SQLiteStore
from procession.testing import ScriptedModel
from tests.memory.kit import remembering, shown

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = '''
import asyncio, json, sys
from procession import Agent, InputError, tool
from procession.memory import Memory
from procession.stores import SQLiteStore
from procession.testing import ScriptedModel, answer, tool_call

path, what, run_id = sys.argv[1:4]

@tool(require_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    with open(path + ".paid", "a") as file:
        file.write(f"{amount}\\n")
    return f"paid {amount}"

first = answer("I pay.", tool_calls=[tool_call("pay", {"amount": 5}, id="c0")])
model = ScriptedModel([first] if what == "ask" else ["Paid, as you said."])

async def main():
    async with SQLiteStore(path) as store:
        agent = Agent(id="desk", model=model, tools=[pay], memory=Memory(storage=store))
        if what == "ask":
            result = await agent.generate("Pay 5", memory={"thread": "t1", "resource": "u1"})
        else:
            try:
                result = await agent.approve_tool_call_generate(run_id)
            except InputError as error:
                return {"error": str(error)}
        prompt = [entry["role"] for call in model.calls for entry in call.prompt]
        told = {"status": result.status, "run": result.run_id, "text": result.text}
        return {**told, "prompt": prompt}

print(json.dumps(asyncio.run(main())))
'''


def begin(path: Path, what: str, run_id: str = "") -> subprocess.Popen[bytes]:
    program = [sys.executable, "-c", PROGRAM, str(path), what, run_id]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(process: subprocess.Popen[bytes]) -> Any:
    out, errors = process.communicate(timeout=50)
    assert process.returncode == 0, errors.decode()
    return json.loads(out)


@pytest.mark.timeout(120)
async def test_g_f5_an_approval_in_a_fresh_process_runs_the_tool_once(tmp_path: Path) -> None:
    """The asking process has ended; of two that approve at once one goes on."""
    path = tmp_path / "memory.db"
    waiting = ended(begin(path, "ask"))
    assert waiting["status"] == "suspended"
    outcomes = [ended(process) for process in [begin(path, "ok", waiting["run"]) for _ in "ab"]]
    [done] = [outcome for outcome in outcomes if "status" in outcome]
    [refused] = [outcome for outcome in outcomes if "error" in outcome]
    assert done["text"] == "I pay.Paid, as you said." and done["prompt"] == [
        "user",
        "assistant",
        "tool",
    ]
    assert "no tool call of run" in refused["error"]
    assert path.with_suffix(".db.paid").read_text() == "5\n"
    async with SQLiteStore(path) as store:
        memory = Memory(storage=store)
        assert await shown(memory) == [
            ("user", "Pay 5"),
            ("assistant", "I pay.", "pay:result", "Paid, as you said."),
        ]
        model = ScriptedModel(["You are welcome."])
        agent, _ = remembering(model, memory)
        await agent.generate("Thanks", memory={"thread": "t1", "resource": "u1"})
        assert [entry["role"] for entry in model.calls[0].prompt] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
        ]


async def test_while_a_run_waits_its_open_call_is_not_sent_to_a_model(tmp_path: Path) -> None:
    """The table of outcomes, waiting; G-E."""
    path = tmp_path / "memory.db"
    ended(begin(path, "ask"))
    async with SQLiteStore(path) as store:
        model = ScriptedModel(["Not yet."])
        agent, memory = remembering(model, Memory(storage=store))
        await agent.generate("Paid?", memory={"thread": "t1", "resource": "u1"})
        assert [entry["role"] for entry in model.calls[0].prompt] == ["user", "assistant", "user"]
        assert ("assistant", "I pay.", "pay:approval-requested") in await shown(memory)
