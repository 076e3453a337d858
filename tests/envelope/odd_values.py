"""Values as strangers hand them over, and what is known of them."""

import dataclasses
import enum
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr


class Client:
    def __init__(self) -> None:
        self.api_key = "sk-secret"


class Node(BaseModel):
    next: "Node | None" = None


@dataclasses.dataclass
class Account:
    name: str
    api_key: str
    notes: list[str] = dataclasses.field(default_factory=list, repr=False)
    password: str | None = None


class Login(BaseModel):
    user: str
    key: SecretStr
    hidden: str = Field(default="sk-secret", exclude=True)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


def cyclic_dict() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def cyclic_model() -> Node:
    node = Node()
    node.next = node
    return node


def nested(depth: int, *inside: Any) -> list[Any]:
    value = list(inside)
    for _ in range(depth - 1):
        value = [value]
    return value


def closed(name: str) -> dict[str, Any]:
    return {"$unserializable": name}


characters = st.one_of(st.characters(), st.sampled_from("\0\ud83d\ude00\u2028\u2029\x85\ufffd"))
texts = st.text(characters)
keys = st.one_of(
    texts, st.integers(), st.none(), st.booleans(), st.floats(), st.uuids(), st.tuples(texts, st.integers())
)
scalars = st.one_of(
    keys, st.binary(), st.decimals(), st.datetimes(), st.timedeltas(), st.fractions(), st.complex_numbers(), st.dates()
)
anything = st.recursive(
    scalars
    | st.builds(object)
    | st.sampled_from([Colour.RED, Client(), Login(user="a", key=SecretStr("k")), cyclic_dict()]),
    lambda inner: st.one_of(
        st.lists(inner),
        st.tuples(inner, inner),
        st.dictionaries(keys, inner),
        st.sets(keys),
        st.builds(ValueError, inner),
    ),
)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)
