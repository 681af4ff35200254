"""`ResponseCache`: what is written, and when (C-061, C-090 to C-097)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from procession import (
    AbortController,
    APICallError,
    OptionError,
    processor,
    tool,
)
from procession.cache import InMemoryServerCache
from procession.processors import (
    DEFAULT_RESPONSE_CACHE_TTL_SECONDS,
    ResponseCache,
)
from procession.testing import ScriptedModel, answer, text
from tests.processors.caching import (
    Notes,
    asked,
    cached,
    loop_model,
    numbered,
    stored,
)


@pytest.mark.parametrize(
    ("ttl", "written"),
    [(600, 600_000), (0.25, 250), (0, 0), (-3, 0), (DEFAULT_RESPONSE_CACHE_TTL_SECONDS, 300_000)],
)
async def test_the_time_to_live(ttl: float, written: int) -> None:
    """C-095, C-117, C-009: seconds here, milliseconds there; none at all is for ever."""
    cache = Notes()
    await asked(cached(cache=cache, ttl=ttl), "go")
    assert cache.log[-1][2] == written


async def test_the_caches_own_time_to_live() -> None:
    """C-009: `ttl=None` says nothing, so a cache need not know of times."""

    class Simple:
        def __init__(self) -> None:
            self.kept: dict[str, Any] = {}

        async def get(self, key: str) -> Any:
            return self.kept.get(key)

        async def set(self, key: str, value: Any) -> None:
            self.kept[key] = value

    assert await asked(cached(cache=Simple(), ttl=None), "go", "go") == ["one", "one"]
    with pytest.raises(OptionError, match="without ttl_ms give ttl=None"):
        ResponseCache(cache=Simple())  # type: ignore[arg-type]


async def test_bust_asks_and_writes() -> None:
    """C-131, C-061: by call, or for the processor as a whole."""
    agent = cached()
    bust = {"request_context": ResponseCache.context(bust=True)}
    found = [
        *await asked(agent, "go", "go"),
        *await asked(agent, "go", **bust),
        *await asked(agent, "go"),
    ]
    assert found == ["one", "one", "two", "two"]
    cache, model = InMemoryServerCache(), numbered()
    assert await asked(cached(model, cache, bust=True), "go", "go") == ["one", "two"]
    assert await asked(cached(model, cache), "go") == ["two"]


def aborting(hook: str, *, retry: bool = False, times: int = 1) -> Any:
    """Aborts so many times."""
    left = [times]

    def check(args: Any) -> Any:
        if left[0] and (hook != "process_output_stream" or args.part.type == "text-delta"):
            left[0] -= 1
            args.abort("no", retry=retry)
        return args.part if hook == "process_output_stream" else None

    return processor(**{hook: check}, id="guard")  # type: ignore[arg-type]


OUTPUT_HOOKS = ("process_output_stream", "process_output_step", "process_output_result")


@pytest.mark.parametrize("hook", OUTPUT_HOOKS)
async def test_what_was_blocked_is_not_kept(hook: str) -> None:
    """C-091, C-136: the next call asks the model."""
    cache = Notes()
    agent = cached(cache=cache, output_processors=[aborting(hook)])
    result = await agent.generate("go")
    assert result.tripwire is not None and not cache.kept
    assert await asked(agent, "go", "go") == ["two", "two"]


@pytest.mark.parametrize("hook", OUTPUT_HOOKS)
async def test_what_was_kept_is_judged_anew(hook: str) -> None:
    """C-072: a guard that came later blocks a replay like a live answer, and loses nothing."""
    cache, model = InMemoryServerCache(), numbered()
    assert await asked(cached(model, cache), "go") == ["one"]
    guarded = cached(model, cache, output_processors=[aborting(hook, times=99)])
    assert (await guarded.generate("go")).tripwire is not None
    assert await asked(cached(model, cache), "go") == ["one"]
    assert len(model.calls) == 1


@pytest.mark.parametrize("hook", ["process_output_stream", "process_output_step"])
async def test_of_a_step_that_was_made_again_the_last_attempt_is_kept(hook: str) -> None:
    """C-091: what was rejected is forgotten."""
    cache = Notes()
    agent = cached(
        cache=cache, output_processors=[aborting(hook, retry=True)], max_processor_retries=1
    )
    assert await asked(agent, "go") == ["two"]
    (entry,) = stored(cache)
    assert "two" in str(entry) and "one" not in str(entry)


async def test_a_rejected_attempt_is_forgotten_when_the_next_one_is_a_hit() -> None:
    """C-091: somebody else has got an answer meanwhile."""
    cache, other = Notes(), Notes()
    await cached(ScriptedModel(["good"]), other, key="pinned").generate("go")

    def reject(args: Any) -> None:
        if args.text == "one":
            cache.kept |= other.kept
            args.abort("no", retry=True)

    guard = processor(process_output_step=reject, id="guard")
    agent = cached(cache=cache, key="pinned", output_processors=[guard], max_processor_retries=1)
    assert await asked(agent, "go") == ["good"]
    assert cache.kept == other.kept and "set" not in {entry[0] for entry in cache.log}


def broken(args: Any) -> Any:
    raise LookupError("broken")


@pytest.mark.parametrize("hook", [*OUTPUT_HOOKS, "process_llm_response"])
async def test_a_run_that_failed_keeps_nothing(hook: str) -> None:
    """C-091: a hook has raised, before or behind the cache."""
    cache = Notes()
    bad = processor(**{hook: broken}, id="bad")  # type: ignore[arg-type]
    lists: dict[str, Any] = (
        {"after": [bad]} if hook == "process_llm_response" else {"output_processors": [bad]}
    )
    with pytest.raises(LookupError):
        await cached(cache=cache, **lists).generate("go")
    assert not cache.kept


@pytest.mark.parametrize("broken_off", [False, True])
async def test_a_model_that_failed_keeps_nothing(broken_off: bool) -> None:
    """C-091: refused, or broken off in the middle."""
    error = APICallError("no", status_code=400)
    broke = [*text("some")[:2], {"type": "error", "error": {"message": "lost"}}]
    cache = Notes()
    agent = cached(ScriptedModel([broke if broken_off else error, "two"]), cache)
    with pytest.raises(Exception, match=r"no|lost"):
        await agent.generate("go")
    assert not cache.kept
    assert await asked(agent, "go", "go") == ["two", "two"]


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("stop", True),
        ("length", True),
        ("content-filter", False),
        ("error", False),
        ("unknown", False),
        ("other", False),
    ],
)
async def test_only_answers_that_ended_well_are_kept(reason: str, kept: bool) -> None:
    """C-093"""
    cache = Notes()
    await cached(ScriptedModel([answer("one", finish_reason=reason)]), cache).generate("go")
    assert bool(cache.kept) is kept


async def test_an_answer_without_an_end_is_not_kept() -> None:
    """C-092: nobody knows whether that was all."""
    cache = Notes()
    await cached(ScriptedModel([text("one")]), cache).generate("go")
    assert not cache.kept


@pytest.mark.parametrize("how", ["signal", "close", "cancel"])
async def test_what_was_cut_off_is_not_kept(how: str) -> None:
    """C-092: by the caller's signal, by who stopped reading, by who was cancelled."""
    cache = Notes()
    agent = cached(ScriptedModel([[*text("a", "b", "c"), *answer().parts]]), cache)
    controller = AbortController()
    run = await agent.stream("go", abort_signal=controller.signal)

    async def read() -> None:
        async for chunk in run.full_stream:
            if chunk.type == "text-delta":
                if how == "signal":
                    controller.abort()
                elif how == "close":
                    break
                else:
                    asyncio.current_task().cancel()  # type: ignore[union-attr]
                    await asyncio.sleep(0)

    task = asyncio.create_task(read())
    await asyncio.wait([task])
    await run.aclose()
    assert [entry[0] for entry in cache.log] == ["get"]


async def test_nothing_is_written_before_the_run_has_ended() -> None:
    """C-091: also of steps that were accepted long before."""

    @tool
    def stock(item: str) -> int:
        """How many are left."""
        return 3

    cache = Notes()
    seen: list[int] = []
    last = processor(id="last", process_output_result=lambda _: seen.append(len(cache.kept)))
    await cached(loop_model(), cache, tools=[stock], output_processors=[last]).generate("go")
    assert seen == [0] and len(cache.kept) == 2


async def test_the_same_at_the_same_time() -> None:
    """C-097: each asks the model, and the last one's answer is kept."""
    model = numbered()
    agent = cached(model)
    found = await asyncio.gather(*(agent.generate("go") for _ in range(3)))
    assert sorted(result.text for result in found) == ["one", "three", "two"]
    (again,) = await asked(agent, "go")
    assert again in ("one", "two", "three") and len(model.calls) == 3


async def test_two_caches_one_behind_the_other() -> None:
    """C-073: each keeps its own pending writes; the first that knows an answer gives it."""
    near, far = Notes(), Notes()
    model = numbered()
    both = cached(model, near, after=[ResponseCache(cache=far)])
    assert await asked(both, "go") == ["one"]
    assert len(near.kept) == len(far.kept) == 1
    near.kept.clear()
    assert await asked(both, "go") == ["one"] and len(model.calls) == 1
