"""`generate_sync`, `stream_sync` and `asyncio.run`: Ctrl-C, and the end of the program (law 6).

A program of its own each, because signals and the end of the interpreter are what matters.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from procession.memory import Memory
from procession.stores import SQLiteStore

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
import asyncio, os, signal, sys, threading, time
from procession import Agent, tool
from procession.memory import Memory
from procession.stores import SQLiteStore
from procession.testing import ScriptedModel, answer, tool_call

class Model(ScriptedModel):
    '''Streams a word, then is stopped by Ctrl-C; ending its call takes a while.'''
    lingers = 0.3
    stopping = False

    async def stream(self, request):
        try:
            async for batch in super().stream(request):
                yield batch
                if self.stopping and any(chunk.type == "text-delta" for chunk in batch):
                    interrupt()
                    await asyncio.sleep(60)
        finally:
            await self.end()

    async def end(self):
        if self.stopping:
            await asyncio.sleep(self.lingers)

def interrupt():
    # From a thread that is not waited for: the signal comes while the main thread waits.
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

class Stopped(Model):
    stopping = True

call = {"thread": "t", "resource": "r"}
store = SQLiteStore(sys.argv[1])

def asking(model, **more):
    return Agent(id="a", model=model, memory=Memory(storage=store, **more))
"""

FORMS = {
    "generate_sync": 'asking(Stopped(["One two."])).generate_sync("Go", memory=call)',
    "stream_sync": 'list(asking(Stopped(["One two."])).stream_sync("Go", memory=call))',
    "stream_sync held": """
chunks = asking(Stopped(["One two."])).stream_sync("Go", memory=call)
for chunk in chunks:
    pass
""",
    "asyncio.run generate": """
asyncio.run(asking(Stopped(["One two."])).generate("Go", memory=call))
""",
    "asyncio.run stream": """
async def main():
    async with asking(Stopped(["One two."])).stream("Go", memory=call) as run:
        async for _ in run:
            pass
asyncio.run(main())
""",
}


def ran(program: str, place: Path) -> subprocess.CompletedProcess[str]:
    """A program that has come to its end."""
    command = [sys.executable, "-X", "dev", "-c", HEAD + program, str(place)]
    return subprocess.run(command, capture_output=True, text=True, timeout=50)


def kept(place: Path) -> tuple[str | None, list[tuple[str, str, Any]]]:
    """The title of the thread, and what its messages say."""

    async def read() -> tuple[str | None, list[tuple[str, str, Any]]]:
        async with SQLiteStore(place) as store:
            memory = Memory(storage=store)
            thread = await memory.get_thread_by_id("t")
            messages = await store.get_store("memory").newest_messages("t", 10)
        rows = [(m.role, m.text, (m.content.metadata or {}).get("interrupted")) for m in messages]
        return thread and thread.title, rows

    return asyncio.run(read())


STOPPED = [("user", "Go", None), ("assistant", "One two.", True)]


@pytest.mark.parametrize("form", FORMS)
def test_m_107_ctrl_c_keeps_what_was_delivered(form: str, tmp_path: Path) -> None:
    """The program ends as one that Ctrl-C has ended, when the run has come to its end."""
    done = ran(FORMS[form], tmp_path / "a.db")
    assert done.stderr.rstrip().endswith("KeyboardInterrupt"), done.stderr
    assert "RuntimeError" not in done.stderr and "StoreError" not in done.stderr
    assert done.returncode == -signal.SIGINT
    assert kept(tmp_path / "a.db")[1] == STOPPED


def test_a_second_ctrl_c_waits_for_nothing(tmp_path: Path) -> None:
    program = """
class Hanging(Stopped):
    async def end(self):
        interrupt()
        await asyncio.sleep(600)
asking(Hanging(["One two."])).generate_sync("Go", memory=call)
"""
    done = ran(program, tmp_path / "a.db")
    assert done.returncode == -signal.SIGINT and done.stderr.rstrip().endswith("KeyboardInterrupt")
    assert kept(tmp_path / "a.db")[1] == STOPPED  # if what hangs can be cancelled


def test_after_ctrl_c_the_next_call_works(tmp_path: Path) -> None:
    """As in a notebook, whose kernel goes on."""
    program = """
try:
    list(asking(Stopped(["One two."])).stream_sync("Go", memory=call))
except KeyboardInterrupt:
    print(asking(ScriptedModel(["Yes."])).generate_sync("Again", memory=call).text)
"""
    done = ran(program, tmp_path / "a.db")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Yes.\n", "")
    assert kept(tmp_path / "a.db")[1] == [
        *STOPPED,
        ("user", "Again", None),
        ("assistant", "Yes.", None),
    ]


TITLED = 'agent = asking(ScriptedModel(["Yes."]), generate_title={"model": Titles()})\n'
TITLES = """
class Titles(ScriptedModel):
    def __init__(self):
        super().__init__([answer("A title", delay=0.5)])
"""


@pytest.mark.parametrize(
    "call",
    [
        'agent.generate_sync("Go", memory=call)',
        'list(agent.stream_sync("Go", memory=call))',
        """
outer = Agent(id="outer", model=ScriptedModel([[tool_call("ask")], "Done."]), tools=[])
@tool
async def ask() -> str:
    "Asks the other agent."
    return (await agent.generate("Go", memory=call)).text
Agent(id="outer", model=outer.model, tools=[ask]).generate_sync("Ask")
""",
    ],
    ids=["generate_sync", "stream_sync", "an agent within"],
)
def test_m_160_the_program_waits_for_what_goes_on_behind_its_runs(
    call: str, tmp_path: Path
) -> None:
    done = ran(TITLES + TITLED + call, tmp_path / "a.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert kept(tmp_path / "a.db")[0] == "A title"


def test_m_148_settled_waits_for_other_event_loops_too(tmp_path: Path) -> None:
    program = """
agent.generate_sync("Go", memory=call)
asyncio.run(agent.memory.settled())
print(asyncio.run(agent.memory.get_thread_by_id("t")).title)
"""
    done = ran(TITLES + TITLED + program, tmp_path / "a.db")
    assert (done.returncode, done.stdout, done.stderr) == (0, "A title\n", "")


def test_what_hangs_behind_runs_is_waited_for_within_bounds(tmp_path: Path) -> None:
    program = """
from procession.engine import own_loop
own_loop.SETTLING = 0.2

class Extends:
    def extend(self, opening):
        from procession.extension import Around
        return Around()

    async def settled(self):
        await asyncio.sleep(600)

Agent(id="a", model=ScriptedModel(["Yes."]), extensions=[Extends()]).generate_sync("Go")
"""
    done = ran(program, tmp_path / "a.db")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stream_that_is_held_when_the_program_ends_is_closed(tmp_path: Path) -> None:
    program = """
chunks = asking(Model(["One two."])).stream_sync("Go", memory=call)
for chunk in chunks:
    if chunk.type == "text-delta":
        break
"""
    done = ran(program, tmp_path / "a.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert kept(tmp_path / "a.db")[1] == STOPPED


def test_threads_go_on_when_the_main_one_has_ended(tmp_path: Path) -> None:
    program = """
agent = Agent(id="a", model=ScriptedModel([answer("One", delay=0.3)]))
agent.generate_sync("Go")

def work():
    chunks = agent.stream_sync("Go")
    next(chunks)
    time.sleep(0.3)
    print([chunk.type for chunk in chunks][-1], agent.generate_sync("Go").text)

threading.Thread(target=work).start()
"""
    done = ran(program, tmp_path / "a.db")
    assert (done.returncode, done.stdout, done.stderr) == (0, "finish One\n", "")


@pytest.mark.parametrize("form", ["generate_sync", "stream_sync"])
def test_who_leaves_the_program_in_a_run_leaves_it(form: str, tmp_path: Path) -> None:
    program = f"""
def leave(_):
    sys.exit(3)
agent = Agent(id="a", model=ScriptedModel(["One"], on_call=leave))
list(agent.{form}("Go"))
"""
    assert ran(program, tmp_path / "a.db").returncode == 3
