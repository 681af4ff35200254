"""R-231: the type of a tripwire's metadata is a parameter, of no effect at run time."""

from typing import Any, NoReturn, TypedDict, assert_type

from procession import (
    InputProcessor,
    OutputProcessor,
    ProcessAPIErrorArgs,
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessLLMRequestArgs,
    ProcessLLMResponseArgs,
    Processor,
    ProcessOutputResultArgs,
    ProcessOutputStepArgs,
    ProcessOutputStreamArgs,
    ProcessToolResultArgs,
)


class Verdict(TypedDict):
    category: str
    score: float


class Judge(Processor[Verdict]):
    """Everything it attaches is a `Verdict`."""

    id = "judge"

    def process_input(self, args: ProcessInputArgs[Verdict]) -> None:
        if args.retry_count:
            args.abort("no", metadata={"category": "pii", "score": 0.9})
        if args.state:
            args.abort("no", metadata=Verdict(category="pii", score=0.9), retry=True)
        if args.messages:
            args.abort("no")  # metadata may be left out
        args.abort("no", metadata={"category": "pii"})  # type: ignore[arg-type] # no score

    def process_output_step(self, args: ProcessOutputStepArgs[Verdict]) -> None:
        if args.text:
            args.abort("no", metadata="pii")  # type: ignore[arg-type] # no verdict
        args.abort("no", metadata=1.5)  # type: ignore[arg-type] # no verdict


for_input: InputProcessor = Judge()
for_output: OutputProcessor = Judge()


class Anything(Processor):
    """Without the parameter, anything goes."""

    id = "anything"

    def process_input_step(self, args: ProcessInputStepArgs) -> None:
        if args.step_number:
            args.abort("no", metadata={"any": ["thing"]})
        args.abort("no", {"retry": True, "metadata": object()})


def every_hook_has_the_parameter(
    one: ProcessInputArgs[int],
    two: ProcessInputStepArgs[int],
    three: ProcessLLMRequestArgs[int],
    four: ProcessLLMResponseArgs[int],
    five: ProcessAPIErrorArgs[int],
    six: ProcessOutputStreamArgs[int],
    seven: ProcessOutputStepArgs[int],
    eight: ProcessToolResultArgs[int],
    nine: ProcessOutputResultArgs[int],
    which: int,
) -> NoReturn:
    """Each `abort` takes metadata of that type, and never returns (R-025)."""
    if which == 1:
        one.abort(metadata=1)
    if which == 2:
        two.abort(metadata=1)
    if which == 3:
        three.abort(metadata=1)
    if which == 4:
        four.abort(metadata=1)
    if which == 5:
        five.abort(metadata=1)
    if which == 6:
        six.abort(metadata=1)
    if which == 7:
        seven.abort(metadata=1)
    if which == 8:
        eight.abort(metadata=1)
    nine.abort(metadata=1)


def refused(args: ProcessOutputStreamArgs[int]) -> NoReturn:
    args.abort(metadata="one")  # type: ignore[arg-type] # a text is no int


def narrowed(args: ProcessToolResultArgs, text: str | None) -> str:
    """A checker knows that nothing follows an abort."""
    if text is None:
        args.abort("no text")
    assert_type(text, str)
    assert_type(args.state, dict[str, Any])
    return text
