"""What hooks may return, and what becomes of it.

Each function takes the link whose hook returned and the value, applies it to the run, and raises
`ProcessorError` with the processor's id and the hook for anything that is not allowed (R-189).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, cast

from msgspec import UNSET
from msgspec.structs import replace

from ..chunks import Chunk, payload_from_json
from ..errors import ConfigurationError, InputError, ProcessorError
from ..hook_functions import near_name
from ..message_list import MessageList
from ..options import check_option
from ..processor import (
    CachedLLMStepChunk,
    CachedLLMStepResponse,
    HookArgs,
    InputResult,
    ProcessAPIErrorResult,
    ProcessInputStepArgs,
    ProcessInputStepResult,
    ProcessLLMRequestResult,
)
from ..records import clean_json, clean_kept
from ..tools import tool_map

if TYPE_CHECKING:
    from .pipeline import Link
    from .run_state import RunState

__all__ = [
    "apply_messages",
    "apply_nothing",
    "apply_step",
    "cached_response",
    "checked_prompt",
    "read_request",
    "wants_retry",
]

_log = logging.getLogger("procession.engine")

_KEEPS_ON_EMPTY = frozenset({"process_output_step", "process_tool_result"})
_TWO_PART = frozenset({"process_input", "process_output_step"})
_STEP_KEYS = ProcessInputStepResult.__struct_fields__
_KNOWN_KEYS = {
    kind: frozenset(kind.__struct_fields__)
    for kind in (
        CachedLLMStepResponse,
        InputResult,
        ProcessAPIErrorResult,
        ProcessInputStepResult,
        ProcessLLMRequestResult,
    )
}


def wrong(link: Link, problem: str) -> NoReturn:
    """Raise the error for a hook that broke its contract."""
    raise ProcessorError(link.processor_id, link.name, problem)


def _check_keys(link: Link, mapping: Mapping[str, Any], kind: type[Any]) -> None:
    """A key that a result of that `kind` does not have is ignored, which is told (R-074).

    One that is nearly called like a key of it was meant to be that: it raises.
    """
    known = _KNOWN_KEYS[kind]
    for key in mapping.keys() - known:
        near = near_name(key, known)
        if near is not None:
            wrong(link, f"returned a mapping with {key!r}; did you mean {near!r}?")
        _tell_ignored(link.processor_id, link.name, f"the key {str(key)[:40]!r}", kind.__name__)


@lru_cache(maxsize=256)  # told once, not with every step
def _tell_ignored(processor_id: str, hook: str, what: str, allowed: str) -> None:
    """Say that something a hook returned has no effect."""
    _log.warning(
        "processor %r, %s: %s of what it returned is ignored; it may return %s",
        *(processor_id, hook, what, allowed),
    )


def apply_messages(run: RunState, link: Link, args: HookArgs[Any], returned: Any) -> None:
    """Apply what a message hook returned: its list, messages, or both parts (R-063 to R-067)."""
    if returned is run.message_list:
        return
    if isinstance(returned, MessageList):
        wrong(link, "returned another MessageList; return the one it was given, or messages")
    if isinstance(returned, list | tuple):
        _reconcile(run, link, args, cast("Sequence[Any]", returned))
        return
    if link.name in _TWO_PART and isinstance(returned, InputResult | Mapping):
        _apply_two_parts(run, link, args, returned)
        return
    forms = "a list of messages, the message_list it was given, or None"
    wrong(link, f"must return {forms}, not {type(returned).__name__}")


def _apply_two_parts(run: RunState, link: Link, args: HookArgs[Any], returned: Any) -> None:
    if isinstance(returned, InputResult):
        messages, system = returned.messages, returned.system_messages
    else:
        mapping = cast("Mapping[str, Any]", returned)
        if "messages" not in mapping and "system_messages" not in mapping:
            wrong(
                link, "returned a mapping without 'messages'; allowed are messages, system_messages"
            )
        _check_keys(link, mapping, InputResult)
        messages, system = mapping.get("messages"), mapping.get("system_messages")
    if isinstance(messages, MessageList):
        apply_messages(run, link, args, messages)
    elif messages is not None:
        _reconcile(run, link, args, messages)
    if system is not None:
        _replace_system(run, link, system)


def _replace_system(run: RunState, link: Link, system: Any) -> None:
    if isinstance(system, str | Mapping) or not isinstance(system, Iterable):
        kind = type(cast("Any", system)).__name__
        wrong(link, f"system_messages must be a list of messages, not {kind}")
    try:
        run.message_list.replace_system(list(cast("Iterable[Any]", system)))
    except (InputError, TypeError) as error:
        wrong(link, f"returned system_messages that are none: {error}")


def _reconcile(run: RunState, link: Link, args: HookArgs[Any], returned: Sequence[Any]) -> None:
    if not returned and link.name in _KEEPS_ON_EMPTY:
        return  # an empty list plainly means "no change" there
    if any(entry is None for entry in returned):
        wrong(link, "returned a list that holds None; each entry must be a message")
    source = "input" if link.name.startswith("process_input") else "response"
    try:
        run.message_list.reconcile(args.handed(), returned, source)
    except (InputError, TypeError) as error:
        wrong(link, f"returned something that is no message: {error}")
    except RecursionError:
        wrong(link, "returned a message with a value that is nested too deeply, or contains itself")


def apply_step(run: RunState, link: Link, args: ProcessInputStepArgs[Any], returned: Any) -> None:
    """Apply what `process_input_step` or `prepare_step` returned (R-074 to R-082).

    Overrides are written into `args`, where the next processor and the step itself read them.
    """
    if returned is run.message_list or isinstance(returned, MessageList | list | tuple):
        apply_messages(run, link, args, returned)
        return
    if isinstance(returned, ProcessInputStepResult):
        given = {k: v for k in _STEP_KEYS if (v := getattr(returned, k)) is not UNSET}
    elif isinstance(returned, Mapping):
        mapping = cast("Mapping[str, Any]", returned)
        _check_keys(link, mapping, ProcessInputStepResult)
        given = {k: mapping[k] for k in _STEP_KEYS if k in mapping}
    else:
        wrong(
            link,
            "must return a ProcessInputStepResult or a mapping, messages, the message_list it was "
            f"given, or None, not {type(returned).__name__}",
        )
    if "messages" in given and "message_list" in given:
        wrong(link, "returned both messages and message_list; return one of them")
    for key in ("messages", "message_list"):
        if key in given:
            apply_messages(run, link, args, given.pop(key))
    system = given.pop("system_messages", None)
    if system is not None:
        _replace_system(run, link, system)
    for key, value in given.items():
        setattr(args, key, _checked_choice(link, key, value))


def _checked_choice(link: Link, key: str, value: Any) -> Any:
    """What a step hook chose, in the form the step needs; wrong forms are named at once."""
    try:
        if key == "tools":
            return tool_map(value)
        check_option(key, value)
    except ConfigurationError as error:
        wrong(link, f"returned a choice that cannot be used: {error}")
    return list(cast("Iterable[str]", value)) if key == "active_tools" and value else value


def apply_nothing(_run: RunState, link: Link, _args: HookArgs[Any], _returned: Any) -> None:
    """`process_llm_response` changes nothing for now: what it returns is ignored (R-103)."""
    _tell_ignored(link.processor_id, link.name, "all", "nothing, but it may abort")


def read_request(link: Link, returned: Any) -> ProcessLLMRequestResult:
    """What `process_llm_request` returned, in one form (R-091, R-094, R-097)."""
    if isinstance(returned, ProcessLLMRequestResult):
        return returned
    if isinstance(returned, Mapping):
        mapping = cast("Mapping[str, Any]", returned)
        if not set(mapping) - {"prompt", "response"}:
            return ProcessLLMRequestResult(**mapping)
        wrong(link, f"returned unknown keys {sorted(map(str, mapping))}; allowed: prompt, response")
    wrong(
        link,
        f"must return {{'prompt': …}}, {{'response': …}} or None, not {type(returned).__name__}",
    )


def checked_prompt(link: Link, prompt: Any) -> list[dict[str, Any]]:
    """A returned prompt, which must be a list of `{role, content}` entries, with clean texts."""
    if not isinstance(prompt, list | tuple):
        wrong(link, f"'prompt' must be a list of entries, not {type(prompt).__name__}")
    entries = list(cast("Sequence[Any]", prompt))
    for entry in entries:
        if not isinstance(entry, dict) or "role" not in entry or "content" not in entry:
            wrong(link, "each entry of 'prompt' needs 'role' and 'content'")
    try:
        return clean_kept(entries)
    except InputError as error:
        wrong(link, f"returned a prompt that cannot be sent: {error}")


def cached_response(link: Link, response: Any) -> tuple[CachedLLMStepResponse, list[Chunk]]:
    """A response that stands in for a model call, and its chunks made anew (R-094, R-096)."""
    if isinstance(response, Mapping):
        keys = CachedLLMStepResponse.__struct_fields__
        given = cast("Mapping[str, Any]", response)
        _check_keys(link, given, CachedLLMStepResponse)
        if "chunks" not in given:
            wrong(link, "'response' needs 'chunks', the list of what the model said")
        response = CachedLLMStepResponse(**{k: given[k] for k in keys if k in given})
    if not isinstance(response, CachedLLMStepResponse):
        wrong(link, f"'response' must be a CachedLLMStepResponse, not {type(response).__name__}")
    results: Any = response.tool_results or {}
    if not isinstance(results, Mapping):
        wrong(link, f"'tool_results' must be a mapping by call id, not {type(results).__name__}")
    known = cast("Mapping[str, Any]", results)
    try:
        if known:
            response = replace(response, tool_results=clean_json(dict(known)))
        return response, [_replayed(chunk) for chunk in response.chunks]
    except (InputError, TypeError, AttributeError) as error:
        wrong(link, f"'response' holds something that is no chunk: {error}")


def _replayed(stored: Any) -> Chunk:
    if isinstance(stored, Chunk):
        return _replayed(stored.to_json())
    if isinstance(stored, CachedLLMStepChunk):
        return Chunk(stored.type, payload_from_json(stored.type, dict(stored.payload)))
    return Chunk.from_json(dict(stored))


def wants_retry(link: Link, returned: Any) -> bool:
    """Whether `process_api_error` asked for another call (R-111)."""
    if isinstance(returned, ProcessAPIErrorResult):
        retry: Any = returned.retry
    elif isinstance(returned, Mapping):
        mapping = cast("Mapping[str, Any]", returned)
        if mapping and "retry" not in mapping:
            wrong(link, "returned a mapping without 'retry'; allowed is {'retry': True or False}")
        _check_keys(link, mapping, ProcessAPIErrorResult)
        retry = mapping.get("retry", False)
    else:
        wrong(link, f"must return {{'retry': bool}} or None, not {type(returned).__name__}")
    if not isinstance(retry, bool):
        wrong(link, f"'retry' must be True or False, not {type(retry).__name__}")
    return retry
