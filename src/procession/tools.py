"""Tools: functions a model may ask for, with a JSON Schema for their arguments."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast, overload

import msgspec
from msgspec import UNSET, Struct

from .abort_signal import AbortSignal
from .errors import ConfigurationError, ProcessionError, ToolError
from .hook_functions import takes_one
from .messages import Message
from .model import ToolDefinition
from .records import clean_json, clean_text, own
from .request_context import RequestContext
from .schema import check_arguments, signature_schema

if TYPE_CHECKING:
    from .chunks import Chunk

__all__ = [
    "Suspension",
    "Tool",
    "ToolContext",
    "ToolWriter",
    "asks_for_tools",
    "parse_tool_input",
    "suspension_in",
    "takes_two",
    "tool",
    "tool_map",
]


class ToolWriter(Protocol):
    """How a running tool talks to the client."""

    async def write(self, output: Any) -> None:
        """Deliver `output` at once, in a `tool-output` chunk."""
        ...

    async def custom(
        self, chunk: Chunk | Mapping[str, Any], options: Mapping[str, Any] | None = None
    ) -> None:
        """Deliver a `data-…` chunk at once (R-195 to R-201)."""
        ...


class Suspension(BaseException):
    """Raised by `context.suspend(…)`: the call waits for data, and so does its run (R-572).

    Like a verdict it is no error, so no `except Exception` of a tool holds it up.
    """

    def __init__(self, payload: Any) -> None:
        super().__init__("this call waits for data")
        self.payload = payload


def suspension_in(error: BaseException) -> Suspension | None:
    """The suspension that `error` is or holds: task groups wrap it in an exception group."""
    if isinstance(error, Suspension):
        return error
    if isinstance(error, BaseExceptionGroup):
        inner = map(suspension_in, cast("BaseExceptionGroup[BaseException]", error).exceptions)
        return next((found for found in inner if found is not None), None)
    return None


class ToolContext(Struct, kw_only=True):
    """What a tool is told besides its arguments (R-533).

    `abort_signal` fires when the caller stops the run; sync tools look at `abort_signal.aborted`.
    `messages` are the messages at the time of the call. `shown_args` are the arguments as everybody
    else is shown them and as they are stored: where a guard has redacted them, without what it took
    out, which the arguments themselves still have. Write these down, not those. `resumed` says
    whether the call has been suspended before and goes on now, with `resume_data`.
    """

    tool_call_id: str
    run_id: str
    request_context: RequestContext
    writer: ToolWriter
    abort_signal: AbortSignal | None = None
    messages: list[Message] = []
    shown_args: Any = None
    thread_id: str | None = None
    resource_id: str | None = None
    resumed: bool = False
    resume_data: Any = None

    def suspend(self, payload: Any = None) -> NoReturn:
        """End this call here: it waits until `resume_tool_call` gives it data (R-572).

        `payload` is for whoever is to give them. The tool is then run again from its beginning,
        with the same arguments, `resumed` and `resume_data`: do nothing before this that must not
        be done twice. Raises `InputError` for a payload without a JSON form.
        """
        raise Suspension(own(clean_json(payload)))


Approval = bool | Callable[..., bool | Awaitable[bool]]
"""Whether a call waits for approval: always, never, or as a function of its arguments says."""
Execute = Callable[[Any, Any], Any]
"""Takes the arguments, and the `ToolContext`."""


def _is_function(value: Any) -> bool:
    return value is None or callable(value)


_FIELDS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("description", lambda value: isinstance(value, str), "a text"),
    ("input_schema", lambda value: isinstance(value, dict), "a JSON Schema, a dict"),
    ("execute", _is_function, "a function"),
    ("to_model_output", _is_function, "a function"),
    ("provider_options", lambda value: isinstance(value, Mapping | None), "a mapping"),
    ("input_model", _is_function, "a function"),
    (
        "require_approval",
        lambda value: isinstance(value, bool) or callable(value),
        "True, False or a function of the arguments",
    ),
    ("resume_schema", lambda value: isinstance(value, dict | None), "a JSON Schema, a dict"),
)
"""What the fields of a tool must be, beside its name."""


class Tool(Struct, kw_only=True):
    """A tool: a name, what it is for, a JSON Schema of its arguments, and how to run it.

    `execute(arguments, context)` may be plain (it then runs in a thread) or async; without one the
    tool belongs to the client and a call to it ends the run (R-525). `to_model_output(result)`
    changes what the model sees of a result, as `{type, value}` (R-535). `input_model` checks and
    converts arguments where a schema alone does not; `tool()` sets it.

    With `require_approval` a call waits until somebody allows it (R-570): `True`, or a function,
    plain or async, of the checked arguments, or of arguments and `ToolContext`. When that function
    raises, the call waits. `resume_schema` is what the data must be like that a call is resumed
    with which has suspended itself.
    """

    name: str
    description: str = ""
    input_schema: dict[str, Any] = msgspec.field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    execute: Execute | None = None
    to_model_output: Callable[[Any], Any] | None = None
    provider_options: dict[str, Any] | None = None
    input_model: Callable[[Any], Any] | None = None
    is_async: bool = True
    takes_context: bool = True
    """Whether `execute` looks at the context; `tool()` knows from the signature."""
    function: Callable[..., Any] | None = None
    """What `tool()` was given; calling the tool calls it."""
    require_approval: Approval = False
    resume_schema: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        name: Any = self.name
        if not isinstance(name, str) or not name or clean_text(name) is not name:
            raise ConfigurationError(
                "a tool needs a name: a text that is not empty, without NUL or lone surrogates"
            )
        for field, fits, words in _FIELDS:
            value = getattr(self, field)
            if not fits(value):
                kind = type(value).__name__
                raise ConfigurationError(f"tool {name!r}: {field} must be {words}, not {kind}")
        kind = self.input_schema.get("type", "object")
        if kind != "object":
            raise ConfigurationError(
                f"tool {name!r}: input_schema must describe an object, not {kind!r}"
            )
        self.is_async = self.execute is None or inspect.iscoroutinefunction(self.execute)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function that the tool was made of, as your own code and its tests do.

        Raises `ConfigurationError` for a tool that was not made with `tool()`.
        """
        if self.function is None:
            raise ConfigurationError(
                f"tool {self.name!r} was not made of a function: call its execute(arguments, "
                f"context)"
            )
        return self.function(*args, **kwargs)

    def definition(self) -> ToolDefinition:
        """What a provider is told."""
        return ToolDefinition(
            name=self.name,
            description=self.description,
            input_schema=self.input_schema,
            provider_options=self.provider_options,
        )

    def validate(self, arguments: Any) -> Any:
        """The arguments as `execute` takes them; raises `ToolError` that names what is wrong.

        Rejected values are not part of the error (R-142, G-W2).
        """
        if self.input_model is None:
            check_arguments(self.name, self.input_schema, arguments)
            return arguments
        try:
            return self.input_model(arguments)
        except ProcessionError:
            raise
        except Exception as error:
            problem = f"the check of its arguments failed with {type(error).__name__}"
            raise ToolError(f"tool {self.name!r}: {problem}") from error

    async def run(self, arguments: Any, context: ToolContext | None) -> Any:
        """Execute with validated arguments; a plain function runs in a thread of its own.

        Only a tool that does not look at the context (`takes_context`) may get none.
        """
        if self.execute is None:
            raise ToolError(f"tool {self.name!r} has nothing to execute: its caller answers it")
        if self.is_async:
            return await cast("Awaitable[Any]", self.execute(arguments, context))
        result: Any = await asyncio.to_thread(_carried, self.execute, arguments, context)
        return await result if inspect.isawaitable(result) else result


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: dict[str, Any] | None = None,
    to_model_output: Callable[[Any], Any] | None = None,
    require_approval: Approval = False,
    resume_schema: dict[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: dict[str, Any] | None = None,
    to_model_output: Callable[[Any], Any] | None = None,
    require_approval: Approval = False,
    resume_schema: dict[str, Any] | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed function: `@tool`, or `@tool(name=…)`.

    The docstring becomes the description, the signature the JSON Schema. A parameter annotated
    `ToolContext` gets the context and is not part of the schema. With `input_schema` the function
    is called with the arguments as keywords, checked against that schema only. The tool can still
    be called as the function.
    """

    def make(function: Callable[..., Any]) -> Tool:
        schema = signature_schema(function, context_type=ToolContext, given=input_schema)
        return Tool(
            name=name or function.__name__,
            description=inspect.cleandoc(description or function.__doc__ or ""),
            input_schema=schema.json_schema,
            execute=schema.call,
            input_model=schema.validate,
            takes_context=schema.takes_context,
            to_model_output=to_model_output,
            function=function,
            require_approval=require_approval,
            resume_schema=resume_schema,
        )

    return make if function is None else make(function)


def _carried(execute: Execute, arguments: Any, context: ToolContext | None) -> Any:
    """Call a plain function in its thread; no future can carry a StopIteration out of it."""
    try:
        return execute(arguments, context)
    except StopIteration as error:
        raise RuntimeError("the tool raised StopIteration") from error


def takes_two(function: Callable[..., Any]) -> bool:
    """Whether a function of the arguments wants the context as well."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [place for place in places if place.default is place.empty]
    return len(required) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters)


_PLAIN = frozenset({"str", "int", "float", "bool", "list", "dict", "bytes"})


def asks_for_tools(tools: Any) -> bool:
    """Whether `tools` is a function of the request that gives them.

    Raises `ConfigurationError` for a function that looks like a tool itself.
    """
    if not callable(tools) or isinstance(tools, Tool):
        return False
    first = next(iter(getattr(tools, "__annotations__", {}).items()), ("return", None))
    kind = first[1] if isinstance(first[1], str) else getattr(first[1], "__name__", "")
    if not takes_one(tools) or (first[0] != "return" and kind in _PLAIN):
        name = getattr(tools, "__name__", "function")
        raise ConfigurationError(
            f"tools must be a list, or a function of the request that gives one; {name!r} looks "
            f"like a tool: tools=[{name}]"
        )
    return True


def tool_map(tools: Mapping[str, Tool] | Iterable[Tool] | None) -> dict[str, Tool]:
    """Tools by the name the model calls them by; two of one name are refused."""
    if tools is None:
        return {}
    if isinstance(tools, Mapping):
        given = cast("Mapping[str, Any]", tools)
        named = {name: _as_tool(entry) for name, entry in given.items()}
        return {
            name: entry if entry.name == name else msgspec.structs.replace(entry, name=name)
            for name, entry in named.items()
        }
    if isinstance(tools, str) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"tools must be a list of tools or a mapping of names to tools, not "
            f"{type(tools).__name__}. One function as a tool is a list, too: tools=[function]; "
            "tools=function asks it for the list, once per request"
        )
    found: dict[str, Tool] = {}
    for entry in map(_as_tool, tools):
        if entry.name in found:
            raise ConfigurationError(f"two tools are named {entry.name!r}: rename one")
        found[entry.name] = entry
    return found


def _as_tool(entry: Any) -> Tool:
    if isinstance(entry, Tool):
        return entry
    if inspect.isroutine(entry):
        return tool(entry)
    if callable(getattr(entry, "tools", None)):
        kind = type(entry).__name__
        raise ConfigurationError(
            f"not a tool: {kind}, which gives tools itself. Alone it is not in a list: tools=…; "
            f"with others it goes into MCPTools(…)"
        )
    raise ConfigurationError(
        f"not a tool: {type(entry).__name__}. Decorate a function with @tool, or make a Tool(…)"
    )


def parse_tool_input(text: str) -> Any:
    """A call's arguments from the JSON text a model wrote; `UNSET` when it is no JSON (R-531)."""
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _mended(text)


def _mended(text: str) -> Any:
    """What was refused for a lone surrogate only, with U+FFFD in its place."""
    if text.isascii() and "\\ud" not in text.lower():
        return UNSET
    try:
        return clean_json(json.loads(clean_text(text), parse_constant=_no_json))
    except (ValueError, RecursionError):
        return UNSET


def _no_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
