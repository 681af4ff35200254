"""The error tree, and the two ways of stopping a run that are not errors.

    ProcessionError
    ├── ConfigurationError        an agent, model or tool that cannot work: fix the set-up
    │   ├── OptionError           an option that cannot be used; an InputError, too
    │   ├── KindError             something of a kind that cannot stand there; a TypeError, too
    │   ├── MissingExtraError     a package that an extra brings; a ModuleNotFoundError, too
    │   ├── MissingKeyError       a provider's key is not in the environment
    │   ├── UnknownModelError     a model id that nothing in the registry answers to
    │   └── ModelFetchError       the embedded model could not be fetched
    ├── InputError                a message, chunk or value that no form allows: fix the input
    ├── ProcessorError            a hook broke its contract (wrong return value, foreign list)
    ├── ModelError                a model answered in a way that cannot be used
    │   ├── APICallError          a provider refused or failed a call
    │   └── StructuredOutputError the answer is not the object that was asked for
    ├── ToolError                 a tool cannot be run: unknown, or its arguments do not fit
    └── StoreError                what should be kept could not be written or read

    OwnerError                    an InputError: a thread or message id that belongs to another

    TripWire (BaseException)      a verdict: a processor stopped the run on purpose

Secrets never stand in these texts: no request headers, no keys, no rejected argument values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "APICallError",
    "ConfigurationError",
    "InputError",
    "KindError",
    "MissingExtraError",
    "MissingKeyError",
    "ModelError",
    "ModelFetchError",
    "OptionError",
    "OwnerError",
    "ProcessionError",
    "ProcessorError",
    "StoreError",
    "StructuredOutputError",
    "ToolError",
    "TripWire",
    "UnknownModelError",
]


class ProcessionError(Exception):
    """Base class of every error this library raises."""


class ConfigurationError(ProcessionError):
    """An agent, model, tool or list of processors that cannot work as it is set up."""


class KindError(ConfigurationError, TypeError):
    """Something of a kind that cannot stand where it was put (W-007, W-021)."""


class MissingExtraError(ConfigurationError, ModuleNotFoundError):
    """A package is not installed; the text names the extra that brings it, `name` the module."""


class MissingKeyError(ConfigurationError):
    """No key for a provider. `variable` names the environment variable to set."""

    def __init__(self, provider: str, variable: str) -> None:
        super().__init__(
            f"no key for provider {provider!r}: set the environment variable {variable}, "
            f"or pass api_key=… to the model"
        )
        self.provider = provider
        self.variable = variable


class UnknownModelError(ConfigurationError):
    """A model id that cannot be resolved (R-083)."""


class ModelFetchError(ConfigurationError):
    """The embedded model's weights could not be fetched or checked."""


class InputError(ProcessionError, ValueError):
    """A message, part, chunk or option in a form that is not accepted (R-319, R-326, R-328)."""


class OptionError(ConfigurationError, InputError):
    """An option of a processor, a policy or a watch that cannot be used (B-014).

    It is what a set-up that cannot work is, a `ConfigurationError`, and what a wrong value is, an
    `InputError` and so a `ValueError`: whichever of them is caught, it is among them.
    """


class ProcessorError(ProcessionError):
    """A hook broke its contract; `processor_id` and `hook` say which one (R-189)."""

    def __init__(self, processor_id: str, hook: str, problem: str) -> None:
        super().__init__(f"processor {processor_id!r}, {hook}: {problem}")
        self.processor_id = processor_id
        self.hook = hook


class ModelError(ProcessionError):
    """A model's answer that cannot be used, for example a stream that broke off."""

    cause: Any = None
    """What a model of one's own reported, if that was plain data and no exception."""


class APICallError(ModelError):
    """A provider refused or failed a call (R-236).

    `message` holds the provider's own words; the text of the error says before them who said so,
    where that is known: `openai, status 401: no such key`. `status_code` is the HTTP status,
    `is_retryable` whether the same call may succeed later; `provider`, `response_body`,
    `response_headers` and `url` are given where known. Request headers and keys are never part of
    it.
    """

    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        is_retryable: bool = False,
        response_body: str | None = None,
        response_headers: Mapping[str, str] | None = None,
        url: str | None = None,
        provider: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.provider = provider
        self.status_code = status_code
        self.is_retryable = is_retryable
        self.response_body = response_body
        self.response_headers = response_headers
        self.url = url

    def __str__(self) -> str:
        named = (self.provider or "", f"the connection to {self.provider}")
        if self.message.startswith(named):
            return self.message
        status = "" if self.status_code is None else f", status {self.status_code}"
        at_fault = self.url if self.status_code in (404, 405) else None
        place = f" at {at_fault}" if at_fault else ""
        return f"{self.provider}{status}{place}: {self.message}"


class StructuredOutputError(ModelError):
    """An answer is not the object that was asked for (R-565).

    `problems` lists what is wrong, without the values; `text` is the answer, which is never part
    of the message.
    """

    def __init__(
        self, message: str, problems: Sequence[Mapping[str, Any]] = (), *, text: str = ""
    ) -> None:
        super().__init__(message)
        self.problems = list(problems)
        self.text = text


class ToolError(ProcessionError):
    """A tool call that cannot be executed; its text is told to the model (R-531, R-532).

    `problems` lists what is wrong, without the rejected values.
    """

    def __init__(self, message: str, problems: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.problems = list(problems)


class StoreError(ProcessionError):
    """A store could not write or read: its text says what to do. Nothing is half written."""


class OwnerError(InputError):
    """A thread that belongs to another resource, or a message id of another thread (M-001, M-004).

    Its text names both. Whether a client may read them is for the caller to decide.
    """


class TripWire(BaseException):
    """A verdict: a processor ends the step or the run (R-165).

    It derives from `BaseException`, so no `except Exception` can swallow it. `reason` is for
    people, `retry` asks for another attempt, `metadata` is whatever the processor attached, and
    `processor_id` names who decided. Raised by `args.abort(...)`; user code may raise it too.
    """

    passing: Any = None
    """The engine's: the chunk that is delivered before the verdict counts."""

    def __init__(
        self,
        reason: str | None = None,
        *,
        retry: bool = False,
        metadata: Any = None,
        processor_id: str | None = None,
    ) -> None:
        super().__init__(reason or "")
        self.reason = reason or ""
        self.retry = retry
        self.metadata = metadata
        self.processor_id = processor_id

    @property
    def options(self) -> dict[str, Any]:
        """`retry` and `metadata` as the reference's clients expect them."""
        return {"retry": self.retry, "metadata": self.metadata}


def refuse(problem: str) -> NoReturn:
    """Raise `InputError` with a text that names the place and the remedy."""
    raise InputError(problem)
