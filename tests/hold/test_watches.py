"""What watches take and refuse, what pieces tell, and what holding back costs."""

from __future__ import annotations

import importlib
import sys
from itertools import pairwise
from typing import Any

import pytest

from procession import Agent, Chunk, ConfigurationError, InputError, processor
from procession.chunks import DeltaPayload
from procession.hold import Literals, Pattern, Piece, Unit, Watch
from procession.hold.sentences import sentence_ends
from procession.processor import ProcessOutputStreamArgs
from procession.testing import ScriptedModel, answer, hook_args, text
from tests.hold.kit import chunks_of, delivered, guard
from tests.laws.checks import check_linear
from tests.laws.kit import PlayedModel, agent_with, call, end, said

REFUSED = [
    (r"(a)\1", "look-around or a back-reference"),
    (r"(?P<x>a)(?P=x)", "look-around or a back-reference"),
    (r"a(?=b)", "look-around or a back-reference"),
    (r"(?<!a)b", "look-around or a back-reference"),
    (r"a(", "not an expression that RE2 takes"),
    (r"a{0,5000}", "not an expression that RE2 takes"),
    ("a*", "matches the empty text"),
    ("a|", "matches the empty text"),
    (r"\b", "matches the empty text"),
    (r"\pL{900}", "too large"),
]


@pytest.mark.parametrize(("source", "words"), REFUSED)
def test_expressions_that_are_refused(source: str, words: str) -> None:
    """With what is wrong; a long expression is not repeated in full."""
    with pytest.raises(InputError, match=words) as caught:
        Pattern(source)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "options", [{"carryover": 0}, {"carryover": True}, {"look_behind": -1}, {"carryover": 1.5}]
)
def test_options_of_patterns(options: dict[str, Any]) -> None:
    """B-014: at construction, with the option's name."""
    with pytest.raises(InputError, match=next(iter(options))):
        Pattern("a", **options)


@pytest.mark.parametrize("texts", [(), ("",), ("a", ""), (["a", 1],), ([],)])
def test_literals_that_are_refused(texts: Any) -> None:
    """None, and empty ones."""
    with pytest.raises(InputError, match="Literals"):
        Literals(*texts)


def test_units_that_are_refused() -> None:
    """Another name."""
    with pytest.raises(InputError, match="'sentence'"):
        Unit("word")  # type: ignore[arg-type]


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `Pattern` needs RE2, and says how to get it."""
    monkeypatch.setitem(sys.modules, "re2", None)
    importlib.import_module("procession.hold")
    Literals("a")
    with pytest.raises(ConfigurationError, match=r"procession\[guards\]"):
        Pattern("not compiled before")


LENGTHS = [
    ("abc", 3), (r"\d{2,5}", 5), ("a|bcd", 3), ("a+", None), ("(ab){3}", 6), ("a?b", 2),
    (r"[\]a]{2}", 2), ("[]a]", 1), ("[^]a]b", 2), ("[[:alpha:]]x", 2), (r"\x{1F600}\x41", 2),
    (r"\pL\p{Greek}", 2), (r"\Qa+\E{2}", 4), ("a{", 2), ("a{,3}", 5), (r"\077\12", 2),
    ("(?i)ab(?-i:c)", 3), ("(?P<n>a)(?<m>b)", 2), ("(?s).", 1), ("a{2}?b", 3), (r"\bé\b", 1),
]  # fmt: skip


@pytest.mark.parametrize(("source", "length"), LENGTHS)
def test_the_longest_match_is_known_from_the_expression(source: str, length: int | None) -> None:
    """G-A4: so much is held back, and no more."""
    assert Pattern(source).max_length == length


def test_what_is_no_match_yet_is_bounded_and_what_is_one_is_not() -> None:
    """B-236: `carryover` for the first, to the end for the second."""
    mail = Pattern(r"[a-z]+@[a-z]+\.com\w*", carryover=10)
    open_text = "a" * 50
    assert mail.release(open_text, 0, 50) == 40
    complete = "b" * 50 + "@home.com" + "m" * 300
    assert mail.release(complete, 0, len(complete)) == 0
    assert mail.release(complete + " x", 0, len(complete) + 2) == len(complete) + 1


@pytest.mark.parametrize("source", [r"k=\S+", r"k=\w+(?:=\w+)?", r"k=\S+|q[^!]*!"])
def test_a_match_that_grows_is_held_back_however_long_it_is(source: str) -> None:
    """B-236: also where nothing within the last `carryover` characters can begin another one."""
    watch = Pattern(source)
    for before in ("", "x k=1 q ", "é "):
        text = before + "k=" + "a" * 400
        assert watch.release(text, len(before), len(text)) == len(before)
        ended = text + " x"
        assert watch.release(ended, len(before), len(ended)) > len(text)


DOTTED = "\u0130"  # the one letter whose lower case is two characters


def test_a_letter_whose_lower_case_is_longer() -> None:
    """It is what its lower case is, at the indices of the text that was given."""
    for given, wide in ((f"x{DOTTED}y", "xi\u0307y"), (DOTTED, "i\u0307")):
        for watch in (Literals(given, ignore_case=True), Literals(wide, ignore_case=True)):
            for seen in (given, wide, wide.upper()):
                found = [match.span() for match in watch.finditer(f"-{seen}-")]
                assert found == [(1, 1 + len(seen))]
                for size in range(1, len(seen)):
                    assert watch.release(f"-{seen[:size]}", 0, size + 1) == 1
        assert Literals(given).release("xi", 0, 2) == 2
    assert not list(Literals("xi", ignore_case=True).finditer(f"x{DOTTED}"))


def test_watches_are_watches() -> None:
    """Ours satisfy the protocol; users' objects do, with the two names."""
    assert isinstance(Literals("a"), Watch)
    assert isinstance(Pattern("a"), Watch)
    assert isinstance(Unit("part"), Watch)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"watches": "secret"}, "watches"),
        ({"watches": [Literals("a"), "b"]}, "which is none"),
        ({"watches": Literals("a"), "lanes": ["texts"]}, "lanes"),
        ({"watches": Literals("a"), "lanes": "text"}, "lanes"),
        ({"flush": lambda: None}, "flush"),
        ({"flush": 1}, "flush"),
    ],
)
def test_declarations_that_are_refused(attributes: dict[str, Any], words: str) -> None:
    """When the agent is made, with the processor's id."""
    hook = processor(id="mine", process_output_stream=lambda args: args.part)
    for name, value in attributes.items():
        setattr(hook, name, value)
    with pytest.raises(ConfigurationError, match=f"(?s)'mine'.*{words}"):
        Agent(id="a", model=ScriptedModel([answer(text("x"))]), output_processors=[hook])


# ── what pieces tell ───────────────────────────────────────────────────────────────────────────


async def pieces(parts: list[Any], watches: Any, lanes: Any = ("text",), **more: Any) -> list[Any]:
    seen: list[Any] = []

    def note(args: Any) -> Any:
        if args.piece is not None:
            seen.append(args.piece)
        return args.part

    hook = processor(id="n", process_output_stream=note, watches=watches, lanes=lanes)
    await chunks_of(parts, hook, **more)
    return seen


async def test_pieces_tell_what_stands_before_them() -> None:
    """As many characters as the watches look behind, as the model wrote them."""
    found = await pieces(said("ab c", "d se", "cret!"), Pattern("secret", look_behind=3))
    assert [(p.before, p.text, p.is_last) for p in found] == [
        ("", "ab c", False),
        ("b c", "d ", False),
        ("cd ", "secret!", False),
    ]
    found = await pieces(said("a se"), Literals("secret"))
    assert [(p.text, p.is_last) for p in found] == [("a ", False), ("se", True)]
    assert found[0] == Piece("a ", "", "text", "t1", False)


async def test_only_the_lanes_that_were_asked_for() -> None:
    """The others pass as ever, without a piece."""
    parts = [*said("se", "cret"), *said("se", "cret", id="r1", kind="reasoning")]
    found = await pieces(parts, Literals("secret"))
    assert [(p.kind, p.text) for p in found] == [("text", "secret")]
    found = await pieces(parts, Literals("secret"), ["reasoning"])
    assert [(p.kind, p.text) for p in found] == [("reasoning", "secret")]


async def test_all_that_was_said_before() -> None:
    """`Unit("end")`: earlier steps and blocks of the same kind; no rejected attempt."""
    seen: list[Any] = []

    def note(args: Any) -> Any:
        if args.piece is not None:
            seen.append((args.piece.before, args.piece.text))
            if args.piece.text == "bad":
                args.abort("no", retry=True)
        return args.part

    hook = processor(id="n", process_output_stream=note, watches=Unit("end"))
    answers = [
        [*said("one ", "two"), *said("three", id="t2"), call("echo"), end("tool-calls")],
        [*said("bad"), end()],
        [*said("four"), end()],
    ]
    agent = agent_with(PlayedModel(answers), input_processors=[], output_processors=[hook])
    await agent.generate("go", max_processor_retries=1)
    assert seen == [
        ("", "one two"),
        ("one two", "three"),
        ("one twothree", "bad"),
        ("one twothree", "four"),
    ]


async def test_nothing_of_a_step_leaves_before_its_stream_has_ended() -> None:
    """`Unit("step")`: what is judged has been seen by nobody."""
    parts = [*said("a", "b"), *said("hm", kind="reasoning", id="r1"), *said("c", id="t2")]
    chunks = await chunks_of(parts, guard([Unit("step")]))
    kinds = [chunk.type for chunk in chunks if "-" in chunk.type and "step" not in chunk.type]
    assert kinds == [
        "text-start", "reasoning-start", "text-start",
        "text-delta", "text-end", "reasoning-delta", "reasoning-end", "text-delta", "text-end",
    ]  # fmt: skip


def test_sentences_of_many_scripts() -> None:
    """Ends with their white space; not numbers, abbreviations, initials, numbered lines."""
    cases = {
        "It is. So it goes! Or? Yes": ["It is. ", "So it goes! ", "Or? ", "Yes"],
        "3.14 is pi, e.g. here, by J. Smith. End": ["3.14 is pi, e.g. here, by J. Smith. ", "End"],
        "1. One thing. 2. Two": ["1. One thing. ", "2. Two"],
        "a\n\n- b\n- c": ["a\n\n", "- b\n", "- c"],
        "好。吧！？“是。”嗯": ["好。", "吧！？", "“是。”", "嗯"],  # noqa: RUF001
        "هل؟ نعم۔ لا": ["هل؟ ", "نعم۔ ", "لا"],  # noqa: RUF001
        "क्या। हाँ": ["क्या। ", "हाँ"],
        "Wait… What? (Yes.) No": ["Wait… ", "What? ", "(Yes.) ", "No"],
        "Hello. ": ["Hello. "],
        "Dr. Who and Mr. X. and": ["Dr. Who and Mr. X. and"],
    }
    for whole, expected in cases.items():
        borders = [0, *sentence_ends(whole, 0, len(whole)), len(whole)]
        assert [whole[a:b] for a, b in pairwise(borders)] == expected


async def test_what_the_chunks_say_besides_their_text() -> None:
    """B-135: id, metadata and origin of the first one; all that the provider says."""

    def delta(words: str, **said: Any) -> Chunk:
        chunk = Chunk("text-delta", DeltaPayload(id="t1", text=words, **said))
        return chunk

    class Model:
        provider, model_id = "example", "said"

        async def stream(self, request: Any) -> Any:
            first = delta("a se", provider_metadata={"p": {"n": 1}})
            first.metadata = {"own": 1}
            yield [first, delta("cr"), delta("et b", provider_metadata={"p": {"m": 2}})]
            yield [delta("!")]

    agent = Agent(id="a", model=Model(), output_processors=[guard([Literals("secret")])])
    run = await agent.stream("go")
    found = [c async for c in run if c.type == "text-delta"]
    assert [c.payload.text for c in found] == ["a ", "###### b", "!"]
    assert [c.payload.provider_metadata or None for c in found] == [
        {"p": {"n": 1}},
        {"p": {"n": 1, "m": 2}},
        None,
    ]
    assert [c.metadata for c in found] == [{"own": 1}, {"own": 1}, None]
    assert {(c.payload.id, c.from_, c.run_id) for c in found} == {("t1", "AGENT", run.run_id)}


def test_with_text() -> None:
    """A copy with another text, whatever kind of lane; nothing else has a text."""
    part = Chunk("text-delta", DeltaPayload(id="t1", text="a"))
    args = hook_args(ProcessOutputStreamArgs, part=part)
    made = args.with_text("b")
    assert (made.payload.text, part.payload.text) == ("b", "a")
    args.part = Chunk("text-start", None)
    with pytest.raises(InputError, match="text-start"):
        args.with_text("b")


async def test_a_watch_of_ones_own() -> None:
    """Any object with `look_behind` and `release`; one that lets go of too much is held to it."""

    class Pairs:
        look_behind = 0

        def release(self, text: str, start: int, limit: int) -> int:
            return start + (limit - start) // 2 * 2

    found = await pieces(said(*"abcde"), Pairs())
    assert [p.text for p in found] == ["ab", "cd", "e"]
    found = await pieces(said(*"abcde"), [Pairs(), Literals("cx")])
    assert [p.text for p in found] == ["ab", "cd", "e"]


# ── cost ───────────────────────────────────────────────────────────────────────────────────────

LONG: list[tuple[Any, str]] = [
    (Unit("part"), "word "),
    (Unit("step"), "word "),
    (Unit("sentence"), "word "),
    (Literals("secret"), "secre "),
    (Pattern(r"https?://\S+"), "x"),
    (Pattern(r"[a-z]+@[a-z]+"), "a"),
    (Pattern(r"\b\d{16}\b"), "12345 "),
]


@pytest.mark.parametrize(("watch", "word"), LONG, ids=str)
async def test_each_chunk_costs_the_same(watch: Any, word: str) -> None:
    """Law 7: a long candidate is not looked at again from its beginning for each chunk."""
    looked = [0]
    release = type(watch).release

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(watch, name)

        look_behind = watch.look_behind

        def release(self, text: str, start: int, limit: int) -> int:
            looked[0] += len(text)
            return release(watch, text, start, limit)

    async def run(count: int) -> None:
        await delivered(["https://", *[word] * count], guard([Counting()]))

    costs = []
    for count in (2000, 4000, 8000):
        looked[0] = 0
        await run(count)
        costs.append(looked[0])
    assert costs[2] <= 2.2 * costs[1] + 5000
    await check_linear(run, (200, 400, 800), 1.1)
