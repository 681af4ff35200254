"""What people see of the package and of the repository."""

import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent

HEAVY = (
    "anthropic",
    "httpx",
    "httpx2",
    "mcp",
    "openai",
    "pydantic_ai",
    "rich",
    "starlette",
    "typer",
    "xllamacpp",
)

# In pieces, so that this file does not name what no file may name.
REGISTRIES = [
    "py" + "pi.org",
    "python" + "hosted.org",
    "npm" + "js.org",
    "npm" + "js.com",
    "yarn" + "pkg.com",
    "ana" + "conda.org",
    "crates" + ".io",
    "ruby" + "gems.org",
    "proxy.go" + "lang.org",
    "deb.deb" + "ian.org",
]
MACHINE_PATH = re.compile(r"(?<![\w.-])/(?:work|root)/")

LIST_HEAVY = f"""
import sys, procession
print(*(name for name in {HEAVY!r} if name in sys.modules))
"""

LIST_NAMES = """
import inspect, types, procession
documented = lambda value: bool((value.__doc__ or "").strip())
public = {
    name for name, value in vars(procession).items()
    if not name.startswith("_") and not isinstance(value, types.ModuleType)
}
print("undeclared:", *sorted(public - set(procession.__all__)))
print("missing:", *sorted(set(procession.__all__) - public))
print("undocumented:", *(
    name for name in procession.__all__
    # An alias of types has no docstring of its own.
    if (inspect.isclass(value := getattr(procession, name)) or inspect.isroutine(value))
    and not documented(value)
))
"""


def run_fresh(code: str) -> str:
    """What the code prints in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    assert run_fresh(LIST_HEAVY) == ""


def test_all_is_what_is_there_and_documented() -> None:
    assert run_fresh(LIST_NAMES).split() == ["undeclared:", "missing:", "undocumented:"]


@cache
def repository_texts() -> dict[str, str]:
    """Every file of the repository, also one that is not committed yet, by its path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    paths = sorted(path for path in listed.stdout.split("\0") if (ROOT / path).is_file())
    return {path: (ROOT / path).read_text("utf-8", errors="replace") for path in paths}


def test_the_repository_is_read() -> None:
    assert "pyproject.toml" in repository_texts()


@pytest.mark.parametrize("host", REGISTRIES)
def test_no_file_names_a_package_registry(host: str) -> None:
    assert [path for path, text in repository_texts().items() if host in text] == []


def test_no_file_names_a_path_of_a_machine() -> None:
    found = [path for path, text in repository_texts().items() if MACHINE_PATH.search(text)]
    assert found == []


def test_agent_guide_is_short() -> None:
    assert len(repository_texts()["AGENTS.md"].split()) < 500


def test_lock_pins_what_is_asked_for() -> None:
    asked = {canonicalize_name(requirement.name) for requirement in direct_requirements()}
    assert asked - {"procession"} - locked().keys() == set()


def test_lock_has_a_version_and_a_hash_for_everything() -> None:
    bare = [line for line in locked().values() if "==" not in line or "--hash=sha256:" not in line]
    assert bare == []


def test_build_backend_is_pinned_to_the_locked_version() -> None:
    (backend,) = project()["build-system"]["requires"]
    assert locked()["hatchling"].startswith(f"{backend} ")


def project() -> dict:
    """The parsed pyproject.toml."""
    return tomllib.loads(repository_texts()["pyproject.toml"])


def direct_requirements() -> list[Requirement]:
    """What the package, its extras and the checks ask for."""
    table = project()["project"]
    lines = list(table["dependencies"])
    for extra in table["optional-dependencies"].values():
        lines += extra
    development = repository_texts()["requirements/dev.in"].splitlines()
    lines += [line for line in development if line and not line.startswith("#")]
    return [Requirement(line) for line in lines]


def locked() -> dict[str, str]:
    """Each requirement of the lock as one line, by its name."""
    text = repository_texts()["requirements/dev.txt"].replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    return {re.split(r"[=\[ ]", line, maxsplit=1)[0]: line for line in lines}
