"""What the loop knows of a language model, and how an id such as `openai/gpt-5` becomes one."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeGuard, cast, runtime_checkable

from msgspec import Struct

from .abort_signal import AbortSignal
from .addresses import check_address, check_texts, public_url
from .entry_points import load_entry, registered
from .errors import ConfigurationError, UnknownModelError
from .fallback import FallbackEntry, FallbackModel, UnavailableModel

if TYPE_CHECKING:
    from .chunks import Chunk

__all__ = [
    "LanguageModel",
    "ModelConfig",
    "ModelRequest",
    "ModelSettings",
    "ModelSpec",
    "ToolChoice",
    "ToolDefinition",
    "register_provider",
    "resolve_model",
    "spec_name",
]

_log = logging.getLogger("procession.models")

Prompt = list[dict[str, Any]]
"""The provider prompt: `{role, content, providerOptions?}` entries, plain data (R-353 to R-398)."""

ToolChoice = str | Mapping[str, Any]
"""`"auto"`, `"none"`, `"required"`, or `{"type": "tool", "toolName": name}` (R-085, R-528)."""


class ModelSettings(TypedDict, total=False):
    """Settings of a model call; whatever is absent is the provider's default."""

    temperature: float
    max_output_tokens: int
    top_p: float
    top_k: int
    stop_sequences: list[str]
    seed: int
    presence_penalty: float
    frequency_penalty: float
    max_retries: int
    timeout: float
    headers: dict[str, str]


class ToolDefinition(Struct, frozen=True, kw_only=True):
    """A tool as a provider needs to know it. `input_schema` is a JSON Schema object."""

    name: str
    description: str
    input_schema: dict[str, Any]
    provider_options: dict[str, Any] | None = None


class ModelRequest(Struct, kw_only=True):
    """One call of a model.

    `prompt` and its entries are shared with the engine: read them, never change them. `streaming`
    is False when the caller wants the answer in one piece; a model may then deliver each block as
    one delta (R-549). `response_format` is `None` or `{"type": "json", "schema"?, "name"?}`.
    `max_retries` is for models that repeat failed calls themselves (see `LanguageModel`).
    """

    prompt: Prompt
    tools: Sequence[ToolDefinition] = ()
    tool_choice: ToolChoice = "auto"
    settings: ModelSettings
    provider_options: Mapping[str, Any] | None = None
    response_format: Mapping[str, Any] | None = None
    streaming: bool = True
    include_raw_chunks: bool = False
    max_retries: int = 0
    abort_signal: AbortSignal | None = None
    run_id: str = ""


@runtime_checkable
class LanguageModel(Protocol):
    """Anything the loop can ask. `provider` and `model_id` name it, for example `openai`, `gpt-5`.

    `stream` is an async generator. Each item is the list of chunks that one read delivered:

    - optionally first a `stream-start` (`ModelStartPayload`: warnings, request, headers), as soon
      as the provider has accepted the call;
    - `response-metadata`, text, reasoning, source, file and tool-input chunks, `tool-call`,
      `tool-result` of provider-executed tools;
    - an `error` chunk for an error inside a started stream;
    - last a `finish` (`FinishPayload` with `step_result.reason`, `step_result.raw_reason`,
      `output.usage` and `metadata={"providerMetadata": …}`). A stream without one ends with an
      unknown finish reason (R-520).

    Chunks need no `run_id` and no `from_`; they are the engine's once yielded. A call that fails
    raises `APICallError`, or whatever the transport raised. Closing the generator closes the
    connection.

    A failed call of which nothing came is made again by the engine. A model that does so itself
    has an attribute `repeats_calls`, which is true; `request.max_retries` says how often.
    """

    @property
    def provider(self) -> str:
        """The provider's name, the part of the id before the slash."""
        ...

    @property
    def model_id(self) -> str:
        """The provider's own name of the model."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Chunk], None]:
        """Ask the model; yields lists of chunks in the order described above."""
        ...


class ModelConfig(Struct, frozen=True, kw_only=True):
    """Any OpenAI-compatible endpoint: `ModelConfig(id="acme/small", url="https://llm.example.com/v1")`.

    Whatever the id, the endpoint is spoken to in chat completions; for another format at an address
    of your own there are the classes of the providers, `AnthropicModel("…", base_url="…")`.
    `api_key` is never shown, nor what else may be secret: `headers`, which are sent with every
    call, and user, password and query of the address.
    """

    id: str
    url: str
    api_key: str | None = None
    headers: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for what no call can be sent to."""
        given: tuple[Any, Any] = (self.id, self.api_key)  # not everyone checks types
        if not isinstance(given[0], str) or not given[0]:
            raise ConfigurationError("ModelConfig: id must be a text, such as 'acme/small'")
        if not isinstance(given[1], str | None):
            kind = type(given[1]).__name__
            raise ConfigurationError(f"ModelConfig: api_key must be a text, not {kind}")
        check_address("ModelConfig: url", self.url)
        check_texts("ModelConfig: headers", self.headers)

    def __repr__(self) -> str:
        return f"ModelConfig(id={self.id!r}, url={public_url(self.url)!r})"


ModelSpec = LanguageModel | ModelConfig | str | Mapping[str, Any] | Sequence[Any]
"""What stands for a model: an object, a config, an id, or a mapping with `id` and `url`.

A list of these is asked in order until one answers; what cannot be set up is passed over. An entry
may also be a mapping with `model`, and if need be `max_retries` (how often it is asked again) and
`enabled`.
"""

ModelChoice = ModelSpec | Callable[..., Any]
"""A `ModelSpec`, or a (possibly async) function of the request that returns one."""

ProviderFactory = Callable[[str], LanguageModel]
"""Makes a model of a provider from the model's name (the part after the slash)."""

_factories: dict[str, ProviderFactory] = {}
_ENTRY_POINTS = "procession.providers"
_COMPATIBLE = "openai-compatible"


def register_provider(name: str, factory: ProviderFactory) -> None:
    """Let ids `name/…` resolve through `factory`, which is called with what follows the slash.

    A later registration replaces an earlier one. Packages register without being imported through
    the entry point group `procession.providers`.
    """
    if not name or "/" in name:
        raise ConfigurationError(f"a provider name is a word without a slash, not {name!r}")
    _factories[name] = factory


def known_providers() -> list[str]:
    """The names that model ids may begin with, sorted."""
    return sorted(
        {*_factories, *(entry.name for entry in registered(_ENTRY_POINTS))} - {_COMPATIBLE}
    )


def resolve_model(spec: ModelSpec) -> LanguageModel:
    """The model that `spec` stands for; ids are resolved through the registry.

    Raises `UnknownModelError` for an id nobody answers to, `ConfigurationError` for anything that
    is no model at all.
    """
    if isinstance(spec, str):
        return _resolve_id(spec)
    if isinstance(spec, list | tuple):
        return _fallback(spec)
    if isinstance(spec, Mapping):
        spec = _config_of(spec)
    if isinstance(spec, ModelConfig):
        return _compatible(spec)
    if _is_model(spec):
        return spec
    raise _no_model(spec)


def _is_model(spec: object) -> TypeGuard[LanguageModel]:
    return callable(getattr(spec, "stream", None)) and hasattr(spec, "model_id")


def _no_model(spec: object) -> ConfigurationError:
    return ConfigurationError(
        f"not a model: {type(spec).__name__}. Give an id such as 'openai/gpt-5', a ModelConfig, "
        f"or an object with provider, model_id and stream(request)"
    )


def spec_name(spec: Any) -> str:
    """What a spec is called, resolved or not; never its key, headers or address.

    Of a list that is the first one's name; empty for what has none.
    """
    if isinstance(spec, str):
        return spec
    if isinstance(spec, list | tuple):
        names = (spec_name(entry) for entry in cast("Sequence[Any]", spec))
        return next((name for name in names if name), "")
    if isinstance(spec, Mapping):
        given = cast("Mapping[Any, Any]", spec)
        return spec_name(given["model"]) if "model" in given else _text(given.get("id"))
    if isinstance(spec, ModelConfig):
        return _text(spec.id)
    if spec is None:
        return ""
    return _text(getattr(spec, "model_id", "")) or type(spec).__name__


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _fallback(given: Sequence[Any]) -> FallbackModel:
    """The model of a list. An entry that cannot be set up is passed over when it is its turn."""
    entries = [entry for element in given for entry in _entry(element)]
    return FallbackModel([FallbackEntry(_available(spec), retries) for spec, retries in entries])


def _entry(given: Any) -> Iterator[tuple[ModelSpec, int | None]]:
    """The spec and the retries of an element of a list; none where it is switched off."""
    if not isinstance(given, Mapping) or "model" not in given:
        yield _checked(given), None
        return
    options: dict[str, Any] = {
        "max_retries": None,
        "enabled": True,
        **cast("Mapping[str, Any]", given),
    }
    retries = options["max_retries"]
    fits = retries is None or (type(retries) is int and retries >= 0)
    if set(options) != {"model", "max_retries", "enabled"} or not (
        fits and isinstance(options["enabled"], bool)
    ):
        raise ConfigurationError(
            "an entry of a list of models has 'model', and may have 'max_retries' (a number from 0 "
            "on) and 'enabled' (True or False); keys given: "
            f"{sorted(map(str, cast('Mapping[Any, Any]', given)))}"
        )
    if options["enabled"]:
        yield _checked(options["model"]), retries


def _checked(spec: Any) -> ModelSpec:
    """A spec, which must stand for a model; whether that can be set up is another question."""
    if isinstance(spec, str | list | tuple | Mapping | ModelConfig) or _is_model(spec):
        return cast("ModelSpec", spec)
    raise _no_model(spec)


def _available(spec: ModelSpec) -> LanguageModel:
    """The model, or what tells at its turn that it cannot be set up, and why."""
    try:
        return resolve_model(spec)
    except ConfigurationError as error:
        name = spec_name(spec) or type(spec).__name__
        _log.warning("a model of a list, %s, cannot be set up: %s", name, error)
        return UnavailableModel(name, error)


def _resolve_id(model: str) -> LanguageModel:
    provider, slash, name = model.partition("/")
    if not slash or not provider or not name:
        raise UnknownModelError(
            f"unknown model id {model!r}: an id has the form provider/model, "
            f"for example 'openai/gpt-5' or 'local/smollm2'"
        )
    factory = _factories.get(provider) or _load_factory(provider)
    if factory is None:
        raise UnknownModelError(
            f"unknown model id {model!r}: no provider {provider!r}. Known providers: "
            f"{', '.join(known_providers()) or 'none (is the package installed?)'}. "
            f"register_provider() adds one"
        )
    return factory(name)


def _load_factory(provider: str) -> ProviderFactory | None:
    for entry in registered(_ENTRY_POINTS, provider):
        factory: ProviderFactory = load_entry(entry)
        return _factories.setdefault(provider, factory)
    return None


def _config_of(mapping: Mapping[str, Any]) -> ModelConfig:
    unknown = set(mapping) - set(ModelConfig.__struct_fields__)
    if unknown or "id" not in mapping or "url" not in mapping:
        raise ConfigurationError(
            "a model mapping needs 'id' and 'url' and may have 'api_key' and 'headers'; "
            f"keys given: {sorted(map(str, mapping))}"
        )
    return ModelConfig(**mapping)


def _compatible(config: ModelConfig) -> LanguageModel:
    for entry in registered(_ENTRY_POINTS, _COMPATIBLE):
        make: Callable[[ModelConfig], LanguageModel] = load_entry(entry)
        return make(config)
    raise ConfigurationError("no adapter for OpenAI-compatible endpoints is installed")
