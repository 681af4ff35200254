"""Branches in a stream: any cutting gives the same, and nothing leaves that a sibling may block."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import MessageList, processor
from procession.hold import Literals, Unit
from procession.processors import BatchPartsProcessor, RegexFilterProcessor, TokenLimiterProcessor
from procession.testing import ScriptedModel, answer, tool_call
from procession.workflows import create_step
from procession.workflows.words import Words
from tests.laws.kit import PlayedModel, call, echo, end, others_done, run_async
from tests.laws.kit import said as spoken
from tests.workflows.kit import cut, flow, said, side_by_side, speaker, speaking

TEXT = "Hello there secret123 my friend. It is all fine here secret9. And done"
REDACTED = "Hello there [X] my friend. It is all fine here [X]. And done"


def redactor(id: str = "redactor") -> Any:
    made = RegexFilterProcessor(
        rules=[{"name": "code", "pattern": "secret[0-9]+", "replacement": "[X]"}],
        strategy="redact",
    )
    made.id = id
    return made


def judge(blocked: str, unit: Any = "sentence", seen: list[str] | None = None) -> Any:
    """Judges sentence by sentence; gives way before its verdict."""

    async def look(args: Any) -> Any:
        if args.piece is not None:
            if seen is not None:
                seen.append(args.piece.text)
            await asyncio.sleep(0)
            if blocked in args.piece.text:
                args.abort("blocked")
        return args.part

    return processor(id="judge", process_output_stream=look, watches=Unit(unit))


def plain(id: str = "plain") -> Any:
    return processor(id=id, process_output_stream=lambda args: args.part)


async def streamed(text: str, sizes: list[int], *outputs: Any) -> tuple[str, Any]:
    """What leaves of a text, cut into pieces of these sizes again and again, and the run."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    run = await speaker(ScriptedModel([answer(*pieces)]), *outputs).stream("x")
    return await said(run), run


cuttings = st.lists(st.integers(1, 30), min_size=1, max_size=6)


@given(cuttings, st.permutations([0, 1, 2]))
def test_any_cutting_and_order_gives_the_chosen_branch(sizes: list[int], order: Any) -> None:
    """W-005, law 3: text of the deltas == result == stored text == redacted text."""
    branches = [redactor(), judge("BAD"), plain()]
    made = side_by_side(*(branches[n] for n in order), choose="redactor")

    async def check() -> None:
        text, run = await streamed(TEXT, sizes, made)
        assert text == REDACTED == await run.text
        assert run.message_list.messages()[-1].text == REDACTED

    run_async(check())


@given(cuttings, st.integers(0, len(TEXT)))
def test_nothing_leaves_that_a_sibling_blocks(sizes: list[int], at: int) -> None:
    """W-065, G-A: what leaves before a verdict is what the list would have let pass, however the
    text was cut.
    """
    text = f"{TEXT[:at]} BAD {TEXT[at:]}"

    async def check() -> None:
        made = side_by_side(redactor(), judge("BAD"), choose="redactor")
        parallel, run = await streamed(text, sizes, made)
        listed, _ = await streamed(text, sizes, judge("BAD"), redactor())
        assert "BAD" not in parallel
        assert parallel == listed
        assert run.tripwire is not None
        assert run.tripwire.processor_id == "judge"

    run_async(check())


@given(cuttings)
def test_within_a_branch_the_second_sees_what_the_first_has_made(sizes: list[int]) -> None:
    """G-A: each step of a chain holds back for itself; a word made of pieces is found."""

    def lower(args: Any) -> Any:
        if args.part.type == "text-delta":
            args.part.payload.text = args.part.payload.text.lower()
        return args.part

    def mask(args: Any) -> Any:
        if args.piece is not None:
            args.part.payload.text = args.piece.text.replace("secret", "[S]")
        return args.part

    chain = (
        flow("chain")
        .then(create_step(processor(id="lower", process_output_stream=lower)))
        .then(
            create_step(
                processor(id="mask", process_output_stream=mask, watches=Literals(["secret"]))
            )
        )
        .commit()
    )
    made = flow().parallel([chain, create_step(judge("BAD"))])
    chosen = made.map(lambda context: context.input_data["chain"]).commit()

    async def check() -> None:
        text, _ = await streamed("The SECRET is SeCrEt. Ok.", sizes, chosen)
        assert text == "the [S] is [S]. ok."

    run_async(check())


@given(cuttings)
def test_the_chain_of_the_guardrail_guide(sizes: list[int]) -> None:
    """W-184: limit, batch, redact and moderate in parallel, map, scrub: the joined text is the
    redacted one; one tripwire when moderation blocks.
    """

    def chain(blocked: str) -> Any:
        return (
            flow("output-guardrails")
            .then(create_step(TokenLimiterProcessor(limit=1000)))
            .then(create_step(BatchPartsProcessor(batch_size=3)))
            .parallel([create_step(redactor()), create_step(judge(blocked))])
            .map(lambda context: context.input_data["processor:redactor"])
            .then(create_step(redactor("scrubber")))
            .commit()
        )

    async def check() -> None:
        text, run = await streamed(TEXT, sizes, chain("BAD"))
        assert text == REDACTED == await run.text
        text, run = await streamed(TEXT, sizes, chain("fine"))
        assert text == "Hello there [X] my friend. "
        assert run.tripwire is not None

    run_async(check())


@pytest.mark.parametrize("unit", ["sentence", "part", "step", "end"])
async def test_what_a_judge_is_shown_is_whole(unit: str) -> None:
    """Each branch has the pieces that it would have outside."""
    inside: list[str] = []
    outside: list[str] = []
    made = side_by_side(redactor(), judge("BAD", unit, inside), choose="redactor")
    text, _ = await streamed(TEXT, [3], made)
    await streamed(TEXT, [3], judge("BAD", unit, outside))
    assert (text, inside) == (REDACTED, outside)


async def test_nothing_is_kept_longer_than_the_slowest_branch_wants() -> None:
    """Law 3: without watches a chunk leaves as it comes; with them as soon as all have judged."""
    run = await speaker(
        speaking("One. ", "Two. ", "Three"), side_by_side(plain("a"), plain("b"), choose="a")
    ).stream("x")
    assert [c.payload.text async for c in run if c.type == "text-delta"] == [
        *("One. ", "Two. ", "Three")
    ]
    made = side_by_side(redactor(), judge("BAD"), choose="redactor")
    order: list[str] = []
    model = ScriptedModel([answer("One. ", "Two. ", "Three")])
    run = await speaker(model, made).stream("x")
    async for chunk in run:
        if chunk.type in ("text-delta", "text-end"):
            order.append(getattr(chunk.payload, "text", "end"))
    assert "".join(order) == "One. Two. Threeend"
    assert order[0] == "One. "


@pytest.mark.parametrize("shape", ["branch", "function", "dropping", "several"])
async def test_other_stages_in_a_stream(shape: str) -> None:
    """W-062: a chunk that comes to nothing is dropped; one that comes to several goes on so."""

    def shout(args: Any) -> Any:
        if args.part.type == "text-delta":
            args.part.payload.text = args.part.payload.text.upper()
        return args.part

    loud = create_step(processor(id="loud", process_output_stream=shout))
    made = flow()
    if shape == "branch":
        made.branch([(lambda context: context.input_data["part"].type == "text-delta", loud)])
        made.map(lambda context: context.input_data.get(loud.id) or context.get_init_data())
    elif shape == "function":
        made.then(loud).map(lambda context: context.input_data)
    elif shape == "dropping":
        made.then(loud).map(_without_b)
    else:
        twice = processor(id="twice", process_output_stream=_twice)
        made.parallel([create_step(twice), create_step(plain())])
        made.map(lambda context: context.input_data["processor:twice"]).then(loud)
    run = await speaker(speaking("a", "b"), made.commit()).stream("x")
    expected = {"branch": "AB", "function": "AB", "dropping": "A", "several": "AABB"}
    assert await said(run) == expected[shape]


def _without_b(context: Any) -> Any:
    part = context.input_data["part"]
    drop = part.type == "text-delta" and part.payload.text == "B"
    return {**context.input_data, "part": None} if drop else context.input_data


def _twice(args: Any) -> Any:
    return (
        [args.part, args.with_text(args.part.payload.text)]
        if (args.part.type == "text-delta")
        else args.part
    )


async def test_messages_are_copied_for_a_branch_that_looks() -> None:
    """W-063: in a stream only for who asks; what the chosen one changes is changed."""

    def edit(args: Any) -> Any:
        if args.part.type == "text-end":
            args.message_list.messages()[0].content.metadata = {"seen": args.processor_id}
        return args.part

    for choose, expected in (("edits", {"seen": "edits"}), ("plain", None)):
        editing = processor(id="edits", process_output_stream=edit)
        made = side_by_side(editing, plain(), choose=choose)
        output = await speaker(speaking("hi"), made).generate("x")
        assert output.messages[0].content.metadata == expected


async def test_a_rejected_attempt_leaves_nothing_behind() -> None:
    """What steps held back of it is forgotten; the next one begins anew."""

    def once(args: Any) -> Any:
        if args.retry_count == 0 and args.part.type == "text-end":
            args.abort("again", retry=True)
        return args.part

    made = side_by_side(redactor(), judge("BAD"), choose="redactor")
    model = ScriptedModel([answer("One secret"), answer("Two secret1.")])
    after = processor(id="after", process_output_stream=once)
    output = await speaker(model, after, made, max_processor_retries=1).generate("x")
    assert output.text == "Two [X]."


async def test_judges_that_work_beside_the_stream() -> None:
    """`concurrency` within a branch: in order, and nothing is left of it after a verdict."""
    before = set(asyncio.all_tasks())
    beside = judge("BAD")
    beside.concurrency = 3
    made = side_by_side(redactor(), beside, choose="redactor")
    text, _ = await streamed(TEXT, [4], made)
    assert text == REDACTED
    text, run = await streamed(TEXT.replace("fine", "BAD"), [4], made)
    assert "BAD" not in text
    assert run.status == "tripwire"
    await others_done(before)


async def test_objects_pass_the_guards_of_all_branches() -> None:
    """An object that is asked for is redacted by guards in branches, too."""
    made = side_by_side(redactor(), plain(), choose="redactor")
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    run = await speaker(speaking(*cut('{"a": "my secret123"}', 4)), made).stream(
        "x", structured_output={"schema": schema}
    )
    objects = [chunk.object async for chunk in run if chunk.type in ("object", "object-result")]
    assert objects[-1] == {"a": "my [X]"}
    assert not any("secret1" in str(each) for each in objects)


async def test_objects_of_another_model_pass_them_as_well() -> None:
    """They are no text of the answer: each guard within is asked about their leaves."""
    made = side_by_side(plain(), redactor(), choose="plain")
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    other = ScriptedModel(['{"a": "my secret123"}'])
    output = await speaker(speaking("An answer."), made).generate(
        "x", structured_output={"schema": schema, "model": other}
    )
    assert output.object == {"a": "my [X]"}


@given(st.text(alphabet="ab \n\u4e2d", max_size=120), cuttings)
def test_words_depend_on_the_text_alone(text: str, sizes: list[int]) -> None:
    """Law 3: however it comes, and none is longer than 32 characters."""

    def words(pieces: list[str]) -> list[str]:
        held, found = "", list[str]()
        for piece in pieces:
            held += piece
            ends = Words().split(held, 0, len(held))
            for begin, stop in zip([0, *ends], ends, strict=False):
                found.append(held[begin:stop])
            held = held[ends[-1] :] if ends else held
        return [*found, held] if held else found

    pieces, at = list[str](), 0
    while at < len(text):
        pieces.append(text[at : at + sizes[len(pieces) % len(sizes)]])
        at += len(pieces[-1])
    assert words(pieces) == words([text] if text else [])
    assert all(len(word) <= 32 for word in words(pieces)[:-1])


CALLING = ["Let me look. ", "At once. "]


@pytest.mark.parametrize("unit", ["sentence", "part", "step"])
@pytest.mark.parametrize("choose", ["redactor", "judge", "plain"])
async def test_calls_of_tools_pass_while_texts_wait(unit: str, choose: str) -> None:
    """What is judged as it comes does not wait for texts: the tool runs, and once."""
    made = side_by_side(redactor(), judge("BAD", unit), plain(), choose=choose)
    model = ScriptedModel(
        [answer(*CALLING, tool_calls=[tool_call("echo", {"value": "a"})]), "All fine."]
    )
    output = await speaker(model, made, tools=[echo]).generate("x")
    assert output.text == "Let me look. At once. All fine."
    assert [chunk.payload.result for chunk in output.tool_results] == ["echo a"]


@given(cuttings, st.booleans())
def test_arguments_wait_for_all_who_look_at_them(sizes: list[int], chosen: bool) -> None:
    """G-A: no half of a secret leaves in a delta, and a verdict comes before the call."""

    def mask(args: Any) -> Any:
        if args.piece is not None and "secret" in args.piece.text:
            args.abort("secret")
        return args.part

    guard = processor(
        id="guard",
        process_output_stream=mask,
        watches=Literals(["secret"]),
        lanes=["tool-arguments"],
    )

    async def deltas_of(arguments: str) -> tuple[str, Any]:
        deltas: list[Any] = []
        at = 0
        while at < len(arguments):
            text = arguments[at : at + sizes[len(deltas) % len(sizes)]]
            deltas.append({"type": "tool-input-delta", "id": "c1", "delta": text})
            at += len(text)
        start = {"type": "tool-input-start", "id": "c1", "toolName": "echo"}
        parts = [start, *deltas, call("echo", arguments), end("tool-calls")]
        made = side_by_side(guard, plain(), choose="guard" if chosen else "plain")
        model = PlayedModel([parts, [*spoken("ok"), end()]])
        run = await speaker(model, made, tools=[echo]).stream("x")
        seen = [c.payload.args_text_delta async for c in run if c.type == "tool-call-delta"]
        return "".join(seen), run

    async def check() -> None:
        seen, run = await deltas_of('{"value": "all is secret here"}')
        assert run.status == "tripwire"
        assert "secret" not in seen
        seen, run = await deltas_of('{"value": "all is well"}')
        assert run.status == "success"
        assert json.loads(seen) == {"value": "all is well"}

    run_async(check())


async def test_what_steps_in_a_loop_keep_leaves_as_well() -> None:
    """A loop of a processor is one step of the stream, however often it is executed."""
    made = flow().dountil(create_step(redactor()), lambda context: True).commit()
    text, _ = await streamed(TEXT, [3], made)
    assert text == REDACTED


async def test_a_chunk_costs_the_same_however_many_messages_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Law 7: messages are neither counted nor copied for hooks that do not look at them."""

    def never(self: MessageList) -> Any:
        raise AssertionError("nobody has asked for messages")

    monkeypatch.setattr(MessageList, "twin", never)
    monkeypatch.setattr(MessageList, "ids", never)
    made = side_by_side(plain("a"), plain("b"), choose="a")
    run = await speaker(speaking("One. ", "Two."), made).stream(["x"] * 20)
    assert await said(run) == "One. Two."
