"""Retries: which hooks may ask for one, how many there are, and what is left of an attempt."""

from __future__ import annotations

from typing import Any

import pytest

from procession import Agent, APICallError, ConfigurationError, tool
from procession.processor import INPUT_HOOKS, OUTPUT_HOOKS
from procession.testing import ScriptedModel, answer, tool_call
from tests.seeds.threeways import check_tripped, feedback, only, play, three_ways

ran: list[str] = []


@tool
async def look(topic: str = "") -> str:
    """Look something up."""
    ran.append(topic)
    return "seen"


def refused(**more: Any) -> APICallError:
    return APICallError("refused", status_code=400, **more)


def asks(hook: str, times: int, id: str = "asks", reason: str = "again") -> Any:
    """A processor that wants the attempt again, so many times in a run."""

    def judge(args: Any) -> Any:
        part = getattr(args, "part", None)
        asked = args.state.setdefault("asked", 0)
        # The chunk that closes a rejected attempt is offered, too; it is let through.
        if asked < times and (part is None or part.type != "step-finish"):
            args.state["asked"] = asked + 1
            args.abort(reason, retry=True)
        return part

    return only(hook, judge, id=id)


def listed(hook: str, *processors: Any) -> dict[str, Any]:
    kind = "input" if hook in INPUT_HOOKS else "output" if hook in OUTPUT_HOOKS else "error"
    return {f"{kind}_processors": list(processors)}


RETRYING = {
    "process_input_step": 0,
    "process_llm_request": 0,
    "process_llm_response": 1,
    "process_output_stream": 1,
    "process_output_step": 1,
    "process_tool_result": 1,
}
"""Hooks that may ask for another attempt; how many model calls each rejected attempt costs."""


#


@three_ways
@pytest.mark.parametrize("hook", RETRYING)
@pytest.mark.parametrize("budget", [0, 1, 2])
async def test_hooks_that_may_ask(way: str, hook: str, budget: int) -> None:
    """R-173 to R-180: honoured while there is budget; the step keeps its number."""
    ran.clear()
    with_tool = answer(tool_calls=[tool_call("look")], usage={"inputTokens": 2, "outputTokens": 1})
    # The tool hook rejects what has a tool call in it: each attempt at step 0 has.
    attempts = budget + 1 if RETRYING[hook] else 1
    script: list[Any] = [with_tool] * attempts + ["Seen."]
    model = ScriptedModel(script)
    asking = asks(hook, budget)
    agent = Agent(
        id="a",
        model=model,
        tools=[look],
        max_processor_retries=budget,
        **listed(hook, asking),
    )
    outcome = await play(way, agent, "go")
    assert (outcome.text, outcome.tripwire) == ("Seen.", None)
    assert len(model.calls) == 1 + budget * RETRYING[hook] + 1
    assert len(ran) == (budget + 1 if hook == "process_tool_result" else 1)
    retried = [step for step in outcome.steps if step.finish_reason == "retry"]
    assert len(retried) == budget * RETRYING[hook]
    for step in retried:
        assert (step.step_number, step.text, step.tool_calls, step.tool_results) == (0, "", [], [])
        assert step.tripwire is not None and step.tripwire.reason == "again"
    assert [s.step_number for s in outcome.steps if s.accepted] == [0, 1]
    (message,) = outcome.answers
    assert [part.type for part in message.parts] == ["tool-invocation", "step-start", "text"]
    assert [feedback(call) for call in model.calls][-1] == ["[Processor Feedback] again"] * min(
        budget, 1
    )
    if outcome.chunks is not None:
        reasons = [c.payload.step_result.reason for c in outcome.chunks if c.type == "step-finish"]
        assert reasons == ["retry"] * len(retried) + ["tool-calls", "stop"]


@three_ways
@pytest.mark.parametrize("hook", RETRYING)
@pytest.mark.parametrize("budget", [0, 1, 3])
async def test_more_is_asked_than_there_is(way: str, hook: str, budget: int) -> None:
    """R-173: the one that goes beyond the budget is a plain abort that shows its wish."""
    script = [answer("Looking.", tool_calls=[tool_call("look")])]
    model = ScriptedModel(script)
    asking = asks(hook, 100)
    agent = Agent(
        id="a",
        model=model,
        tools=[look],
        max_processor_retries=budget,
        **listed(hook, asking),
    )
    outcome = await play(way, agent, "go")
    check_tripped(outcome, reason="again", processor_id="asks", retry=True)
    assert len(model.calls) == (budget + 1) * RETRYING[hook]


@three_ways
@pytest.mark.parametrize("first", ["stream", "step", "refused call"])
async def test_a_verdict_on_the_closing_chunk(way: str, first: str) -> None:
    """R-126, R-132, R-168: the chunk that closes a rejected attempt may be the last straw."""

    class Strict:
        id = "strict"

        def process_output_stream(self, args: Any) -> Any:
            if args.part.type == "text-start" and first == "stream":
                args.abort("again", retry=True)
            if args.part.type == "step-finish":
                args.abort("enough", metadata={"count": args.retry_count})
            return args.part

        def process_output_step(self, args: Any) -> None:
            if first == "step":
                args.abort("again", retry=True)

    broken_off = [*BROKEN_OFF]
    model = ScriptedModel([broken_off if first == "refused call" else "An answer", "Another."])
    agent = Agent(
        id="a",
        model=model,
        output_processors=[Strict()],
        error_processors=[only("process_api_error", lambda args: {"retry": True})],
        max_processor_retries=3,
    )
    outcome = await play(way, agent, "go")
    check_tripped(outcome, reason="enough", processor_id="strict", metadata={"count": 0})
    assert len(model.calls) == 1
    assert outcome.answers == []
    if outcome.chunks is not None:
        assert "step-finish" not in outcome.kinds()


@three_ways
@pytest.mark.parametrize("hook", ["process_input", "process_output_result", "process_api_error"])
async def test_hooks_that_may_not_ask(way: str, hook: str) -> None:
    """R-174: there it is a plain abort, whatever the budget."""
    script = [refused()] if hook == "process_api_error" else ["An answer"]
    model = ScriptedModel(script)
    agent = Agent(
        id="a",
        model=model,
        max_processor_retries=5,
        **listed(hook, asks(hook, 1)),
    )
    outcome = await play(way, agent, "go")
    check_tripped(outcome, reason="again", processor_id="asks", retry=True)
    assert len(model.calls) == (hook != "process_input")


# ──: one budget for all ───────────────────────────────────────────────────────────


@three_ways
@pytest.mark.parametrize("budget", [0, 1, 2, 3, 4])
async def test_one_budget_for_everyone(way: str, budget: int) -> None:
    """R-182, R-213: processors, hooks, steps and refused calls draw from the same number."""
    ran.clear()
    with_tool = answer(tool_calls=[tool_call("look")])
    model = ScriptedModel([with_tool, with_tool, refused(), "bad", "good"])
    counts: list[int] = []

    def step_judge(args: Any) -> None:
        if "bad" in args.text:
            args.abort("bad", retry=True)

    def count(args: Any) -> None:
        counts.append(args.retry_count)

    agent = Agent(
        id="a",
        model=model,
        tools=[look],
        input_processors=[
            asks("process_llm_request", 1, "one"),
            only("process_llm_request", count),
        ],
        output_processors=[
            asks("process_output_step", 1, "two"),
            only("process_output_step", step_judge, id="three"),
            only("process_output_result", count, id="counts"),
        ],
        error_processors=[only("process_api_error", lambda args: {"retry": True}, id="mends")],
        max_processor_retries=budget,
    )
    outcome = await play(way, agent, "go")
    # Asked for in this order: before the call, after it, after the refusal, after "bad".
    if budget == 4:
        assert outcome.text == "good"
        assert counts == [1, 2, 2, 3, 4, 4]
    elif budget == 2:
        assert isinstance(outcome.error, APICallError)
    else:
        assert outcome.tripwire is not None
        assert outcome.tripwire.processor_id == {0: "one", 1: "two", 3: "three"}[budget]
        assert outcome.tripwire.retry is True
    assert len(model.calls) == {0: 0, 1: 1, 2: 3, 3: 4, 4: 5}[budget]


@three_ways
async def test_counts_start_anew_with_the_next_call(way: str) -> None:
    """R-182: the count is that of one call of `generate` or `stream`."""
    counts: list[int] = []

    def judge(args: Any) -> None:
        counts.append(args.retry_count)
        if args.retry_count == 0:
            args.abort("again", retry=True)

    agent = Agent(
        id="a",
        model=ScriptedModel(["An answer"]),
        output_processors=[only("process_output_step", judge)],
        max_processor_retries=1,
    )
    await play(way, agent, "one")
    await play(way, agent, "two")
    assert counts == [0, 1, 0, 1]


@three_ways
async def test_error_processors_count_their_own(way: str) -> None:
    """R-182 (decision 2): there only retries that error processors caused are counted."""
    counts: list[int] = []

    def mend(args: Any) -> Any:
        counts.append(args.retry_count)
        return {"retry": args.retry_count == 0}

    model = ScriptedModel(["bad", refused(), "good"])
    agent = Agent(
        id="a",
        model=model,
        output_processors=[asks("process_output_step", 1)],
        error_processors=[only("process_api_error", mend)],
        max_processor_retries=5,
    )
    assert (await play(way, agent, "go")).text == "good"
    assert counts == [0]


#


@three_ways
async def test_feedback_accumulates(way: str) -> None:
    """R-176, R-177: after the untagged system messages, each once, to the end of the run."""
    shown: list[list[str]] = []

    def look_on(args: Any) -> None:
        shown.append([message["content"] for message in args.system_messages])

    with_tool = answer(tool_calls=[tool_call("look")])
    model = ScriptedModel(["bad", "worse", "bad", with_tool, "good"])

    def judge(args: Any) -> None:
        if args.text in ("bad", "worse"):
            args.abort(f"{args.text} & {{odd}}\nreason", retry=True)

    agent = Agent(
        id="a",
        model=model,
        tools=[look],
        instructions=["Be brief.", "Be kind."],
        input_processors=[only("process_input_step", look_on)],
        output_processors=[only("process_output_step", judge)],
        max_processor_retries=3,
    )
    outcome = await play(way, agent, "go", system="The caller's.")
    assert outcome.text == "good"
    bad, worse = (f"[Processor Feedback] {word} & {{odd}}\nreason" for word in ("bad", "worse"))
    before, after = ["Be brief.", "Be kind."], ["The caller's."]
    systems = [[e["content"] for e in call.prompt if e["role"] == "system"] for call in model.calls]
    assert systems == [
        [*before, *after],
        [*before, bad, *after],
        [*before, bad, worse, *after],
        [*before, bad, worse, *after],
        [*before, bad, worse, *after],
    ]
    assert shown == [[*before, *after]] * 5
    assert [message.role for message in outcome.messages] == ["user", "assistant"]
    assert "Feedback" not in str([message.to_json() for message in outcome.messages])


@three_ways
async def test_earlier_steps_stay(way: str) -> None:
    """R-175: only the rejected attempt's parts are taken back; R-183: its tokens count."""
    usage = {"inputTokens": 10, "outputTokens": 1}
    script = [
        answer("One.", tool_calls=[tool_call("look", id="c1")], usage=usage),
        answer("Bad.", tool_calls=[tool_call("look", id="c2")], usage=usage),
        answer("Two.", usage=usage),
    ]
    model = ScriptedModel(script)

    def judge(args: Any) -> None:
        if "Bad" in args.text:
            args.abort("again", retry=True)

    agent = Agent(
        id="a",
        model=model,
        tools=[look],
        output_processors=[only("process_output_step", judge)],
        max_processor_retries=1,
    )
    outcome = await play(way, agent, "go")
    assert outcome.text == "One.Two."
    assert "Bad" not in model.calls[2].text
    assert "c2" not in str(model.calls[2].prompt)
    (message,) = outcome.answers
    kinds = [part.type for part in message.parts]
    assert kinds == ["text", "tool-invocation", "step-start", "text"]
    assert outcome.output.usage.input_tokens == 30
    assert [s.finish_reason for s in outcome.steps] == ["tool-calls", "retry", "stop"]
    assert [c.payload.tool_call_id for c in outcome.output.tool_calls] == ["c1"]
    if outcome.chunks is not None:
        assert outcome.chunks[-1].payload.output.usage.input_tokens == 30


@three_ways
async def test_attempts_are_not_steps(way: str) -> None:
    """R-181: rejected attempts do not use up `max_steps`."""
    with_tool = answer(tool_calls=[tool_call("look")])
    model = ScriptedModel(["bad", "bad", "bad", with_tool, "good"])

    def judge(args: Any) -> None:
        if args.text == "bad":
            args.abort("again", retry=True)

    agent = Agent(
        id="a",
        model=model,
        tools=[look],
        output_processors=[only("process_output_step", judge)],
        max_processor_retries=3,
    )
    outcome = await play(way, agent, "go", max_steps=2)
    assert (outcome.text, outcome.finish_reason) == ("good", "stop")


@three_ways
async def test_hooks_do_not_see_rejected_attempts(way: str) -> None:
    """R-073, R-153: only the final result shows them, marked."""
    seen: list[list[str | None]] = []
    final: list[list[str | None]] = []

    def look_on(args: Any) -> None:
        seen.append([step.finish_reason for step in args.steps])

    def judge(args: Any) -> None:
        look_on(args)
        if "bad" in args.text:
            args.abort("again", retry=True)

    def end(args: Any) -> None:
        final.append([step.finish_reason for step in args.result.steps])

    agent = Agent(
        id="a",
        model=ScriptedModel(["bad", "good"]),
        input_processors=[
            only("process_input_step", look_on, id="one"),
            only("process_llm_request", look_on, id="two"),
        ],
        output_processors=[
            only("process_output_step", judge, id="judge"),
            only("process_output_result", end, id="end"),
        ],
        max_processor_retries=1,
    )
    outcome = await play(way, agent, "go")
    assert seen == [[], [], ["stop"]] * 2
    assert final == [["retry", "stop"]]
    assert [step.finish_reason for step in outcome.steps] == ["retry", "stop"]


#

DECLINES = only("process_api_error", lambda args: None, id="declines")


@three_ways
@pytest.mark.parametrize(
    ("on_agent", "on_call", "calls"),
    [
        ({}, {}, 1),
        ({"error_processors": [DECLINES]}, {}, 11),
        ({"error_processors": [DECLINES]}, {"error_processors": []}, 1),
        ({}, {"error_processors": [DECLINES]}, 11),
        ({"error_processors": lambda scope: [DECLINES]}, {}, 11),
        ({"error_processors": lambda scope: []}, {}, 1),
        ({"max_processor_retries": 2}, {}, 3),
        ({"max_processor_retries": 2}, {"max_processor_retries": 4}, 5),
        ({"max_processor_retries": 2}, {"max_processor_retries": 0}, 1),
        ({"max_processor_retries": 2, "error_processors": [DECLINES]}, {}, 3),
        ({"max_processor_retries": 0, "error_processors": [DECLINES]}, {}, 1),
        ({"error_processors": [DECLINES]}, {"max_processor_retries": 1}, 2),
    ],
)
async def test_defaults(way: str, on_agent: Any, on_call: Any, calls: int) -> None:
    """R-018, R-212 to R-214, R-221: none; ten with error processors in force; what was said."""
    model = ScriptedModel(["bad"])
    agent = Agent(
        id="a", model=model, output_processors=[asks("process_output_step", 100)], **on_agent
    )
    outcome = await play(way, agent, "go", **on_call)
    check_tripped(outcome, reason="again", processor_id="asks", retry=True)
    assert len(model.calls) == calls


@pytest.mark.parametrize("bad", [-1, 1.5, 2.0, "3", True, float("inf")], ids=repr)
async def test_numbers_that_are_none(bad: Any) -> None:
    """R-214: refused when the agent is built, or before the call does anything."""
    with pytest.raises(ConfigurationError, match="max_processor_retries"):
        Agent(id="a", max_processor_retries=bad)
    model = ScriptedModel(["never"])
    with pytest.raises(ConfigurationError, match="max_processor_retries"):
        await Agent(id="a", model=model).generate("go", max_processor_retries=bad)
    with pytest.raises(ConfigurationError, match="max_processor_retries"):
        await Agent(id="a", model=model).stream("go", max_processor_retries=bad)
    assert model.calls == []


#


@three_ways
@pytest.mark.parametrize(("budget", "calls"), [(0, 1), (1, 2), (3, 4), (None, 11)])
async def test_budget_of_error_processors(way: str, budget: int | None, calls: int) -> None:
    """R-116: asked once more when the budget is used up; the answer is ignored then."""
    asked: list[int] = []

    def mend(args: Any) -> Any:
        asked.append(args.retry_count)
        return {"retry": True}

    error = refused()
    model = ScriptedModel([error])
    agent = Agent(
        id="a",
        model=model,
        error_processors=[only("process_api_error", mend)],
        max_processor_retries=budget,
    )
    outcome = await play(way, agent, "go")
    assert outcome.error is error
    assert len(model.calls) == calls
    assert asked == list(range(calls))


@three_ways
async def test_the_first_that_answers_retry(way: str) -> None:
    """R-112: those behind it are not asked; those that decline pass it on."""
    asked: list[str] = []

    def giving(id: str, returned: Any) -> Any:
        def hook(args: Any) -> Any:
            asked.append(id)
            return returned

        return only("process_api_error", hook, id=id)

    model = ScriptedModel([refused(), "good"])
    agent = Agent(
        id="a",
        model=model,
        error_processors=[
            giving("none", None),
            giving("no", {"retry": False}),
            giving("yes", {"retry": True}),
            giving("never", {"retry": True}),
        ],
    )
    assert (await play(way, agent, "go")).text == "good"
    assert asked == ["none", "no", "yes"]


@three_ways
async def test_a_retry_begins_the_step_anew(way: str) -> None:
    """R-113, R-114, R-237: the hooks before the call run again, with what was changed."""
    log: list[tuple[str, int, int]] = []

    def note(name: str) -> Any:
        def hook(args: Any) -> None:
            log.append((name, args.step_number, args.retry_count))

        return only(name, hook, id=name)

    def mend(args: Any) -> Any:
        args.message_list.add({"role": "user", "content": "Please."}, "input")
        return {"retry": True}

    model = ScriptedModel([refused(), "good"])
    agent = Agent(
        id="a",
        model=model,
        input_processors=[note("process_input_step"), note("process_llm_request")],
        error_processors=[only("process_api_error", mend)],
    )
    outcome = await play(way, agent, "go")
    assert log == [
        ("process_input_step", 0, 0),
        ("process_llm_request", 0, 0),
        ("process_input_step", 0, 1),
        ("process_llm_request", 0, 1),
    ]
    assert model.calls[1].text.split("\n") == ["go", "Please."]
    assert [message.text for message in outcome.messages] == ["go", "Please.", "good"]
    assert outcome.steps[0].tripwire is None


BROKEN_OFF: list[Any] = [
    {"type": "text-start", "id": "t1"},
    {"type": "text-delta", "id": "t1", "delta": "half a "},
    {"type": "error", "error": {"status": 500, "message": "overloaded"}},
]


@three_ways
async def test_half_an_answer(way: str) -> None:
    """R-115: what was delivered stays delivered; it is in no prompt, message or text."""
    model = ScriptedModel([BROKEN_OFF, "A whole answer."])
    agent = Agent(
        id="a",
        model=model,
        error_processors=[only("process_api_error", lambda args: {"retry": True})],
    )
    outcome = await play(way, agent, "go")
    assert outcome.text == "A whole answer."
    assert "half a" not in model.calls[1].text
    assert [message.text for message in outcome.messages] == ["go", "A whole answer."]
    if outcome.chunks is not None:
        deltas = [c.payload.text for c in outcome.chunks if c.type == "text-delta"]
        assert deltas == ["half a ", "A whole answer."]
        reasons = [c.payload.step_result.reason for c in outcome.chunks if c.type == "step-finish"]
        assert reasons == ["retry", "stop"]
        assert "error" not in outcome.kinds()


# ── R-216 ──────────────────────────────────────────────────────────────────────────────────────


@three_ways
@pytest.mark.parametrize("where", ["agent", "call", "settings"])
async def test_transport_retries(way: str, where: str) -> None:
    """R-216: off by default; for retryable errors only, and before anyone is asked."""
    asked: list[int] = []
    busy = refused(is_retryable=True, response_headers={"Retry-After": "0"})

    def decline(args: Any) -> None:
        asked.append(args.retry_count)

    def agent_for(model: ScriptedModel, **options: Any) -> Agent:
        processors = [only("process_api_error", decline)]
        return Agent(id="a", model=model, error_processors=processors, **options)

    options: dict[str, Any] = {
        "agent": {},
        "call": {"max_retries": 2},
        "settings": {"model_settings": {"max_retries": 2}},
    }[where]
    on_agent = {"max_retries": 2} if where == "agent" else {}

    model = ScriptedModel([busy, busy, "good"])
    assert (await play(way, agent_for(model, **on_agent), "go", **options)).text == "good"
    assert (len(model.calls), asked) == (3, [])

    model = ScriptedModel([busy])
    assert (await play(way, agent_for(model, **on_agent), "go", **options)).error is busy
    assert (len(model.calls), asked) == (3, [0])

    error = refused()
    model = ScriptedModel([error])
    assert (await play(way, agent_for(model, **on_agent), "go", **options)).error is error
    assert len(model.calls) == 1

    model = ScriptedModel([busy])
    assert (await play(way, agent_for(model), "go")).error is busy
    assert len(model.calls) == 1
