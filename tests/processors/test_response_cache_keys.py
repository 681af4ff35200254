"""Keys of the response cache: what they are made of, and key functions (C-040 to C-051)."""

from __future__ import annotations

import base64
import copy
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AnyUrl

from procession.cache import InMemoryServerCache
from procession.processors import (
    CachedModel,
    CacheKeyInputs,
    ResponseCache,
    build_response_cache_key,
)
from tests.processors.caching import Notes, asked, cached, numbered

INPUTS = CacheKeyInputs(
    agent_id="help",
    scope="tenant one",
    model=CachedModel(provider="mock", model_id="mock-1"),
    prompt=[
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Größe?"}]},
    ],
    step_number=0,
)


def key_of(part: dict[str, Any], **changes: Any) -> str:
    prompt = [{"role": "user", "content": [part]}]
    return build_response_cache_key(INPUTS, prompt=prompt, **changes)


# ── derived keys ───────────────────────────────────────────────────────────────────────────────


def test_the_form_of_a_key() -> None:
    """C-045: prefix, agent, a digest of the scope, a digest of the rest; no scope in clear."""
    *said, scope, rest = build_response_cache_key(INPUTS).split(":")
    assert said == ["procession", "response", "help"] and (len(scope), len(rest)) == (12, 32)
    assert all(set(digest) <= set("0123456789abcdef") for digest in (scope, rest))
    open_key = build_response_cache_key(INPUTS, scope=None).split(":")
    assert len(open_key) == 4 and open_key[3] != rest


def test_a_key_is_the_same_on_every_machine() -> None:
    """C-040: another process, with another order of hashes, comes to the same one."""
    code = f"from procession.processors import *\nprint(build_response_cache_key({INPUTS!r}))"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == build_response_cache_key(INPUTS)


@pytest.mark.parametrize(
    "change",
    [
        {"agent_id": "other"},
        {"scope": "tenant two"},
        {"scope": ""},
        {"scope": None},
        {"step_number": 1},
        {"model": CachedModel(provider="other", model_id="mock-1")},
        {"model": CachedModel(provider="mock", model_id="mock-2")},
        {"model": CachedModel(provider="mock", model_id="mock-1", spec_version="v3")},
        {"prompt": INPUTS.prompt[::-1]},
        {"prompt": INPUTS.prompt[:1]},
        {"prompt": []},
    ],
    ids=str,
)
def test_what_changes_a_key(change: dict[str, Any]) -> None:
    """C-041"""
    assert build_response_cache_key(INPUTS, **change) != build_response_cache_key(INPUTS)
    assert build_response_cache_key(INPUTS.replace(**change)) == build_response_cache_key(
        INPUTS, **change
    )


def test_the_order_of_keys_does_not_matter() -> None:
    """C-044: that of lists does."""
    one = {"type": "tool-call", "input": {"a": [1, 2], "b": 2}}
    other = {"input": {"b": 2, "a": [1, 2]}, "type": "tool-call"}
    assert key_of(one) == key_of(other)
    assert key_of(one) != key_of({**one, "input": {"a": [2, 1], "b": 2}})


PICTURE = b"\x89PNG\r\n\x1a\n one"


@pytest.mark.parametrize(
    "same",
    [PICTURE, bytearray(PICTURE), memoryview(PICTURE), base64.b64encode(PICTURE).decode()],
    ids=lambda data: type(data).__name__,
)
def test_files_count_by_value(same: Any) -> None:
    """C-043: whatever kind of object holds the bytes."""
    file = {"type": "file", "mediaType": "image/png"}
    assert key_of({**file, "data": same}) == key_of({**file, "data": PICTURE})
    assert key_of({**file, "data": same}) != key_of({**file, "data": PICTURE + b"!"})


def test_addresses_count_in_full() -> None:
    """C-043: with their query, and as an object like as a text."""
    file = {"type": "file", "mediaType": "image/png"}
    url = "https://example.com/a.png?v=1"
    assert key_of({**file, "data": AnyUrl(url)}) == key_of({**file, "data": url})
    assert key_of({**file, "data": url}) != key_of({**file, "data": url[:-1] + "2"})


def test_notes_of_the_library_are_no_part_of_a_key() -> None:
    """C-041: provider options of the user are."""
    part = {"type": "text", "text": "x"}
    noted = {**part, "providerOptions": {"mastra": {"createdAt": 5}}}
    assert key_of(noted) == key_of(part)
    own = {**part, "providerOptions": {"anthropic": {"cacheControl": "x"}}}
    both = {**part, "providerOptions": {**own["providerOptions"], "mastra": {"createdAt": 7}}}
    assert key_of(own) == key_of(both) != key_of(part)
    entry = {"role": "user", "content": [part]}
    noted_entry = {**entry, "providerOptions": {"mastra": {"id": 1}}}
    assert build_response_cache_key(INPUTS, prompt=[entry]) == build_response_cache_key(
        INPUTS, prompt=[noted_entry]
    )


@pytest.mark.parametrize(
    "value", [float("nan"), 2**70, "\ud800", {1: "a", "b": 2}, {(1, 2): 3}, object(), {1, 2}]
)
def test_whatever_a_processor_puts_into_a_prompt_has_a_key(value: Any) -> None:
    """C-040: the key never fails."""
    assert key_of({"type": "custom", "value": value}).startswith("procession:response:help:")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(DATA, DATA)
@settings(deadline=None)
def test_keys_are_equal_where_the_content_is(one: Any, other: Any) -> None:
    """C-041, C-044: and only there."""

    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shuffled(value[key]) for key in reversed(list(value))}
        return [shuffled(entry) for entry in value] if isinstance(value, list) else value

    assert key_of({"value": one}) == key_of({"value": shuffled(copy.deepcopy(one))})
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (key_of({"value": one}) == key_of({"value": other})) is same


# ── key functions ──────────────────────────────────────────────────────────────────────────────


async def test_a_key_function_is_told_everything() -> None:
    """C-047, R-398: plain data, and what it gives is the key as it is."""
    seen: list[CacheKeyInputs] = []
    cache = Notes()

    def key(inputs: CacheKeyInputs) -> str:
        seen.append(inputs)
        return f"qa:{inputs.model.model_id}:{json.dumps(inputs.prompt)[-20:]}"

    image = {"type": "image", "image": PICTURE, "mediaType": "image/png"}
    question = {"role": "user", "content": [{"type": "text", "text": "What?"}, image]}
    agent = cached(cache=cache, key=key, agent_id="own", scope="s")
    await asked(agent, [question])
    (inputs,) = seen
    assert (inputs.agent_id, inputs.scope, inputs.step_number) == ("own", "s", 0)
    assert (inputs.model.provider, inputs.model.model_id) == ("mock", "mock-1")
    assert inputs.model.spec_version
    assert list(cache.kept) == [f"qa:mock-1:{json.dumps(inputs.prompt)[-20:]}"]


async def test_a_key_function_may_use_the_derived_key() -> None:
    """C-046, C-051: with a field changed; plain or async, for the processor or for a call."""
    model, cache = numbered(), InMemoryServerCache()

    async def shared(inputs: CacheKeyInputs) -> str:
        return build_response_cache_key(inputs, scope="global")

    agent = cached(model, cache, scope="own")
    context = ResponseCache.context(key=shared)
    assert await asked(agent, "go", request_context=context) == ["one"]
    assert await asked(agent, "go", request_context=ResponseCache.context(scope="global")) == [
        "one"
    ]
    assert await asked(cached(model, cache, key=shared), "go") == ["one"]
    assert await asked(agent, "go") == ["two"]


async def raises(_inputs: Any) -> str:
    raise LookupError("secret")


@pytest.mark.parametrize(
    "key",
    [raises, lambda _: None, lambda _: 7, lambda _: "", lambda _: b"key", lambda: "key"],
    ids=["raises", "none", "number", "empty", "bytes", "takes-nothing"],
)
async def test_a_key_function_that_fails_counts_as_none(
    key: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """C-048, C-135: the derived key is used, and the events say so."""
    model, cache = numbered(), InMemoryServerCache()
    agent = cached(model, cache, key=key)
    first = await agent.generate("go")
    assert [event.action for event in first.policy_events] == ["bypassed"]
    assert await asked(agent, "go") == await asked(cached(model, cache), "go") == ["one"]
    assert "secret" not in caplog.text


async def test_what_a_failing_function_did_to_its_inputs_counts_for_nothing() -> None:
    """C-048: the prompt it was given is a copy."""

    def spoils(inputs: CacheKeyInputs) -> str:
        inputs.prompt[0]["content"] = "changed"
        inputs.prompt.clear()
        raise LookupError

    model, cache = numbered(), InMemoryServerCache()
    assert await asked(cached(model, cache, key=spoils), "go") == ["one"]
    assert await asked(cached(model, cache), "go") == ["one"]
