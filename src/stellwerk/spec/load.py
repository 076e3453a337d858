"""YAML text to an agent system, or an error that names the field and what to do."""

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from stellwerk.errors import SpecError
from stellwerk.spec.model import AgentSystem

SIZE_LIMIT = 256 * 1024


def load_system(text: str, *, source: str) -> AgentSystem:
    """``source`` is how the error calls the text: a file's name, or where it came from."""
    if len(text.encode()) > SIZE_LIMIT:
        raise SpecError(f"{source} has more than {SIZE_LIMIT // 1024} KiB; an agent system is smaller than that")
    try:
        data = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise SpecError(f"{source} is not YAML: {error}") from error
    try:
        return AgentSystem.model_validate(data)
    except ValidationError as error:
        raise SpecError(f"{source}: {_sentences(error)}") from error


def _sentences(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'document'}: {e['msg']}" for e in error.errors())
