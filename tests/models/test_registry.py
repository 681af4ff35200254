"""Model ids and configurations that resolve to the adapters of this package."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distribution
from types import SimpleNamespace
from typing import Any

import pytest

from procession.entry_points import load_entry
from procession.errors import ConfigurationError, UnknownModelError
from procession.model import (
    ModelConfig,
    known_providers,
    resolve_model,
)
from procession.models.local import LocalModel
from procession.models.openai import OpenAIChatModel


def test_the_providers_of_this_package_are_known() -> None:
    assert {"openai", "local"} <= set(known_providers())


def test_ids_resolve() -> None:
    model = resolve_model("openai/gpt-5")
    assert isinstance(model, OpenAIChatModel)
    assert (model.provider, model.model_id) == ("openai", "gpt-5")
    assert isinstance(resolve_model("local/smollm2"), LocalModel)
    with pytest.raises(UnknownModelError):
        resolve_model("local/other")


@pytest.mark.parametrize(
    ("model_id", "named"),
    [("acme/small", ("acme", "small")), ("small", ("openai-compatible", "small"))],
)
def test_configurations_resolve(model_id: str, named: tuple[str, str]) -> None:
    config = ModelConfig(id=model_id, url="http://127.0.0.1:9/v1", api_key="example-key-0001")
    model = resolve_model(config)
    assert (model.provider, model.model_id) == named
    assert "example-key-0001" not in repr(model)
    assert resolve_model({"id": model_id, "url": config.url}).model_id == named[1]


@pytest.mark.parametrize(
    ("module", "install"),
    [
        ("openai", "procession[openai]"),
        ("httpx2", "procession[google]"),
        ("pydantic_ai.models", "procession[pydantic-ai]"),
        ("xllamacpp", "procession[local]"),
        ("elsewhere", "elsewhere"),
    ],
)
def test_the_extra_that_brings_a_missing_package_is_named(module: str, install: str) -> None:
    def load() -> Any:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    ours = distribution("procession")
    with pytest.raises(ConfigurationError, match=re.escape(f"pip install '{install}'")):
        load_entry(SimpleNamespace(name="x", load=load, dist=ours))
    with pytest.raises(ConfigurationError, match="pip install"):
        load_entry(SimpleNamespace(name="x", load=load, dist=None))


def test_a_provider_with_an_extra_of_its_own_names_that() -> None:
    def load() -> Any:
        raise ModuleNotFoundError("No module named 'openai'", name="openai")

    entry = SimpleNamespace(name="local", load=load, dist=distribution("procession"))
    with pytest.raises(ConfigurationError, match=re.escape("procession[local]")):
        load_entry(entry)


def test_no_provider_is_imported_before_it_is_asked_for() -> None:
    program = (
        "import sys, procession; "
        "print(sorted({'openai', 'httpx2', 'xllamacpp'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


MODULES = {
    "procession.mcp": ("anyio", "mcp"),
    "procession.models.openai": ("openai", "openai"),
    "procession.models.responses": ("openai", "openai"),
    "procession.models.compatible": ("openai", "openai"),
    "procession.models.anthropic": ("anthropic", "anthropic"),
    "procession.models.google": ("httpx2", "google"),
    "procession.models.bridge": ("pydantic_ai", "pydantic-ai"),
    "procession.models.local": ("openai", "local"),
}


def test_an_import_without_its_extra_names_it() -> None:
    """Here, as with an id; it stays an `ImportError` with the name of what is missing."""
    program = f"""
import importlib, sys
for module, (package, extra) in {MODULES!r}.items():
    sys.modules[package] = None
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        print(module, error.name, error)
    del sys.modules[package]
    for name in [name for name in sys.modules if name.startswith("procession.m")]:
        del sys.modules[name]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        f"{module} {package} the package {package!r} is needed: pip install 'procession[{extra}]'"
        for module, (package, extra) in MODULES.items()
    ]


def test_another_package_that_is_missing_is_not_laid_to_an_extra() -> None:
    from procession.extras import brought_by

    with pytest.raises(ModuleNotFoundError, match="No module named 'elsewhere'"):
        with brought_by("openai", "openai"):
            raise ModuleNotFoundError("No module named 'elsewhere'", name="elsewhere")
