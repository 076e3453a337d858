"""What must hold for the models of an agent system: their providers, keys, packages and scripts."""

from collections.abc import Callable, Collection, Iterator

from stellwerk.spec.catalogue import plain
from stellwerk.spec.findings import Findings
from stellwerk.spec.model import AgentSpec, ModelSpec
from stellwerk.spec.quotes import quotes_in
from stellwerk.spec.script import ScriptStep

_SCRIPTED = "scripted"


def _used(found: Findings) -> Iterator[tuple[str, AgentSpec, ModelSpec]]:
    """The model of each agent that has one, with the path of the field that says so."""
    for where, agent in found.agents():
        if agent.kind == "graph":
            continue
        if agent.model is None:
            yield "system.default_model", agent, found.system.system.default_model
        else:
            yield f"{where}.model", agent, agent.model


def _written(found: Findings) -> Iterator[tuple[str, ModelSpec]]:
    yield "system.default_model", found.system.system.default_model
    yield from ((f"{where}.model", agent.model) for where, agent in found.agents() if agent.model is not None)


def _providers_are_known(found: Findings) -> None:
    for where, model in _written(found):
        if found.catalogue.provider(model.provider) is None:
            hint = found.hint(model.provider, found.catalogue.providers)
            found.refuse(f"{where}.provider", f"there is no provider {model.provider!r}; {hint}")


def _models_are_named(found: Findings) -> None:
    """Only the scripted model needs no name."""
    for where, model in _written(found):
        named = model.provider == _SCRIPTED or "model" in model.model_fields_set
        if not named and found.catalogue.provider(model.provider) and found.gaps.sure(f"{where}.model"):
            found.refuse(f"{where}.model", f"this is missing; say which model of {model.provider!r} it is")


def _keys_are_at_hand(found: Findings) -> None:
    told: set[str] = set()
    for where, _, model in _used(found):
        name = found.catalogue.provider(model.provider)
        if name is None or name in told or name in found.catalogue.keys:
            continue
        told.add(name)
        secret = f"{plain(name)}_api_key"
        otherwise = f", or start the server with {secret.upper()} set" if found.catalogue.environment else ""
        found.warn(f"{where}.provider", f"there is no key for {model.provider!r}; store the secret {secret}{otherwise}")


def _packages_are_installed(found: Findings) -> None:
    told: set[str] = set()
    for where, _, model in _used(found):
        package = found.catalogue.packages.get(found.catalogue.provider(model.provider) or "")
        if package is not None and package not in told:
            told.add(package)
            message = f"models of {model.provider!r} need a package that is not installed: pip install '{package}'"
            found.lack(f"{where}.provider", message)


def _scripts_fit_tools(found: Findings) -> None:
    for where, agent, model in _used(found):
        own = found.may_call(agent)
        for place, tool in _calls(model, where) if agent.kind == "react" else ():  # others bring tools of their own
            if tool not in own:
                hint = found.hint(tool, agent.tools.allow, otherwise="the call will be refused")
                found.warn(place, f"the script calls {tool!r}, which {agent.id!r} is not allowed; {hint}")


def _scripts_quote_what_they_call(found: Findings) -> None:
    for where, _, model in _used(found):
        called = {tool for _, tool in _calls(model, where)}
        for place, step in _steps(model, where):
            for quote in quotes_in([step.say, step.fail, step.args, [call.args for call in step.calls]]):
                if quote.tool is not None and quote.tool not in called:
                    hint = found.hint(quote.tool, called, otherwise="nothing will stand there")
                    found.warn(place, f"the script quotes {quote.tool!r}, which it never calls; {hint}")


def _calls(model: ModelSpec, where: str) -> Iterator[tuple[str, str]]:
    """Each tool that a script calls, with the path of the field that says so."""
    for place, step in _steps(model, where):
        if step.call is not None:
            yield f"{place}.call", step.call
        yield from ((f"{place}.calls[{c}].call", call.call) for c, call in enumerate(step.calls))


def _steps(model: ModelSpec, where: str) -> Iterator[tuple[str, ScriptStep]]:
    for r, rule in enumerate(model.script):
        yield from ((f"{where}.script[{r}].steps[{s}]", step) for s, step in enumerate(rule.steps))
        yield from ((f"{where}.script[{r}].failed[{s}]", step) for s, step in enumerate(rule.failed))


MODEL_RULES: Collection[Callable[[Findings], None]] = (
    _providers_are_known,
    _models_are_named,
    _keys_are_at_hand,
    _packages_are_installed,
    _scripts_fit_tools,
    _scripts_quote_what_they_call,
)
