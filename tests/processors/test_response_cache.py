"""`ResponseCache`: hits, and options (C-001 to C-009, C-060, C-070 to C-079, C-130 to C-138)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from procession import (
    Agent,
    ConfigurationError,
    OptionError,
    processor,
)
from procession.cache import InMemoryServerCache
from procession.processors import (
    CostGuardProcessor,
    CostQuery,
    InMemoryCostStore,
    ModelPrice,
    ResponseCache,
)
from procession.testing import RecordingObserver, ScriptedModel, answer, collect
from tests.processors.caching import (
    Notes,
    asked,
    cached,
    numbered,
    stored,
)


@pytest.mark.parametrize("first", ["generate", "stream"])
@pytest.mark.parametrize("second", ["generate", "stream"])
async def test_the_second_time_the_model_is_not_asked(first: str, second: str) -> None:
    """C-130, C-070: text, usage and finish reason are the same, whichever way it is asked."""
    model = ScriptedModel([answer("It ", "is ", "noon."), "never"])
    agent = cached(model)
    found: list[Any] = []
    for way in (first, second):
        if way == "generate":
            result = await agent.generate("Time?")
        else:
            result = await (await agent.stream("Time?")).get_full_output()
        found.append((result.text, result.usage, result.finish_reason, result.warnings))
    assert found[0] == found[1] and found[0][0] == "It is noon."
    assert len(model.calls) == 1


async def test_a_replay_is_a_stream_with_ids_of_its_own() -> None:
    """C-070, C-071: the same chunks in the same pieces, with the run, message and time of now."""
    agent = cached(ScriptedModel([answer("It ", "is ", "noon.")]))
    runs = [await agent.stream("Time?") for _ in range(1)]
    live = await collect(runs[0].full_stream)
    again = await agent.stream("Time?")
    replayed = await collect(again.full_stream)
    assert [c.type for c in live] == [c.type for c in replayed]
    texts = [
        [c.payload.text for c in found if c.type == "text-delta"] for found in (live, replayed)
    ]
    assert texts == [["It ", "is ", "noon."]] * 2
    assert {c.run_id for c in replayed} == {again.run_id} != {runs[0].run_id}
    assert replayed[1].payload.message_id != live[1].payload.message_id
    moments: list[Any] = [(await run.response).timestamp for run in (*runs, again)]
    assert moments[0].year < 2000 < moments[1].year
    assert (await again.response).id == (await runs[0].response).id


async def test_all_output_processors_see_a_replay_once() -> None:
    """C-072: what is kept is what the model said, so that nothing is changed twice."""

    def louder(args: Any) -> Any:
        if args.part.type != "text-delta":
            return args.part
        return args.with_text(args.part.payload.text + "!")

    cache = Notes()
    agent = cached(cache=cache, output_processors=[processor(process_output_stream=louder)])
    assert await asked(agent, "go", "go") == ["one!", "one!"]
    assert "one!" not in str(cache.kept)


async def test_processors_are_told_of_a_replay() -> None:
    """C-138, C-073: of all input processors, wherever they stand."""
    seen: list[Any] = []

    def peek(id: str) -> Any:
        return processor(
            id=id,
            process_llm_request=lambda args: seen.append((id, "asked")),
            process_llm_response=lambda args: seen.append((id, args.from_cache)),
        )

    cache = Notes()
    agent = cached(cache=cache, before=[peek("before")], after=[peek("after")])
    await asked(agent, "go", "go")
    once = [("before", "asked"), ("after", "asked"), ("before", False), ("after", False)]
    assert seen == [*once, *once[:2], ("before", True), ("after", True)]
    assert [entry[0] for entry in cache.log] == ["get", "set", "get"]


async def test_what_stands_behind_is_no_part_of_the_key() -> None:
    """C-003, C-133: what stands before it is."""

    def adding(word: str) -> Any:
        def add(args: Any) -> Any:
            return {"prompt": [*args.prompt, {"role": "system", "content": word}]}

        return processor(process_llm_request=add, id=f"adds {word}")

    cache = InMemoryServerCache()
    model = numbered()
    texts: list[str] = []
    for before, after in (("a", "x"), ("a", "y"), ("b", "x")):
        agent = cached(model, cache, before=[adding(before)], after=[adding(after)])
        texts += await asked(agent, "go")
    assert texts == ["one", "one", "two"]


async def test_another_processors_response_is_not_kept() -> None:
    """C-073, C-076: what did not come of the model is nobody's to write."""
    cache = Notes()
    chunks = [
        {"type": "text-delta", "payload": {"id": "t", "text": "canned"}},
        {"type": "finish", "payload": {"stepResult": {"reason": "stop"}, "output": {}}},
    ]
    canned = processor(process_llm_request=lambda args: {"response": {"chunks": chunks}}, id="can")
    assert await asked(cached(cache=cache, after=[canned]), "go") == ["canned"]
    assert not cache.kept


async def test_a_replayed_answer_costs_nothing() -> None:
    """C-078: it is told as a call that was none, to observers and to budgets."""
    store = InMemoryCostStore(prices={"mock/mock-1": ModelPrice(input=1e6, output=0)})
    observer = RecordingObserver()
    guard = CostGuardProcessor(max_cost=1000, store=store)
    agent = cached(before=[guard], observer=observer)
    of_one = CostQuery(scope="resource", scope_id="r-1")
    spent: list[float] = []
    for _ in range(2):
        await asked(agent, "go", memory={"resource": "r-1"})
        spent.append(store.get_metric_aggregate(of_one).estimated_cost)
    assert spent[0] == spent[1] > 0
    results = [await agent.generate(text, memory={"resource": "r-1"}) for text in ("go", "on")]
    assert [step.from_cache for result in results for step in result.steps] == [True, False]
    assert ["fromCache" in result.steps[0].to_json() for result in results] == [True, False]
    spans = [span for span in observer.spans if span.kind == "model"][:2]
    assert [(span.detail or {})["fromCache"] for span in spans] == [False, True]


async def test_a_hit_needs_no_key_for_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """C-079: who answers from a cache need not be able to ask."""
    cache = Notes()
    agent = cached(ScriptedModel(["one"], provider="openai", model_id="gpt-5"), cache)
    assert await asked(agent, "go") == ["one"]
    elsewhere = cached("openai/gpt-5", cache)
    assert await asked(elsewhere, "go") == ["one"]
    with pytest.raises(ConfigurationError):
        await elsewhere.generate("other")


async def test_without_a_cache_nothing_happens() -> None:
    """C-008"""
    agent = Agent(id="x", model=numbered(), input_processors=[ResponseCache(cache=None)])
    assert await asked(agent, "go", "go") == ["one", "two"]


async def test_the_models_warnings_are_kept() -> None:
    """C-090: and the whole of what is kept is JSON data."""
    cache = Notes()
    model = ScriptedModel([answer("one", warnings=[{"type": "other", "message": "mind"}])])
    agent = cached(model, cache)
    first, second = [await agent.generate("go") for _ in range(2)]
    assert first.warnings == second.warnings == [{"type": "other", "message": "mind"}]
    (entry,) = stored(cache)
    assert msgspec.json.decode(msgspec.json.encode(entry)) == entry
    assert "step-start" not in {chunk["type"] for chunk in entry["chunks"]}


# ── other forms of answers ────────────────────────────────────────────────────────────────────────


async def test_an_answer_in_another_form_is_no_hit() -> None:
    """C-062: prose is no object. The key is the same (C-042): the last answer is kept."""
    model = ScriptedModel(["prose", '{"n": 1}', '{"n": 2}'])
    agent = cached(model)
    schema: Any = {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    assert await asked(agent, "go") == ["prose"]
    for _ in range(2):
        assert (await agent.generate("go", structured_output=schema)).object == {"n": 1}
    assert len(model.calls) == 2


# ── options ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cache": {}}, "cache must be an object with get"),
        ({"cache": 7}, "cache must be an object with get"),
        ({"cache": InMemoryServerCache}, "cache must be an object with get"),
        ({"ttl": "600"}, "ttl must be a number, not '600'"),
        ({"ttl": float("nan")}, "ttl must be a number"),
        ({"scope": 7}, "scope must be a text"),
        ({"key": ""}, "key must be a text that is not empty, or a function"),
        ({"key": 7}, "key must be a text"),
        ({"bust": 1}, "bust must be True or False"),
        ({"agent_id": 7}, "agent_id must be a text"),
        ({"timeout": 0}, "timeout must be a number"),
        ({"tll": 5}, "did you mean 'ttl'"),
    ],
)
def test_options_that_cannot_work(options: dict[str, Any], said: str) -> None:
    """They are told when the processor is made."""
    with pytest.raises(OptionError, match=said):
        ResponseCache(**{"cache": Notes(), **options})


def test_a_cache_is_required() -> None:
    """C-008: who means none says so."""
    for error in (TypeError, ConfigurationError):
        with pytest.raises(error, match="ResponseCache needs the option 'cache'"):
            ResponseCache()


def test_names_and_defaults() -> None:
    """C-005"""
    made = ResponseCache(cache=None)
    assert (made.id, made.name) == ("response-cache", "Response Cache")
    assert (made.ttl, made.bust, made.key, made.timeout) == (300, False, None, 2.0)
