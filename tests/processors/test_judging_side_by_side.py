"""Several pieces of an answer are judged at a time; what leaves keeps its order (G-A8, B-105)."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Agent, ConfigurationError, OptionError, Policy, Processor, processor
from procession.hold import Unit
from procession.processors import ClassifierProcessor, ModerationProcessor
from procession.testing import collect
from tests.laws.kit import PlayedModel, call, echo, end, others_done, run_async, said
from tests.processors.classifying import badness
from tests.processors.judging import PATIENT, JudgeByText, Told, judged_answer
from tests.processors.test_moderation import rated

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from procession.chunks import Chunk

UNITS = ["One is here. ", "Two is here. ", "Three is bad. ", "Four is vile. ", "Five is here."]
CLEAN = [unit for unit in UNITS if "here" in unit]


def by_word(text: str) -> str:
    """The verdict on a text: two words that are harmful, each in a way of its own."""
    scores = {name: 0.9 for name, word in (("hate", "bad"), ("violence", "vile")) if word in text}
    return rated(**scores)


class Patient(JudgeByText):
    """Answers a text when `ready(text, self)` is true; knows how many were open at most."""

    def __init__(self, ready: Callable[[str, Patient], bool], verdict: Any = by_word) -> None:
        super().__init__(verdict)
        self.ready = ready
        self.answered: list[str] = []
        self.most = 0

    async def stream(self, request: Any) -> AsyncGenerator[Sequence[Chunk], None]:
        text = request.prompt[-1]["content"][0]["text"]
        self.texts.append(text)
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            while not self.ready(text, self):  # noqa: ASYNC110, others make it true
                await asyncio.sleep(0)
            self.answered.append(text)
            async for read in PlayedModel([[*said(self.verdict(text)), end()]]).stream(request):
                yield read
        finally:
            self.open -= 1


def in_reverse(*units: str) -> Patient:
    """Answers the last of these units first."""

    def ready(text: str, judge: Patient) -> bool:
        behind = units[units.index(text) + 1 :] if text in units else ()
        return set(behind) <= set(judge.answered)

    return Patient(ready)


def moderation(judge: Any, **options: Any) -> tuple[ModerationProcessor, Told]:
    told = Told()
    given = {"granularity": "sentence", "on_violation": told, **options}
    return ModerationProcessor(model=judge, **given), told


# ── side by side ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("whole", [True, False], ids=["one chunk", "chunk by chunk"])
async def test_the_next_sentence_is_judged_while_one_is_waited_for(whole: bool) -> None:
    """G-A8: no more calls than sentences, and no more at a time than is said."""
    judge = Patient(lambda text, judge: judge.most == 3)
    seen = await judged_answer(
        moderation(judge, concurrency=3, strategy="warn")[0], ["".join(UNITS)] if whole else UNITS
    )
    assert judge.most == 3
    assert judge.texts == [*UNITS, "".join(UNITS)]
    assert seen.deltas == UNITS


async def test_blocks_of_text_are_judged_at_a_time() -> None:
    """The borders of the blocks stay where they belong."""
    judge = Patient(lambda text, judge: judge.most == 2 or text == "onetwo")
    model = PlayedModel([[*said("one", id="t1"), *said("two", id="t2"), end()]])
    agent = Agent(id="a", model=model, output_processors=[moderation(judge, granularity="part")[0]])
    async with asyncio.timeout(5):
        chunks = await collect(await agent.stream("go"))
    shown = [chunk.type for chunk in chunks if chunk.type.startswith("text-")]
    assert shown == ["text-start", "text-delta", "text-end"] * 2
    assert judge.most == 2


async def test_deltas_are_judged_one_by_one_unless_it_is_said_otherwise() -> None:
    """B-105: as it was, where nothing is said."""
    judge = Patient(lambda text, judge: True)
    await judged_answer(moderation(judge, granularity="delta")[0], UNITS[:2])
    assert judge.most == 1
    judge = Patient(lambda text, judge: judge.most == 2)
    await judged_answer(moderation(judge, granularity="delta", concurrency=2)[0], UNITS[:2])
    assert judge.most == 2


async def test_no_task_is_made_for_one_at_a_time() -> None:
    tasks: list[int] = []

    def verdict(text: str) -> str:
        tasks.append(len(asyncio.all_tasks()))
        return rated()

    await judged_answer(moderation(JudgeByText(verdict), concurrency=1)[0], UNITS)
    assert set(tasks[: len(UNITS)]) == {1}


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_a_concurrency_that_is_none(wrong: Any) -> None:
    """B-014."""
    with pytest.raises(OptionError, match="concurrency"):
        ModerationProcessor(concurrency=wrong)


@pytest.mark.parametrize("wrong", [0, -2, 1.5, "2", True, None])
def test_a_concurrency_of_your_own_that_is_none(wrong: Any) -> None:
    """R-009: told when the agent is made."""
    guard = ModerationProcessor(granularity="sentence")
    guard.concurrency = wrong
    with pytest.raises(ConfigurationError, match="concurrency"):
        Agent(id="a", model="mock/x", output_processors=[guard])


async def test_a_hook_of_your_own_is_called_for_several_pieces() -> None:
    """`args.turn()` waits for the pieces before; each call has arguments of its own."""
    order: list[str] = []

    class Shouts(Processor):
        id = "shouts"
        watches = Unit("sentence")
        concurrency = 3

        async def process_output_stream(self, args: Any) -> Any:
            if args.piece is None:
                return args.part
            text = args.piece.text
            for _ in range(40 * (3 - UNITS.index(text))):
                await asyncio.sleep(0)
            order.append(f"asked {text}")
            await args.turn()
            order.append(text)
            return args.with_text(text.upper())

    seen = await judged_answer(Shouts(), ["".join(UNITS[:3])])
    assert seen.text == "".join(UNITS[:3]).upper()
    assert [text for text in order if not text.startswith("asked")] == UNITS[:3]
    assert order[0] == f"asked {UNITS[2]}"


# ── order ──────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_answered_first_waits_for_what_was_said_first() -> None:
    """Release and reports keep the order of the text."""
    judge = in_reverse(*UNITS[:4])
    processor, told = moderation(judge, strategy="warn")
    seen = await judged_answer(processor, UNITS)
    assert judge.answered[:4] == UNITS[3::-1]
    assert seen.deltas == UNITS
    streamed = [v.detail["categories"] for v in told if v.detail["phase"].endswith("stream")]
    assert streamed == [["hate"], ["violence"]]


async def test_the_earliest_verdict_counts_and_ends_the_other_calls() -> None:
    """B-034: what stood before it has left; of what comes later nothing is told."""
    judge = Patient(
        lambda text, judge: text in CLEAN[:2] or ("vile" in text) or UNITS[3] in judge.answered
    )
    before = asyncio.all_tasks()
    seen = await judged_answer(moderation(judge, concurrency=5)[0], ["".join(UNITS)])
    assert judge.answered.index(UNITS[3]) < judge.answered.index(UNITS[2])
    assert seen.deltas == UNITS[:2]
    assert seen.tripwire.metadata["categories"] == ["hate"]
    assert seen.types[-1] == "tripwire"
    assert judge.open == 0
    await others_done(before)


async def test_a_verdict_cancels_calls_that_would_never_end() -> None:
    judge = Patient(lambda text, judge: text in UNITS[:3])
    before = asyncio.all_tasks()
    processor, told = moderation(judge)
    seen = await judged_answer(processor, UNITS)
    assert seen.deltas == UNITS[:2]
    assert [v.detail["categories"] for v in told] == [["hate"]]
    assert judge.open == 0
    await others_done(before)


async def test_what_is_ready_leaves_while_the_model_is_silent() -> None:
    """Nothing waits for the next chunk."""
    judge = Patient(lambda text, judge: True)
    model = PlayedModel([[*said(*UNITS[:2], "And "), end()]], hang_at=4)
    agent = Agent(id="a", model=model, output_processors=[moderation(judge)[0]])
    texts: list[str] = []
    run = await agent.stream("go")
    async with asyncio.timeout(5):
        async for chunk in run:
            if chunk.type == "text-delta":
                texts.append(chunk.payload.text)
            if len(texts) == 2:
                break
    assert texts == UNITS[:2]
    await run.aclose()
    assert model.open == judge.open == 0


async def test_the_first_sentences_leave_while_the_last_are_judged() -> None:
    """The model has said all it had to say by then."""
    left = asyncio.Event()
    judge = Patient(lambda text, judge: text != UNITS[-1] or left.is_set())
    model = PlayedModel([[*said(*UNITS), end()]], sizes=[99])
    agent = Agent(id="a", model=model, output_processors=[moderation(judge, strategy="warn")[0]])
    run = await agent.stream("go")
    async with asyncio.timeout(5):
        async for chunk in run:
            if chunk.type == "text-delta" and chunk.payload.text == UNITS[0]:
                left.set()
    assert await run.text == "".join(UNITS)


async def test_the_model_is_listened_to_no_further_than_that() -> None:
    """While nobody answers, two sentences and the one that waits have been read, and no more."""
    read: list[str] = []

    class Long:
        provider, model_id = "example", "long-1"

        async def stream(self, request: Any) -> AsyncGenerator[Sequence[Chunk], None]:
            sentences = [f"Sentence {n}. " for n in range(50)]
            async for chunks in PlayedModel([[*said(*sentences), end()]]).stream(request):
                read.extend(c.payload.text for c in chunks if c.type == "text-delta")
                yield chunks

    judge = Patient(lambda text, judge: False)
    agent = Agent(id="a", model=Long(), output_processors=[moderation(judge, concurrency=2)[0]])
    before = asyncio.all_tasks()
    run = await agent.stream("go")
    reading = asyncio.ensure_future(collect(run))
    while judge.open < 2:  # noqa: ASYNC110, the judge makes it true
        await asyncio.sleep(0)
    for _ in range(200):
        await asyncio.sleep(0)
    assert len(read) <= 4  # the end of a sentence shows with the beginning of the next
    reading.cancel()
    await asyncio.wait([reading])
    assert judge.open == 0
    await others_done(before)


# ── with others ────────────────────────────────────────────────────────────────────────────────


async def test_a_tool_runs_when_what_was_said_before_has_been_judged() -> None:
    """Text, call and result come in the order of the model."""
    judge = in_reverse(*UNITS[:2])
    first = [*said(*UNITS[:2]), call("echo"), end("tool-calls")]
    model = PlayedModel([first, [*said("done"), end()]])
    agent = Agent(id="a", model=model, tools=[echo], output_processors=[moderation(judge)[0]])
    async with asyncio.timeout(5):
        chunks = await collect(await agent.stream("go"))
    types = [c.type for c in chunks if c.type in ("text-delta", "tool-call", "tool-result")]
    assert types == ["text-delta", "text-delta", "tool-call", "tool-result", "text-delta"]


async def test_a_blocked_sentence_keeps_the_tool_from_running() -> None:
    judge = Patient(lambda text, judge: judge.most == 2)
    first = [*said(UNITS[0], UNITS[2]), call("echo"), end("tool-calls")]
    agent = Agent(
        id="a", model=PlayedModel([first]), tools=[echo], output_processors=[moderation(judge)[0]]
    )
    async with asyncio.timeout(5):
        chunks = await collect(await agent.stream("go"))
    assert "tool-call" not in [chunk.type for chunk in chunks]
    assert chunks[-1].type == "tripwire"


async def test_an_answer_that_breaks_off_is_judged_as_far_as_it_came() -> None:
    """As with one call at a time: whole sentences leave, what is left of one does not."""
    for concurrency in (1, 4):
        judge = in_reverse(*UNITS[:2]) if concurrency > 1 else JudgeByText(by_word)
        parts = said(*UNITS[:2], "Half")[:-1]
        model = PlayedModel([[*parts, ValueError("broken")]])
        agent = Agent(
            id="a",
            model=model,
            output_processors=[moderation(judge, concurrency=concurrency)[0]],
        )
        run = await agent.stream("go")
        async with asyncio.timeout(5):
            chunks = await collect(run)
        assert [c.payload.text for c in chunks if c.type == "text-delta"] == UNITS[:2]
        assert "error" in [chunk.type for chunk in chunks]


async def test_a_rejected_attempt_takes_its_calls_along() -> None:
    """R-173: what was said in it is judged no further, and none of it shows in the next one."""
    judge = Patient(lambda text, judge: "slow" not in text)

    def once(args: Any) -> Any:
        if args.retry_count == 0 and args.part.type == "text-delta":
            args.abort("again", retry=True)
        return args.part

    agent = Agent(
        id="a",
        model=PlayedModel([[*said("One. ", "So slow. ", "X"), end()], [*said("Two."), end()]]),
        output_processors=[
            moderation(judge)[0],
            processor(id="once", process_output_stream=once),
        ],
        max_processor_retries=1,
    )
    before = asyncio.all_tasks()
    async with asyncio.timeout(5):
        result = await agent.generate("go")
    assert result.text == "Two."
    assert judge.open == 0
    await others_done(before)


async def test_attempts_that_are_rejected_leave_room_for_the_next() -> None:
    """Each verdict gives its place back: after as many as there are places there would be none,
    and the wait for one would never end."""

    class Strict(Processor):
        id = "strict"
        watches = Unit("sentence")
        concurrency = 2

        async def process_output_stream(self, args: Any) -> Any:
            if args.piece is not None:
                await args.turn()
                if args.retry_count < 3 and "bad" in args.piece.text:
                    args.abort("bad", retry=True)
            return args.part

    model = PlayedModel([[*said(*UNITS), end()]])
    agent = Agent(id="a", model=model, output_processors=[Strict()], max_processor_retries=3)
    before = asyncio.all_tasks()
    output = await agent.generate("go")
    assert (output.text, len(model.prompts)) == ("".join(UNITS), 4)
    await others_done(before)


async def test_a_call_without_end_is_bounded_by_the_policy() -> None:
    """Each by itself: the others are not lost."""
    judge = Patient(lambda text, judge: "Two" not in text)
    policy = Policy(timeout=PATIENT, on_error="allow")
    seen = await judged_answer(
        moderation(judge, strategy="filter", policy=policy)[0], [*UNITS[:2], *UNITS[4:]]
    )
    assert seen.text == "".join(CLEAN)
    assert {event.kind for event in seen.events} == {"timeout"}
    assert judge.open == 0


async def test_a_failing_judge_blocks_where_it_stands() -> None:
    """B-028: with `strict`, the sentences before it have left."""

    def verdict(text: str) -> str:
        return "nonsense" if "Two" in text else rated()

    judge = Patient(lambda text, judge: judge.most == 3, verdict)
    seen = await judged_answer(
        moderation(judge, error_strategy="strict", concurrency=3)[0], UNITS[:3]
    )
    assert seen.deltas == UNITS[:1]
    assert seen.tripwire.metadata["error"] is True


async def test_results_of_a_classifier_come_in_order() -> None:
    """B-510: `on_result` is called for one after the other."""
    order: list[str] = []

    def told(answers: Any, context: Any) -> None:
        order.append(context.phase)
        if answers.boolean("bad").probability > 0.5:
            context.filter()

    judge = in_reverse(*UNITS[:4])
    judge.verdict = lambda text: json.dumps({"answer_1": 0.9 if "bad" in text else 0.1})
    guard = ClassifierProcessor(classifier=badness(judge), on_result=told, granularity="sentence")
    seen = await judged_answer(guard, UNITS[:4])
    assert judge.answered[:4] == UNITS[3::-1]
    assert seen.deltas == [UNITS[0], UNITS[1], UNITS[3]]
    assert order == ["stream"] * 4 + ["output"]


# ── the law ────────────────────────────────────────────────────────────────────────────────────


class Delayed(JudgeByText):
    """Answers each text after a number of turns of its own."""

    def __init__(self, turns: Callable[[str], int]) -> None:
        super().__init__(by_word)
        self.turns = turns

    async def stream(self, request: Any) -> AsyncGenerator[Sequence[Chunk], None]:
        for _ in range(self.turns(request.prompt[-1]["content"][0]["text"])):
            await asyncio.sleep(0)
        async for read in super().stream(request):
            yield read


async def _outcome(
    units: list[str],
    size: int,
    turns: list[int],
    strategies: list[str],
    concurrency: int,
    window: int,
) -> Any:
    judges = [Delayed(lambda text, n=n: turns[(len(text) + n) % len(turns)]) for n in (0, 1)]
    guards = [
        moderation(judge, strategy=strategy, concurrency=concurrency, chunk_window=window)
        for judge, strategy in zip(judges, strategies, strict=True)
    ]
    text = "".join(units)
    pieces = [text[at : at + size] for at in range(0, len(text), size)] or [""]
    agent = Agent(
        id="a",
        model=PlayedModel([[*said(*pieces), end()]], sizes=[1, 3]),
        output_processors=[guard for guard, _ in guards],
    )
    before = asyncio.all_tasks()
    run = await agent.stream("go")
    chunks = await collect(run)
    await others_done(before)
    assert all(judge.open == 0 for judge in judges)
    wire = run.tripwire
    return (
        "".join(c.payload.text for c in chunks if c.type == "text-delta"),
        wire and (wire.processor_id, wire.metadata["strategy"], wire.metadata["categories"]),
        chunks[-1].type,
        [v.detail["categories"] for v in guards[0][1]] if strategies[1] != "block" else None,
    )


@settings(max_examples=20, deadline=None)
@given(
    units=st.lists(st.sampled_from([*UNITS, "你好。", "x ", "\n"]), min_size=1, max_size=7),
    size=st.integers(1, 40),
    turns=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    strategies=st.lists(st.sampled_from(["block", "warn", "filter"]), min_size=2, max_size=2),
    concurrency=st.integers(2, 5),
    window=st.integers(0, 2),
)
def test_how_many_at_a_time_changes_nothing_but_the_time(
    units: list[str],
    size: int,
    turns: list[int],
    strategies: list[str],
    concurrency: int,
    window: int,
) -> None:
    """Text, verdict and reports are those of one call at a time, however long each call takes."""
    one = run_async(_outcome(units, size, turns, strategies, 1, window))
    several = run_async(_outcome(units, size, turns, strategies, concurrency, window))
    if one[1] is None:
        assert several == one
    else:  # one at a time, no sentence of a chunk leaves before the last one was judged
        assert several[0].startswith(one[0])
        assert several[1:3] == one[1:3]
