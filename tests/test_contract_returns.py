"""What each hook may return, what becomes of it, and what is said of anything else."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from procession import (
    Agent,
    APICallError,
    Around,
    InputResult,
    Message,
    MessageList,
    ProcessInputStepResult,
    ProcessLLMRequestResult,
    ProcessorError,
    text_message,
    tool,
)
from procession.processor import HOOKS, INPUT_HOOKS, OUTPUT_HOOKS
from procession.testing import RecordedCall, ScriptedModel, answer, tool_call
from tests.naming import named
from tests.seeds.threeways import Outcome, only, play, three_ways

MESSAGE_HOOKS = (
    "process_input",
    "process_input_step",
    "process_output_step",
    "process_tool_result",
    "process_output_result",
)


@tool
async def look(topic: str = "") -> str:
    """Look something up."""
    return "seen"


def lists(hook: str, *processors: Any) -> dict[str, Any]:
    kind = "input" if hook in INPUT_HOOKS else "output" if hook in OUTPUT_HOOKS else "error"
    return {f"{kind}_processors": list(processors)}


def looking() -> ScriptedModel:
    """First a tool call, then an answer."""
    return ScriptedModel([answer("Looking.", tool_calls=[tool_call("look", id="c1")]), "Seen."])


async def returning(way: str, hook: str, value: Any, **options: Any) -> Outcome:
    """What comes of a hook that returns `value`, or what `value` makes of its arguments."""

    def give(args: Any) -> Any:
        return value(args) if callable(value) else value

    processor = only(hook, give, id="giver")
    agent = Agent(id="a", model=looking(), tools=[look], **lists(hook, processor), **options)
    return await play(way, agent, "go")


class Watcher:
    """An extension that keeps the messages of runs that may be stored."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.kept: list[Message] = []

    def extend(self, opening: Any) -> Around:
        return Around()

    async def run_ended(self, run: Any) -> None:
        self.ends.append(run.status)
        if run.status == "success":
            self.kept += run.message_list.drain_unsaved_messages()


# ── wrong returns ──────────────────────────────────────────────────────────────────────────────

WRONG: list[Any] = [
    *((hook, bad) for hook in MESSAGE_HOOKS for bad in ("text", 3, True, object())),
    *((hook, [bad]) for hook in MESSAGE_HOOKS for bad in (None, 3, object())),
    *((hook, {"messages": bad}) for hook in ("process_tool_result", HOOKS[7]) for bad in ([],)),
    *((hook, {"other": []}) for hook in ("process_input", "process_output_step")),
    *(("process_llm_request", bad) for bad in ("text", 3, [], {"prompts": []}, object())),
    *(("process_output_stream", bad) for bad in ("text", 3, True, {"type": "text-delta"}, [])),
]


@three_ways
@pytest.mark.parametrize(("hook", "bad"), WRONG, ids=named)
async def test_wrong_returns_are_named(way: str, hook: str, bad: Any) -> None:
    """R-067, R-078, R-097, R-130, R-137, R-149, R-154, R-189, R-190: by processor and hook."""
    watcher = Watcher()
    outcome = await returning(way, hook, bad, extensions=[watcher])
    error = outcome.error
    assert isinstance(error, ProcessorError)
    assert (error.processor_id, error.hook) == ("giver", hook)
    assert "'giver'" in str(error) and hook in str(error)
    assert watcher.ends == ["failed"]
    if hook == "process_input":
        assert outcome.chunks is None  # the call itself raises
    elif outcome.chunks is not None:
        assert outcome.kinds()[-1] == "error"
        assert outcome.chunks[-1].payload.error is error
        assert not {"finish", "tripwire"} & set(outcome.kinds())


@three_ways
@pytest.mark.parametrize("hook", MESSAGE_HOOKS)
async def test_another_list_is_an_error(way: str, hook: str) -> None:
    """R-067, R-077, R-137, R-149, R-240: even one with the same messages."""

    def copied(args: Any) -> MessageList:
        return MessageList().add(args.messages, "input")

    outcome = await returning(way, hook, copied)
    assert isinstance(outcome.error, ProcessorError)
    assert (outcome.error.processor_id, outcome.error.hook) == ("giver", hook)


@three_ways
@pytest.mark.parametrize("form", [dict, lambda values: ProcessInputStepResult(**values)])
async def test_both_keys_at_once(way: str, form: Any) -> None:
    """R-076: `messages` and `message_list` are two ways to say one thing."""

    def both(args: Any) -> Any:
        return form({"messages": args.messages, "message_list": args.message_list})

    outcome = await returning(way, "process_input_step", both)
    assert isinstance(outcome.error, ProcessorError)
    assert "messages" in str(outcome.error) and "message_list" in str(outcome.error)


@three_ways
@pytest.mark.parametrize("key", ["messages", "message_list"])
async def test_another_list_inside_the_object(way: str, key: str) -> None:
    """R-077: the same inside the object form."""
    outcome = await returning(way, "process_input_step", {key: MessageList()})
    assert isinstance(outcome.error, ProcessorError)
    assert outcome.error.hook == "process_input_step"


@three_ways
async def test_wrong_returns_of_prepare_step(way: str) -> None:
    """R-189, R-210: the function has the id `prepare-step`."""
    agent = Agent(id="a", model=ScriptedModel(["never"]))
    outcome = await play(way, agent, "go", prepare_step=lambda args: "text")
    assert isinstance(outcome.error, ProcessorError)
    assert outcome.error.processor_id == "prepare-step"


@three_ways
@pytest.mark.parametrize("hook", [*HOOKS[:3], *HOOKS[4:8]])
async def test_wrong_returns_after_accepted_steps(way: str, hook: str) -> None:
    """R-188 to R-190: the run fails as a whole; what was accepted before is not stored either."""
    watcher = Watcher()

    def give(args: Any) -> Any:
        late = getattr(args, "step_number", 1) == 1
        return 3 if late else getattr(args, "part", None)

    outcome = await returning(way, hook, give, extensions=[watcher])
    if hook == "process_tool_result":
        assert outcome.error is None  # there is no tool in the second step
        return
    assert isinstance(outcome.error, ProcessorError)
    assert (watcher.ends, watcher.kept) == (["failed"], [])


# ── returns that change nothing ────────────────────────────────────────────────────────────────

SAME: list[Any] = [
    *((hook, None) for hook in HOOKS if hook != "process_output_stream"),
    *((hook, lambda args: args.message_list) for hook in MESSAGE_HOOKS),
    *((hook, lambda args: args.messages) for hook in MESSAGE_HOOKS),
    *((hook, lambda args: tuple(args.messages)) for hook in MESSAGE_HOOKS),
    *((hook, []) for hook in ("process_output_step", "process_tool_result")),
    ("process_input", lambda args: {"messages": args.messages}),
    ("process_input", lambda args: InputResult(messages=args.messages)),
    (
        "process_input",
        lambda args: {"messages": args.messages, "system_messages": args.system_messages},
    ),
    ("process_input_step", {}),
    ("process_input_step", {"no_such_key": 3}),
    ("process_input_step", ProcessInputStepResult()),
    ("process_input_step", lambda args: {"messages": args.messages}),
    ("process_input_step", lambda args: {"message_list": args.message_list}),
    ("process_output_step", lambda args: {"messages": args.messages}),
    (
        "process_output_step",
        lambda args: InputResult(messages=args.messages, system_messages=args.system_messages),
    ),
    ("process_llm_request", {}),
    ("process_llm_request", ProcessLLMRequestResult()),
    ("process_llm_request", lambda args: {"prompt": args.prompt}),
    ("process_llm_response", "whatever"),
    ("process_llm_response", {"retry": True}),
    ("process_output_stream", lambda args: args.part),
]


def bare(outcome: Outcome) -> Any:
    return [
        (message.role, [part.type for part in message.parts], message.text)
        for message in outcome.messages
    ]


@three_ways
@pytest.mark.parametrize(("hook", "value"), SAME)
async def test_returns_that_change_nothing(way: str, hook: str, value: Any) -> None:
    """R-064, R-066, R-074, R-075, R-091, R-097, R-103, R-137, R-138, R-149, R-154."""
    outcome = await returning(way, hook, value, instructions="Be brief.")
    assert outcome.error is None
    assert outcome.text == "Looking.Seen."
    assert bare(outcome) == [
        ("user", ["text"], "go"),
        ("assistant", ["text", "tool-invocation", "step-start", "text"], "Looking.Seen."),
    ]


# ── process_output_step and process_tool_result ────────────────────────────────────────────────


@three_ways
async def test_output_step_is_reconciled_with_all_messages(way: str) -> None:
    """R-137: what is left out of the list goes, whoever said it."""
    model = looking()

    def without_input(args: Any) -> Any:
        return [message for message in args.messages if message.role != "user"]

    agent = Agent(
        id="a",
        model=model,
        tools=[look],
        output_processors=[only("process_output_step", without_input)],
    )
    outcome = await play(way, agent, ["one", "two"])
    assert [message.role for message in outcome.messages] == ["assistant"]
    assert "one" not in model.calls[1].text
    assert outcome.text == "Looking.Seen."


@three_ways
@pytest.mark.parametrize("form", [dict, lambda values: InputResult(**values)])
async def test_output_step_object_form(way: str, form: Any) -> None:
    """R-137, R-238: messages and system messages; these end with the step."""
    seen: list[list[str]] = []

    def change(args: Any) -> Any:
        system = [{"role": "system", "content": "Be long."}]
        return form({"messages": args.messages, "system_messages": system})

    def look_on(args: Any) -> None:
        seen.append([message["content"] for message in args.system_messages])

    model = looking()
    agent = Agent(
        id="a",
        model=model,
        tools=[look],
        instructions="Be brief.",
        output_processors=[
            only("process_output_step", change, id="changes"),
            only("process_output_step", look_on, id="looks"),
            only("process_tool_result", look_on, id="looks too"),
        ],
    )
    outcome = await play(way, agent, "go")
    assert outcome.error is None
    assert seen == [["Be long."]] * 3
    assert system_texts(model.calls[1]) == ["Be brief."]


@three_ways
async def test_tool_result_may_add_a_message(way: str) -> None:
    """R-149, R-160: a list with one more message adds it, and says so to the model."""
    model = looking()

    def add(args: Any) -> list[Any]:
        return [*args.messages, {"role": "user", "content": "Mind the source."}]

    agent = Agent(
        id="a",
        model=model,
        tools=[look],
        output_processors=[only("process_tool_result", add)],
    )
    outcome = await play(way, agent, "go")
    assert outcome.text.endswith("Seen.")
    assert "Mind the source." in model.calls[1].text
    assert [m.text for m in outcome.output.response.db_messages if m.role == "user"] == [
        "Mind the source."
    ]


@three_ways
async def test_result_hook_may_delete_the_answer(way: str) -> None:
    """R-154, R-155: an empty list deletes the response there, and nothing else."""
    outcome = await returning(way, "process_output_result", [])
    assert (outcome.text, outcome.finish_reason) == ("", "stop")
    assert [message.text for message in outcome.messages] == ["go"]
    assert outcome.output.response.messages == []
    assert outcome.steps[-1].text == ""
    if outcome.chunks is not None:
        assert outcome.chunks[-1].payload.output.text == ""


# ── reconciling ────────────────────────────────────────────────────────────────────────────────


def system_texts(call: RecordedCall) -> list[str]:
    return [entry["content"] for entry in call.prompt if entry["role"] == "system"]


def source_in(seen: dict[str, Any]) -> Any:
    """A last processor that asks the list where each message came from."""

    def ask(args: Any) -> None:
        for message in args.message_list.get.all.db():
            seen[message.text] = args.message_list.source_of(message.id)

    return only("process_output_result", ask, id="asks")


FORMS: list[Any] = [
    {"role": "user", "content": "added"},
    {"role": "user", "content": [{"type": "text", "text": "added"}]},
    {"role": "user", "parts": [{"type": "text", "text": "added"}]},
    {"role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": "added"}]}},
    "added",
    "a message",
]


@three_ways
@pytest.mark.parametrize("hook", MESSAGE_HOOKS)
@pytest.mark.parametrize("added", FORMS, ids=lambda form: str(form)[:40])
async def test_new_messages(way: str, hook: str, added: Any) -> None:
    """R-160, R-241: in any form; source input in input hooks, else response."""
    seen: dict[str, Any] = {}

    def add_once(args: Any) -> Any:
        if args.state.setdefault("done", False):
            return None
        args.state["done"] = True
        return [*args.messages, text_message("added") if added == "a message" else added]

    processor = only(hook, add_once, id="adds")
    inputs = [processor] if hook in INPUT_HOOKS else []
    outputs = [] if hook in INPUT_HOOKS else [processor]
    agent = Agent(
        id="a",
        model=looking(),
        tools=[look],
        input_processors=inputs,
        output_processors=[*outputs, source_in(seen)],
    )
    outcome = await play(way, agent, "go")
    assert seen["added"] == ("input" if hook in INPUT_HOOKS else "response")
    (found,) = [message for message in outcome.messages if message.text == "added"]
    assert found.id
    assert found.created_at.tzinfo is not None
    assert outcome.messages[0].text == "go"


@three_ways
@pytest.mark.parametrize("hook", ["process_input", "process_input_step"])
async def test_order_is_by_time(way: str, hook: str) -> None:
    """R-161, R-397: not by place in the returned list; a changed time moves a message."""
    model = ScriptedModel(["ok"])
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def reverse(args: Any) -> Any:
        return list(reversed(args.messages))

    def move(args: Any) -> None:
        first = args.messages[0]
        first.created_at = args.messages[-1].created_at + timedelta(seconds=1)

    given = [
        text_message(text, created_at=start + timedelta(seconds=place))
        for place, text in enumerate(("one", "two", "three"))
    ]
    agent = Agent(id="a", model=model, **lists(hook, only(hook, reverse)))
    await play(way, agent, given)
    assert model.calls[0].text.split("\n") == ["one", "two", "three"]
    agent = Agent(id="a", model=model, **lists(hook, only(hook, move)))
    outcome = await play(way, agent, given)
    assert model.calls[1].text.split("\n") == ["two", "three", "one"]
    assert [message.text for message in outcome.messages][:3] == ["two", "three", "one"]


@three_ways
@pytest.mark.parametrize("hook", ["process_input", "process_input_step"])
async def test_system_messages_in_a_list(way: str, hook: str) -> None:
    """R-162: they become untagged system messages, before the tagged ones."""
    model = ScriptedModel(["ok"])

    def add(args: Any) -> list[Any]:
        return [{"role": "system", "content": "Mind the gap."}, *args.messages]

    agent = Agent(id="a", model=model, instructions="Be brief.", **lists(hook, only(hook, add)))
    outcome = await play(way, agent, "go", system="The caller's.")
    assert system_texts(model.calls[0]) == ["Be brief.", "Mind the gap.", "The caller's."]
    assert [message.role for message in outcome.messages] == ["user", "assistant"]


@three_ways
@pytest.mark.parametrize("hook", MESSAGE_HOOKS)
async def test_appended_answers_stay_their_own(way: str, hook: str) -> None:
    """R-163, R-333: through a returned list never folded; through the list, into the newest one."""

    def append_once(args: Any) -> Any:
        if args.state.setdefault("done", False):
            return None
        args.state["done"] = True
        return [*args.messages, {"role": "assistant", "content": "An aside."}]

    processor = only(hook, append_once)
    agent = Agent(id="a", model=looking(), tools=[look], **lists(hook, processor))
    outcome = await play(way, agent, "go")
    (aside,) = [message for message in outcome.answers if "An aside." in message.text]
    assert [part.type for part in aside.parts] == ["text"]
    assert len(outcome.answers) == 2


@three_ways
async def test_answers_added_to_the_list_are_folded(way: str) -> None:
    """R-163, R-333: what is added to the list itself goes into the running answer."""

    def add(args: Any) -> Any:
        return args.message_list.add({"role": "assistant", "content": "An aside."}, "response")

    agent = Agent(
        id="a",
        model=ScriptedModel(["An answer."]),
        output_processors=[only("process_output_result", add)],
    )
    outcome = await play(way, agent, "go")
    assert [message.text for message in outcome.answers] == ["An answer.An aside."]
    assert outcome.text == "An answer.An aside."


@three_ways
@pytest.mark.parametrize("copies", [True, False])
async def test_copies_and_edits_in_place(way: str, copies: bool) -> None:
    """R-164, R-158, R-159: the same comes of both, and sources are kept."""
    seen: dict[str, Any] = {}

    def shout(args: Any) -> Any:
        if not copies:
            for message in args.messages:
                for part in message.content.parts:
                    part.text = part.text.upper()
            return None
        return [
            message.replace(
                content=message.content.replace(
                    parts=[part.replace(text=part.text.upper()) for part in message.content.parts]
                )
            )
            for message in args.messages
        ]

    model = ScriptedModel(["ok"])
    agent = Agent(
        id="a",
        model=model,
        input_processors=[only("process_input", shout)],
        output_processors=[source_in(seen)],
    )
    outcome = await play(way, agent, "go", context=[{"role": "user", "content": "background"}])
    assert model.calls[0].text.split("\n") == ["BACKGROUND", "GO"]
    assert [message.text for message in outcome.messages] == ["BACKGROUND", "GO", "ok"]
    assert seen == {"BACKGROUND": "context", "GO": "input", "ok": "response"}


# ── R-117 ──────────────────────────────────────────────────────────────────────────────────────


@three_ways
@pytest.mark.parametrize("misbehaves", ["raises", "raises later", "returns"])
async def test_broken_error_processors_decline(
    way: str, misbehaves: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R-117: logged, and the next one is asked; the error of the call is never replaced."""

    def broken(args: Any) -> Any:
        if misbehaves == "returns":
            return "yes"
        raise ValueError("a secret that is not for logs")

    async def broken_later(args: Any) -> Any:
        return broken(args)

    first = only(
        "process_api_error", broken_later if misbehaves == "raises later" else broken, id="broken"
    )
    second = only("process_api_error", lambda args: {"retry": args.retry_count == 0}, id="mends")
    error = APICallError("no", status_code=400)
    model = ScriptedModel([error, "mended"])
    caplog.set_level(logging.WARNING, "procession")
    agent = Agent(id="a", model=model, error_processors=[first, second])
    assert (await play(way, agent, "go")).text == "mended"
    assert "broken" in caplog.text and "process_api_error" in caplog.text

    model = ScriptedModel([error])
    outcome = await play(way, Agent(id="a", model=model, error_processors=[first]), "go")
    assert outcome.error is error
    assert len(model.calls) == 1
