"""A model spec becomes a chat model. Keys come from outside and stay inside the model.

Addresses come from the operator only; retries are left to our own middleware,
which knows whether a word was said already.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

from langchain.chat_models import init_chat_model

# Private, but the only list of providers and their packages; a test pins it.
from langchain.chat_models.base import _BUILTIN_PROVIDERS
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr, ValidationError

from stellwerk.agents.redirects import NOT_FOLLOWED, refuse_redirects
from stellwerk.agents.schema_prompting import SchemaPrompted
from stellwerk.agents.scripted import ScriptedModel
from stellwerk.errors import MissingPackage, MissingSecret, SettingsError, SpecError, UnknownProvider
from stellwerk.spec.catalogue import plain
from stellwerk.spec.model import ModelSpec
from stellwerk.spec.operator import Provider

SCRIPTED = "scripted"
_EXTRAS = {"langchain_openai": "path/to/stellwerk[openai]"}
_SETTINGS = ("temperature", "top_p", "max_tokens")
_PATIENCE = 600.0
"""Seconds of silence after which a provider is given up if the spec says nothing; LangChain would wait for ever."""
_NO_KEY = SecretStr("none")
"""For a place that wants no key: without one, LangChain would send it the key that it finds in the environment."""


class Keys(Protocol):
    def find(self, secret: str) -> str | None:
        """The value of a secret, for whoever's run this is; None if nobody stored it."""


@dataclass(frozen=True, slots=True)
class EnvironmentKeys:
    """Local mode: the operator's own keys, read once by the settings."""

    found: Mapping[str, SecretStr]

    def find(self, secret: str) -> str | None:
        value = self.found.get(secret)
        return None if value is None else value.get_secret_value()


def chat_model(spec: ModelSpec, *, providers: Mapping[str, Provider], keys: Keys) -> BaseChatModel:
    """Make the model that a spec describes.

    Raises:
        UnknownProvider: neither LangChain nor the operator knows it.
        MissingSecret: its key is not stored; says which.
        MissingPackage: the package that speaks its protocol is not installed; says which.
    """
    if plain(spec.provider) == SCRIPTED:  # its calls stand in the script; it needs no schemas to make them
        return _profiled(ScriptedModel(script=spec.script, model=spec.model, pace=spec.pace), spec)
    model = _profiled(_served_model(spec, _provider(spec, providers), _key(spec, providers, keys)), spec)
    return SchemaPrompted(inner=model, profile=model.profile) if spec.tool_calling == "schema" else model


def _profiled(model: BaseChatModel, spec: ModelSpec) -> BaseChatModel:
    """What the spec says of the model goes before what LangChain knows of it."""
    if spec.images is not None:
        model.profile = {**(model.profile or {}), "image_inputs": spec.images}
    return model


def needed_secret(spec: ModelSpec, *, providers: Mapping[str, Provider]) -> str | None:
    """The secret without which the model cannot speak."""
    if plain(spec.provider) == SCRIPTED or not _provider(spec, providers).needs_key:
        return None
    return f"{plain(spec.provider)}_api_key"


def known_providers(providers: Mapping[str, Provider]) -> dict[str, str | None]:
    """Every provider that a model may name, with dashes and capitals left out, and the secret that it needs.

    Raises:
        SettingsError: two names of the operator's are the same one.
    """
    names = {SCRIPTED, *_BUILTIN_PROVIDERS, *_named(providers)}
    return {name: needed_secret(ModelSpec(provider=name), providers=providers) for name in sorted(names)}


def provider_kinds() -> list[str]:
    """The providers whose protocol LangChain speaks, if their package is installed."""
    return sorted(_BUILTIN_PROVIDERS)


def missing_packages(providers: Mapping[str, Provider]) -> dict[str, str]:
    """Every provider whose package is not installed, and what pip has to be told."""
    kinds = {name: name for name in _BUILTIN_PROVIDERS}
    kinds |= {name: plain(provider.kind) for name, provider in _named(providers).items()}
    installs = {kind: _install(kind) for kind in _BUILTIN_PROVIDERS if find_spec(_module(kind)) is None}
    return {name: installs[kind] for name, kind in kinds.items() if kind in installs}


def _module(kind: str) -> str:
    return _BUILTIN_PROVIDERS[kind][0].partition(".")[0]


def _install(kind: str) -> str:
    return _EXTRAS.get(_module(kind), _module(kind).replace("_", "-"))


def _provider(spec: ModelSpec, providers: Mapping[str, Provider]) -> Provider:
    """What the operator named goes first, so that he can give a known name an address of his own."""
    named = _named(providers)
    found = named.get(plain(spec.provider), Provider(kind=spec.provider))
    if plain(found.kind) not in _BUILTIN_PROVIDERS:
        # A name of the operator's is no kind, not even his own.
        names = set() if plain(spec.provider) in named else {*named, SCRIPTED}
        raise UnknownProvider(found.kind, known={*_BUILTIN_PROVIDERS, *names})
    return found


def _named(providers: Mapping[str, Provider]) -> dict[str, Provider]:
    """By the name that all its spellings have in common: ``OpenAI`` must not be a way around ``openai``."""
    spellings = {SCRIPTED: "the scripted model"}
    for name in providers:
        if (taken := spellings.setdefault(plain(name), repr(name))) != repr(name):
            raise SettingsError(
                f"the provider {name!r} cannot be told from {taken}, since dashes and capitals do not matter; "
                "give it another name"
            )
    return {plain(name): provider for name, provider in providers.items()}


def _key(spec: ModelSpec, providers: Mapping[str, Provider], keys: Keys) -> SecretStr:
    secret = needed_secret(spec, providers=providers)
    if secret is None:
        return _NO_KEY
    value = keys.find(secret)
    if not value:
        raise MissingSecret(secret, user=f"the model {spec.model!r} of {spec.provider!r}")
    return SecretStr(value)


def _served_model(spec: ModelSpec, provider: Provider, key: SecretStr) -> BaseChatModel:
    kind, user = plain(provider.kind), f"the model {spec.model!r} of {spec.provider!r}"
    options = {name: getattr(spec, name) for name in _SETTINGS if getattr(spec, name) is not None}
    options |= _particulars(kind, provider, spec.timeout or _PATIENCE)
    try:
        # The key goes in wrapped: an error of pydantic shows what it was given.
        model: BaseChatModel = init_chat_model(spec.model, model_provider=kind, api_key=key, **options)
    except ImportError as error:
        raise MissingPackage(user, install=_install(kind)) from error
    except ValidationError as error:
        wrong = "; ".join(found["msg"] for found in error.errors(include_input=False, include_context=False))
        raise SpecError(f"{user} cannot be made: {wrong}") from None
    refuse_redirects(model)
    return model


def _particulars(kind: str, provider: Provider, silence: float) -> dict[str, Any]:
    """What depends on the provider."""
    # For Google's client 0 means as often as it likes, and 1 means once.
    said: dict[str, Any] = {"timeout": silence, "max_retries": 1 if kind == "google_genai" else 0}
    if provider.base_url is not None:
        said["base_url"] = provider.base_url
    if kind == "google_genai":
        said |= NOT_FOLLOWED
    if kind == "openai":
        said["stream_usage"] = True  # at another address it is off, and nobody would count
        said["stream_chunk_timeout"] = silence  # lines that only keep a connection open are silence too
        if provider.base_url is not None:
            said["use_responses_api"] = False  # what is compatible speaks chat completions
    return said
