"""Query parameters: what a route does not know is refused, not overlooked, so that no filter is lost to a slip.

Known is what the route, whoever says who asks, and the dependencies of a host declare.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_parameterless_sub_dependant
from fastapi.params import Depends
from fastapi.security import APIKeyQuery
from pydantic import BaseModel
from starlette.requests import HTTPConnection

from stellwerk.errors import InvalidField

_SHOWN = 60
"""Characters of a name that nobody knows."""


def check_known(connection: HTTPConnection) -> None:
    """
    Raises:
        InvalidField: the address has a parameter that its route does not know.
    """
    if not connection.query_params:
        return
    known = list(_names(connection.scope["route"].dependant))
    for name in connection.query_params:
        if name not in known and name not in connection.app.state.parameters:
            raise unknown(name[:_SHOWN], known)


def unknown(name: str, known: Sequence[str]) -> InvalidField:
    near = get_close_matches(name, known, n=1)
    meant = f", did you mean {near[0]!r}?" if near else ";"
    return InvalidField(
        f"{name}: there is no such parameter here{meant} known: {', '.join(known) or 'none'}", field=name
    )


def of_dependencies(dependencies: Sequence[Depends]) -> frozenset[str]:
    """What the dependencies of a host read."""
    read = (get_parameterless_sub_dependant(depends=each, path="") for each in dependencies)
    return frozenset(name for each in read for name in _names(each))


def _names(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        kind = parameter.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (field.alias or name for name, field in kind.model_fields.items())
        else:
            yield parameter.alias
    if isinstance(dependant.call, APIKeyQuery):  # a security scheme reads the address itself
        yield dependant.call.model.name
    for each in dependant.dependencies:
        yield from _names(each)
