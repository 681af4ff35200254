"""PrefillErrorHandler: a model that refuses to go on with an answer is asked again, once."""

from __future__ import annotations

from typing import Any

import pytest

from procession import (
    AbortController,
    Agent,
    APICallError,
    Around,
    ConfigurationError,
    MessageList,
    ProcessAPIErrorArgs,
    ProcessAPIErrorResult,
    processor,
    tool,
)
from procession.processors import PrefillErrorHandler
from procession.testing import ScriptedModel, answer, collect, tool_call

REFUSAL = (
    "This model does not support assistant message prefill. "
    "The conversation must end with a user message."
)
TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "partial"}]


def refused(message: str = REFUSAL, **more: Any) -> APICallError:
    return APICallError(message, **{"status_code": 400, **more})


def agent_of(*answers: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(answers)
    return Agent(id="a", model=model, **options), model


def reminders(model: ScriptedModel) -> list[int]:
    return [call.text.count(">continue</system-reminder>") for call in model.calls]


async def test_b400_every_run_has_it() -> None:
    """B-400, R-219: nothing is configured, and the model is asked again with a reminder."""
    agent, model = agent_of(refused(), "recovered")
    run = await agent.stream(TALK)
    chunks = await collect(run)
    assert run.status == "success"
    last = model.calls[1].prompt[-1]
    assert last["role"] == "user"
    assert last["content"][0]["text"] == (
        '<system-reminder purpose="prefill-error-retry">continue</system-reminder>'
    )
    [signal] = [chunk for chunk in chunks if chunk.type == "data-signal"]
    assert signal.transient is True
    assert signal.data["contents"] == "continue"


async def test_b401_the_reminder_is_kept_and_what_follows_stands_behind_it() -> None:
    """B-401: a persisted signal; the answer of the second attempt is a message after it."""
    agent, _ = agent_of(refused(), "recovered")
    run = await agent.stream(TALK)
    assert await run.text == "recovered"
    messages = run.message_list.get.all.db()
    assert [(m.role, m.text) for m in messages] == [
        ("user", "q"),
        ("assistant", "partial"),
        ("signal", "continue"),
        ("assistant", "recovered"),
    ]
    unsaved = MessageList().deserialize(run.message_list.serialize()).drain_unsaved_messages()
    assert "signal" in [m.role for m in unsaved]


async def test_b401_in_a_later_step_the_prompt_is_in_order() -> None:
    """B-401: the first step's answer, the reminder, then the answer to the reminder."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    agent, model = agent_of(
        answer("Looking.", tool_calls=[tool_call("look")]),
        refused(),
        answer("Once more.", tool_calls=[tool_call("look")]),
        "Done.",
        tools=[look],
    )
    result = await agent.generate("q")
    assert result.text == "Looking.Once more.Done."
    roles = [entry["role"] for entry in model.calls[-1].prompt]
    assert roles == ["user", "assistant", "tool", "user", "assistant", "tool"]


@pytest.mark.parametrize(
    "error",
    [
        refused("Assistant response prefill is incompatible with enable_thinking."),
        refused("Requests ending with a model turn are not supported."),
        refused("Bad request", response_body='{"error": {"message": "' + REFUSAL + '"}}'),
        RuntimeError(REFUSAL),
    ],
    ids=["llama.cpp", "gemini", "in the body", "another exception"],
)
async def test_b401_the_wordings_it_knows(error: Exception) -> None:
    """B-401: message or response body, of several providers."""
    agent, model = agent_of(error, "recovered")
    assert (await agent.generate(TALK)).text == "recovered"
    assert reminders(model) == [0, 1]


async def test_b401_a_cause_says_it() -> None:
    """B-401: an adapter that wraps the provider's error hides nothing."""
    outer = RuntimeError("the call failed")
    outer.__cause__ = refused()
    agent, model = agent_of(outer, "recovered")
    assert (await agent.generate(TALK)).text == "recovered"
    assert len(model.calls) == 2


async def test_b401_other_errors_are_left_alone() -> None:
    """B-401: no reminder, no second call, and the error as it came."""
    error = refused("some other rejection")
    agent, model = agent_of(error, "never")
    with pytest.raises(APICallError, match="some other rejection"):
        await agent.generate(TALK)
    assert len(model.calls) == 1


@pytest.mark.parametrize("listed", [[], [PrefillErrorHandler()]], ids=["automatic", "listed"])
async def test_b402_the_second_failure_is_final(listed: list[Any]) -> None:
    """B-402: once per call, whatever the budget; the original error surfaces."""
    agent, model = agent_of(refused(), refused(), "never", error_processors=listed)
    for _ in range(2):  # and each call starts anew
        before = len(model.calls)
        run = await agent.stream("q")
        await collect(run)
        if not before:
            assert isinstance(run.error, APICallError)
            assert len(model.calls) == 2
            assert [m.role for m in run.message_list.get.all.db()].count("signal") == 1


async def test_b403_no_budget_for_others() -> None:
    """B-403, R-220: a guard that wants a retry gets none because of the automatic handler."""

    def picky(args: Any) -> None:
        args.abort("again", retry=True)

    guard = processor(id="picky", process_output_step=picky)
    agent, model = agent_of("no", "never", output_processors=[guard])
    result = await agent.generate("q")
    assert (result.status, len(model.calls)) == ("tripwire", 1)

    agent, model = agent_of(refused(), "no", "never", output_processors=[guard])
    result = await agent.generate("q")
    assert (result.status, len(model.calls)) == ("tripwire", 2)


async def test_b403_its_retry_takes_nothing_from_the_budget() -> None:
    """B-403: with a budget of one, a guard still gets its one attempt."""
    asked: list[tuple[int, int]] = []

    def once(args: Any) -> None:
        asked.append((args.retry_count, args.retry_budget))
        args.abort("again", retry=True)

    guard = processor(id="once", process_output_step=once)
    agent, model = agent_of(
        refused(), "no", "no", "never", output_processors=[guard], max_processor_retries=1
    )
    assert (await agent.generate("q")).status == "tripwire"
    assert len(model.calls) == 3
    assert asked == [(1, 2), (2, 2)]


async def test_b403_other_errors_get_no_attempt_from_it() -> None:
    """B-403: after its retry the next failure is final."""
    agent, model = agent_of(refused(), refused("overloaded", is_retryable=True), "never")
    with pytest.raises(APICallError, match="overloaded"):
        await agent.generate("q")
    assert len(model.calls) == 2


async def test_r214_zero_forbids_its_retry_and_leaves_no_reminder() -> None:
    """R-214: zero forbids retries, so nothing is said in vain."""
    agent, model = agent_of(refused(), "never", max_processor_retries=0)
    run = await agent.stream(TALK)
    await collect(run)
    assert (run.status, len(model.calls)) == ("failed", 1)
    assert "signal" not in [m.role for m in run.message_list.get.all.db()]


async def test_b400_users_come_first_and_one_with_its_id_stands_for_it() -> None:
    """B-400: it runs last; a processor with its id switches it off."""
    order: list[str] = []
    first = processor(id="first", process_api_error=lambda args: order.append("first"))
    agent, model = agent_of(refused(), "recovered", error_processors=[first])
    assert (await agent.generate(TALK)).text == "recovered"
    assert (order, reminders(model)) == (["first"], [0, 1])

    off = processor(id="prefill-error-handler", process_api_error=lambda args: None)
    agent, model = agent_of(refused(), "never", error_processors=[off])
    with pytest.raises(APICallError):
        await agent.generate(TALK)
    assert len(model.calls) == 1


async def test_b400_one_of_an_extension_stands_for_it() -> None:
    """B-400: the list in force decides, wherever its processors come from."""
    off = processor(id="prefill-error-handler", process_api_error=lambda args: None)

    class Quiet:
        def extend(self, opening: Any) -> Around:
            return Around(error=[off])

        async def run_ended(self, run: Any) -> None:
            """Nothing is left to do."""

    agent, model = agent_of(refused(), "never", extensions=[Quiet()])
    with pytest.raises(APICallError):
        await agent.generate(TALK)
    assert len(model.calls) == 1


class Stubborn:
    """Wants every failed call again, and may do so twice on its own account."""

    id = "stubborn"
    own_retries = 2

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def process_api_error(self, args: ProcessAPIErrorArgs) -> ProcessAPIErrorResult:
        self.seen.append(args.may_retry)
        return ProcessAPIErrorResult(retry=True)


async def test_own_retries_are_granted_beyond_the_budget() -> None:
    """R-116, R-220: a processor's own come on top; the last answer is asked for and ignored."""
    stubborn = Stubborn()
    errors = [refused("down")] * 5
    agent, model = agent_of(*errors, error_processors=[stubborn], max_processor_retries=1)
    with pytest.raises(APICallError):
        await agent.generate("q")
    assert len(model.calls) == 4
    assert stubborn.seen == [True, True, True, False]


async def test_own_retries_of_an_extension_need_no_budget() -> None:
    """R-220: what the framework adds may bring retries, and no budget for others."""
    stubborn = Stubborn()

    class Framework:
        def extend(self, opening: Any) -> Around:
            return Around(error=[stubborn])

        async def run_ended(self, run: Any) -> None:
            """Nothing is left to do."""

    agent, model = agent_of(*[refused("down")] * 4, extensions=[Framework()])
    with pytest.raises(APICallError):
        await agent.generate("q")
    assert len(model.calls) == 3


@pytest.mark.parametrize("wrong", [-1, True, 1.5, "2", None])
def test_own_retries_are_a_whole_number(wrong: Any) -> None:
    """A wrong number fails when the agent is made."""
    stubborn = Stubborn()
    stubborn.own_retries = wrong
    with pytest.raises(ConfigurationError, match="own_retries"):
        Agent(id="a", model=ScriptedModel(["x"]), error_processors=[stubborn])


async def test_a_run_that_goes_on_keeps_its_count() -> None:
    """B-403, R-571: what was granted before a call waited does not shrink the budget after it."""

    @tool(require_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    def once(args: Any) -> None:
        if "No" in args.text:
            args.abort("again", retry=True)

    agent, model = agent_of(
        refused(),
        answer(tool_calls=[tool_call("pay", id="p")]),
        "No.",
        "Yes.",
        tools=[pay],
        output_processors=[processor(id="once", process_output_step=once)],
        max_processor_retries=1,
    )
    run = await agent.stream("q", run_id="r")
    await collect(run)
    result = await agent.approve_tool_call_generate("r")
    assert (result.text, len(model.calls)) == ("Yes.", 4)


async def test_a_stop_in_an_error_hook_is_no_error() -> None:
    """R-555: who was stopped while an error was being seen to, has been stopped."""
    controller = AbortController()

    def stops(args: Any) -> None:
        controller.abort("enough")

    agent, _ = agent_of(
        refused("down"), error_processors=[processor(id="s", process_api_error=stops)]
    )
    run = await agent.stream("q", abort_signal=controller.signal)
    chunks = await collect(run)
    assert run.status == "canceled"
    assert [c.type for c in chunks][-2:] == ["abort", "finish"]
