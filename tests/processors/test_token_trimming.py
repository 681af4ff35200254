"""Laws of trimming, for any conversation (B-250 to B-253, E1, E3, E6)."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from procession.errors import TripWire
from procession.messages import Message
from procession.processor import ProcessLLMRequestArgs
from procession.processors import TokenLimiter
from procession.processors.tokens.token_trimming import LEAD, newest_question, units_of
from procession.testing import hook_args

Entry = dict[str, Any]


class Sizes:
    """A message is as large as its texts, and its calls as their names, are long."""

    def count_message(self, message: Message) -> int:
        calls = [part for part in message.parts if part.type == "tool-invocation"]
        return len(message.text) + sum(len(part.tool_invocation.tool_name) for part in calls)


def text(role: str, size: int) -> Entry:
    return {"role": role, "content": [{"type": "text", "text": "x" * size}]}


def call(number: int, size: int, **more: Any) -> Entry:
    return {
        "type": "tool-call",
        "toolCallId": f"c{number}",
        "toolName": "n" * size,
        "input": {},
        **more,
    }


def outcome(number: int, size: int) -> Entry:
    output = {"type": "text", "value": "done"}
    return {
        "type": "tool-result",
        "toolCallId": f"c{number}",
        "toolName": "n" * size,
        "output": output,
    }


@st.composite
def conversations(draw: st.DrawFn) -> list[Entry]:
    sizes = st.integers(1, 30)
    prompt: list[Entry] = [
        {"role": "system", "content": "s" * draw(st.integers(0, 20))}
        for _ in range(draw(st.integers(0, 2)))
    ]
    number = 0
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["user", "assistant", "tools", "provider", "split"]))
        if kind in ("user", "assistant"):
            prompt.append(text(kind, draw(sizes)))
            continue
        ids = range(number, number + draw(st.integers(1, 3)))
        number = ids[-1] + 1
        size = draw(sizes)
        calls = [call(id, size) for id in ids]
        outcomes = [outcome(id, size) for id in ids]
        if kind == "provider":
            both = [part for pair in zip(calls, outcomes, strict=True) for part in pair]
            prompt.append({"role": "assistant", "content": both})
            continue
        prompt.append({"role": "assistant", "content": [*text("", 2)["content"], *calls]})
        if kind == "split":  # results in several entries, something said between them
            for part in outcomes:
                prompt.append({"role": "tool", "content": [part]})
                if draw(st.booleans()):
                    prompt.append(text("user", draw(sizes)))
        else:
            prompt.append({"role": "tool", "content": outcomes})
    return prompt


def size_of(prompt: list[Entry]) -> int:
    sizes, limiter = 0, TokenLimiter(1, token_counter=Sizes())
    for entry in prompt:
        sizes += limiter.count_message(entry)
    return sizes


async def trimmed(prompt: list[Entry], limit: int, mode: Any) -> list[Entry] | None:
    """What is sent; `None` when the call is refused."""
    limiter = TokenLimiter(limit, trim_mode=mode, token_counter=Sizes())
    args = hook_args(ProcessLLMRequestArgs, prompt=prompt)
    try:
        result = await limiter.process_llm_request(args)
    except TripWire:
        return None
    return prompt if result is None else list(result.prompt)  # pyright: ignore[reportArgumentType]


def parts(prompt: list[Entry], kind: str) -> Counter[str]:
    return Counter(
        part["toolCallId"]
        for entry in prompt
        if isinstance(entry["content"], list)
        for part in entry["content"]
        if part["type"] == kind
    )


MODES = st.sampled_from(["best-fit", "contiguous"])


@settings(max_examples=300, deadline=None)
@given(conversations(), st.integers(1, 250), MODES)
async def test_laws(prompt: list[Entry], limit: int, mode: str) -> None:
    """Balanced, within the limit, system and question kept, in order, begun by a user; once."""
    sent = await trimmed(prompt, limit, mode)
    question = newest_question(prompt, ())
    system = [entry for entry in prompt if entry["role"] == "system"]
    if sent is None:
        units = units_of(prompt, lambda entry: size_of([entry]))
        required = next((unit for unit in units if question in unit.places), units[-1])
        assert size_of(system) >= limit or size_of(system) + required.tokens > limit
        return
    assert size_of(sent) <= limit
    assert parts(sent, "tool-call") == parts(sent, "tool-result")
    assert [entry for entry in sent if entry["role"] == "system"] == system
    kept = [entry for entry in sent if entry is not LEAD]
    found = iter(prompt)
    assert all(any(entry is known for known in found) for entry in kept), "order"
    if question is not None:
        assert any(entry is prompt[question] for entry in kept)
    if sent is not prompt and question is not None:
        assert next(entry["role"] for entry in sent if entry["role"] != "system") == "user"
    assert await trimmed(sent, limit, mode) is sent


@settings(max_examples=200, deadline=None)
@given(conversations(), st.integers(1, 250), MODES)
async def test_nothing_is_left_out_that_fits(prompt: list[Entry], limit: int, mode: str) -> None:
    """B-250."""
    fits = size_of(prompt) <= limit and any(entry["role"] != "system" for entry in prompt)
    assert (await trimmed(prompt, limit, mode) is prompt) == fits


@settings(max_examples=200, deadline=None)
@given(conversations(), st.integers(1, 250))
async def test_contiguous_leaves_no_gap(prompt: list[Entry], limit: int) -> None:
    """B-252: but for the question, what is sent is the newest of the conversation."""
    sent = await trimmed(prompt, limit, "contiguous")
    question = newest_question(prompt, ())
    if sent is None or sent is prompt:
        return
    units = units_of(prompt, lambda entry: size_of([entry]))
    held = [
        all(any(prompt[place] is entry for entry in sent) for place in unit.places)
        for unit in units
        if question not in unit.places
    ]
    assert held == sorted(held)


@settings(max_examples=200, deadline=None)
@given(conversations(), st.integers(1, 250))
async def test_with_gaps_there_is_no_less(prompt: list[Entry], limit: int) -> None:
    """B-252."""
    gaps = await trimmed(prompt, limit, "best-fit")
    whole = await trimmed(prompt, limit, "contiguous")
    assert (gaps is None) == (whole is None)
    if gaps is not None and whole is not None:
        assert size_of(gaps) >= size_of(whole) - size_of([LEAD])


def test_calls_made_together_stay_together() -> None:
    """B-253: also where their results stand in several entries."""
    prompt = [
        text("user", 1),
        {"role": "assistant", "content": [call(1, 2), call(2, 2)]},
        {"role": "tool", "content": [outcome(1, 2)]},
        text("user", 1),
        {"role": "tool", "content": [outcome(2, 2)]},
        {"role": "assistant", "content": [call(3, 2, providerExecuted=True), outcome(3, 2)]},
    ]
    places = [unit.places for unit in units_of(prompt, lambda _: 1)]
    assert places == [[0], [3], [1, 2, 4], [5]]


def test_an_id_that_comes_twice_is_two_calls() -> None:
    pair = [
        {"role": "assistant", "content": [call(1, 2)]},
        {"role": "tool", "content": [outcome(1, 2)]},
    ]
    places = [unit.places for unit in units_of([*pair, *pair], lambda _: 1)]
    assert places == [[0, 1], [2, 3]]


def test_a_reminder_is_no_question() -> None:
    """Reminders stand in the prompt as the user's."""
    question = {"role": "user", "content": [{"type": "text", "text": "When?"}]}
    reminder = {
        "role": "user",
        "content": [{"type": "text", "text": "<system-reminder>Hurry.</system-reminder>"}],
    }
    prompt = [question, text("assistant", 3), reminder]
    assert newest_question(prompt, ["When?"]) == 0
    assert newest_question(prompt, [reminder["content"][0]["text"]]) == 2
    assert newest_question([text("assistant", 3), reminder], ["gone"]) == 1
    assert newest_question([text("assistant", 3)], []) is None
