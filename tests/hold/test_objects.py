"""The text of an object: where its JSON begins, who sees its leaves, what is seen at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Agent, Policy, StructuredOutputError, processor
from procession.chunks import Chunk, DeltaPayload
from procession.hold import Pattern, Unit
from procession.hold.answer import AnswerText
from procession.hold.lane import Rules
from procession.hold.prose import ProseReader
from procession.structured.partial_json import JSONReader
from procession.testing import ScriptedModel
from tests.hold.kit import guard, pieces_at
from tests.hold.objects_kit import SECRET, asked, in_two_blocks, noting
from tests.laws.kit import METADATA, PlayedModel, end
from tests.processors.objects import as_text, leaves

if TYPE_CHECKING:
    from collections.abc import Iterable

FRAGMENTS = st.lists(
    st.sampled_from(
        [
            "{", "}", "[", "]", '"', ":", ",", "`", "``", "```", "```json\n", "\\u0041", "\\", " ",
            "1", "x", "\n", '{"a":"', '"}', "\\u00", "\\u0073ecret", "secret",
            "true", '["', '",', "\\`", "\xa0", "-1.5", "\\u0060", "\\u0060" * 3,
        ]
    ),
    max_size=16,
).map("".join)  # fmt: skip


# ── where JSON begins ──────────────────────────────────────────────────────────────────────────


@given(FRAGMENTS, st.lists(st.integers(0, 60), max_size=6))
@settings(max_examples=400, deadline=None)
def test_the_cutting_does_not_matter(text: str, places: list[int]) -> None:
    """Nothing is lost or added, and the same is said of any text, however it comes."""

    def read(pieces: Iterable[str]) -> list[tuple[str, str]]:
        reader, found = ProseReader(), list[tuple[str, str]]()
        for kind, words in [*(e for p in pieces for e in reader.feed(p)), *reader.end()]:
            if found and found[-1][0] == kind and kind in ("text", "rest", "mark"):
                found[-1] = kind, found[-1][1] + words
            elif words or kind != "text":
                found.append((kind, words))
        return found

    whole = read([text])
    assert read(pieces_at(text, places)) == read(list(text)) == whole
    if all(kind == "rest" for kind, _ in whole):
        assert "".join(words for _, words in whole) == text


def screened(text: str, mark: str) -> tuple[list[str], bool]:
    """What leaves of a text that comes letter by letter, and whether objects in it may be shown on
    the way.
    """
    held, results = AnswerText(Rules([SECRET])), list[Any]()

    def drive(work: Any) -> None:
        try:
            chunk, _ = next(work)
            while True:
                chunk.payload.text = chunk.payload.text.replace("secret", mark)
                chunk, _ = work.send(chunk)
        except StopIteration:
            pass

    for letter in text:
        drive(held.work(Chunk("text-delta", DeltaPayload(id="t1", text=letter)), results))
    drive(held.last(results))
    chunks = [result for result in results if isinstance(result, Chunk)]
    return [chunk.payload.text for chunk in chunks], held.is_sure_of("t1")


@given(FRAGMENTS, st.sampled_from(["#", "", "`", "```", "{", "["]))
@settings(max_examples=1000, deadline=None)
def test_where_an_object_is_read_its_leaves_were_seen(text: str, mark: str) -> None:
    """Nothing of the object on its way has not been a leaf, whatever a hook makes of the words
    around it: JSON is found in the same places, or nothing is shown."""
    written, is_sure = screened(text, mark)
    reader = JSONReader()
    for piece in written if is_sure else ():
        if reader.feed(piece):
            found = reader.value().made()
            assert not any("secret" in as_text(leaf) for leaf in leaves(found))


@pytest.mark.parametrize(
    "text",
    [
        '``````-{"a":"\\u0073ecret"}',
        '"a```[1, "\\u0073ecret"]',
        'a {"b": "```\n{"c": "\\u0073ecret"}',
        '{"b": 1} {"c": "\\u0073ecret"}',
        f'[{"5" * 3000}, "\\u0073ecret"]',
    ],
)
def test_places_that_are_easily_missed(text: str) -> None:
    """JSON that begins behind fences in odd places is read by its leaves."""
    written, is_sure = screened(text, "#")
    assert is_sure
    assert "\\u0073" not in "".join(written)


@pytest.mark.parametrize(
    ("text", "object"),
    [
        (r'{"a": "\u0073ecret"}', {"a": "######"}),
        (r'["\u0073ecret", 1]', ["######", 1]),
        (r'"\u0073ecret"', "######"),
        ('Here:\n```json\n{"a": "\\u0073ecret"}\n```', {"a": "######"}),
        # What no reader of JSON has made out on the way is seen at the end.
        ('{"a": ```json\n["\\u0073ecret"]\n```', ["######"]),
        ('{"x": "```{", "y\\u0073ecret": "z"} ```\n"\\u0073ecret"', "######"),
    ],
)
async def test_escapes_hide_nothing(text: str, object: Any) -> None:
    """G-A: in the object and in its text."""
    for pieces in ([text], list(text)):
        assert (await asked(pieces, guard([SECRET]))).object == object


async def test_an_object_across_two_blocks_is_clean() -> None:
    """G-A."""
    agent = Agent(id="a", model=in_two_blocks(), output_processors=[guard([SECRET])])
    output = await agent.generate("go", structured_output={"schema": None})
    assert output.object == {"a": "######"}


async def test_a_number_that_is_changed_fits_no_schema_for_numbers() -> None:
    """R-565: the error strategy decides."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    hides = guard([Pattern(r"\d{4}")])
    output = await asked('{"n": 1234}', hides, schema=schema, error_strategy="warn")
    assert (output.object, output.text) == (None, '{"n": "####"}')
    with pytest.raises(StructuredOutputError, match="n: "):
        await asked('{"n": 1234}', hides, schema=schema)
    late = '{"n": ```json\n{"n": 1234}'
    output = await asked(late, hides, schema=schema, error_strategy="warn")
    assert output.object is None


async def test_an_edit_at_the_end_is_looked_at() -> None:
    """What a hook puts into the text when it is complete passes the guards as an object."""

    def edit(args: Any) -> Any:
        args.messages[-1].content.parts[-1].text = '{"a": "\\u0073ecret"}'
        return args.messages

    late = processor(id="late", process_output_result=edit)
    assert (await asked('{"a": 1}', guard([SECRET]), late)).object == {"a": "######"}


# ── who sees what ──────────────────────────────────────────────────────────────────────────────


async def test_pieces_are_leaves_and_words() -> None:
    """`piece.of_object` tells them from other texts; numbers look like their values."""
    shown: list[Any] = []
    text = 'So: {"\\u0062": [1.50, "x"]} there'
    await asked(text, noting(shown, SECRET), error_strategy="warn")
    assert [piece.text for piece in shown] == ["So: {", "b", "1.5", "x", " there"]
    assert all(piece.of_object and piece.kind == "text" for piece in shown)
    assert len({piece.lane_id for piece in shown}) == len(shown)
    shown.clear()
    model = ScriptedModel(['{"a": 1}'])
    await Agent(id="a", model=model, output_processors=[noting(shown, SECRET)]).generate("go")
    assert [(piece.text, piece.of_object) for piece in shown] == [('{"a": 1}', False)]


@pytest.mark.parametrize(
    "watches", [Unit("sentence"), Unit("part"), [Unit("step"), SECRET], [Unit("end"), SECRET]]
)
async def test_judges_are_handed_the_text_as_it_is(watches: Any) -> None:
    """G-A8: a call for each leaf would cost too much, and a verdict on a step comes before it."""
    shown: list[Any] = []
    await asked('{"a": "b\\u0063", "n": 1}', noting(shown, watches))
    assert [piece.text for piece in shown] == ['{"a": "b\\u0063", "n": 1}']


async def test_sentences_of_leaves() -> None:
    """With something to look for, a sentence is one of a leaf."""
    shown: list[Any] = []
    await asked('{"a": "One is. Two are."}', noting(shown, [Unit("sentence"), SECRET]))
    assert [piece.text for piece in shown] == ["a", "One is. ", "Two are."]


async def test_an_observed_guard_sees_leaves_and_changes_nothing() -> None:
    """G-X3: of the text, of what is read at the end and of what another model writes."""
    second = ScriptedModel(['{"a": "\\u0073ecret"}'])
    for text, more in (
        ('{"a": "\\u0073ecret"}', {}),
        ('{"b": ```json\n{"a": "\\u0073ecret"}', {}),
        ("Words", {"model": second}),
    ):
        shown: list[Any] = []
        watching = noting(shown, SECRET, policy=Policy(observe=True))
        assert (await asked(text, watching, **more)).object == {"a": "secret"}
        assert "secret" in [piece.text for piece in shown]


@pytest.mark.parametrize("awaits", [False, True])
async def test_guards_pass_objects_on_to_each_other(awaits: bool) -> None:
    """Each sees what those before it have left, in the text of a second model too."""
    texts = (r'{"a": "se\u0063ret 12"}', r'{"b": ```[{"a": "se\u0063ret 12"}]')
    for text in texts:
        for more in ({}, {"model": ScriptedModel([text])}):
            guards = [
                guard([SECRET], awaits=awaits, mark="1", id="one"),
                guard([Pattern(r"1+ 1")], awaits=awaits, mark="-", id="two"),
            ]
            found = (await asked(text if not more else "Words", *guards, **more)).object
            assert found == ({"a": "--------2"} if text is texts[0] else [{"a": "--------2"}])


async def test_what_the_provider_says_beside_the_text_stays() -> None:
    """B-135: on the chunk that the held text leaves with."""
    deltas = [("{", None), ('"a": "sec', {"p": {"n": 1}}), ('ret"', {"p": {"m": 2}}), ("}", None)]
    parts = [METADATA, {"type": "text-start", "id": "t1"}]
    for text, said in deltas:
        part = {"type": "text-delta", "id": "t1", "delta": text}
        parts.append(part if said is None else {**part, "providerMetadata": said})
    parts += [{"type": "text-end", "id": "t1"}, end()]
    agent = Agent(id="a", model=PlayedModel([parts]), output_processors=[guard([SECRET])])
    run = await agent.stream("go", structured_output={"schema": None})
    found = [c.payload for c in [c async for c in run] if c.type == "text-delta"]
    assert "".join(payload.text for payload in found) == '{"a": "######"}'
    known = [payload.provider_metadata for payload in found]
    assert [{"p": {"n": 1}}, {"p": {"m": 2}}] == [one for one in known if one]
