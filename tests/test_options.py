"""Options of a call that do not exist, or belong elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from procession import Agent, ConfigurationError
from procession.testing import ScriptedModel

agent = Agent(id="a", model=ScriptedModel(["Hi."]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 1}, "it is a setting of the model: model_settings={'temperature': 1}"),
        ({"headers": {"x": "secret"}}, "model_settings={'headers': …}"),
        ({"thread": "t"}, 'named with memory={"thread": …, "resource": …}'),
        ({"resource_id": "r"}, 'named with memory={"thread": …, "resource": …}'),
        ({"threadId": "t"}, 'named with memory={"thread": …, "resource": …}'),
        ({"maxsteps": 3}, "did you mean 'max_steps'?"),
    ],
)
async def test_an_option_that_does_not_exist(options: dict[str, Any], words: str) -> None:
    """R-529: the error says where it belongs, and repeats no value that may be a secret."""
    with pytest.raises(ConfigurationError) as caught:
        await agent.generate("go", **options)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_the_callers_list_of_active_tools_stays_the_callers() -> None:
    """R-079: hooks see a list of their own, whatever collection was given."""
    seen: list[Any] = []

    class Sees:
        id = "sees"

        def process_input_step(self, args: Any) -> None:
            seen.append(args.active_tools)

    await agent.generate("go", active_tools=("a", "b"), input_processors=[Sees()])
    assert seen == [["a", "b"]]
