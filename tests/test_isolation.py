"""What a caller gives is the caller's: nobody in the run changes it, and nothing remembered of it
is ever stale (R-033, R-322, R-393, R-394).

A long history that comes again is not copied until somebody asks for it. The tests do everything
twice: to the list, and to plain copies of which nothing is remembered.
"""

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procession import Agent
from procession.conversation.prompt_run import SHORTEST, run_of
from procession.errors import InputError
from procession.message_list import MessageList
from procession.messages import (
    FilePart,
    Message,
    MessageContent,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
    text_message,
)
from procession.testing import ScriptedModel

START = datetime(2025, 1, 1, tzinfo=UTC)
LENGTH = SHORTEST + 40


def rich(index: int, role: str) -> Message:
    """A message with something of everything that can be edited in place."""
    call = ToolInvocation(
        tool_call_id=f"c{index}",
        tool_name="t",
        state="result",
        args={"a": {"b": [1]}},
        result={"rows": [{"x": 1}]},
    )
    parts = [
        TextPart(text=f"rich {index}", provider_metadata={"p": {"deep": [1]}}),
        ReasoningPart(reasoning="why", details=[{"type": "text", "text": "why"}]),
        StepStartPart(),
        ToolInvocationPart(tool_invocation=call, provider_metadata={"p": {"k": [1]}}),
        FilePart(mime_type="a/b", data="AQ==", extra={"x": [1]}),
    ]
    content = MessageContent(
        parts=parts if role == "assistant" else [parts[0], parts[4]],
        content="flat",
        metadata={"m": {"n": [1]}},
        provider_metadata={"q": {"a": 1}},
    )
    return Message(
        id=f"m{index}", role=role, content=content, created_at=START + timedelta(seconds=index)
    )


def conversation(rich_ones: frozenset[int] = frozenset({2, 50, 51, LENGTH - 1})) -> list[Message]:
    made: list[Message] = []
    for index in range(LENGTH):
        role = "assistant" if index % 2 else "user"
        if index in rich_ones:
            made.append(rich(index, role))
        else:
            time = START + timedelta(seconds=index)
            made.append(text_message(f"text {index}", role=role, id=f"m{index}", created_at=time))
    return made


def plainly(messages: list[Message]) -> list[Message]:
    """Copies of which nothing is remembered."""
    return [Message.from_json(copy.deepcopy(message.to_json())) for message in messages]


def prompt_of(messages: list[Message]) -> list[dict[str, Any]]:
    """The prompt of messages, made from nothing."""
    return MessageList().add(plainly(messages), "memory").provider_prompt()


def edit(path: str, value: Any) -> Callable[[Message], None]:
    """An edit in place; one that does not fit the message does nothing."""

    def apply(m: Message) -> None:
        try:
            exec(f"m.{path}", {"m": m, "value": copy.deepcopy(value)})
        except (AttributeError, IndexError, KeyError, TypeError):
            return

    apply.__name__ = path
    return apply


EDITS = [
    edit("content.parts[0].text = value", "edited"),
    edit("content.parts[0].type = value", "thinking"),
    edit("content.parts[0].provider_metadata = value", {"new": {}}),
    edit("content.parts[0].provider_metadata['p']['deep'].append(value)", 2),
    edit("content.parts[1].details[0].update(value)", {"signature": "s"}),
    edit("content.parts[1].reasoning = value", ""),
    edit("content.parts[3].tool_invocation.args['a']['b'].append(value)", 2),
    edit("content.parts[3].tool_invocation.result['rows'].append(value)", {"x": 2}),
    edit("content.parts[3].tool_invocation.state = value", "call"),
    edit("content.parts[3].provider_metadata['p'].clear()", None),
    edit("content.parts[-1].extra['x'].append(value)", 2),
    edit("content.parts[-1].data = value", "Ag=="),
    edit("content.parts.append(value)", TextPart(text="more")),
    edit("content.parts.clear()", None),
    edit("content.parts.pop(0)", None),
    edit("content.metadata['m']['n'].append(value)", 2),
    edit("content.metadata = value", {"new": 1}),
    edit("content.provider_metadata['q'].update(value)", {"a": 2}),
    edit("content.provider_metadata = value", None),
    edit("content.content = value", "other flat"),
    edit("content = value", MessageContent(parts=[TextPart(text="all new")])),
    edit("role = value", "user"),
    edit("created_at = value", START - timedelta(seconds=1)),
    edit("extra = value", {"new": [1]}),
]

INDEX = st.sampled_from([0, 1, 2, 3, 50, 51, LENGTH - 2, LENGTH - 1])
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.booleans(), st.sampled_from([None, "t"])),
        st.tuples(st.just("caller"), INDEX, st.sampled_from(EDITS)),
        st.tuples(st.just("hook"), INDEX, st.sampled_from(EDITS)),
        st.tuples(st.just("remove"), INDEX, st.none()),
        st.tuples(st.just("read"), INDEX, st.none()),
        st.tuples(st.just("say"), INDEX, st.none()),
    ),
    max_size=12,
)


class Twice:
    """One conversation, as the library holds it and as plain copies."""

    def __init__(self) -> None:
        self.given = conversation()
        self.given_plainly = plainly(self.given)
        self.run(False, None)

    def run(self, shared: bool, thread: str | None) -> None:
        """A new run gets the caller's messages and a question."""
        question = text_message("?", created_at=START + timedelta(days=1))
        self.shared = shared and thread is None
        self.list = MessageList(thread)
        self.list.receive([*self.given, question], "input", shared=self.shared)
        if self.shared:  # nobody in the run can edit: the messages may be read in place
            self.given_plainly = plainly(self.given)
        self.list_plainly = [*plainly(self.given_plainly), *plainly([question])]

    def find(self, id: str) -> tuple[Message | None, Message | None]:
        """The message in the list, and its plain copy."""
        known = [message for message in self.list_plainly if message.id == id]
        return self.list.find(id), known[0] if known else None

    def act(self, kind: str, first: Any, second: Any) -> None:
        if kind == "run":
            self.run(first, second)
        elif kind == "remove":
            self.list.remove_by_ids([f"m{first}"])
            self.list_plainly = [m for m in self.list_plainly if m.id != f"m{first}"]
        elif kind == "say":
            self.say(first)
        elif not self.shared:  # where nobody can edit, nobody edits
            self.edit(kind, first, second)

    def say(self, first: int) -> None:
        time = START + timedelta(seconds=first * 2)  # also before the history ends
        said = text_message("and?", id=f"s{first}", created_at=time)
        if self.list.find(said.id) is None:
            self.list.add(said, "input")
            self.list_plainly.append(plainly([said])[0])

    def edit(self, kind: str, first: int, apply: Any) -> None:
        if kind == "caller":
            apply(self.given[first])
            apply(self.given_plainly[first])
        elif kind == "hook":
            for message in self.find(f"m{first}"):
                if message is not None:
                    apply(message)
        else:
            shown = list(self.list.shown()[0])  # what a hook has in hand is what is sent
            for message in [m for m in (*shown, *self.list_plainly) if m.id == f"m{first}"]:
                message.content.parts.append(TextPart(text="shown"))
            assert sorted(m.id for m in shown) == sorted(m.id for m in self.list_plainly)

    def check(self) -> None:
        assert self.list.provider_prompt() == prompt_of(self.list_plainly)
        for mine, known in zip(self.given, self.given_plainly, strict=True):
            if not self.shared:
                assert mine.to_json() == known.to_json()


@settings(deadline=None, max_examples=60)
@given(ACTIONS)
def test_whatever_is_edited_shows_in_its_own_place_only(
    actions: list[tuple[str, Any, Any]],
) -> None:
    """Edits of the list show in its prompt and not in the caller's messages, and the other way"""
    twice = Twice()
    twice.check()
    for kind, first, second in actions:
        twice.act(kind, first, second)
        twice.check()
    in_time = sorted(twice.list_plainly, key=lambda message: message.created_at)
    assert unplaced(twice.list.messages()) == unplaced(in_time)


def unplaced(messages: list[Message]) -> list[dict[str, Any]]:
    """Messages without what a list adds: its thread, and time stamps."""
    forms = [message.to_json() for message in messages]
    for form in forms:
        form.pop("threadId", None)
        for part in form["content"]["parts"]:
            part.pop("createdAt", None)
    return forms


@pytest.mark.parametrize("apply", EDITS, ids=lambda apply: apply.__name__)
def test_an_edit_before_a_history_comes_again_is_seen(apply: Callable[[Message], None]) -> None:
    """R-033: each edit, after the history was remembered and before it is given once more"""
    messages = conversation()
    for _ in range(3):
        MessageList().receive([*messages, text_message("?")], "input", shared=False)
    assert run_of(messages[50]) is not None
    apply(messages[51])
    question = text_message("?")
    expected = prompt_of([*messages, question])
    again = MessageList()
    again.receive([*messages, question], "input", shared=False)
    assert again.provider_prompt() == expected
    found = again.find("m51")
    assert found is not None and found is not messages[51]
    assert found == messages[51].replace(content=found.content)


HOOKS = [
    "process_input",
    "process_input_step",
    "process_llm_request",
    "process_output_stream",
    "process_output_step",
    "process_output_result",
]


@pytest.mark.parametrize("way", ["messages", "message_list"])
@pytest.mark.parametrize("hook", HOOKS)
async def test_hooks_edit_copies(hook: str, way: str) -> None:
    """Whatever hook edits the history, at whatever run, the caller's messages stay"""

    class Editor:
        id = "editor"

        def edit(self, args: Any) -> Any:
            for message in args.messages if way == "messages" else args.message_list.get.all.db():
                for apply in EDITS[:-3]:
                    apply(message)
            return getattr(args, "part", None)

    editor = Editor()
    setattr(editor, hook, editor.edit)
    model = ScriptedModel(["fine"])
    agent = Agent(id="a", model=model, input_processors=[editor], output_processors=[editor])
    messages = conversation()
    before = [message.to_json() for message in plainly(messages)]
    for _ in range(4):
        result = await agent.generate([*messages, text_message("?")])
        assert [message.to_json() for message in messages] == before
        sent = model.calls[-1].prompt
        if hook in ("process_input", "process_input_step"):
            assert "all new" in str(sent) and "text 0" not in str(sent)
        else:
            assert len(sent) > LENGTH and "all new" not in str(sent)
        if hook != "process_output_result" or way == "message_list":  # else: only the response
            assert "all new" in str([message.to_json() for message in result.messages])


@pytest.mark.parametrize("wrap", [list, tuple, lambda forms: forms[0]])
def test_what_mappings_hold_is_the_callers_too(wrap: Callable[[Any], Any]) -> None:
    """R-395: values are taken as they are, but copied before a hook may edit them"""
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "t", "input": {"a": [1]}}
    result = {"type": "tool-result", "toolCallId": "c", "toolName": "t", "result": {"b": [1]}}
    lock = Lock()
    forms: list[Any] = [
        {"role": "assistant", "content": [call], "metadata": {"m": [1], "lock": lock}},
        {"role": "tool", "content": [result]},
        {"role": "system", "content": "s", "providerOptions": {"p": {"k": [1]}}},
        {"role": "user", "content": {"parts": [{"type": "text", "text": "x", "own": [1]}]}},
    ]
    before = str(forms)
    messages = MessageList()
    messages.receive(wrap(forms), "input", shared=False)
    for message in messages.messages():
        for part in message.parts:
            if isinstance(part, ToolInvocationPart):
                part.tool_invocation.args["a"].append(2)
                if part.tool_invocation.result:
                    part.tool_invocation.result["b"].append(2)
            elif part.extra:
                part.extra["own"].append(2)
        if message.content.metadata:
            message.content.metadata["m"].append(2)
            assert message.content.metadata["lock"] is lock
    for system in messages.get_all_system_messages():
        system["providerOptions"]["p"]["k"].append(2)
    assert str(forms) == before


def remembered(messages: list[Message], *, times: int = 2) -> list[Message]:
    for _ in range(times):
        MessageList().receive([*messages, text_message("?")], "input", shared=False)
    return messages


def test_copies_are_what_messages_of_a_list_are() -> None:
    """R-327 to R-329: stamped where they have to be, of the list's thread and resource"""
    for source, stamped in (("input", True), ("context", False)):
        messages = MessageList("t", "r")
        messages.receive([*remembered(conversation()), "?"], source, shared=False)
        assert run_of(messages.messages()[0]) is not None
        for message in messages.messages()[:-1]:
            assert (message.thread_id, message.resource_id) == ("t", "r")
            assert all((part.created_at is not None) == stamped for part in message.parts)
    others = conversation()
    others[70].resource_id = "other"
    remembered(others)
    with pytest.raises(InputError, match="'m70' has resource_id 'other'"):
        MessageList("t", "r").receive([*others, "?"], "input", shared=False)


def test_copies_have_clean_texts() -> None:
    """R-325: whatever is remembered"""
    messages = conversation()
    messages[80].parts[0].text = "a\ud800b"
    remembered(messages, times=3)
    assert messages[80].parts[0].text == "a\ud800b"
    again = MessageList()
    again.receive([*messages, "?"], "input", shared=False)
    assert again.messages()[80].text == "a\ufffdb"


def test_open_calls_are_kept_where_they_are_asked_for() -> None:
    """R-376: what is remembered without them is of no use then"""
    messages = conversation()
    messages[3].parts.append(
        ToolInvocationPart(tool_invocation=ToolInvocation(tool_call_id="open", tool_name="t"))
    )
    remembered(messages, times=3)
    for keep in (True, False, True):
        again = MessageList(filter_incomplete_tool_calls=not keep)
        again.receive([*messages, "?"], "input", shared=False)
        assert ("'open'" in str(again.provider_prompt())) == keep


async def test_a_history_nobody_asks_for_is_not_copied() -> None:
    """A run whose hooks look at nothing costs what a run without hooks costs"""

    class Quiet:
        id = "quiet"

        def process_input_step(self, args: Any) -> None:
            assert args.message_list.get_latest_user_content() == "?"

        def process_output_step(self, args: Any) -> None:
            assert args.text == "fine"

    quiet = Quiet()
    model = ScriptedModel(["fine"])
    agent = Agent(id="a", model=model, input_processors=[quiet], output_processors=[quiet])
    messages = conversation()
    for _ in range(3):
        run = await agent.stream([*messages, text_message("?")])
        assert await run.text == "fine"
        assert model.calls[-1].prompt == prompt_of([*messages, text_message("?")])
    run = await agent.stream([*messages, text_message("?")])
    messages[0].parts[0].text = "edited while it ran"
    assert await run.text == "fine"
    assert model.calls[-1].prompt[0]["content"][0]["text"] == "text 0"
    assert (await run.get_full_output()).messages[0].text == "text 0"


def test_what_cannot_be_remembered_is_converted_each_time() -> None:
    """R-033: a value of a kind nobody can watch"""

    class Own:
        said = "one"

        def __str__(self) -> str:
            return self.said

        def __deepcopy__(self, seen: Any) -> "Own":
            return self

    own, messages = Own(), conversation()
    part = messages[3].parts[0]
    part.provider_metadata = {"p": {"own": own}}
    for said in ("one", "two", "three", "four"):
        own.said = said
        again = MessageList()
        again.receive([*messages, text_message("?")], "input", shared=False)
        options = again.provider_prompt()[3]["content"][0]["providerOptions"]
        assert options == {"p": {"own": said}}


def test_a_head_that_sleeps_answers_like_one_that_is_awake() -> None:
    """R-320 to R-343: every question gets the same answer, whoever asked for messages before"""
    messages = conversation()
    for _ in range(2):
        MessageList().receive([*messages, text_message("?")], "input", shared=False)
    questions: list[Callable[[MessageList], Any]] = [
        lambda m: [x.id for x in m.messages()],
        lambda m: [x.id for x in m.shown()[0]],
        lambda m: (len(m.shown()[0]), m.shown()[0][3].id, [x.id for x in m.shown()[0][2:4]]),
        lambda m: sorted(x.id for x in m.held()),
        lambda m: (len(m.held()), m.held()[0].id, [x.id for x in m.held()[:2]]),
        lambda m: [x.id for x in m.messages_from("input")],
        lambda m: m.messages_from("memory"),
        lambda m: m.response_messages(),
        lambda m: m.find("m7").id,  # type: ignore[union-attr]
        lambda m: m.source_of("m7"),
        lambda m: m.is_new_message("m7"),
        lambda m: m.make_message_source_checker()("m7"),
        lambda m: m.get_latest_user_content(),
        lambda m: m.newest_time(),
        lambda m: m.remove_by_ids(["m7", "q"])[0].id,
        lambda m: [x.id for x in m.clear.input.db()],
        lambda m: len(m.drain_unsaved_messages()),
        lambda m: m.step_start(),
        lambda m: m.update_tool_invocation(
            {"toolInvocation": {"toolCallId": "c51", "result": "late"}}
        ),
        lambda m: m.serialize()["sources"],
        lambda m: [x["role"] for x in m.get.all.prompt()],
        lambda m: m.reconcile(
            m.shown()[0], [text_message("r", id="m7", created_at=START)], "input"
        ),
        lambda m: m.add(text_message("early", id="e", created_at=START), "input").view()[1].id,
    ]
    for ask in questions:
        question = text_message("?", id="q")
        lists = [MessageList(), MessageList()]
        for made in lists:
            made.receive([*messages, question], "input", shared=False)
        lists[1].messages()
        assert ask(lists[0]) == ask(lists[1])
        assert lists[0].provider_prompt() == lists[1].provider_prompt()
        assert [m.to_json() for m in lists[0].messages()] == [
            m.to_json() for m in lists[1].messages()
        ]


def endless() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["again"] = made
    return made


@pytest.mark.parametrize("shared", [True, False])
def test_a_value_that_contains_itself_is_refused_by_name(shared: bool) -> None:
    """R-326: the error says which message, and where in it"""
    message = text_message("x", id="m")
    message.parts[0].provider_metadata = endless()
    with pytest.raises(InputError, match=r"'m': content.parts\[0\].provider_metadata is nested"):
        MessageList().receive([message], "input", shared=shared)
    with pytest.raises(InputError, match=r"content.parts\[0\].provider_metadata"):
        MessageList().add(message, "input")
    other = rich(1, "assistant")
    other.parts[3].tool_invocation.args = endless()
    with pytest.raises(InputError, match=r"content.parts\[3\].tool_invocation.args"):
        MessageList().receive(other, "input", shared=shared)
    other = text_message("x", id="m")
    other.content.metadata = endless()
    with pytest.raises(InputError, match=r"content.metadata"):
        MessageList().receive(other, "input", shared=shared)


def test_a_value_that_a_hook_made_endless_is_refused_by_name() -> None:
    """R-033: also when it is set in place, after the message was added"""
    message = text_message("x", id="m")
    messages = MessageList().add(message, "input")
    message.parts[0].provider_metadata = endless()
    with pytest.raises(InputError, match=r"'m': content.parts\[0\].provider_metadata"):
        messages.provider_prompt()
    message.parts[0].provider_metadata = None
    assert messages.provider_prompt()
    long = MessageList().add(conversation(), "input")
    found = long.find("m3")
    assert found is not None
    found.content.provider_metadata = endless()
    for _ in range(2):
        with pytest.raises(InputError, match="nested too deeply"):
            long.provider_prompt()
