"""The agent: its configuration, and the four ways to run it, which are one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from .engine.asking import ResolvedModels
from .engine.blocking import run_blocking, stream_blocking
from .engine.compiled import CompiledPipelines
from .engine.opening import continue_run, open_run
from .engine.pipeline import Pipeline
from .errors import ConfigurationError
from .extension import check_extensions
from .model import LanguageModel, ModelSpec, resolve_model
from .options import ID, CallOptions, ContinueOptions, Dynamic, check_option, count, is_id
from .processor import check_processors
from .run import Run, Starting
from .tools import Tool, asks_for_tools, tool_map
from .waiting import WaitingCalls, allowed, declined, resumed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .chunks import Chunk
    from .extension import Extension
    from .host import Host
    from .options import OtherOptions
    from .output import FullOutput, Obj
    from .processor import ErrorProcessor, InputProcessor, OutputProcessor
    from .recording import Recorder
    from .spans import Observer
    from .structured.options import StructuredOutputOptions
    from .waiting import Decision, Waiting

__all__ = ["Agent"]

Input = Any
"""A text, a message in any accepted form, or a list of these (R-232, R-325)."""


class Agent:
    """A model with instructions, tools and processors.

    `model` is an id such as `"openai/gpt-5"`, a `ModelConfig`, a model object, or a function of the
    request. `instructions`, `tools` and each list of processors may be functions of the request as
    well: they get an object with `request_context`, once per request (R-016). Ids are resolved when
    a run needs them, so building an agent touches no provider.

    `max_processor_retries` is the default budget for retries (R-212, R-213); `max_retries` how
    often a retryable failure of the provider is tried again before anyone is asked (R-216).
    `memory` is what remembers conversations (`procession.memory.Memory`), or a function of the
    request that gives it; a call uses it when it names a conversation (M-003, M-025). Runs that
    wait are kept in its store, unless `waiting_calls` says otherwise.

    `record` writes each run down (`procession.recording.Recorder`).

    Raises `ConfigurationError` for lists, tools or numbers that cannot work. An agent keeps no
    state of a run: it may serve any number of requests at the same time.
    """

    def __init__(
        self,
        *,
        id: str,
        name: str | None = None,
        instructions: Any = None,
        model: ModelSpec | Callable[..., Any] | None = None,
        tools: Mapping[str, Tool] | Iterable[Tool] | Dynamic | None = None,
        input_processors: Sequence[InputProcessor] | Dynamic = (),
        output_processors: Sequence[OutputProcessor] | Dynamic = (),
        error_processors: Sequence[ErrorProcessor] | Dynamic = (),
        max_processor_retries: int | None = None,
        max_retries: int = 0,
        memory: Extension | Dynamic | None = None,
        extensions: Sequence[Extension] = (),
        observer: Observer | None = None,
        record: Recorder | None = None,
        waiting_calls: WaitingCalls | None = None,
    ) -> None:
        if not is_id(id):
            raise ConfigurationError(f"an agent needs an id: {ID}")
        if name is not None and not is_id(name):
            raise ConfigurationError(f"agent {id!r}: its name must be {ID}")
        self.id = id
        self.name = name or id
        self.instructions = instructions
        self.model = model
        self.tools = tools
        self.input_processors = _fixed(input_processors, "input_processors")
        self.output_processors = _fixed(output_processors, "output_processors")
        self.error_processors = _fixed(error_processors, "error_processors")
        if max_processor_retries is not None:
            count("max_processor_retries", max_processor_retries)
        self.max_processor_retries = max_processor_retries
        self.max_retries = count("max_retries", max_retries)
        self.extensions = check_extensions(extensions)
        if memory is not None and not hasattr(memory, "extend") and not callable(memory):
            raise ConfigurationError(
                f"agent {id!r}: memory must be a Memory, or a function of the request that gives "
                f"one, not {type(memory).__name__}"
            )
        self.memory = memory
        check_option("observer", observer)
        check_option("record", record)
        self.record = record
        self.observer = observer
        self.app: Host | None = None
        """The app that it is registered on; see `procession.App`."""
        self._own_room = waiting_calls is not None
        if waiting_calls is None:
            kept: WaitingCalls | None = getattr(memory, "waiting_calls", None)
            waiting_calls = WaitingCalls() if kept is None else kept
            self._own_room = kept is not None
        self.waiting_calls = waiting_calls
        """The tool calls of this agent's runs that wait for approval or for data."""
        self.models = ResolvedModels(model)
        self.fixed_model: LanguageModel | None = model if isinstance(model, LanguageModel) else None
        # A tool can be called as well, but is no function of the request (nor a list).
        asks = asks_for_tools(tools)
        self.fixed_tools: dict[str, Tool] | None = None if asks else tool_map(cast("Any", tools))
        self.compiled = self._compile()
        """The processors, compiled once, when nothing of them depends on the request."""
        self.pipelines = CompiledPipelines()
        """Those of calls whose lists depend on the request, or on an extension."""

    def _compile(self) -> Pipeline | None:
        lists = (self.input_processors, self.output_processors, self.error_processors)
        extended = self.memory is not None or self.extensions
        if extended or any(callable(entries) for entries in lists):
            return None
        return Pipeline(*lists)

    @property
    def listener(self) -> Observer | None:
        """Who hears of its runs: its own observer, or that of the app."""
        if self.observer is not None or self.app is None:
            return self.observer
        return self.app.observer

    def register_app(self, app: Host) -> None:
        """Belong to an app; the last one that it was registered on is the one.

        Runs that wait are kept in the app's store from now on, unless they have a place already, or
        wait here already.
        """
        self.app = app
        app.attach(self.models)
        if self._own_room or len(self.waiting_calls):
            return
        try:
            self.waiting_calls = WaitingCalls(store=app.store)
        except ConfigurationError:  # a store that keeps no runs
            self.waiting_calls = WaitingCalls()

    def stream(
        self,
        input: Input,
        /,
        *,
        structured_output: StructuredOutputOptions[Obj] | None = None,
        **options: Unpack[OtherOptions],
    ) -> Starting[Obj]:
        """Start a run: `await agent.stream(…)`, or `async with agent.stream(…) as run`.

        `process_input` has run when it returns; its exceptions are raised here (R-187). See `Run`.
        """
        given = _with_object(options, structured_output)
        return Starting(lambda: open_run(self, input, given, streaming=True))

    async def generate(
        self,
        input: Input,
        /,
        *,
        structured_output: StructuredOutputOptions[Obj] | None = None,
        **options: Unpack[OtherOptions],
    ) -> FullOutput[Obj]:
        """Run to the end and return everything: the drained stream (R-548 to R-550).

        Raises the error a run failed with; a tripwire or a cancellation is no error.
        """
        given = _with_object(options, structured_output)
        run = await open_run(self, input, given, streaming=False)
        return await run.get_full_output()

    # ── calls that wait ────────────────────────────────────────────────────────────────────────

    def approve_tool_call(
        self, run_id: str, tool_call_id: str | None = None, **options: Unpack[ContinueOptions]
    ) -> Starting:
        """Let a waiting tool call run, and go on with its run: a stream like that of `stream`.

        It begins where the first one ended, with the call's outcome (R-571). While other calls of
        the step wait it ends as the first one did, with their chunks. The id may be left out when
        one call waits.

        Opening it raises `InputError` when no such call waits here: a call is decided once. Who
        approves, and whether they may, is the application's business.
        """
        return self._continue(run_id, tool_call_id, allowed, options)

    async def approve_tool_call_generate(
        self, run_id: str, tool_call_id: str | None = None, **options: Unpack[ContinueOptions]
    ) -> FullOutput:
        """`approve_tool_call`, run to the end."""
        return await self._continued(run_id, tool_call_id, allowed, options)

    def decline_tool_call(
        self,
        run_id: str,
        tool_call_id: str | None = None,
        *,
        reason: str | None = None,
        **options: Unpack[ContinueOptions],
    ) -> Starting:
        """Do not let a waiting tool call run, and go on: the model is told the reason (R-571).

        Otherwise as `approve_tool_call`; also for a call that has suspended itself.
        """
        return self._continue(run_id, tool_call_id, lambda held: declined(held, reason), options)

    async def decline_tool_call_generate(
        self,
        run_id: str,
        tool_call_id: str | None = None,
        *,
        reason: str | None = None,
        **options: Unpack[ContinueOptions],
    ) -> FullOutput:
        """`decline_tool_call`, run to the end."""
        return await self._continued(
            run_id, tool_call_id, lambda held: declined(held, reason), options
        )

    def resume_tool_call(
        self,
        run_id: str,
        tool_call_id: str | None = None,
        *,
        data: Any,
        **options: Unpack[ContinueOptions],
    ) -> Starting:
        """Go on with a tool call that has suspended itself: the tool is run with `data` (R-572).

        Otherwise as `approve_tool_call`. Data that do not fit the tool's `resume_schema` are an
        `InputError`. A call that waits for approval takes `{"approved": …, "reason": …}`.
        """
        return self._continue(run_id, tool_call_id, lambda held: resumed(held, data), options)

    async def resume_tool_call_generate(
        self,
        run_id: str,
        tool_call_id: str | None = None,
        *,
        data: Any,
        **options: Unpack[ContinueOptions],
    ) -> FullOutput:
        """`resume_tool_call`, run to the end."""
        return await self._continued(
            run_id, tool_call_id, lambda held: resumed(held, data), options
        )

    def _continue(
        self,
        run_id: str,
        tool_call_id: str | None,
        decide: Callable[[Waiting], Decision],
        options: ContinueOptions,
    ) -> Starting:
        return Starting(
            lambda: continue_run(self, run_id, tool_call_id, decide, options, streaming=True)
        )

    async def _continued(
        self,
        run_id: str,
        tool_call_id: str | None,
        decide: Callable[[Waiting], Decision],
        options: ContinueOptions,
    ) -> FullOutput:
        run = await continue_run(self, run_id, tool_call_id, decide, options, streaming=False)
        return await run.get_full_output()

    # ── without an event loop ──────────────────────────────────────────────────────────────────

    def generate_sync(
        self,
        input: Input,
        /,
        *,
        structured_output: StructuredOutputOptions[Obj] | None = None,
        **options: Unpack[OtherOptions],
    ) -> FullOutput[Obj]:
        """`generate` for scripts and notebooks; works inside a running event loop too."""
        return run_blocking(self.generate(input, structured_output=structured_output, **options))

    def stream_sync(self, input: Input, /, **options: Unpack[CallOptions]) -> Iterator[Chunk]:
        """The chunks of `stream`, one by one, for scripts and notebooks.

        When the run has failed, its error is raised behind the last chunk.

        Closing the iterator, or dropping it, closes the run.
        """

        async def start() -> Run:
            return await self.stream(input, **options)

        return stream_blocking(start)


def _with_object(options: Any, structured_output: Any) -> Mapping[str, Any]:
    """All options of a call: the one that types its outcome is a parameter of its own."""
    if structured_output is None:
        return options
    return {**options, "structured_output": structured_output}


def _fixed(entries: Any, where: str) -> Any:
    """A list as it is now, checked (R-011); a function of the request is left alone."""
    return entries if callable(entries) else check_processors(entries, where)


def model_of(spec: ModelSpec) -> LanguageModel:
    """The model object of a spec (see `resolve_model`)."""
    return resolve_model(spec)
