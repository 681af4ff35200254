"""E-32: each alias takes exactly what has one of its hooks (R-009, R-014, R-230)."""

from collections.abc import Awaitable
from typing import Any

from procession import (
    Agent,
    CachedLLMStepResponse,
    Chunk,
    ChunkType,
    ErrorProcessor,
    InputProcessor,
    InputResult,
    MastraDBMessage,
    Message,
    MessageList,
    OutputProcessor,
    ProcessAPIErrorArgs,
    ProcessAPIErrorResult,
    ProcessInputArgs,
    ProcessInputResult,
    ProcessInputStepArgs,
    ProcessInputStepResult,
    ProcessLLMRequestArgs,
    ProcessLLMRequestResult,
    ProcessLLMResponseArgs,
    ProcessLLMResponseResult,
    Processor,
    ProcessorMessageResult,
    ProcessorViolation,
    ProcessOutputResultArgs,
    ProcessOutputStepArgs,
    ProcessOutputStreamArgs,
    ProcessToolResultArgs,
    processor,
)

# ── one class for each hook, plain or async ────────────────────────────────────────────────────


class Reads:
    id = "reads"

    def process_input(self, args: ProcessInputArgs) -> ProcessInputResult:
        return args.messages


class Steps:
    id = "steps"

    async def process_input_step(self, args: ProcessInputStepArgs) -> ProcessInputStepResult:
        return ProcessInputStepResult(tool_choice="none")


class Rewrites:
    id = "rewrites"

    async def process_llm_request(
        self, args: ProcessLLMRequestArgs
    ) -> ProcessLLMRequestResult | None:
        return ProcessLLMRequestResult(prompt=args.prompt) if args.prompt else None


class Keeps:
    id = "keeps"

    async def process_llm_response(self, args: ProcessLLMResponseArgs) -> ProcessLLMResponseResult:
        args.state["kept"] = [chunk.payload for chunk in args.chunks]


class Mends:
    id = "mends"

    def process_api_error(self, args: ProcessAPIErrorArgs) -> ProcessAPIErrorResult | None:
        return ProcessAPIErrorResult(retry=args.retry_count == 0)


class Filters:
    id = "filters"

    async def process_output_stream(self, args: ProcessOutputStreamArgs) -> ChunkType | None:
        return args.part if args.part.type != "raw" else None


class Validates:
    id = "validates"

    async def process_output_step(self, args: ProcessOutputStepArgs) -> list[MastraDBMessage]:
        if not args.text.strip():
            args.abort("empty", retry=True)
        return []


class Masks:
    id = "masks"

    def process_tool_result(self, args: ProcessToolResultArgs) -> ProcessorMessageResult:
        return args.message_list


class Tracks:
    id = "tracks"

    async def process_output_result(self, args: ProcessOutputResultArgs) -> list[Message]:
        args.state["tokens"] = args.result.usage.total_tokens
        return args.messages


reads: InputProcessor = Reads()
steps: InputProcessor = Steps()
rewrites: InputProcessor = Rewrites()
keeps: InputProcessor = Keeps()
filters: OutputProcessor = Filters()
validates: OutputProcessor = Validates()
masks: OutputProcessor = Masks()
tracks: OutputProcessor = Tracks()
mends: ErrorProcessor = Mends()

# ── and nothing else ───────────────────────────────────────────────────────────────────────────

output_for_input_1: InputProcessor = Filters()  # type: ignore[assignment] # no input hook
output_for_input_2: InputProcessor = Validates()  # type: ignore[assignment] # no input hook
output_for_input_3: InputProcessor = Masks()  # type: ignore[assignment] # no input hook
output_for_input_4: InputProcessor = Tracks()  # type: ignore[assignment] # no input hook
error_for_input: InputProcessor = Mends()  # type: ignore[assignment] # no input hook
input_for_output_1: OutputProcessor = Reads()  # type: ignore[assignment] # no output hook
input_for_output_2: OutputProcessor = Steps()  # type: ignore[assignment] # no output hook
input_for_output_3: OutputProcessor = Rewrites()  # type: ignore[assignment] # no output hook
input_for_output_4: OutputProcessor = Keeps()  # type: ignore[assignment] # no output hook
error_for_output: OutputProcessor = Mends()  # type: ignore[assignment] # no output hook
input_for_error: ErrorProcessor = Reads()  # type: ignore[assignment] # no error hook
output_for_error: ErrorProcessor = Filters()  # type: ignore[assignment] # no error hook
text_for_input: InputProcessor = "reads"  # type: ignore[assignment] # no processor at all


class Nameless:
    def process_input(self, args: ProcessInputArgs) -> None: ...


class Numbered:
    id = 7

    def process_input(self, args: ProcessInputArgs) -> None: ...


nameless: InputProcessor = Nameless()  # type: ignore[assignment] # no id
numbered: InputProcessor = Numbered()  # type: ignore[assignment] # the id is no text


# ── hooks with the wrong types ─────────────────────────────────────────────────────────────────


class Misreads:
    id = "misreads"

    def process_input(self, args: ProcessOutputStepArgs) -> None: ...


class ReturnsText:
    id = "returns-text"

    def process_input(self, args: ProcessInputArgs) -> str:
        return "text"


class ReturnsNumber:
    id = "returns-number"

    async def process_output_stream(self, args: ProcessOutputStreamArgs) -> int:
        return 1


misreads: InputProcessor = Misreads()  # type: ignore[assignment] # another hook's arguments
returns_text: InputProcessor = ReturnsText()  # type: ignore[assignment] # a text is no result
returns_number: OutputProcessor = ReturnsNumber()  # type: ignore[assignment] # nor is a number


# ── several hooks, and the base class ──────────────────────────────────────────────────────────


class BothSides(Processor):
    """Sits in the input list, in the output list, or in both (R-010)."""

    id = "both-sides"
    name = "Both sides"
    process_data_parts = True

    def process_input(self, args: ProcessInputArgs) -> InputResult:
        return InputResult(messages=args.messages, system_messages=args.system_messages)

    def process_output_stream(self, args: ProcessOutputStreamArgs) -> Awaitable[Chunk | None]:
        return self.later(args.part)

    async def later(self, part: Chunk) -> Chunk | None:
        return part


class NoHooks(Processor):
    id = "no-hooks"


def note(violation: ProcessorViolation) -> None:
    assert violation.processor_id


async def note_later(violation: ProcessorViolation) -> None:
    note(violation)


both = BothSides()
both.on_violation = note
both.on_violation = note_later
both_for_input: InputProcessor = both
both_for_output: OutputProcessor = both
no_hooks: InputProcessor = NoHooks()  # type: ignore[assignment] # the base class has no hooks


# ── forms of returns ───────────────────────────────────────────────────────────────────────────


class Forms:
    """Each hook in another of its forms."""

    id = "forms"

    def process_input(self, args: ProcessInputArgs) -> MessageList:
        return args.message_list

    def process_input_step(self, args: ProcessInputStepArgs) -> dict[str, Any]:
        return {"model": "openai/gpt-5-mini", "tools": {**args.tools}}

    def process_llm_request(self, args: ProcessLLMRequestArgs) -> ProcessLLMRequestResult:
        return ProcessLLMRequestResult(response=CachedLLMStepResponse(chunks=[]))

    def process_llm_response(self, args: ProcessLLMResponseArgs) -> None: ...

    def process_output_stream(self, args: ProcessOutputStreamArgs) -> Chunk:
        return args.part.replace(metadata={"seen": True})

    def process_output_step(self, args: ProcessOutputStepArgs) -> None: ...

    def process_tool_result(self, args: ProcessToolResultArgs) -> None: ...

    def process_output_result(self, args: ProcessOutputResultArgs) -> list[Message]:
        return [m.replace(content=m.content.replace(metadata={"k": 1})) for m in args.messages]

    def process_api_error(self, args: ProcessAPIErrorArgs) -> dict[str, bool]:
        return {"retry": True}


forms_for_input: InputProcessor = Forms()
forms_for_output: OutputProcessor = Forms()
forms_for_error: ErrorProcessor = Forms()
from_function: OutputProcessor = processor(id="f", process_output_stream=lambda args: args.part)


# ── where they are configured ──────────────────────────────────────────────────────────────────


def keep(args: ProcessInputStepArgs) -> None: ...


async def later(scope: object) -> list[InputProcessor]:
    return [Reads()]


agent = Agent(
    id="typed",
    input_processors=[Reads(), Steps(), Rewrites(), Keeps(), BothSides()],
    output_processors=[Filters(), Validates(), Masks(), Tracks(), BothSides()],
    error_processors=[Mends()],
    max_processor_retries=3,
)
dynamic = Agent(
    id="typed",
    input_processors=later,
    output_processors=lambda scope: [Filters()] if scope.request_context.has("f") else [],
)
misplaced = Agent(id="typed", input_processors=[Filters()])  # type: ignore[list-item] # output
no_id = Agent(input_processors=[Reads()])  # type: ignore[call-arg] # an agent needs an id


async def call() -> str:
    """Options of a call have types as well (R-017, R-018, R-210)."""
    output = await agent.generate(
        "hello", input_processors=[Reads()], max_processor_retries=5, prepare_step=keep
    )
    await agent.generate("hello", error_processors=[Reads()])  # type: ignore[list-item] # no hook
    await agent.generate("hello", max_retrys=1)  # type: ignore[call-arg] # no such option
    run = await agent.stream("hello", output_processors=lambda scope: [Filters()])
    async for chunk in run.full_stream:
        if chunk.type == "tripwire":
            break
    return output.text + await run.text
