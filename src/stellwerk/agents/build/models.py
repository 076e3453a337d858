"""Chat models: builds the model that a spec describes, with the API key of its provider.

Base URLs come from the operator only, and redirects are not followed: a conversation goes nowhere
else. Retries are left to our middleware, which knows whether a token was streamed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr, ValidationError

from stellwerk.agents.runtime.images import ImageInput, takes_images
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.agents.scripted.schema_prompting import SchemaPrompted
from stellwerk.errors import MissingPackage, MissingSecret, SettingsError, SpecError, UnknownProvider
from stellwerk.spec.catalogue import plain
from stellwerk.spec.model import ModelSpec
from stellwerk.spec.operator import Provider

SCRIPTED = "scripted"
_EXTRAS = {"langchain_openai": "path/to/stellwerk[openai]"}
_SETTINGS = ("temperature", "top_p", "max_tokens")
_SILENCE = 600.0
"""Default read timeout of a provider, in seconds; LangChain has none."""
_NO_KEY = SecretStr("none")
"""For a provider without keys: otherwise LangChain sends the key that the environment has."""
_CLIENTS = ("root_client", "root_async_client", "_client", "_async_client")
"""Where models such as those of langchain-openai and langchain-anthropic keep the vendor's client,
whose ``_client`` is the HTTP client. No public way changes nothing else; a test pins this one."""
_NO_REDIRECTS = {"follow_redirects": False, "allow_redirects": False}
"""For Google's client, which passes them to httpx and aiohttp."""


@cache
def _built_in() -> Mapping[str, str]:
    """The providers that LangChain knows, with their modules; it is imported for the first that is named."""
    # Private, but the only list of providers and their packages; a test pins it.
    from langchain.chat_models.base import _BUILTIN_PROVIDERS

    return {kind: place.partition(".")[0] for kind, (place, *_) in _BUILTIN_PROVIDERS.items()}


def refuse_redirects(model: BaseChatModel) -> None:
    """In all HTTP clients of the model."""
    for name in _CLIENTS:
        http: Any = getattr(getattr(model, name, None), "_client", None)
        if getattr(http, "follow_redirects", False):
            http.follow_redirects = False


class SecretSource(Protocol):
    def find(self, secret: str) -> str | None:
        """The value of a secret for the current tenant; None if it is not stored."""


@dataclass(frozen=True, slots=True)
class EnvironmentSecrets:
    """Local mode: the operator's keys, read once by the settings."""

    found: Mapping[str, SecretStr]

    def find(self, secret: str) -> str | None:
        value = self.found.get(secret)
        return None if value is None else value.get_secret_value()


def chat_model(spec: ModelSpec, *, providers: Mapping[str, Provider], keys: SecretSource) -> BaseChatModel:
    """Make the model that a spec describes.

    Raises:
        UnknownProvider: neither LangChain nor the operator knows the provider.
        MissingSecret: the API key is not stored.
        MissingPackage: the provider's package is not installed.
    """
    if is_scripted(spec):  # needs neither a key nor schemas of tools
        model: BaseChatModel = ScriptedModel(script=spec.script, model=spec.model, pace=spec.pace)
    else:
        model = _served_model(spec, _provider(spec, providers), _key(spec, providers, keys))
    if spec.images is not None:
        model.profile = {**(model.profile or {}), "image_inputs": spec.images}
    if spec.tool_calling == "schema" and not is_scripted(spec):
        return SchemaPrompted(inner=model, profile=model.profile)
    return model


def needed_secret(spec: ModelSpec, *, providers: Mapping[str, Provider]) -> str | None:
    """The secret that the model needs; None if it needs none."""
    if is_scripted(spec) or not _provider(spec, providers).needs_key:
        return None
    return f"{plain(spec.provider)}_api_key"


def is_scripted(spec: ModelSpec) -> bool:
    return plain(spec.provider) == SCRIPTED


def known_providers(providers: Mapping[str, Provider]) -> dict[str, str | None]:
    """Every provider that a model may name, normalised, and the secret that it needs."""
    names = sorted({SCRIPTED, *_built_in(), *_named(providers)})
    return {name: needed_secret(ModelSpec(provider=name), providers=providers) for name in names}


def provider_kinds() -> list[str]:
    """The providers that LangChain supports, if their package is installed."""
    return sorted(_built_in())


def missing_packages(providers: Mapping[str, Provider]) -> dict[str, str]:
    """Every provider whose package is not installed, and what to install with pip."""
    kinds = {name: name for name in _built_in()}
    kinds |= {name: plain(provider.kind) for name, provider in _named(providers).items()}
    missing = {kind for kind, module in _built_in().items() if find_spec(module) is None}
    return {name: _install(kind) for name, kind in kinds.items() if kind in missing}


def _install(kind: str) -> str:
    module = _built_in()[kind]
    return _EXTRAS.get(module, module.replace("_", "-"))


def _provider(spec: ModelSpec, providers: Mapping[str, Provider]) -> Provider:
    """Names of the operator have precedence, so that a known name can get another base URL."""
    named = _named(providers)
    found = named.get(plain(spec.provider), Provider(kind=spec.provider))
    if plain(found.kind) not in _built_in():
        # A name that the operator gave is not a kind.
        names = set() if plain(spec.provider) in named else {*named, SCRIPTED}
        raise UnknownProvider(found.kind, known={*_built_in(), *names})
    return found


def _named(providers: Mapping[str, Provider]) -> dict[str, Provider]:
    """By normalised name: ``OpenAI`` must not bypass ``openai``."""
    spellings = {SCRIPTED: "the scripted model"}
    for name in providers:
        if (taken := spellings.setdefault(plain(name), repr(name))) != repr(name):
            reason = "since dashes and capitals do not matter; give it another name"
            raise SettingsError(f"the provider {name!r} has the same name as {taken}, {reason}")
    return {plain(name): provider for name, provider in providers.items()}


def _key(spec: ModelSpec, providers: Mapping[str, Provider], keys: SecretSource) -> SecretStr:
    secret = needed_secret(spec, providers=providers)
    if secret is None:
        return _NO_KEY
    value = keys.find(secret)
    if not value:
        raise MissingSecret(secret, user=f"the model {spec.model!r} of {spec.provider!r}")
    return SecretStr(value)


def _served_model(spec: ModelSpec, provider: Provider, key: SecretStr) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    kind = plain(provider.kind)
    user = f"the model {spec.model!r} of {spec.provider!r}"
    silence = spec.timeout or _SILENCE
    options: dict[str, Any] = {"model_provider": kind, "timeout": silence, "max_retries": 0}
    options |= {name: getattr(spec, name) for name in _SETTINGS if getattr(spec, name) is not None}
    if provider.base_url is not None:
        options["base_url"] = provider.base_url
    if kind == "google_genai":
        options["max_retries"] = 1  # a single attempt; 0 is the default of its client
        options["client_args"] = _NO_REDIRECTS
    if kind == "openai":
        options["stream_usage"] = True  # off by default with another base URL: no tokens counted
        options["stream_chunk_timeout"] = silence  # keep-alive lines count as silence
        if provider.base_url is not None:
            options["use_responses_api"] = False  # compatible servers have chat completions only
    try:
        # The key goes in wrapped: an error of pydantic shows what it was given.
        model: BaseChatModel = init_chat_model(spec.model, api_key=key, **options)
    except ImportError as error:
        raise MissingPackage(user, install=_install(kind)) from error
    except ValidationError as error:
        problems = error.errors(include_input=False, include_context=False)
        wrong = "; ".join(problem["msg"] for problem in problems)
        raise SpecError(f"{user} cannot be made: {wrong}") from None
    refuse_redirects(model)
    return model


def image_input(spec: ModelSpec, model: BaseChatModel) -> ImageInput:
    if takes_images(model):
        return ImageInput("reference")
    is_known = "image_inputs" in (model.profile or {})
    known = "takes no images" if is_known else "is not known to take images"
    remedy = "choose one that does, or write `images: true` at the agent's model if this one does"
    return ImageInput("none", f"the model {spec.model!r} of {spec.provider!r} {known}; {remedy}")
