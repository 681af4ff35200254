"""What `module:name` and `path.py:name` lead to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from procession import Agent, App, ConfigurationError
from procession.cli.targets import load_target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = {
    "shop_of_test.py": """
from procession import Agent, App
support, sales = Agent(id="support"), Agent(id="sales")
app = App(agents=[support, sales])
settings = {"a": 1}
class things:
    app = app
""",
    "bad.py": "import os\n\n1 / 0\n",
    "through.py": "import bad\n",
    "lacking.py": "import nowhere_to_be_found\n",
    "ending.py": "import sys\nsys.exit(3)\n",
    "wrong.py": "def f(:\n",
    "empty.py": "",
    "json.py": "from procession import Agent\nagent = Agent(id='named-like-another')\n",
    "twice.py": "from procession import Agent\na, b = Agent(id='a'), Agent(id='b')\n",
    "deep/beside.py": "NAME = 'from-beside'\n",
    "deep/one.py": """
from procession import Agent, App
from beside import NAME
app = other_name = App(agents=[Agent(id=NAME)])
""",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A working directory with the files; what is imported from it is forgotten afterwards."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def ids(found: App | Agent) -> list[str]:
    return [found.id] if isinstance(found, Agent) else list(found.agents)


@pytest.mark.parametrize(
    ("target", "there"),
    [
        ("shop_of_test:app", ["support", "sales"]),
        ("shop_of_test:sales", ["sales"]),
        ("shop_of_test:things.app", ["support", "sales"]),
        ("shop_of_test.py:app", ["support", "sales"]),
        ("shop_of_test", ["support", "sales"]),  # the only app goes before agents
        ("deep/one.py:app", ["from-beside"]),  # which imports what stands beside it
        ("deep/one.py", ["from-beside"]),
        ("deep.one:app", None),  # beside.py is not found from here
    ],
)
def test_modules_and_files_of_the_working_directory(target: str, there: list[str] | None) -> None:
    if there is None:
        with pytest.raises(ConfigurationError, match="No module named 'beside'"):
            load_target(target)
    else:
        assert ids(load_target(target)) == there


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nope:app", "there is no module 'nope', in the working directory or installed"),
        ("nope.deep:app", "there is no module 'nope'"),
        ("shop_of_test:ap", "has no 'ap'; did you mean 'app'? There is support (Agent), sales"),
        ("shop_of_test:xyz", "'shop_of_test' has no 'xyz'. There is support (Agent)"),
        ("shop_of_test:settings", "is no App and no Agent: it is of type dict. There is"),
        ("shop_of_test:app.nothing", "'shop_of_test' has no 'app.nothing'"),
        ("nope.py:app", "there is no file 'nope.py'"),
        ("bad.py:app", "importing 'bad.py' failed (bad.py, line 3): ZeroDivisionError"),
        ("bad:app", "importing 'bad' failed (bad.py, line 3): ZeroDivisionError"),
        ("through:app", "importing 'through' failed (bad.py, line 3): ZeroDivisionError"),
        ("lacking:app", "importing 'lacking' failed (lacking.py, line 1): ModuleNotFoundError"),
        ("ending:app", "importing 'ending' ended the program (ending.py, line 2)"),
        ("wrong:app", "importing 'wrong' failed: SyntaxError"),
        ("empty:app", "'empty' has no 'app'. There is no App and no Agent in it"),
        ("twice", "which one of 'twice'? There is a (Agent), b (Agent)"),
        (":app", "names no module: write module:name or path.py:name"),
        ("", "names no module"),
    ],
)
def test_what_cannot_be_found_is_told_with_what_is_there(target: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as told:
        load_target(target)
    assert said in str(told.value) and "\n" not in str(told.value)


def test_a_file_takes_no_other_module_s_place() -> None:
    here = sys.modules["json"]
    assert ids(load_target("json.py:agent")) == ["named-like-another"]
    assert sys.modules["json"] is here


def test_a_file_that_has_failed_is_no_module() -> None:
    with pytest.raises(ConfigurationError):
        load_target("bad.py:app")
    assert "bad" not in sys.modules
