"""Structured output from the embedded model, for real: its server binds the answer."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from procession import Agent
from procession.models.local import LocalModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from procession.models.local_server import LocalServer


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Animal(BaseModel):
    name: str
    size: Size


SETTINGS = {"temperature": 0.0, "max_output_tokens": 80}


@pytest.fixture
async def agent(llama: LocalServer) -> AsyncIterator[Agent]:
    model = LocalModel(server=llama)
    yield Agent(id="zoo", model=model, instructions="You know animals.")
    await model.aclose()


async def test_an_object_of_a_pydantic_model(agent: Agent) -> None:
    """R-560, R-562."""
    run = await agent.stream(
        "Describe an ant.",
        structured_output={"schema": Animal},
        model_settings=SETTINGS,  # type: ignore[typeddict-item]
    )
    shown = [partial async for partial in run.object_stream]
    animal = await run.object
    assert isinstance(animal, Animal)
    assert len(shown) > 2
    assert shown[-1] == animal.model_dump(mode="json")
    assert await run.text


async def test_a_closed_set(agent: Agent) -> None:
    """R-561: wrapped on the way, and no member of the answer."""
    output = await agent.generate(
        "How big is an elephant?",
        structured_output={"schema": Size},
        model_settings=SETTINGS,  # type: ignore[typeddict-item]
    )
    assert output.object in Size


async def test_a_list(agent: Agent) -> None:
    """R-538, R-561."""
    schema = {"type": "array", "items": {"enum": ["cat", "dog"]}, "minItems": 2, "maxItems": 2}
    run = await agent.stream(
        "Name two pets.",
        structured_output={"schema": schema},
        model_settings=SETTINGS,  # type: ignore[typeddict-item]
    )
    pets = [pet async for pet in run.element_stream]
    assert len(pets) == 2
    assert await run.object == pets


async def test_as_the_second_model(agent: Agent, llama: LocalServer) -> None:
    """R-568: one that answers freely, and one that makes an object of it."""
    second = LocalModel(server=llama)
    try:
        output = await agent.generate(
            "Name a small animal.",
            structured_output={
                "schema": Animal,
                "model": second,
                "model_settings": SETTINGS,
            },
            model_settings=SETTINGS,  # type: ignore[typeddict-item]
        )
    finally:
        await second.aclose()
    assert isinstance(output.object, Animal)
    assert output.processor_usage.output_tokens
