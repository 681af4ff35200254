"""E-80, E-81: reminders to the model."""

from __future__ import annotations

from typing import Any

from procession import Agent, ProcessInputStepArgs, tool
from procession.testing import RecordedCall, ScriptedModel, answer, tool_call
from tests.seeds.threeways import Shelf, play, three_ways

MAX_STEPS = 5


@tool
async def search(topic: str = "") -> str:
    """Look something up."""
    return f"found {topic}"


def texts(entry: dict[str, Any]) -> str:
    content = entry["content"]
    return content if isinstance(content, str) else "".join(p.get("text", "") for p in content)


# ── E-80 ───────────────────────────────────────────────────────────────────────────────────────


class AnswerInTheEnd:
    """Tells the model at the last allowed step that it is the last."""

    id = "answer-in-the-end"

    def __init__(self, max_steps: int) -> None:
        self.max_steps = max_steps
        self.signals: list[Any] = []

    async def process_input_step(self, args: ProcessInputStepArgs) -> None:
        if args.step_number != self.max_steps - 1 or args.send_signal is None:
            return
        self.signals.append(
            await args.send_signal(
                {
                    "type": "reactive",
                    "contents": f"Step {args.step_number + 1} is the last: no tools & <say> it.",
                    "attributes": {"reason": "max-steps-reached", "step": args.step_number + 1},
                }
            )
        )


REMINDER = (
    '<system-reminder reason="max-steps-reached" step="5">'
    "Step 5 is the last: no tools &amp; &lt;say&gt; it.</system-reminder>"
)


def searching(*words: str) -> list[Any]:
    return [
        *(answer(tool_calls=[tool_call("search", {"topic": str(n)})]) for n in range(4)),
        *words,
    ]


@three_ways
async def test_e80_last_step(way: str) -> None:
    """E-80 (R-526, R-701, R-705 to R-712): one element at the end, the rest as before."""
    processor = AnswerInTheEnd(MAX_STEPS)
    model = ScriptedModel(searching("A summary."))
    shelf = Shelf()
    agent = Agent(
        id="bounded",
        model=model,
        tools=[search],
        instructions="Heed reminders.",
        input_processors=[processor],
        extensions=[shelf],
    )
    outcome = await play(way, agent, "go", max_steps=MAX_STEPS)
    assert (len(model.calls), len(outcome.steps), outcome.finish_reason) == (5, 5, "stop")
    assert outcome.text == "A summary."
    fourth, fifth = model.calls[3].prompt, model.calls[4].prompt
    assert fifth[: len(fourth)] == fourth
    assert fifth[-1]["role"] == "user"
    assert [(part["type"], part["text"]) for part in fifth[-1]["content"]] == [("text", REMINDER)]
    assert all("system-reminder" not in str(call.prompt) for call in model.calls[:4])

    # in the raw history, not in the UI form.
    (signal,) = processor.signals
    assert (signal.type, signal.tag_name) == ("reactive", "system-reminder")
    kept = [message for message in shelf.rows if message.role == "signal"]
    assert [(m.id, m.type, m.text) for m in kept] == [
        (signal.id, "system-reminder", signal.contents)
    ]
    facts = kept[0].content.metadata or {}
    assert facts["signal"]["attributes"] == {"reason": "max-steps-reached", "step": 5}
    assert "system-reminder" not in str(outcome.output.response.ui_messages)
    assert "is the last" not in str(outcome.output.response.ui_messages)

    if outcome.chunks is not None:
        (chunk,) = [c for c in outcome.chunks if c.type == "data-signal"]
        assert chunk.transient is True
        assert chunk.data["contents"] == signal.contents
        kinds = outcome.kinds()
        assert kinds[kinds.index("data-signal") + 1] == "step-start"


@three_ways
async def test_e80_not_needed(way: str) -> None:
    """E-80 (R-705): a run that ends before has no reminder."""
    processor = AnswerInTheEnd(MAX_STEPS)
    model = ScriptedModel(["At once."])
    agent = Agent(id="bounded", model=model, input_processors=[processor])
    outcome = await play(way, agent, "go", max_steps=MAX_STEPS)
    assert (outcome.text, processor.signals) == ("At once.", [])
    assert [message.role for message in outcome.messages] == ["user", "assistant"]


@three_ways
async def test_e80_seen_again_in_the_next_turn(way: str) -> None:
    """E-80 (R-722): what was said stays in its place in later prompts."""
    shelf = Shelf()
    model = ScriptedModel([*searching("A summary."), "More."])
    agent = Agent(
        id="bounded",
        model=model,
        tools=[search],
        input_processors=[AnswerInTheEnd(MAX_STEPS)],
        extensions=[shelf],
    )
    await play(way, agent, "go", max_steps=MAX_STEPS)
    await play(way, agent, "and more", max_steps=MAX_STEPS)
    before, after = model.calls[4].prompt, model.calls[5].prompt
    assert after[: len(before)] == before
    assert [texts(entry) for entry in after[len(before) :]] == ["A summary.", "and more"]


# ── E-81 ───────────────────────────────────────────────────────────────────────────────────────


class Steering:
    """Says the same at every step, without leaving it in the history."""

    id = "steering"

    async def process_input_step(self, args: ProcessInputStepArgs) -> None:
        if args.send_signal is not None:
            await args.send_signal(
                {"type": "reactive", "contents": "Three sentences at most.", "transient": True}
            )


def reminders(call: RecordedCall) -> list[int]:
    """How far from the end of the prompt each copy of the reminder stands."""
    return [
        len(call.prompt) - place
        for place, entry in enumerate(call.prompt)
        if "Three sentences at most." in texts(entry)
    ]


@three_ways
async def test_e81_one_fresh_copy(way: str) -> None:
    """E-81 (R-703, R-723): one copy, near the end, in every prompt; none is stored."""
    shelf = Shelf()
    script = [
        answer(tool_calls=[tool_call("search", {"topic": "a"}, id="c1")]),
        "First.",
        answer(tool_calls=[tool_call("search", {"topic": "b"}, id="c2")]),
        "Second.",
    ]
    model = ScriptedModel(script)
    agent = Agent(
        id="steered",
        model=model,
        tools=[search],
        instructions="Be brief.",
        input_processors=[Steering()],
        extensions=[shelf],
    )
    first = await play(way, agent, "one")
    stored = [message.to_json() for message in shelf.rows]
    second = await play(way, agent, "two")
    assert (first.text, second.text) == ("First.", "Second.")
    assert [reminders(call) for call in model.calls] == [[1]] * 4
    # A reminder between two steps closes the message before it.
    assert [message.role for message in shelf.rows] == ["user", "assistant", "assistant"] * 2
    assert "Three sentences" not in str([message.to_json() for message in shelf.rows])
    assert [message.to_json() for message in shelf.rows[:3]] == stored

    # The second turn begins with the first, unchanged: what a provider has cached stays valid.
    turn = [entry for entry in model.calls[1].prompt if "Three sentences" not in texts(entry)]
    opening = model.calls[2].prompt[: len(turn) + 1]
    assert opening[:-1] == turn
    assert (opening[-1]["role"], texts(opening[-1])) == ("assistant", "First.")
    assert [texts(e) for e in model.calls[2].prompt[len(opening) : -1]] == ["two"]
