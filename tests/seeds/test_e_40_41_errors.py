"""E-40, E-41: a refused call is mended and made again."""

from __future__ import annotations

from typing import Any

import pytest

from procession import Agent, APICallError, ProcessAPIErrorArgs, ProcessAPIErrorResult
from procession.processor import HOOKS
from procession.processors import PrefillErrorHandler
from procession.testing import RecordedCall, ScriptedModel, answer
from tests.seeds.threeways import check_tripped, feedback, play, three_ways

TOO_LONG = "this model's context length exceeded by 912 tokens"


class ShortenOnce:
    """On the first refusal for length, removes two old messages and asks for another call."""

    id = "shorten-once"

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def process_api_error(self, args: ProcessAPIErrorArgs) -> ProcessAPIErrorResult | None:
        self.seen.append((args.step_number, args.retry_count))
        if args.retry_count > 0:
            return None
        too_long = isinstance(args.error, APICallError) and (
            "context length exceeded" in args.error.message
        )
        messages = args.message_list.get.all.db()
        if not too_long or len(messages) <= 4:
            return None
        args.message_list.remove_by_ids([messages[1].id, messages[2].id])
        return ProcessAPIErrorResult(retry=True)


def refusal(message: str = TOO_LONG, status: int = 400) -> APICallError:
    return APICallError(message, status_code=status)


def talk(count: int) -> list[dict[str, Any]]:
    roles = ["user", "assistant"] * (count // 2 - 1) + ["user", "user"]
    return [{"role": role, "content": f"words {n}"} for n, role in enumerate(roles)]


def words(call: RecordedCall) -> list[str]:
    return call.text.split("\n")


@three_ways
async def test_e40_shortened_and_asked_again(way: str) -> None:
    """E-40 (R-109 to R-114, R-213, R-236, R-237): exactly two are gone, nothing was configured."""
    handler = ShortenOnce()
    model = ScriptedModel([refusal(), "Here it is."])
    agent = Agent(id="recovering", model=model, error_processors=[handler])
    outcome = await play(way, agent, talk(6))
    assert outcome.text == "Here it is."
    assert [words(call) for call in model.calls] == [
        [f"words {n}" for n in range(6)],
        [f"words {n}" for n in (0, 3, 4, 5)],
    ]
    assert handler.seen == [(0, 0)]
    assert [step.step_number for step in outcome.steps if step.finish_reason == "stop"] == [0]
    assert feedback(model.calls[1]) == []
    expected = [f"words {n}" for n in (0, 3, 4, 5)] + ["Here it is."]
    assert [message.text for message in outcome.messages] == expected


@three_ways
async def test_e40_refused_twice(way: str) -> None:
    """E-40 (R-111, R-116, R-119): asked again with a count of 1 it declines; the error is final."""
    handler, error = ShortenOnce(), refusal()
    model = ScriptedModel([error])
    agent = Agent(id="recovering", model=model, error_processors=[handler])
    outcome = await play(way, agent, talk(6))
    assert outcome.error is error
    assert handler.seen == [(0, 0), (0, 1)]
    assert len(model.calls) == 2
    if outcome.chunks is not None:
        assert outcome.kinds()[-3:] == ["error", "step-finish", "finish"]
        assert outcome.chunks[-1].payload.step_result.reason == "error"


@three_ways
@pytest.mark.parametrize(
    ("count", "error"),
    [(4, refusal()), (6, refusal("rate limit reached", 429)), (6, ConnectionError(TOO_LONG))],
)
async def test_e40_declined(way: str, count: int, error: Exception) -> None:
    """E-40 (R-111, R-236): too few messages, or another error: one call, and it is raised."""
    handler = ShortenOnce()
    model = ScriptedModel([error, "never"])
    agent = Agent(id="recovering", model=model, error_processors=[handler])
    outcome = await play(way, agent, talk(count))
    assert outcome.error is error
    assert (len(model.calls), handler.seen) == (1, [(0, 0)])


@pytest.mark.parametrize("error", [refusal(), ConnectionError("gone")])
async def test_e40_what_a_stream_shows(error: Exception) -> None:
    """E-40 (R-552): a final error of the model is an outcome; awaiting does not raise."""
    run = await Agent(id="recovering", model=ScriptedModel([error])).stream("go")
    assert (await run.text, await run.finish_reason) == ("", "error")
    assert run.error is error
    assert run.status == "failed"


class Everything:
    """Has all nine hooks, and notes which of them are called."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.called: set[str] = set()


def _noting(name: str) -> Any:
    def hook(self: Everything, args: Any) -> Any:
        self.called.add(name)
        return args.part if name == "process_output_stream" else None

    return hook


for _name in HOOKS:
    setattr(Everything, _name, _noting(_name))


@three_ways
@pytest.mark.parametrize("on_call", [False, True])
async def test_e41_each_list_feeds_its_own_hooks(way: str, on_call: bool) -> None:
    """E-41 (R-013, R-014, R-232): three lists and a budget; a hook runs for its list only."""
    first, second, third = (Everything(id) for id in ("first", "second", "third"))
    lists: dict[str, Any] = {
        "input_processors": [first],
        "output_processors": [second],
        "error_processors": [third],
        "max_processor_retries": 3,
    }
    model = ScriptedModel([refusal()])
    agent = Agent(id="three-lists", name="Three lists", model=model, **({} if on_call else lists))
    await play(way, agent, "go", **(lists if on_call else {}))
    assert third.called == {"process_api_error"}

    model = ScriptedModel([answer("fine")])
    agent = Agent(id="three-lists", model=model, instructions="…", **({} if on_call else lists))
    outcome = await play(way, agent, "go", **(lists if on_call else {}))
    assert outcome.text == "fine"
    assert first.called == {
        "process_input",
        "process_input_step",
        "process_llm_request",
        "process_llm_response",
    }
    assert second.called == {
        "process_output_stream",
        "process_output_step",
        "process_output_result",
    }


PREFILL = "This model does not support assistant message prefill."


class Counted(PrefillErrorHandler):
    """The handler, which notes how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def process_api_error(self, args: Any) -> ProcessAPIErrorResult | None:
        self.asked += 1
        return await super().process_api_error(args)


def reminders(call: RecordedCall) -> int:
    return call.text.count("continue</system-reminder>")


@three_ways
async def test_e41_the_handler_is_there_once(way: str) -> None:
    """E-41 (R-219, B-400 to B-402): named in the list it is not added a second time."""
    first: Any = Everything("first")
    second: Any = Everything("second")
    handler = Counted()
    error = refusal(PREFILL)
    model = ScriptedModel([refusal(PREFILL), "healed", refusal(PREFILL), error, "never"])
    agent = Agent(
        id="support-agent",
        name="support-agent",
        model=model,
        instructions="You help with orders.",
        input_processors=[first],
        output_processors=[second],
        error_processors=[handler],
        max_processor_retries=3,
    )
    outcome = await play(way, agent, "go")
    assert outcome.text == "healed"
    assert [reminders(call) for call in model.calls] == [0, 1]
    assert handler.asked == 1
    assert "process_api_error" not in first.called | second.called
    assert (await play(way, agent, "go")).error is error
    assert [reminders(call) for call in model.calls[2:]] == [0, 1]
    assert handler.asked == 3


@three_ways
@pytest.mark.parametrize("others", [False, True])
async def test_e41_the_handler_needs_no_list(way: str, others: bool) -> None:
    """E-41 (R-219, R-220, B-400 to B-403): the prefill error is healed all the same, once."""
    error = refusal(PREFILL)
    model = ScriptedModel([refusal(PREFILL), "healed", refusal(PREFILL), error, "never"])
    third: Any = Everything("third")
    agent = Agent(id="bare", model=model, error_processors=[third] if others else [])
    assert (await play(way, agent, "go")).text == "healed"
    assert (await play(way, agent, "go")).error is error
    assert [reminders(call) for call in model.calls] == [0, 1, 0, 1]
    assert third.called == ({"process_api_error"} if others else set())


def test_e41_names() -> None:
    """E-41 (R-232): a name falls back to the id; an agent without a model can be built."""
    assert Agent(id="short").name == "short"
    assert Agent(id="short", name="Long").name == "Long"


@three_ways
async def test_e41_without_a_model(way: str) -> None:
    """E-41 (R-232): a call on an agent without a model says so."""
    outcome = await play(way, Agent(id="bare", input_processors=[]), "go")
    assert outcome.error is not None
    assert "bare" in str(outcome.error)
    assert "no model" in str(outcome.error)


@three_ways
async def test_e41_a_processor_supplies_the_model(way: str) -> None:
    """E-41 (R-232): an agent without a model runs when a processor chooses one."""
    model = ScriptedModel(["lent"])
    outcome = await play(way, Agent(id="bare"), "go", prepare_step=lambda args: {"model": model})
    assert outcome.text == "lent"


@three_ways
async def test_e41_error_processor_aborts(way: str) -> None:
    """E-41 (R-118): an abort there ends the run with a verdict, and leaves no step."""

    class Gives:
        id = "gives-up"

        def process_api_error(self, args: ProcessAPIErrorArgs) -> None:
            args.abort("beyond repair", retry=True)

    model = ScriptedModel([refusal()])
    agent = Agent(id="recovering", model=model, error_processors=[Gives()])
    outcome = await play(way, agent, "go")
    check_tripped(outcome, reason="beyond repair", processor_id="gives-up", retry=True)
    assert (len(model.calls), outcome.steps) == (1, [])
