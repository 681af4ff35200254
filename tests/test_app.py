"""`App`: what is registered, who is handed the app, and one life for all of it."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession import (
    Agent,
    App,
    Around,
    ConfigurationError,
    Policy,
    Run,
    StoreError,
    processor,
    register_provider,
    tool,
)
from procession import model as model_lookup
from procession.cache import InMemoryServerCache, SQLiteCache
from procession.memory import Memory, MessageHistory, SemanticRecall
from procession.processors import ModerationProcessor, ResponseCache
from procession.recording import Recorder
from procession.stores import InMemoryStore, SQLiteStore
from procession.testing import RecordingObserver, ScriptedModel, answer, tool_call
from procession.testing.embedding import HashingEmbedder
from procession.tracing import Observability, StoreExporter, Tracing
from procession.vectors import InMemoryVectors, SQLiteVectors
from procession.workflows import ProcessorStepSchema, create_step, create_workflow

CALL = {"thread": "t1", "resource": "ada"}


class Noting:
    """Wants the app, and notes which ones it was given."""

    def __init__(self, id: str = "noting") -> None:
        self.id = id
        self.apps: list[Any] = []

    def register_app(self, app: Any) -> None:
        self.apps.append(app)

    def process_input(self, args: Any) -> None: ...


def flow(id: str = "pipeline", *processors: Any) -> Any:
    made = create_workflow(
        id=id, input_schema=ProcessorStepSchema, output_schema=ProcessorStepSchema
    )
    for each in processors or (Noting(f"in-{id}"),):
        made = made.then(create_step(each))
    return made.commit()


def plain_flow(id: str) -> Any:
    step = create_step(id="only", execute=lambda context: {"n": 1})
    return create_workflow(id=id).then(step).commit()


def agent(id: str = "a", *answers: Any, **options: Any) -> Agent:
    options.setdefault("model", ScriptedModel(list(answers) or ["yes"]))
    return Agent(id=id, **options)


# ── by name ────────────────────────────────────────────────────────────────────────────────────


def test_agents_are_found_by_name_then_by_id() -> None:
    """O-130: by registration key first, then by id."""
    desk, sales = agent("desk"), agent("sales")
    app = App(agents={"front": desk, "sales": sales})
    assert app.get_agent("front") is desk and app.get_agent("desk") is desk
    assert app.get_agent_by_id("desk") is desk and app.get_agent("sales") is sales
    assert list(app.agents) == ["front", "sales"]
    with pytest.raises(ConfigurationError, match=r"no agent 'nobody'; there is 'front', 'sales'"):
        app.get_agent("nobody")
    with pytest.raises(ConfigurationError, match=r"'desk', 'sales'"):
        app.get_agent_by_id("front")


def test_agents_may_be_a_list() -> None:
    assert list(App(agents=[agent("a"), agent("b")]).agents) == ["a", "b"]


def test_two_agents_of_one_id_are_refused_both_named() -> None:
    """W-152, for agents: no name stands for two."""
    with pytest.raises(ConfigurationError, match=r"two agents .*'x' \(in agents\) and 'x'"):
        App(agents={"one": agent("x"), "two": agent("x")})


def test_a_name_that_is_the_id_of_another_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="two agents cannot have the name 'b'"):
        App(agents={"b": agent("a"), "c": agent("b")})


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3)), unique_by=lambda pair: pair[0])
)
def test_whatever_is_accepted_each_name_and_id_leads_to_its_agent(pairs: Any) -> None:
    """O-130, W-152: what cannot be told apart is refused, all else is found by either."""
    made = [agent("abcd"[number]) for number in range(4)]
    given_agents = {key: made[number] for key, number in pairs}
    owners: dict[str, set[int]] = {}
    for key, number in pairs:
        for name in (key, made[number].id):
            owners.setdefault(name, set()).add(number)
    if any(len(numbers) > 1 for numbers in owners.values()):
        with pytest.raises(ConfigurationError, match="two agents"):
            App(agents=given_agents)
        return
    app = App(agents=given_agents)
    for name, (number,) in owners.items():
        assert app.get_agent(name) is made[number]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"agents": "abc"}, "agents"),
        ({"agents": [object()]}, "agents"),
        ({"workflows": {"w": object()}}, r"workflows\['w'\]"),
        ({"store": object()}, "store"),
        ({"cache": object()}, "cache"),
        ({"tracing": RecordingObserver()}, "tracing"),
        ({"logger": "procession"}, "logger"),
        ({"agent": []}, "agents"),
    ],
)
def test_what_cannot_work_is_told_by_the_name_of_the_option(options: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        App(**options)


# ── workflows and processors ───────────────────────────────────────────────────────────────────


def test_workflows_of_agents_are_registered_by_themselves() -> None:
    """W-150, W-154, W-186: under their ids, told to be processor workflows."""
    guards = flow("guards")
    app = App(agents={"desk": agent("a", output_processors=[guards])}, workflows=[plain_flow("w")])
    assert app.get_workflow("guards") is guards and app.get_workflow_by_id("guards") is guards
    told = {entry.id: (entry.type, entry.agent_ids) for entry in app.list_workflows()}
    assert told == {"w": ("default", ()), "guards": ("processor", ("a",))}


def test_a_workflow_in_a_list_is_a_processor_workflow_whatever_it_says_it_takes() -> None:
    """W-154: by where it stands."""
    made = create_workflow(id="bare").then(create_step(Noting())).commit()
    (entry,) = App(agents=[agent("a", input_processors=[made])]).list_workflows()
    assert (made.type, entry.type) == ("default", "processor")


def test_workflows_have_keys_of_their_own() -> None:
    """W-151: by key or id; the same object found in a list as well is listed once (W-152)."""
    guards = flow("guards")
    app = App(
        agents=[agent("a", input_processors=[guards]), agent("b", input_processors=[guards])],
        workflows={"my-guards": guards},
    )
    assert app.get_workflow("my-guards") is app.get_workflow("guards") is guards
    (entry,) = app.list_workflows()
    assert (entry.key, entry.id, entry.type) == ("my-guards", "guards", "processor")
    assert entry.agent_ids == ("a", "b") and entry.workflow is guards
    assert list(app.workflows) == ["my-guards"]
    with pytest.raises(ConfigurationError, match="no workflow 'x'; there is 'my-guards'"):
        app.get_workflow("x")


def test_another_workflow_of_the_same_id_is_refused_and_nothing_was_handed_over() -> None:
    """W-152: both are named, and what was refused has changed nobody."""
    noting = Noting()
    first = agent("a", input_processors=[noting, flow("guards")])
    with pytest.raises(ConfigurationError) as told:
        App(agents=[first, agent("b", output_processors=[flow("guards")])])
    assert "input_processors of agent 'a'" in str(told.value)
    assert "output_processors of agent 'b'" in str(told.value)
    assert noting.apps == [] and first.app is None


async def test_workflows_given_by_functions_are_registered_at_the_first_call() -> None:
    """W-153: the functions are not called before; what they make anew is the same workflow."""
    desk = agent("a", "1", "2", input_processors=lambda scope: [flow("guards"), Noting("n")])
    app = App(agents=[desk])
    assert app.list_workflows() == [] == app.list_processors()
    await desk.generate("x")
    first = app.get_workflow("guards")
    assert first.app is app
    await desk.generate("x")
    assert app.get_workflow("guards") is not first
    (entry,) = app.list_workflows()
    assert entry.type == "processor" and entry.agent_ids == ("a",)
    assert [each.id for each in app.list_processors()] == ["in-guards", "n"]


async def test_a_function_that_gives_the_id_of_another_workflow_fails_the_call() -> None:
    """W-152, W-153: told with both places, at the first call."""
    desk = agent("a", input_processors=lambda scope: [flow("guards")])
    other = agent("b", input_processors=[flow("guards")])
    App(agents=[desk, other])
    with pytest.raises(ConfigurationError, match=r"function of agent 'a'.*of agent 'b'"):
        await desk.generate("x")


async def test_a_call_s_own_lists_are_not_registered() -> None:
    """W-153: the agent's functions are meant, not what one call brings along."""
    desk, noting = agent(), Noting()
    app = App(agents=[desk])
    await desk.generate("x", input_processors=[noting, flow("guards")])
    assert app.list_workflows() == [] == app.list_processors() and noting.apps == []


def test_processors_are_listed_with_those_that_use_them() -> None:
    """W-156: each object once, with its hooks and places, also within workflows."""
    shared, inner = Noting("shared"), Noting("inner")
    app = App(
        agents=[
            agent("a", input_processors=[shared, flow("w", inner)]),
            agent("b", input_processors=[shared], output_processors=[Both()]),
        ]
    )
    listed = {entry.id: entry for entry in app.list_processors()}
    assert list(listed) == ["shared", "inner", "both"]
    assert listed["shared"].agent_ids == ("a", "b") and listed["shared"].processor is shared
    assert listed["inner"].uses[0].workflow_id == "w"
    assert listed["both"].hooks == ("process_output_stream", "process_output_step", "run_ended")
    assert (listed["both"].name, listed["both"].description) == ("Both of them", "Looks.")


class Both:
    id = "both"
    name = "Both of them"
    description = "Looks."

    def run_ended(self, ending: Any) -> None: ...
    def process_output_step(self, args: Any) -> None: ...
    def process_output_stream(self, args: Any) -> Any:
        return args.part


async def test_processors_made_for_each_call_do_not_pile_up() -> None:
    """Nothing left behind: of what functions make anew, the latest is listed."""
    kept: list[weakref.ref[Any]] = []

    def made(scope: Any) -> list[Any]:
        noting = Noting("n")
        kept.append(weakref.ref(noting))
        return [noting]

    desk = agent("a", *["x"] * 20, input_processors=made)
    app = App(agents=[desk])
    for _ in range(20):
        await desk.generate("x")
    gc.collect()
    assert [each.id for each in app.list_processors()] == ["n"]
    assert sum(reference() is not None for reference in kept) == 1


# ── what is handed over ────────────────────────────────────────────────────────────────────────


async def test_the_app_is_handed_to_whatever_wants_it_once() -> None:
    """W-155: processors, those within workflows, fallbacks, extensions, what functions give."""
    listed, inner, fallback, given_later = (Noting(f"n{number}") for number in range(4))

    class Extending(Noting):
        def extend(self, opening: Any) -> Any:
            return Around()

    extension = Extending()
    guarded = processor(
        id="g",
        process_input=lambda args: None,
        policy=Policy(on_error="degrade", fallback=fallback),
    )
    first = agent(
        "a",
        input_processors=[listed, flow("w", inner), guarded],
        output_processors=[listed, processor(process_output_step=lambda args: None, id="o")],
        extensions=[extension],
    )
    second = agent("b", "1", "2", input_processors=lambda scope: [given_later, listed])
    app = App(agents=[first, second])
    for noting in (listed, inner, fallback, extension):
        assert noting.apps == [app]
    assert given_later.apps == []
    await second.generate("x")
    await second.generate("x")
    assert given_later.apps == [app] == listed.apps
    assert app.get_workflow("w").app is app and first.app is app


async def test_what_was_handed_over_has_store_cache_logger_and_observer() -> None:
    """W-155: logger and storage among them."""
    store, cache, logger = InMemoryStore(), InMemoryServerCache(), logging.getLogger("shop")
    noting = Noting()
    App(agents=[agent(input_processors=[noting])], store=store, cache=cache, logger=logger)
    (app,) = noting.apps
    assert (app.store, app.cache, app.logger, app.observer) == (store, cache, logger, None)
    assert App().logger.name == "procession.app"


def test_an_agent_belongs_to_the_app_it_was_registered_on_last() -> None:
    desk = agent()
    App(agents=[desk], store=InMemoryStore())
    last = App(agents=[desk])
    assert desk.app is last


# ── storage ────────────────────────────────────────────────────────────────────────────────────


async def test_a_memory_without_storage_uses_that_of_the_app() -> None:
    """M-021: the default is the app's; its own goes before."""
    own, shared = InMemoryStore(), InMemoryStore()
    lent, kept = Memory(), Memory(storage=own)
    one, other = agent("a", memory=lent), agent("b", memory=kept)
    App(agents=[one, other], store=shared)
    await one.generate("Hello", memory=CALL)
    await other.generate("Hi", memory={**CALL, "thread": "t2"})
    assert [m.text for m in await shared.get_store("memory").newest_messages("t1", 5)] == [
        "Hello",
        "yes",
    ]
    assert await shared.get_store("memory").get_thread_by_id("t2") is None
    assert await own.get_store("memory").get_thread_by_id("t2") is not None


async def test_without_storage_anywhere_the_error_says_how_to_give_one() -> None:
    """M-021: at first use, with an app that has none as well."""
    desk = agent(memory=Memory())
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"Memory\(storage=.*App\(agents=…, store=…\)"):
            await desk.generate("x", memory=CALL)
        App(agents=[desk])


async def test_a_memory_given_by_a_function_takes_the_store_at_the_first_call() -> None:
    """M-025, M-021."""
    memory, store = Memory(), InMemoryStore()
    desk = agent(memory=lambda scope: memory)
    App(agents=[desk], store=store)
    await desk.generate("Hello", memory=CALL)
    assert await store.get_store("memory").get_thread_by_id("t1") is not None


async def test_memory_processors_by_hand_take_the_store_as_well() -> None:
    """M-045, M-021."""
    history, store = MessageHistory(), InMemoryStore()
    desk = agent("a", "1", "2", input_processors=[history], output_processors=[history])
    App(agents=[desk], store=store)
    await desk.generate("Hello", memory=CALL)
    assert len(await store.get_store("memory").newest_messages("t1", 5)) == 2


async def test_another_app_lends_its_own_store() -> None:
    """What an app has lent is not kept when the agent belongs to another one."""
    memory, first, second = Memory(), InMemoryStore(), InMemoryStore()
    desk = agent(memory=memory)
    App(agents=[desk], store=first)
    App(agents=[desk], store=second)
    assert memory.storage is second
    App(agents=[desk])
    assert memory.storage is None


@tool(require_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def test_runs_wait_in_the_store_of_the_app() -> None:
    """G-F5: an agent of the same id in another process goes on with them."""
    store = InMemoryStore()

    def made() -> Agent:
        asks = answer(tool_calls=[tool_call("pay", {"amount": 5})])
        return agent("till", asks, "done", tools=[pay])

    first, second = made(), agent("till", "done", tools=[pay])
    App(agents=[first], store=store)
    App(agents=[second], store=store)
    waiting = await first.generate("pay 5")
    assert waiting.finish_reason == "suspended"
    result = await second.approve_tool_call_generate(waiting.run_id)
    assert result.text == "done"


async def test_tracing_hears_of_agents_without_an_observer() -> None:
    tracing, own = EndingObserver(), RecordingObserver()
    App(agents=[one := agent("a"), other := agent("b", observer=own)], tracing=tracing)
    await one.generate("x")
    assert [span.kind for span in tracing.spans] == ["model"]
    await other.generate("x")
    assert len(tracing.spans) == 1 == len(own.spans)


async def test_traces_are_in_the_store_when_the_app_has_ended(tmp_path: Any) -> None:
    """O-055: all is exported before the store is closed; a store of its own is closed as well."""
    path = tmp_path / "traces.db"
    tracing = Tracing([StoreExporter(SQLiteStore(path))])
    async with App(agents=[desk := agent("desk")], tracing=tracing):
        await desk.generate("x")
    for thread in workers():
        thread.join(30)
    assert workers() == []
    async with SQLiteStore(path) as store:
        page = await store.get_store("observability").list_traces()
    assert [trace.entity_id for trace in page.traces] == ["desk"]


async def test_the_store_that_runs_are_recorded_in_is_closed(tmp_path: Any) -> None:
    recorder = Recorder(SQLiteStore(tmp_path / "runs.db"))
    async with App(agents=[desk := agent("desk", record=recorder)]):
        await desk.generate("x")
        assert [run.agent_id for run in await recorder.runs.list()] == ["desk"]
    for thread in workers():
        thread.join(30)
    assert workers() == []


async def test_an_app_whose_tracing_has_ended_says_so(caplog: pytest.LogCaptureFixture) -> None:
    app = App(tracing=Observability({"only": {}}))
    with caplog.at_level(logging.WARNING):
        async with app:
            assert caplog.messages == []
        async with app:
            assert "runs are not traced any more" in caplog.messages[0]


class EndingObserver(RecordingObserver):
    """An observer of the shape that is asked for."""

    def __init__(self, journal: list[str] | None = None) -> None:
        super().__init__()
        self.journal: list[str] = [] if journal is None else journal

    async def flush(self) -> None:
        self.journal.append("flush")

    async def shutdown(self) -> None:
        self.journal.append("shutdown")


# ── life ───────────────────────────────────────────────────────────────────────────────────────


class Journaled(InMemoryStore):
    """A store that tells what is done to it."""

    def __init__(self, name: str, journal: list[str]) -> None:
        super().__init__()
        self.name, self.journal = name, journal

    async def start(self) -> None:
        self.journal.append(f"start {self.name}")

    async def close(self) -> None:
        self.journal.append(f"close {self.name}")


class Refusing(Journaled):
    async def start(self) -> None:
        await super().start()
        raise StoreError("the server is away")


class Clinging(Journaled):
    async def close(self) -> None:
        await super().close()
        raise StoreError(f"{self.name} does not close")


class Connected(ScriptedModel):
    """A model with connections."""

    def __init__(self, name: str, journal: list[str], *answers: Any) -> None:
        super().__init__(list(answers) or ["x"])
        self.name, self.journal = name, journal

    async def aclose(self) -> None:
        self.journal.append(f"close {self.name}")


class ClosedCache(InMemoryServerCache):
    def __init__(self, name: str, journal: list[str]) -> None:
        super().__init__()
        self.name, self.journal = name, journal

    def close(self) -> None:
        self.journal.append(f"close {self.name}")


def everything(journal: list[str]) -> App:
    memory = Memory(
        storage=Journaled("memory store", journal),
        vector=InMemoryVectors(),
        embedder=HashingEmbedder(),
        semantic_recall=True,
    )
    return App(
        agents=[
            Agent(
                id="a",
                model=Connected("model", journal),
                memory=memory,
                input_processors=[
                    ModerationProcessor(model=Connected("judge", journal)),
                    ResponseCache(cache=ClosedCache("response cache", journal)),
                ],
            )
        ],
        store=Journaled("store", journal),
        cache=ClosedCache("cache", journal),
        tracing=EndingObserver(journal),
    )


async def test_everything_is_started_in_order_and_closed_in_the_reverse_one() -> None:
    journal: list[str] = []
    async with everything(journal) as app:
        assert app.is_running and journal == ["start store", "start memory store"]
        await app.start()  # twice is once
        assert len(journal) == 2
        journal.clear()
    assert not app.is_running
    # Tracing hears of the last of it; the app's own store is there until all else is done.
    assert journal == [
        "close response cache",
        "close judge",
        "close memory store",
        "close model",
        "flush",
        "shutdown",
        "close cache",
        "close store",
    ]


async def test_it_is_closed_though_it_was_never_started_and_can_be_used_again() -> None:
    """Everything opens with its first use: then it is closed as well, as often as it is asked."""
    journal: list[str] = []
    app = everything(journal)
    await app.stop()
    assert journal[-1] == "close store"
    journal.clear()
    async with app:
        assert journal == ["start store", "start memory store"]
    await app.stop()
    assert journal.count("start store") == 1


async def test_a_start_that_fails_undoes_what_began_and_says_what_failed() -> None:
    journal: list[str] = []
    memory = Memory(storage=Refusing("second", journal))
    app = App(
        agents=[agent(memory=memory), agent("b", memory=Memory(storage=Journaled("3", journal)))],
        store=Journaled("first", journal),
    )
    with pytest.raises(StoreError, match="the server is away") as told:
        await app.start()
    assert told.value.__notes__ == ["raised when the app was starting its Refusing"]
    assert journal == ["start first", "start second", "close second", "close first"]
    assert not app.is_running


async def test_what_fails_to_close_hinders_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    journal: list[str] = []
    memories = [Memory(storage=Clinging(name, journal)) for name in ("one", "two")]
    agents = [agent(str(number), memory=each) for number, each in enumerate(memories)]
    app = App(agents=agents, store=Journaled("store", journal))
    with caplog.at_level(logging.WARNING), pytest.raises(StoreError, match="two does not close"):
        await app.stop()
    assert journal == ["close two", "close one", "close store"]
    assert caplog.messages == ["closing Clinging failed: StoreError"]


async def test_what_the_block_raised_leaves_though_closing_fails() -> None:
    app = App(store=Clinging("store", []))
    with pytest.raises(ZeroDivisionError):
        async with app:
            raise ZeroDivisionError
    with pytest.raises(StoreError):
        async with app:
            pass


async def test_being_cancelled_cuts_no_closing_short() -> None:
    """Law 6: who is cancelled while stopping has everything closed all the same."""
    journal: list[str] = []
    reached, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Journaled):
        async def close(self) -> None:
            reached.set()
            await go_on.wait()
            await super().close()

    app = App(
        agents=[agent(memory=Memory(storage=Slow("slow", journal)))],
        store=Journaled("store", journal),
    )
    stopping = asyncio.ensure_future(app.stop())
    await reached.wait()
    stopping.cancel()
    await asyncio.sleep(0)
    assert not stopping.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert journal == ["close slow", "close store"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_starting_and_stopping_from_several_tasks_happens_once() -> None:
    journal: list[str] = []
    app = App(store=Journaled("store", journal))
    await asyncio.gather(app.start(), app.start(), app.start())
    assert journal == ["start store"]
    await asyncio.gather(app.stop(), app.stop())
    assert not app.is_running


def test_an_app_serves_one_event_loop_after_the_other() -> None:
    app = App(agents=[agent("a", "1", "2")], store=InMemoryStore())

    async def use() -> str:
        await asyncio.gather(app.start(), app.start())
        async with app:
            return (await app.get_agent("a").generate("x")).text

    assert [asyncio.run(use()), asyncio.run(use())] == ["1", "2"]


async def test_titles_that_are_being_made_are_waited_for() -> None:
    """M-160: what goes on behind a run is done before its store is closed."""
    journal: list[str] = []
    store = Journaled("store", journal)
    desk = agent("a", "Hello Ada.", "A greeting", memory=Memory(generate_title=True))
    async with App(agents=[desk], store=store):
        await desk.generate("I am Ada.", memory=CALL)
    thread = await store.get_store("memory").get_thread_by_id("t1")
    assert thread is not None and thread.title == "A greeting"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_work_behind_runs_that_does_not_end_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("procession.memory.background.PATIENCE", 0.01)
    memory = Memory(storage=InMemoryStore())
    never = asyncio.Event()

    async def waits() -> None:
        await never.wait()

    memory.background.begin("waiting", waits())
    await App(agents=[agent(memory=memory)]).stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def workers() -> list[threading.Thread]:
    """The threads of stores."""
    return [thread for thread in threading.enumerate() if "procession-sqlite" in thread.name]


async def test_files_are_let_go_of(tmp_path: Any) -> None:
    """Stores, vectors and caches in files are closed; no thread of theirs is left."""
    store, other = SQLiteStore(tmp_path / "a.db"), SQLiteStore(tmp_path / "b.db")
    memory = Memory(vector=SQLiteVectors(other), embedder=HashingEmbedder(), semantic_recall=True)
    desk = agent(memory=memory)
    async with App(agents=[desk], store=store, cache=SQLiteCache(tmp_path / "c.db")) as app:
        await app.cache.set("k", 1)
        await desk.generate("Hello", memory=CALL)
        assert workers()
    for thread in workers():
        thread.join(30)
    assert workers() == []


async def test_what_semantic_recall_by_hand_opens_is_closed() -> None:
    journal: list[str] = []

    class Embedding(HashingEmbedder):
        async def aclose(self) -> None:
            journal.append("close embedder")

    recall = SemanticRecall(vector=InMemoryVectors(), embedder=Embedding())
    await App(agents=[agent(input_processors=[recall])], store=InMemoryStore()).stop()
    assert journal == ["close embedder"]


async def test_models_made_of_ids_are_closed_with_those_that_functions_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal: list[str] = []
    monkeypatch.setattr(model_lookup, "_factories", {})
    register_provider("mock", lambda name: Connected(name, journal, "x", "y"))
    one = Agent(id="a", model="mock/one")
    two = Agent(id="b", model=lambda scope: ["mock/two", "mock/three"])
    async with App(agents=[one, two]):
        await one.generate("x")
        await two.generate("x")
    assert sorted(journal) == ["close one", "close three", "close two"]


async def test_the_app_keeps_nothing_alive() -> None:
    """`attach` holds weakly: what a call brings is gone with the call."""

    class Resource:
        def close(self) -> None:
            raise AssertionError

    app = App()
    resource = Resource()
    app.attach(resource)
    app.attach("nothing to close")
    del resource
    gc.collect()
    await app.stop()


async def test_an_agent_needs_no_app_and_keeps_working_after_one() -> None:
    desk = agent("a", "1", "2", "3")
    assert (await desk.generate("x")).text == "1"
    async with App(agents=[desk]):
        assert (await desk.generate("x")).text == "2"
    run: Run = await desk.stream("x")
    assert await run.text == "3"
