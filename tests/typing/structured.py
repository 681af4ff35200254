"""The object has the type that was asked for."""

from typing import Any, Literal, assert_type

from pydantic import BaseModel

from procession import Agent, FullOutput, Run, StructuredOutputOptions


class City(BaseModel):
    """A place."""

    name: str


async def typed(agent: Agent) -> None:
    output = await agent.generate("Where?", structured_output={"schema": City}, max_steps=1)
    assert_type(output, FullOutput[City])
    assert_type(output.object, City)
    run = await agent.stream("Where?", structured_output={"schema": City})
    assert_type(run, Run[City])
    assert_type(await run.object, City)
    assert_type((await run.get_full_output()).object, City)
    async with agent.stream("Where?", structured_output={"schema": list[City]}) as listed:
        assert_type(await listed.object, list[City])
    options: StructuredOutputOptions[City] = {"schema": City, "error_strategy": "warn"}
    assert_type((await agent.generate("Where?", structured_output=options)).object, City)


async def untyped(agent: Agent, schema: dict[str, Any]) -> None:
    plain = await agent.generate("Where?")
    assert_type(plain.object, Any)
    output = await agent.generate("Where?", structured_output={"schema": schema})
    assert_type(output.object["name"], Any)
    options: dict[str, Any] = {"structured_output": None}
    await agent.generate("Where?", **options)


def synchronous(agent: Agent) -> None:
    output = agent.generate_sync("Where?", structured_output={"schema": City})
    assert_type(output.object, City)


async def other_schemas(agent: Agent) -> None:
    await agent.generate("Where?", structured_output={"schema": Literal["a", "b"]})
    await agent.generate("Where?", structured_output={"schema": City | int})
    await agent.generate("Where?", structured_output={"schema": None})
    await agent.generate("Where?", structured_output={"scheme": City})  # type: ignore[arg-type]
