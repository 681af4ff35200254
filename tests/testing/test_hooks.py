"""Argument objects for hooks that are called alone: everything a hook reads is there (R-008)."""

from __future__ import annotations

from typing import Any

import pytest

from procession import (
    Chunk,
    MessageList,
    ProcessAPIErrorArgs,
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessLLMRequestArgs,
    ProcessLLMResponseArgs,
    ProcessOutputResultArgs,
    ProcessOutputStepArgs,
    ProcessOutputStreamArgs,
    ProcessToolResultArgs,
    RequestContext,
    TripWire,
    Usage,
    text_message,
)
from procession.errors import ConfigurationError, InputError
from procession.testing import RecordingWriter, hook_args

KINDS: list[type[Any]] = [
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessLLMRequestArgs,
    ProcessLLMResponseArgs,
    ProcessAPIErrorArgs,
    ProcessOutputStreamArgs,
    ProcessOutputStepArgs,
    ProcessToolResultArgs,
    ProcessOutputResultArgs,
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_common_arguments_are_there_and_empty(kind: type[Any]) -> None:
    args = hook_args(kind)
    args.state["count"] = 1
    assert args.request_context.get("region") is None
    assert args.messages == args.system_messages == []
    assert args.message_list.get.all.db() == []
    assert (args.retry_count, args.run_id, args.processor_id) == (0, "run", "processor")
    assert (args.writer is None) == (kind is ProcessInputArgs)
    with pytest.raises(TripWire, match="no"):
        args.abort("no")


def test_each_object_has_a_state_and_a_list_of_its_own() -> None:
    first, second = hook_args(ProcessOutputStepArgs), hook_args(ProcessOutputStepArgs)
    assert first.state is not second.state
    assert first.message_list is not second.message_list
    assert first.writer is not second.writer


def test_what_is_given_is_there() -> None:
    state = {"seen": 2}
    args = hook_args(
        ProcessOutputStepArgs, text="Well", state=state, request_context={"region": "north"}
    )
    assert args.text == "Well"
    assert args.state is state
    assert args.request_context.get("region") == "north"
    assert (args.tool_calls, args.steps, args.usage) == ([], [], Usage())
    context = RequestContext({"a": 1})
    assert hook_args(ProcessInputArgs, request_context=context).request_context is context


def test_messages_are_in_the_list_and_in_the_arguments() -> None:
    args = hook_args(ProcessInputArgs, messages="My berth is 42.", system_messages="Be brief.")
    assert [message.text for message in args.messages] == ["My berth is 42."]
    assert args.messages[0] is args.message_list.get.all.db()[0]
    assert args.system_messages == [{"role": "system", "content": "Be brief."}]
    given = MessageList().add("Hello", "input")
    assert hook_args(ProcessInputArgs, message_list=given).message_list is given


def test_the_assistants_messages_are_the_answer_of_output_hooks() -> None:
    said = [text_message("When?"), text_message("At six.", role="assistant")]
    args = hook_args(ProcessOutputResultArgs, messages=said)
    assert [message.text for message in args.messages] == ["At six."]
    assert args.result.text == "At six."
    assert len(hook_args(ProcessOutputStepArgs, messages=said).messages) == 2
    step = hook_args(ProcessInputStepArgs, messages=said)
    assert step.message_list.get.response.db() == []


def test_what_follows_from_the_rest() -> None:
    request = hook_args(ProcessLLMRequestArgs, messages="When?")
    assert request.prompt[-1]["content"] == [{"type": "text", "text": "When?"}]
    part = Chunk.from_json({"type": "text-delta", "payload": {"id": "t", "text": "a"}})
    args = hook_args(ProcessOutputStreamArgs, part=part)
    assert list(args.stream_parts) == [part]


async def test_what_a_hook_writes_is_kept() -> None:
    args = hook_args(ProcessOutputStepArgs)
    assert isinstance(args.writer, RecordingWriter)
    await args.writer.custom({"type": "data-progress", "data": {"done": 3}})
    (chunk,) = args.writer.chunks
    assert (chunk.type, chunk.data) == ("data-progress", {"done": 3})
    with pytest.raises(InputError, match="data-"):
        await args.writer.custom({"type": "progress", "data": 3})


async def test_a_reminder_is_in_the_message_list() -> None:
    args = hook_args(ProcessInputStepArgs, messages="When?")
    assert args.send_signal is not None
    signal = await args.send_signal({"type": "reactive", "contents": "Be brief."})
    assert signal.contents == "Be brief."
    assert len(args.message_list.get.all.db()) == 2


def test_a_name_that_the_hook_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="ProcessOutputStepArgs has no argument 'txt'"):
        hook_args(ProcessOutputStepArgs, txt="typo")
