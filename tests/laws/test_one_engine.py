"""Law 1: `generate` drains `stream`; whatever can be observed is the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.checks import REFUSED, TWO_STEPS, Filter, check_one_engine
from tests.laws.kit import Hook, call, end, run_async, said
from tests.laws.strategies import conversations, played, seeds, sizes


@given(conversations(), seeds, sizes, st.integers(2, 7))
@settings(max_examples=40, deadline=None)
def test_any_conversation(steps: Any, seed: int, sizes: list[int], every: int) -> None:
    """R-548, R-549: outcome, calls of hooks and prompts, also with chunks dropped and changed."""
    run_async(check_one_engine(played(steps, seed), sizes, lambda: Filter("filter", every)))


def _boom(args: Any) -> None:
    raise ValueError("boom")


def _no(args: Any) -> None:
    args.abort("no")


def _again(args: Any) -> None:
    if args.retry_count < 2:
        args.abort("again", retry=True)


_STEP_HOOKS = ("process_input_step", "process_llm_request", "process_llm_response")
_LATER_HOOKS = ("process_output_step", "process_tool_result", "process_output_result")


@pytest.mark.parametrize("hook", ["process_input", *_STEP_HOOKS, *_LATER_HOOKS])
@pytest.mark.parametrize("act", [_no, _again])
async def test_verdicts(hook: str, act: Any) -> None:
    """R-550: `generate` returns normally on a tripwire, after the same retries."""
    await check_one_engine(TWO_STEPS, (2,), lambda: Hook(hook, act), max_processor_retries=3)


@pytest.mark.parametrize("hook", [*_STEP_HOOKS, *_LATER_HOOKS])
async def test_errors_of_hooks(hook: str) -> None:
    """R-188, R-550: the same exception, in the stream's `error` and raised by `generate`."""
    await check_one_engine(TWO_STEPS, (1,), lambda: Hook(hook, _boom))


@pytest.mark.parametrize("retries", [0, 1])
async def test_failed_calls(retries: int) -> None:
    """R-113, R-550: refused calls, retried or final."""

    def retrier() -> Hook:
        return Hook("process_api_error", lambda args: {"retry": True})

    await check_one_engine(REFUSED, (3,), retrier, max_processor_retries=retries)


async def test_tools_of_all_kinds() -> None:
    """R-530 to R-532: throwing, unknown, and with arguments that do not fit or are no JSON."""
    calls = [
        call("echo", '{"value": "x"}', "c1"),
        call("fail", "{}", "c2"),
        call("nobody", "{}", "c3"),
        call("echo", '{"value": [1]}', "c4"),
        call("echo", '{"value": ', "c5"),
    ]
    await check_one_engine([[*calls, end("tool-calls")], [*said("so"), end()]])
