"""The command line: what it prints, and with which exit code it ends."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from procession import Agent, APICallError, register_provider
from procession import model as model_lookup
from procession.cli import chat as chat_command
from procession.cli.chat import Conversation
from procession.cli.commands import SCENE_NAMES, app
from procession.demo import SCENES
from procession.models.openai import openai_model
from procession.models.weights import ensure_weights
from procession.testing import ScriptedModel, answer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAIN = "from procession.cli import main; main()"


@pytest.fixture
def weights_folder(request: pytest.FixtureRequest) -> Path:
    """A cache folder that has the weights, kept beside pytest's own cache."""
    cache = request.config.cache
    assert cache is not None
    folder = cache.mkdir("procession-weights")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROCESSION_CACHE", str(folder))
        asyncio.run(ensure_weights())
    return folder


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Providers registered by a test are forgotten after it."""
    monkeypatch.setattr(model_lookup, "_factories", {})
    yield


def start(*arguments: str, code: str = MAIN, **environment: str) -> subprocess.Popen[str]:
    """The command in a process, and a process group, of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        # Byte code is kept, as that of an installed package is: a process starts in half the time.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **environment},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], given: str = "") -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    out, err = process.communicate(given, timeout=50)
    assert "Traceback" not in err
    return process.returncode, out, err


def read_until(process: subprocess.Popen[str], mark: str) -> None:
    """Read standard output until a line holds `mark`."""
    assert process.stdout is not None
    for line in process.stdout:
        if mark in line:
            return
    raise AssertionError(f"{mark!r} was not shown: {process.communicate()}")


def children(parent: int) -> list[int]:
    """The ids of a process's children."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    return [pid for pid, found in pairs if found == parent]


def midway(weights_folder: Path) -> tuple[subprocess.Popen[str], int]:
    """The demo, with most of its scenes to come, and the process of its model."""
    process = start("demo", PROCESSION_CACHE=str(weights_folder))
    read_until(process, "1/6")
    while not (found := children(process.pid)):
        assert process.poll() is None
    return process, found[0]


def invoke(*arguments: str, given: str | None = None) -> Any:
    return CliRunner().invoke(app, list(arguments), input=given)


# ── the frame ──────────────────────────────────────────────────────────────────────────────────


def test_version() -> None:
    assert finish(start("--version")) == (0, f"procession {version('procession')}\n", "")


def test_help_names_the_commands_and_loads_no_provider() -> None:
    code = f"""
import sys
try:
    {MAIN}
finally:
    print([name for name in ("openai", "xllamacpp") if name in sys.modules])
"""
    done = finish(start("--help", code=code))
    assert done[0] == 0 and "demo" in done[1] and "chat" in done[1] and "[]" in done[1]


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_missing_extra_is_one_line(missing: str) -> None:
    code = f"""
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == {missing!r} else real(name, *rest)
{MAIN}
"""
    returned, out, err = finish(start("demo", code=code))
    assert (returned, out) == (2, "")
    assert err.count("\n") == 1 and "pip install 'procession[cli]'" in err


def test_missing_native_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("procession.cli.commands.find_spec", lambda name: None)
    done = invoke("demo")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert "xllamacpp" in done.stderr and "procession[local]" in done.stderr


def test_scene_names_in_the_help_are_the_scenes() -> None:
    assert tuple(SCENES) == SCENE_NAMES


def test_unknown_scene() -> None:
    done = invoke("demo", "--scene", "nope")
    assert done.exit_code == 2 and "no scene 'nope'" in done.stderr


# ── the demo ───────────────────────────────────────────────────────────────────────────────────


def test_scripted_demo_without_a_terminal_is_plain_text() -> None:
    code, out, err = finish(start("demo", "--scripted"))
    assert (code, err) == (0, "")
    assert "\x1b" not in out and out.count("SCRIPTED") == len(SCENES)


def test_scripted_demo_where_the_output_takes_only_ascii() -> None:
    code, out, _ = finish(start("demo", "--scripted", PYTHONIOENCODING="ascii"))
    assert code == 0 and out.isascii() and "-----" in out


def test_one_scene() -> None:
    code, out, _ = finish(start("demo", "--scripted", "--scene", "tool"))
    assert code == 0 and "1/1" in out and "find_room" in out and "swordfish" not in out


def test_a_reader_that_leaves_is_no_traceback() -> None:
    with start("demo", "--scripted") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


def test_weights_that_cannot_be_fetched(tmp_path: Path) -> None:
    """The reason, what else can be done, and nothing left behind."""
    environment = {
        "PROCESSION_CACHE": str(tmp_path / "cache"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
    }
    code, _, err = finish(start("demo", **environment))
    assert code == 2
    assert "could not be fetched" in err and "procession demo --scripted" in err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_model_process_killed_midway(weights_folder: Path) -> None:
    process, server = midway(weights_folder)
    os.kill(server, signal.SIGKILL)
    code, _, err = finish(process)
    assert code == 1 and "the model's process has ended midway" in err


def test_ctrl_c(weights_folder: Path) -> None:
    process, server = midway(weights_folder)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to the whole group
    code, _, err = finish(process)
    assert (code, err) == (130, "\nstopped\n")
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


# ── the conversation ───────────────────────────────────────────────────────────────────────────


def use(monkeypatch: pytest.MonkeyPatch, model: ScriptedModel) -> ScriptedModel:
    """Let the id `mock/one` stand for `model`."""
    register_provider("mock", lambda name: model)
    return model


@pytest.mark.usefixtures("providers")
class TestChat:
    def test_once_prints_the_answer_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model = use(monkeypatch, ScriptedModel([answer("It is ", "21 [°C].")]))
        done = invoke("chat", "--model", "mock/one", "--system", "Be brief.", "--once", "How warm?")
        assert (done.exit_code, done.stdout, done.stderr) == (0, "It is 21 [°C].\n", "")
        assert model.calls[0].text == "Be brief.\nHow warm?"

    def test_without_an_id_the_embedded_model_is_asked(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        monkeypatch.setattr(
            chat_command, "converse", lambda model, **more: asked.append(f"{model} {more['once']}")
        )
        assert invoke("chat", "--once", "a").exit_code == 0
        assert asked == ["local/smollm2 a"]

    def test_turns_go_on_where_the_last_one_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model = use(monkeypatch, ScriptedModel(["Hello Ann.", "You are Ann."]))
        done = invoke("chat", "--model", "mock/one", given="I am Ann.\n\nWho am I?\n")
        assert (done.exit_code, done.stdout) == (0, "Hello Ann.\nYou are Ann.\n")
        assert model.calls[1].text.splitlines() == ["I am Ann.", "Hello Ann.", "Who am I?"]

    def test_failed_turn_is_told_and_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        failure = APICallError("overloaded", status_code=503)
        model = use(monkeypatch, ScriptedModel(["Hello.", failure, RuntimeError("odd"), "Yes."]))
        done = invoke("chat", "--model", "mock/one", given="a\nb\nc\nd\n")
        assert done.exit_code == 0 and done.stdout.split() == ["Hello.", "Yes."]
        assert done.stderr == "procession: overloaded\nprocession: RuntimeError: odd\n"
        assert model.calls[3].text.splitlines() == ["a", "Hello.", "d"]

    def test_failure_of_the_only_question(self, monkeypatch: pytest.MonkeyPatch) -> None:
        use(monkeypatch, ScriptedModel([APICallError("overloaded", status_code=503)]))
        done = invoke("chat", "--model", "mock/one", "--once", "a")
        assert done.exit_code == 1 and done.stderr == "procession: overloaded\n"

    def test_missing_key_is_one_line(self) -> None:
        register_provider("openai", openai_model)
        for more in (["--once", "a"], []):
            done = invoke("chat", "--model", "openai/gpt-5", *more, given="a\nb\n")
            assert done.exit_code == 2 and done.stderr.count("\n") == 1
            assert "OPENAI_API_KEY" in done.stderr

    @pytest.mark.parametrize("name", ["nope", "nobody/x", "/x", "local/other"])
    def test_unknown_model_is_one_line(self, name: str) -> None:
        done = invoke("chat", "--model", name, "--once", "a")
        assert done.exit_code == 2 and done.stderr.count("\n") == 1
        assert "unknown model id" in done.stderr

    def test_ctrl_c_at_the_prompt_does_not_leave(self, monkeypatch: pytest.MonkeyPatch) -> None:
        use(monkeypatch, ScriptedModel(["Hello."]))
        lines: list[Any] = [KeyboardInterrupt(), "a", EOFError()]

        def typed(prompt: str) -> str:
            given = lines.pop(0)
            if isinstance(given, str):
                return given
            raise given

        monkeypatch.setattr(chat_command, "input", typed, raising=False)
        done = invoke("chat", "--model", "mock/one")
        assert (done.exit_code, done.stdout) == (0, "Hello.\n")
        assert "Ctrl-D leaves" in done.stderr


async def test_stopped_answer_stays_in_the_conversation() -> None:
    parts = answer("one ", "two ").parts
    endless = [*parts[:3], {"type": "$delay", "ms": 60_000}, *parts[3:]]
    model = ScriptedModel([endless, "again"])
    shown = asyncio.Event()

    class Screen(io.StringIO):
        def write(self, text: str) -> int:
            if "two" in text:
                shown.set()
            return super().write(text)

    talk = Conversation(Agent(id="a", model=model), Console(file=Screen()))
    turn = asyncio.ensure_future(talk.turn("count"))
    await shown.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await talk.turn("go on")
    assert model.calls[1].text.splitlines() == ["count", "one two ", "go on"]
    assert model.closed == [0]


async def test_control_characters_of_an_answer_do_not_reach_the_terminal() -> None:
    written = io.StringIO()
    talk = Conversation(Agent(id="a", model=ScriptedModel(["a\x1b[2Jb\nc"])), Console(file=written))
    await talk.turn("x")
    assert "\x1b" not in written.getvalue() and written.getvalue().endswith("b\nc\n")


def test_embedded_model_answers_and_ctrl_c_stops_only_the_answer(weights_folder: Path) -> None:
    process = start("chat", "--model", "local/smollm2", PROCESSION_CACHE=str(weights_folder))
    assert process.stdin is not None and process.stdout is not None
    for _ in range(2):  # this model may go on for minutes: the second answer is stopped, too
        process.stdin.write("Write a very long story about a castle and its many rooms.\n")
        process.stdin.flush()
        assert process.stdout.read(1)  # the answer has begun
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline().endswith("\n")
    code, out, err = finish(process)
    assert (code, out) == (0, "")
    assert err.count("(stopped)\n") == 2
