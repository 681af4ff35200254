"""TokenLimiterProcessor in an agent: prompts, memory, answers (B-250 to B-262)."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from procession import Agent, tool
from procession.chunks import Chunk, DeltaPayload
from procession.errors import TripWire
from procession.extension import Around
from procession.message_list import MessageList
from procession.messages import Message, text_message
from procession.processor import (
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessLLMRequestArgs,
    ProcessOutputResultArgs,
    ProcessOutputStreamArgs,
)
from procession.processors import TokenLimiter, TokenLimiterProcessor
from procession.testing import ScriptedModel, answer, hook_args, text, tool_call


class Tens:
    """Every message is ten tokens."""

    def count_message(self, message: Message) -> int:
        return 10


class Letters:
    """A letter is a token."""

    def count_message(self, message: Message) -> int:
        return len(message.text)


def history(turns: int) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    for turn in range(turns):
        said.append({"role": "user", "content": f"question {turn}"})
        said.append({"role": "assistant", "content": f"answer {turn}"})
    return [*said, {"role": "user", "content": "question last"}]


def texts(call: Any) -> list[str]:
    """What a call of the model was sent, but for system messages."""
    return [
        part.get("text") or part["type"]
        for entry in call.prompt
        if entry["role"] != "system"
        for part in entry["content"]
    ]


async def sent(limit: int, given: Any, **options: Any) -> list[str]:
    model = ScriptedModel(["ok"])
    limiter = TokenLimiter(limit, token_counter=Tens(), **options)
    agent = Agent(id="a", model=model, instructions="Be brief.", input_processors=[limiter])
    await agent.generate(given)
    assert model.calls[0].prompt[0] == {"role": "system", "content": "Be brief."}
    return texts(model.calls[0])


# ── prompts ────────────────────────────────────────────────────────────────────────────────────


async def test_the_oldest_messages_go() -> None:
    """B-250, E-65."""
    assert await sent(40, history(5)) == ["question 4", "answer 4", "question last"]
    assert await sent(20, history(5)) == ["question last"]
    assert len(await sent(120, history(5))) == 11


async def test_what_is_stored_is_complete() -> None:
    """B-251, E-65."""
    model = ScriptedModel(["ok"])
    limiter = TokenLimiter(20, token_counter=Tens())
    agent = Agent(id="a", model=model, input_processors=[limiter])
    result = await agent.generate(history(5))
    assert [message.text for message in result.messages][:2] == ["question 0", "answer 0"]
    assert len(result.messages) == 12


async def test_gaps_or_none() -> None:
    """B-252."""

    class Sizes:
        def count_message(self, message: Message) -> int:
            return 100 if "long" in message.text else 10

    given = [
        {"role": "user", "content": "old"},
        {"role": "assistant", "content": "long"},
        {"role": "user", "content": "new"},
    ]
    for mode, expected in (("best-fit", ["old", "new"]), ("contiguous", ["new"])):
        model = ScriptedModel(["ok"])
        limiter = TokenLimiter(50, trim_mode=mode, token_counter=Sizes())  # pyright: ignore[reportArgumentType]
        await Agent(id="a", model=model, input_processors=[limiter]).generate(given)
        assert texts(model.calls[0]) == expected


async def test_a_conversation_begins_with_a_user() -> None:
    """R-358: some providers refuse another beginning."""
    assert await sent(40, history(1)[1:]) == [".", "answer 0", "question last"]
    assert await sent(30, history(3)) == ["question last"]  # no room for an answer and the dot


async def test_it_works_with_each_step_and_keeps_pairs_together() -> None:
    """B-251, B-253, E6: parallel calls of one answer, and their results."""

    @tool
    async def look(what: str) -> str:
        """Look."""
        return f"seen {what} " * (300 if what == "much" else 1)

    model = ScriptedModel(
        [
            answer(
                tool_calls=[tool_call("look", {"what": "much"}), tool_call("look", {"what": "a"})]
            ),
            answer(tool_calls=[tool_call("look", {"what": "b"})]),
            "done",
        ]
    )
    agent = Agent(id="a", model=model, tools=[look], input_processors=[TokenLimiter(300)])
    result = await agent.generate("Go")
    assert result.text == "done"
    kinds = [texts(call) for call in model.calls]
    assert kinds == [["Go"], ["Go"], ["Go", "tool-call", "tool-result"]]
    assert model.calls[2].prompt[-1]["content"][0]["output"]["value"] == "seen b "
    assert len(result.tool_results) == 3


async def test_what_is_dropped_of_this_run_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "secret " * 500

    model = ScriptedModel([answer(tool_calls=[tool_call("look")])] * 3 + ["done"])
    agent = Agent(id="a", model=model, tools=[look], input_processors=[TokenLimiter(200)])
    with caplog.at_level(logging.WARNING):
        await agent.generate("Go")
    told = [record.getMessage() for record in caplog.records if "token limit" in record.message]
    assert len(told) == 1
    assert "secret" not in told[0]


async def test_this_turn_comes_before_what_was_said_earlier() -> None:
    """The question and what this run did since stay; history makes room."""

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel([answer(tool_calls=[tool_call("look")]), "done"])
    limiter = TokenLimiter(40, token_counter=Tens())
    agent = Agent(id="a", model=model, tools=[look], instructions="I.", input_processors=[limiter])
    await agent.generate(history(5))
    assert texts(model.calls[1]) == ["question last", "tool-call", "tool-result"]


async def test_the_question_stays_when_a_reminder_follows_it() -> None:
    class Reminds:
        id = "reminds"

        async def process_input_step(self, args: ProcessInputStepArgs) -> None:
            await args.send_signal({"type": "reactive", "contents": "Be quick."})  # pyright: ignore[reportOptionalCall]

    model = ScriptedModel(["ok"])
    limiter = TokenLimiter(10, token_counter=Tens())
    await Agent(id="a", model=model, input_processors=[Reminds(), limiter]).generate("When?")
    assert texts(model.calls[0]) == ["When?"]


async def test_tools_and_the_form_of_the_answer_count() -> None:
    """E6: the budget is that of what will be sent."""

    @tool
    async def large(value: str) -> str:
        """A tool."""
        return value

    large.description = "Very long. " * 100
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[TokenLimiter(150)])
    assert (await agent.generate("Hi")).text == "ok"
    result = await Agent(
        id="a", model=ScriptedModel(["ok"]), tools=[large], input_processors=[TokenLimiter(150)]
    ).generate("Hi")
    assert result.tripwire is not None
    assert "system messages and tools alone" in result.tripwire.reason
    schema = {
        "type": "object",
        "properties": {f"field {n}": {"type": "string"} for n in range(60)},
        "required": [],
    }
    model = ScriptedModel(["{}"])
    agent = Agent(id="a", model=model, input_processors=[TokenLimiter(150)])
    assert (await agent.generate("Hi", structured_output={"schema": schema})).tripwire is not None
    assert model.calls == []


async def test_tools_that_are_switched_off_do_not_count() -> None:
    @tool
    async def large() -> str:
        """A tool."""
        return ""

    large.description = "Very long. " * 100
    agent = Agent(
        id="a", model=ScriptedModel(["ok"]), tools=[large], input_processors=[TokenLimiter(150)]
    )
    assert (await agent.generate("Hi", active_tools=[])).text == "ok"
    assert (await agent.generate("Hi", tool_choice="none")).text == "ok"


@pytest.mark.parametrize(
    ("given", "system", "limit", "expected"),
    [
        ([], "s", 100, {"system_tokens": 10, "limit": 100}),
        (history(0), "s", 10, {"system_tokens": 10, "limit": 10}),
        (
            history(1),
            "s",
            15,
            {"system_tokens": 10, "limit": 15, "remaining_budget": 5, "message_count": 3},
        ),
    ],
)
async def test_what_cannot_be_sent_is_refused(
    given: Any, system: str, limit: int, expected: dict[str, int]
) -> None:
    """B-256: no message, too much system, no message that fits."""
    limiter = TokenLimiter(limit, token_counter=Tens())
    args = hook_args(ProcessLLMRequestArgs, messages=given, system_messages=system)
    with pytest.raises(TripWire) as caught:
        await limiter.process_llm_request(args)
    assert caught.value.metadata == expected
    assert not caught.value.retry
    assert str(limit) in caught.value.reason


async def test_refusals_are_told() -> None:
    """B-004."""
    told: list[Any] = []
    limiter = TokenLimiter(5, token_counter=Tens(), on_violation=told.append)
    agent = Agent(id="a", model=ScriptedModel(["ok"]), input_processors=[limiter])
    result = await agent.generate("Hi")
    assert result.tripwire is not None
    assert result.tripwire.processor_id == "token-limiter"
    assert [violation.detail["limit"] for violation in told] == [5]


async def test_where_no_prompt_is_asked_about_the_list_is_trimmed() -> None:
    """B-255: within a workflow; the answer under way stays."""
    messages = MessageList()
    messages.add(history(3), "input")
    messages.add({"role": "assistant", "content": "under way"}, "response")
    limiter = TokenLimiter(30, token_counter=Tens())
    args = hook_args(ProcessInputStepArgs, message_list=messages, llm_request_stage=False)
    kept = await limiter.process_input_step(args)
    assert kept is not None
    assert [message.text for message in kept] == ["answer 2", "question last", "under way"]
    args = hook_args(ProcessInputStepArgs, message_list=messages)
    assert await limiter.process_input_step(args) is None
    none = hook_args(ProcessInputStepArgs, llm_request_stage=False)
    with pytest.raises(TripWire, match="no message to send"):
        await limiter.process_input_step(none)


async def test_an_answer_under_way_is_never_taken_from_the_list() -> None:
    """B-255: it would be lost; a list that is too long with it is refused (B-256)."""
    messages = MessageList()
    messages.add(history(1), "input")
    messages.add({"role": "assistant", "content": "x" * 100}, "response")
    limiter = TokenLimiter(60, token_counter=Letters())
    args = hook_args(ProcessInputStepArgs, message_list=messages, llm_request_stage=False)
    with pytest.raises(TripWire, match="does not fit"):
        await limiter.process_input_step(args)


async def test_the_encoding_of_the_model_counts() -> None:
    """B-257: where it is known the prompt fills the limit."""
    word = "gamma " * 100
    given = [{"role": "user", "content": word}, {"role": "user", "content": word}]
    for model_id, expected in (("gpt-5", 2), ("mock-1", 1)):
        model = ScriptedModel(["ok"], model_id=model_id)
        words = "zygomorphic " * 8  # three tokens each; the estimate takes them for more
        said = [*given, {"role": "user", "content": words}]
        limiter = TokenLimiter(250)
        await Agent(id="a", model=model, input_processors=[limiter]).generate(said)
        assert len(texts(model.calls[0])) == expected + 1


async def test_one_for_each_request() -> None:
    """E-07: limits by request context, two calls at once."""
    model = ScriptedModel(["ok"])

    def limiters(scope: Any) -> list[Any]:
        limit = scope.request_context.get("tokenLimit", 1000)
        return [TokenLimiter(limit, token_counter=Tens())]

    agent = Agent(id="a", model=model, input_processors=limiters)
    await asyncio.gather(
        agent.generate(history(3), request_context={"tokenLimit": 10}),
        agent.generate(history(3), request_context={"tokenLimit": 30}),
        agent.generate(history(3)),
    )
    assert sorted(len(texts(call)) for call in model.calls) == [1, 3, 7]


async def test_a_run_that_goes_on_is_not_refused() -> None:
    """F4: an approved call."""

    @tool(require_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = ScriptedModel([answer(tool_calls=[tool_call("pay", {"amount": 3}, id="c1")]), "done"])
    limiter = TokenLimiter(60, token_counter=Tens())
    agent = Agent(id="a", model=model, tools=[pay], input_processors=[limiter])
    run = await agent.stream(history(5))
    async for _ in run:
        pass
    going_on = await agent.approve_tool_call(run.run_id, tool_call_id="c1")
    result = await going_on.get_full_output()
    assert (result.text, result.tripwire) == ("done", None)
    assert texts(model.calls[1])[-3:] == ["question last", "tool-call", "tool-result"]


# ── memory only ────────────────────────────────────────────────────────────────────────────────


class Remembers:
    """An extension that brings messages, as memory does."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def extend(self, opening: Any) -> Around:
        class Loads:
            id = "loads"

            def process_input(self, args: ProcessInputArgs) -> None:
                for number, message in enumerate(history(turns)[:-1]):
                    stored = text_message(
                        message["content"],
                        role=message["role"],
                        created_at=datetime(2026, 1, 1, 0, number, tzinfo=UTC),
                    )
                    args.message_list.add(stored, "memory")

        turns = self.turns
        return Around(before_input=[Loads()])

    async def run_ended(self, run: Any) -> None:
        self.left = [m.text for m in run.message_list.get.remembered.db()]


async def test_only_what_memory_loaded_goes() -> None:
    """B-254: down to the limit less what is to be made free; no tripwire."""
    for options, expected in (
        ({}, ["question 4", "answer 4", "question now"]),  # 40 less 10
        ({"at_max_remove_tokens": 0}, ["answer 3", "question 4", "answer 4", "question now"]),
        ({"at_max_remove_tokens": 40}, ["question now"]),
    ):
        model, memory = ScriptedModel(["ok"]), Remembers(5)
        limiter = TokenLimiter(40, trim_mode="memory-only", token_counter=Tens(), **options)
        agent = Agent(id="a", model=model, input_processors=[limiter], extensions=[memory])
        await agent.generate("question now")
        found = [entry for entry in texts(model.calls[0]) if entry != "."]
        assert found == expected
        assert memory.left == expected[:-1]


async def test_this_turns_input_is_never_trimmed() -> None:
    """B-254."""
    model, memory = ScriptedModel(["ok"]), Remembers(2)
    limiter = TokenLimiter(10, trim_mode="memory-only")
    agent = Agent(id="a", model=model, input_processors=[limiter], extensions=[memory])
    result = await agent.generate("word " * 300)
    assert result.text == "ok"
    assert len(texts(model.calls[0])) == 1


async def test_each_step_may_need_less_of_memory() -> None:
    """B-254: tool results count as they come."""

    @tool
    async def look() -> str:
        """Look."""
        return "seen " * 100

    model, memory = ScriptedModel([answer(tool_calls=[tool_call("look")]), "done"]), Remembers(8)
    limiter = TokenLimiter(220, trim_mode="memory-only")
    agent = Agent(
        id="a", model=model, tools=[look], input_processors=[limiter], extensions=[memory]
    )
    await agent.generate("Go")
    first, second = (len(texts(call)) for call in model.calls)
    assert first == 17
    assert second < first
    assert texts(model.calls[1])[-3:] == ["Go", "tool-call", "tool-result"]


# ── answers ────────────────────────────────────────────────────────────────────────────────────


def letters(limit: int, **options: Any) -> TokenLimiterProcessor:
    return TokenLimiter(limit, token_counter=Letters(), **options)


async def streamed(limiter: TokenLimiterProcessor, *scripts: Any) -> tuple[list[Chunk], Any]:
    model = ScriptedModel(list(scripts))
    run = await Agent(id="a", model=model, output_processors=[limiter]).stream("Hi")
    chunks = [chunk async for chunk in run]
    return chunks, await run.get_full_output()


THOUGHT = [
    {"type": "reasoning-start", "id": "r"},
    {"type": "reasoning-delta", "id": "r", "delta": "thinks for long"},
    {"type": "reasoning-end", "id": "r"},
]


def said(chunks: list[Chunk]) -> list[str]:
    return [chunk.payload.text for chunk in chunks if chunk.type == "text-delta"]


def notices(chunks: list[Chunk]) -> list[Any]:
    return [chunk.data for chunk in chunks if chunk.type == "data-token-limit-reached"]


async def test_chunks_beyond_the_limit_are_dropped_whole() -> None:
    """B-258, B-259."""
    chunks, result = await streamed(letters(8), [text("aaa", "bbb", "cccc", "d")])
    assert said(chunks) == ["aaa", "bbb"]
    assert notices(chunks) == [{"processorId": "token-limiter", "limit": 8, "tokens": 10}]
    assert result.text == "aaabbb"
    assert result.messages[-1].text == "aaabbb"
    assert [part.type for part in result.messages[-1].parts] == ["text"]  # it was transient


async def test_truncation_is_told_once() -> None:
    """B-006; an async callback is awaited."""
    told: list[Any] = []

    async def tell(violation: Any) -> None:
        await asyncio.sleep(0)
        told.append(violation)

    chunks, _ = await streamed(letters(4, on_violation=tell), [text("aaa", "bbb", "cccc")])
    assert said(chunks) == ["aaa"]
    assert len(told) == 1
    assert told[0].detail == {
        "processor_id": "token-limiter",
        "strategy": "truncate",
        "phase": "process_output_stream",
        "limit": 4,
        "tokens": 6,
    }


async def test_abort_names_limit_and_count() -> None:
    """B-259."""
    chunks, result = await streamed(letters(4, strategy="abort"), [text("aaa", "bbb")])
    assert said(chunks) == ["aaa"]
    assert notices(chunks) == []
    assert result.tripwire.processor_id == "token-limiter"
    assert "4" in result.tripwire.reason
    assert "6" in result.tripwire.reason
    assert result.text == ""


async def test_part_mode_compares_each_chunk_alone() -> None:
    """B-260."""
    limiter = letters(3, count_mode="part")
    chunks, result = await streamed(limiter, [text("aaa", "bbbb", "cc", "dddd")])
    assert said(chunks) == ["aaa", "cc"]
    assert len(notices(chunks)) == 1
    assert result.text == "aaacc"


@pytest.mark.parametrize("script", [[text("abcdefghij")], [text(*"abcdefghij")]])
async def test_generate_and_stream_give_the_same_text(script: Any) -> None:
    """B-261: also where an answer comes in one piece."""
    for limit in (1, 4, 9, 10, 11):
        agent = Agent(id="a", model=ScriptedModel([script]), output_processors=[letters(limit)])
        generated = await agent.generate("Hi")
        run = await agent.stream("Hi")
        assert generated.text == await run.text == "abcdefghij"[:limit]
        assert generated.messages[-1].text == generated.text


async def test_the_steps_of_a_run_count_together() -> None:
    """B-258: but not what tools and thoughts say."""

    @tool
    async def look() -> str:
        """Look."""
        return "x" * 100

    model = ScriptedModel(
        [answer("aaaa", tool_calls=[tool_call("look")]), [*THOUGHT, *text("bbbb")]]
    )
    agent = Agent(id="a", model=model, tools=[look], output_processors=[letters(6)])
    run = await agent.stream("Hi")
    chunks = [chunk async for chunk in run]
    assert "".join(said(chunks)) == "aaaabb"
    assert any(chunk.type == "tool-result" for chunk in chunks)
    assert any(chunk.type == "reasoning-delta" for chunk in chunks)


async def test_what_a_rejected_attempt_said_does_not_count() -> None:
    class Rejects:
        id = "rejects"

        def process_output_step(self, args: Any) -> None:
            if args.retry_count == 0:
                args.abort("again", retry=True)

    model = ScriptedModel([[text("aaaa", "aaaa")], [text("bbbb", "cc")]])
    agent = Agent(
        id="a",
        model=model,
        output_processors=[letters(5), Rejects()],
        max_processor_retries=1,
    )
    assert (await agent.generate("Hi")).text == "bbbbc"


async def test_what_one_instance_counts_another_does_not() -> None:
    """R-191: they have one id, and so one state."""
    chunks, _ = await streamed(letters(6), [text("aaa", "bbb", "ccc")])
    assert said(chunks) == ["aaa", "bbb"]
    model = ScriptedModel([[text("aaa", "bbb", "ccc")]])
    for both in ([letters(90), letters(6)], [letters(6), letters(90)]):
        run = await Agent(
            id="a", model=model, input_processors=[TokenLimiter(100)], output_processors=both
        ).stream("Hi")
        assert said([chunk async for chunk in run]) == ["aaa", "bbb"]


async def test_objects_count_as_they_are() -> None:
    """B-258."""
    limiter = TokenLimiter(12)
    state: dict[str, Any] = {}
    passed = []
    for size in range(8):
        part = Chunk(type="object", object={"words": ["word"] * size})
        args = hook_args(ProcessOutputStreamArgs, part=part, state=state)
        returned = limiter.process_output_stream(args)
        passed.append(None if returned is None else returned.type)
    kinds = list(dict.fromkeys(passed))
    assert kinds == ["object", "data-token-limit-reached", None]


async def test_a_result_that_was_not_streamed_is_shortened() -> None:
    """B-261: to the longest beginning that fits, in a copy (B-012)."""
    message = text_message("abcdefghij", role="assistant")
    limiter = letters(4)
    args = hook_args(ProcessOutputResultArgs, messages=[message])
    live = args.messages[0]
    made = await limiter.process_output_result(args)
    assert made is not None
    assert made[0].text == "abcd"
    assert live.text == "abcdefghij"
    fits = hook_args(ProcessOutputResultArgs, messages=[text_message("abcd", role="assistant")])
    assert await limiter.process_output_result(fits) is None
    aborting = hook_args(ProcessOutputResultArgs, messages=[message])
    with pytest.raises(TripWire, match="limit of 4"):
        await letters(4, strategy="abort").process_output_result(aborting)


def test_a_long_answer_costs_a_pass_or_two() -> None:
    """Law 7: pieces are counted when they could reach the limit."""
    limiter = TokenLimiter(100_000)
    state: dict[str, Any] = {}
    passed = 0
    payload = DeltaPayload(id="t", text="some words ")
    args = hook_args(ProcessOutputStreamArgs, part=Chunk(type="text-delta", payload=payload))
    args.state = state
    for _ in range(60_000):
        passed += limiter.process_output_stream(args) is args.part
    assert passed == pytest.approx(50_000, rel=0.1)


# ── options ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"limit": 0}, "limit must be a whole number"),
        ({"limit": "many"}, "limit must be a whole number"),
        ({"limit": 10, "strategy": "truncating"}, "did you mean 'truncate'"),
        ({"limit": 10, "count_mode": "parts"}, "count_mode must be"),
        ({"limit": 10, "trim_mode": "bestfit"}, "did you mean 'best-fit'"),
        ({"limit": 10, "at_max_remove_tokens": -1}, "at_max_remove_tokens"),
        ({"limit": 10, "at_max_remove_tokens": 11}, "at most the limit"),
        ({"limit": 10, "token_counter": object()}, "count_message"),
    ],
)
def test_wrong_options_fail_at_once(options: dict[str, Any], problem: str) -> None:
    """B-014."""
    with pytest.raises(ValueError, match=problem):
        TokenLimiter(**options)


def test_the_limit_and_a_count_can_be_asked() -> None:
    """B-262."""
    limiter = TokenLimiterProcessor(100)
    assert limiter.id == "token-limiter"
    assert TokenLimiter is TokenLimiterProcessor
    assert limiter.get_max_tokens() == 100
    assert limiter.count_message(text_message("hi")) < limiter.count_message(
        text_message("hi there, and hello")
    )
    entry = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    assert limiter.count_message(entry) == limiter.count_message(text_message("hi"))
