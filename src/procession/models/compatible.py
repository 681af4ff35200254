"""Providers that speak OpenAI's chat completions, each in its own way, by their ids.

What stands in the table is what each provider's documentation says. Where one is not here, a
`ModelConfig` reaches it, in the way of speaking that most servers understand.
"""

from __future__ import annotations

import os
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Unpack

from msgspec import Struct

from ..errors import ConfigurationError, MissingKeyError
from .chat_dialect import OPENAI, ChatDialect
from .openai import OpenAIChatModel
from .option_checks import check_variable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import openai

    from ..model import ModelConfig
    from .openai import OpenAIOptions

__all__ = ["PROVIDERS", "CompatibleModel", "Site", "by_id", "chat_model", "compatible_model"]


class Site(Struct, frozen=True, kw_only=True):
    """Where a provider is, what opens it, and how it speaks.

    An address in the environment variable `<PROVIDER>_BASE_URL` goes before `url`. The first of the
    variables `keys` that is set holds the key; without `keyless` there must be one.
    """

    url: str = ""
    keys: tuple[str, ...] = ()
    keyless: bool = False
    fetches: bool = True
    """Whether it fetches images by their addresses; else they are sent as data."""
    dialect: ChatDialect = ChatDialect()


# What was thought goes back under the name it came with, where the documentation asks for it.
_THINKS = ChatDialect(thoughts="reasoning_content")
_NEVER_FORCED = {"auto": "auto", "none": "none"}

PROVIDERS: Mapping[str, Site] = {
    "azure": Site(
        keys=("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
        dialect=OPENAI,
    ),
    "alibaba": Site(
        url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        keys=("DASHSCOPE_API_KEY", "ALIBABA_API_KEY"),
        dialect=ChatDialect(thoughts="reasoning_content", tool_choices=_NEVER_FORCED),
    ),
    "cerebras": Site(
        url="https://api.cerebras.ai/v1",
        keys=("CEREBRAS_API_KEY",),
        dialect=ChatDialect(
            limit="max_completion_tokens",
            refused=frozenset({"top_k", "frequency_penalty", "presence_penalty"}),
        ),
    ),
    "cohere": Site(
        url="https://api.cohere.ai/compatibility/v1", keys=("COHERE_API_KEY", "CO_API_KEY")
    ),
    "deepinfra": Site(
        url="https://api.deepinfra.com/v1/openai", keys=("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN")
    ),
    # Messages of the assistant are refused without what was thought before them, be that nothing.
    "deepseek": Site(
        url="https://api.deepseek.com",
        keys=("DEEPSEEK_API_KEY",),
        dialect=ChatDialect(
            thoughts="reasoning_content",
            thoughts_always=True,
            json_schema=False,
            refused=frozenset({"top_k", "seed"}),
        ),
    ),
    "fireworks": Site(
        url="https://api.fireworks.ai/inference/v1", keys=("FIREWORKS_API_KEY",), dialect=_THINKS
    ),
    "github": Site(url="https://models.github.ai/inference", keys=("GITHUB_TOKEN",)),
    "groq": Site(
        url="https://api.groq.com/openai/v1",
        keys=("GROQ_API_KEY",),
        dialect=ChatDialect(
            limit="max_completion_tokens",
            refused=frozenset({"top_k"}),
        ),
    ),
    "huggingface": Site(
        url="https://router.huggingface.co/v1", keys=("HF_TOKEN", "HUGGINGFACE_API_KEY")
    ),
    "llamacpp": Site(
        url="http://127.0.0.1:8080/v1",
        keys=("LLAMACPP_API_KEY", "LLAMA_API_KEY"),
        keyless=True,
        dialect=_THINKS,
    ),
    "lmstudio": Site(
        url="http://127.0.0.1:1234/v1",
        keys=("LMSTUDIO_API_KEY", "LM_API_TOKEN"),
        keyless=True,
        fetches=False,
    ),
    "mistral": Site(
        url="https://api.mistral.ai/v1",
        keys=("MISTRAL_API_KEY",),
        dialect=ChatDialect(
            renamed={"seed": "random_seed"},
            refused=frozenset({"top_k"}),
            usage_on_request=False,
            tool_choices={"auto": "auto", "none": "none", "required": "any"},
            thoughts="thinking",
            short_call_ids=True,
        ),
    ),
    "moonshotai": Site(
        url="https://api.moonshot.ai/v1",
        keys=("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY"),
        fetches=False,
        dialect=ChatDialect(
            thoughts="reasoning_content",
            thoughts_always=True,
            tool_choices=_NEVER_FORCED,
            refused=frozenset({"top_k", "seed"}),
        ),
    ),
    "nvidia": Site(url="https://integrate.api.nvidia.com/v1", keys=("NVIDIA_API_KEY",)),
    "ollama": Site(
        url="http://127.0.0.1:11434/v1",
        keys=("OLLAMA_API_KEY",),
        keyless=True,
        fetches=False,
        dialect=ChatDialect(
            thoughts="reasoning",
            tool_choices={"auto": "auto"},
            names_tool=False,
            refused=frozenset({"top_k"}),
        ),
    ),
    "openrouter": Site(
        url="https://openrouter.ai/api/v1",
        keys=("OPENROUTER_API_KEY",),
        dialect=ChatDialect(thoughts="reasoning_details"),
    ),
    "perplexity": Site(
        url="https://api.perplexity.ai",
        keys=("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
        dialect=ChatDialect(
            refused=frozenset({"tools", "seed", "stop"}),
            usage_on_request=False,
        ),
    ),
    "sambanova": Site(url="https://api.sambanova.ai/v1", keys=("SAMBANOVA_API_KEY",)),
    "together": Site(
        url="https://api.together.xyz/v1", keys=("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY")
    ),
    "vercel": Site(
        url="https://ai-gateway.vercel.sh/v1",
        keys=("AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
        dialect=ChatDialect(thoughts="reasoning_details"),
    ),
    "vllm": Site(
        url="http://127.0.0.1:8000/v1", keys=("VLLM_API_KEY",), keyless=True, dialect=_THINKS
    ),
    "xai": Site(
        url="https://api.x.ai/v1",
        keys=("XAI_API_KEY",),
        dialect=ChatDialect(thoughts="reasoning_content", refused=frozenset({"top_k"})),
    ),
    "zai": Site(
        url="https://api.z.ai/api/paas/v4",
        keys=("ZAI_API_KEY", "ZHIPU_API_KEY"),
        dialect=ChatDialect(
            thoughts="reasoning_content",
            tool_choices={"auto": "auto"},
            names_tool=False,
            json_schema=False,
            refused=frozenset({"top_k", "seed", "presence_penalty", "frequency_penalty"}),
        ),
    ),
}
"""The providers by id."""


class CompatibleModel(OpenAIChatModel):
    """A model of one of `PROVIDERS`, for example `CompatibleModel("groq", "openai/gpt-oss-120b")`.

    Address and key come from the environment unless given; to a given address only a given key is
    sent. For the rest see `OpenAIOptions`.
    """

    def __init__(self, provider: str, model_id: str, /, **options: Unpack[OpenAIOptions]) -> None:
        site = PROVIDERS.get(provider)
        if site is None:
            raise ConfigurationError(f"no provider {provider!r} among {', '.join(PROVIDERS)}")
        self._awaited: tuple[str, ...] = ()  # variables for a key that was not there yet
        given: OpenAIOptions = {**options, "provider": provider}
        if options.get("client") is None and not options.get("base_url"):
            given["base_url"] = _address(provider, site)
            key = options.get("api_key") or _first_set(site.keys)
            if not key and not site.keyless:
                self._awaited = site.keys
            given["api_key"] = key or ("awaited" if self._awaited else None)
        super().__init__(model_id, dialect=site.dialect, **given)
        if not site.fetches:
            self.supported_urls = {}

    def _new_client(self) -> openai.AsyncOpenAI:
        if self._awaited:
            self._api_key = _first_set(self._awaited)
            if not self._api_key:
                raise MissingKeyError(self._provider, self._awaited[0])
        return super()._new_client()


def _address(provider: str, site: Site) -> str:
    variable = f"{provider.upper()}_BASE_URL"
    found = check_variable(variable) or site.url
    if not found and provider == "azure":
        endpoint = check_variable("AZURE_OPENAI_ENDPOINT")
        found = f"{endpoint.rstrip('/')}/openai/v1" if endpoint else ""
        variable = "AZURE_OPENAI_ENDPOINT"
    if not found:
        raise ConfigurationError(
            f"provider {provider!r} has no address of its own: set {variable}, or pass base_url=…"
        )
    return found


def _first_set(variables: tuple[str, ...]) -> str | None:
    return next((value for name in variables if (value := os.environ.get(name))), None)


def chat_model(model_id: str, **options: Unpack[OpenAIOptions]) -> OpenAIChatModel:
    """A model of any provider over chat completions, in that provider's way of speaking."""
    provider = options.get("provider", "openai")
    if provider in PROVIDERS:
        return CompatibleModel(provider, model_id, **options)
    return OpenAIChatModel(model_id, **options)


def compatible_model(config: ModelConfig) -> OpenAIChatModel:
    """The model of a `ModelConfig`; its id is `provider/model`, or only the model's name."""
    provider, slash, name = config.id.partition("/")
    return chat_model(
        name if slash else config.id,
        provider=provider if slash else "openai-compatible",
        base_url=config.url,
        api_key=config.api_key,
        headers=config.headers,
    )


def _model(provider: str, name: str) -> CompatibleModel:
    return CompatibleModel(provider, name)


by_id = SimpleNamespace(**{name: partial(_model, name) for name in PROVIDERS})
"""What makes the model of an id `provider/name`, for the registry."""
