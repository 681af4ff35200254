"""A program may end while its runs are paused: nothing is complained about (law 6)."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROVIDER = """
async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\n\\r\\n")
    try:
        while True:
            writer.write(b'data: {"choices":[{"delta":{"content":"word "}}]}\\n\\n')
            await writer.drain()
            await asyncio.sleep(0.001)
    except OSError:
        pass
    finally:
        writer.close()

def serve(ready):
    async def main():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ready.append(server.sockets[0].getsockname()[1])
        started.set()
        await asyncio.sleep(30)
    asyncio.run(main())

ready, started = [], threading.Event()
threading.Thread(target=serve, args=(ready,), daemon=True).start()
started.wait()
"""

MODELS = {
    "scripted": 'model = ScriptedModel([answer(*["word "] * 50)] * 9)\n',
    "http": PROVIDER.replace("def answer", "def provide").replace("(answer,", "(provide,")
    + 'model = OpenAIChatModel("m", base_url=f"http://127.0.0.1:{ready[0]}/v1", api_key="k")\n',
}

ENDS = {
    "async break": """
async def main():
    runs = [await agent.stream("go") for _ in range(3)]
    for run in runs:
        async for chunk in run:
            if chunk.type == "text-delta":
                break
asyncio.run(main())
""",
    "dropped while a tool writes": """
async def main():
    async for chunk in await agent.stream("go"):
        if chunk.type == "data-note":
            break
asyncio.run(main())
""",
    "sync break": """
for chunk in agent.stream_sync("go"):
    if chunk.type == "text-delta":
        break
""",
}

HEAD = """
import asyncio, threading
from procession import Agent, processor
from procession.models.openai import OpenAIChatModel
from procession.testing import ScriptedModel, answer

async def note(args):
    await args.writer.custom({"type": "data-note", "data": 1})
    await asyncio.sleep(0)

"""


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("end", ENDS)
def test_paused_runs_end_in_silence(model: str, end: str) -> None:
    """G-T: the loop closes what is paused, each connection once, and prints nothing."""
    notes = "[processor(process_input_step=note)]"
    agent = f'agent = Agent(id="a", model=model, input_processors={notes})\n'
    script = HEAD + MODELS[model] + agent + ENDS[end]
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
