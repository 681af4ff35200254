"""`module:name` and `path.py:name`: the app or agent that a command is about."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..agent import Agent
from ..app import App
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["load_target"]


def load_target(target: str) -> App | Agent:
    """What `target` names; its module is imported, with the working directory on `sys.path`.

    Without a name it is the only app of the module, or the only agent. Raises `ConfigurationError`
    for a module that cannot be imported, and a name that is no app and no agent, with what is
    there.
    """
    place, name = _parts(target)
    if not place:
        raise ConfigurationError(
            f"{target!r} names no module: write module:name or path.py:name, such as shop:app"
        )
    module = _imported(place)
    if not name:
        return _only(place, module)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, App | Agent):
        return found
    raise ConfigurationError(f"{_problem(place, name, found, module)} {_listed(module)}")


def _parts(target: str) -> tuple[str, str]:
    """Module or path, and name. A drive letter is part of its path."""
    place, colon, name = target.rpartition(":")
    if not colon or target.endswith(".py"):
        return target, ""
    return place, name


def _imported(place: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"there is no module {error.name!r}, in the working directory or installed; for a "
                f"file write its path: folder/{place.rpartition('.')[2]}.py:name"
            ) from error
        raise _failed(place, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(place, error) from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigurationError(f"there is no file {str(path)!r}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # As an import does it, for its own classes look themselves up; but never in another's place.
    name = f"_{path.stem}" if path.stem in sys.modules else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _failed(place: str, error: BaseException) -> ConfigurationError:
    """What was raised while a module was imported, and in which of its lines."""
    if isinstance(error, ConfigurationError) and str(error).startswith("there is no file"):
        return error
    frames = traceback.extract_tb(error.__traceback__)
    ours = os.path.dirname(os.path.dirname(__file__))
    outer = [f for f in frames if not f.filename.startswith((ours, "<frozen"))]
    last = next((f for f in reversed(outer) if f.filename != importlib.__file__), None)
    where = "" if last is None else f" ({os.path.basename(last.filename)}, line {last.lineno})"
    if isinstance(error, SystemExit):
        return ConfigurationError(
            f"importing {place!r} ended the program{where}: put what is not for imports under "
            f"if __name__ == '__main__'"
        )
    said = f"{type(error).__name__}: {error}"
    return ConfigurationError(f"importing {place!r} failed{where}: {said}")


def _candidates(module: ModuleType) -> dict[str, App | Agent]:
    found: dict[str, App | Agent] = {}
    for name in vars(module):
        value: Any = getattr(module, name)
        if isinstance(value, App | Agent) and not name.startswith("_"):
            found[name] = value
    return found


def _only(place: str, module: ModuleType) -> App | Agent:
    there = _candidates(module).values()
    apps = [one for one in there if isinstance(one, App)]
    ours = apps or [one for one in there if isinstance(one, Agent)]
    if len({*map(id, ours)}) == 1:
        return ours[0]
    raise ConfigurationError(f"which one of {place!r}? {_listed(module)}")


def _problem(place: str, name: str, found: Any, module: ModuleType) -> str:
    if found is not None:
        return f"{place}:{name} is no App and no Agent: it is of type {type(found).__name__}."
    near = difflib.get_close_matches(name, _candidates(module), n=1)
    return f"{place!r} has no {name!r}" + (f"; did you mean {near[0]!r}?" if near else ".")


def _listed(module: ModuleType) -> str:
    named = [f"{name} ({type(value).__name__})" for name, value in _candidates(module).items()]
    return f"There is {', '.join(named)}" if named else "There is no App and no Agent in it"
