"""What stands for a model: what is shown of it, whatever becomes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from procession import Agent
from procession.model import ModelConfig, spec_name
from procession.processor import processor
from procession.testing import RecordingObserver, ScriptedModel, collect

SECRET = "example-secret-0001"
ENDPOINT = {
    "id": "acme/small",
    "url": f"http://user:{SECRET}@127.0.0.1:9/v1?key={SECRET}",
    "api_key": SECRET,
    "headers": {"X-Key": SECRET},
}


class Stranger:
    """No model, and its text tells a secret."""

    def __repr__(self) -> str:
        return SECRET


UNRESOLVED: list[Any] = [
    [ENDPOINT, 7],
    [{"model": ENDPOINT, "retries": 1}],
    [{"model": ENDPOINT, "enabled": False}],
    {**ENDPOINT, "apiKey": SECRET},
    {"api_key": SECRET},
    Stranger(),
    [Stranger()],
]


@pytest.mark.parametrize("spec", UNRESOLVED)
@pytest.mark.parametrize("chosen_by", ["agent", "function", "hook"])
async def test_what_cannot_be_resolved_shows_no_secret(spec: Any, chosen_by: str) -> None:
    """Neither in a chunk, nor in what is stored, recorded or raised."""
    observer = RecordingObserver()
    options: dict[str, Any] = {"model": spec}
    if chosen_by == "function":
        options = {"model": lambda scope: spec}
    elif chosen_by == "hook":
        hook = processor(id="chooses", process_input_step=lambda args: {"model": spec})
        options = {"model": ScriptedModel(["Hi"]), "input_processors": [hook]}
    run = await Agent(id="a", observer=observer, **options).stream("Hi")
    chunks = await collect(run.full_stream)
    assert run.error is not None
    shown = [json.dumps(chunk.to_json(), default=str) for chunk in chunks]
    shown += [repr(run.error), repr((await run.response).db_messages), repr(observer.spans)]
    assert [text for text in shown if SECRET in text] == []


async def test_an_unknown_id_is_shown() -> None:
    run = await Agent(id="a", model="nobody/small").stream("Hi")
    finish = [chunk for chunk in await collect(run.full_stream) if chunk.type == "finish"][-1]
    assert finish.payload.metadata["modelMetadata"]["modelId"] == "nobody/small"


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (None, ""),
        ("acme/small", "acme/small"),
        (ENDPOINT, "acme/small"),
        (ModelConfig(id="acme/small", url="http://127.0.0.1:9"), "acme/small"),
        ([{"model": ENDPOINT}, "other/one"], "acme/small"),
        ([{"url": "x"}, "other/one"], "other/one"),
        ({"id": 5}, ""),
        (ScriptedModel(["Hi"], model_id="mine"), "mine"),
        (Stranger(), "Stranger"),
    ],
)
def test_the_name_of_a_spec(spec: Any, name: str) -> None:
    assert spec_name(spec) == name


def test_a_config_shows_where_it_leads_and_nothing_secret() -> None:
    config = ModelConfig(**ENDPOINT)  # type: ignore[arg-type]
    assert repr(config) == "ModelConfig(id='acme/small', url='http://127.0.0.1:9/v1')"
