"""`procession pipeline`: the picture, its JSON, and what it says when there is nothing to show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

import pytest
from rich.console import Console

from procession import Agent
from procession.cli.pipeline import Request, show_pipeline
from procession.memory import Memory
from procession.stores import SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHOP = """
from procession import Agent, App, Breaker, Policy, processor
from procession.hold import Unit
from procession.memory import Memory
from procession.processors import PIIDetector, ResponseCache, UnicodeNormalizer
from procession.cache import InMemoryServerCache
from procession.stores import SQLiteStore
from procession.workflows import ProcessorStepSchema, create_step, create_workflow

print("imported")


class NoPromises:
    id = "no-promises"
    policy = Policy(timeout=1.5, breaker=Breaker(failures=3, seconds=20), observe=True)
    watches = (Unit("sentence"),)

    async def process_output_step(self, args): ...
    def process_output_stream(self, args):
        return args.part


form = {"input_schema": ProcessorStepSchema, "output_schema": ProcessorStepSchema}
flow = create_workflow(id="cleaning", **form).then(create_step(UnicodeNormalizer())).commit()


def guards(scope):
    print("asked")
    tier = scope.request_context.get("tier")
    if tier is None:
        raise LookupError("no tier")
    return [processor(id=f"for-{tier}", process_input=lambda args: None)]


support = Agent(
    id="support",
    name="Support desk",
    model="openai/gpt-5",
    memory=Memory(),
    input_processors=[flow, ResponseCache(cache=InMemoryServerCache())],
    output_processors=[PIIDetector(policy=Policy(on_error="allow", timeout=2)), NoPromises()],
)
sales = Agent(id="sales", model="openai/gpt-5", input_processors=guards)
app = App(agents=[support, sales], store=SQLiteStore("shop.db"))
settings = {"a": 1}
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Done]:
    """The command, as a process of its own in a folder with `shop.py`."""
    (tmp_path / "shop.py").write_text(SHOP, "utf-8")

    def start(*arguments: str, columns: int = 80) -> Done:
        done = subprocess.run(
            [sys.executable, "-c", "from procession.cli import main; main()", *arguments],
            capture_output=True,
            encoding="utf-8",
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": str(columns), "PYTHONSAFEPATH": "1"},
            timeout=50,
        )
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    return start


def test_the_picture_of_an_agent_fits_eighty_columns(run: Callable[..., Done]) -> None:
    done = run("pipeline", "shop:app", "--agent", "support")
    assert (done.code, done.err) == (0, "imported\n")
    assert max(map(len, done.out.splitlines())) <= 80
    assert done.out == PICTURE


PICTURE = """\
agent support (Support desk)
model openai/gpt-5

process_input  once, before the first step
   1  memory-input-filter    async  memory *
   2  message-history        async  memory *
   3  unicode-normalizer     sync   workflow cleaning

process_llm_request  each call: the provider's prompt
   1  response-cache         async  input_processors

process_output_stream  each chunk on its way out
   1  pii-detector           sync   output_processors
      policy: on_error=allow; timeout=2 s
      watches: LocalDetector in text, reasoning, tool-arguments
   2  no-promises            sync   output_processors
      policy: observed: it changes nothing; on_error=block; timeout=1.5 s;
      breaker=3 failures, then 20 s of rest
      watches: Unit('sentence') in text; granularity sentence

process_llm_response  each response, when it is complete
   1  response-cache         sync   input_processors

process_api_error  each call that failed for good
   1  prefill-error-handler  async  automatic

process_output_step  each response, before its tools run
   1  no-promises            async  output_processors
      policy: observed: it changes nothing; on_error=block; timeout=1.5 s;
      breaker=3 failures, then 20 s of rest

process_output_result  once, when the loop is over
   1  pii-detector           sync   output_processors
      policy: on_error=allow; timeout=2 s

run_ended  once, when all is over
   1  message-history        async  memory *
   2  message-history        async  memory *
   3  response-cache         async  input_processors

nobody runs in process_input_step, process_tool_result
* only in calls that name a conversation (memory=…)
"""


@pytest.mark.parametrize("columns", [40, 60, 200])
def test_no_line_is_wider_than_the_terminal(run: Callable[..., Done], columns: int) -> None:
    done = run("pipeline", "shop:support", columns=columns)
    assert done.code == 0 and max(map(len, done.out.splitlines())) <= columns


def test_an_app_shows_all_its_agents(run: Callable[..., Done]) -> None:
    done = run("pipeline", "shop:app")
    assert done.code == 0
    assert "agent support (Support desk)\n" in done.out and "\n\nagent sales\n" in done.out


def test_lists_made_for_each_request_are_said_to_be(run: Callable[..., Done]) -> None:
    """O-133: not asked without a request; with one they are shown; what fails is a note."""
    done = run("pipeline", "shop:sales")
    told = " ".join(done.out.split())
    assert "! input_processors is a function of the request" in told
    assert "--thread, --resource, --context KEY=VALUE" in told and "asked" not in done.err
    done = run("pipeline", "shop:sales", "--context", "tier=gold")
    assert "for-gold" in done.out and "! " not in done.out
    assert "asked" in done.err and "asked" not in done.out
    done = run("pipeline", "shop:sales", "--resource", "ada")
    assert done.code == 0 and "! input_processors: LookupError: no tier" in done.out


def test_a_conversation_is_looked_up(run: Callable[..., Done], tmp_path: Path) -> None:
    """M-003, M-004: of the app's store, which is closed again; half a name is a note."""
    done = run("pipeline", "shop:support", "--thread", "t1", "--resource", "ada")
    assert done.code == 0 and "memory\n" in done.out and "memory *" not in done.out
    assert (tmp_path / "shop.db").exists()
    done = run("pipeline", "shop:support", "--thread", "t1")
    assert "memory *" in done.out and "! Memory: InputError:" in done.out


def test_what_a_look_has_opened_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SQLiteStore(tmp_path / "a.db")
    agent = Agent(id="a", model="mock/x", memory=Memory(storage=store))
    monkeypatch.setattr("procession.cli.pipeline.load_target", lambda target: agent)
    request = Request("t1", "ada")
    show_pipeline("shop:a", agent=None, request=request, as_json=False, console=Console())
    for thread in threading.enumerate():
        if "procession-sqlite" in thread.name:
            thread.join(30)
    assert not [thread for thread in threading.enumerate() if "procession-sqlite" in thread.name]
    assert (tmp_path / "a.db").exists() and "message-history" in capsys.readouterr().out


def test_json_is_all_that_is_printed(run: Callable[..., Done]) -> None:
    done = run("pipeline", "shop:app", "--json", "--context", "tier=1")
    assert done.code == 0
    support, sales = json.loads(done.out)["agents"]
    assert support["agentId"] == "support" and sales["rows"][0]["processorId"] == "for-1"
    (row,) = [r for r in support["rows"] if r["processorId"] == "unicode-normalizer"]
    assert (row["hook"], row["workflowId"], row["isAsync"]) == ("process_input", "cleaning", False)


def test_nothing_is_found_out_by_running(run: Callable[..., Done], tmp_path: Path) -> None:
    """The store is not opened where nobody asks for a conversation."""
    assert run("pipeline", "shop:app").code == 0
    assert not (tmp_path / "shop.db").exists()


@pytest.mark.parametrize("target", ["nope:app", "shop:ap", "shop:settings"])
def test_what_cannot_be_found_is_one_line(run: Callable[..., Done], target: str) -> None:
    done = run("pipeline", target)
    told = done.err.removeprefix("imported\n")
    assert (done.code, done.out) == (2, "")
    assert told.startswith("procession: ") and told.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["shop:app", "--agent", "x"], "there is no agent 'x'; there is 'sales', 'support'"),
        (["shop:sales", "--agent", "sales"], "shop:sales is an agent; --agent is for apps"),
        (["shop:app", "--context", "tier"], "--context takes KEY=VALUE, not 'tier'"),
    ],
)
def test_options_that_cannot_work_are_told(
    run: Callable[..., Done], arguments: list[str], said: str
) -> None:
    done = run("pipeline", *arguments)
    assert done.code == 2 and said in done.err
