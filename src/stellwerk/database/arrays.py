"""Columns of values as PostgreSQL's arrays in binary form: one statement stores many rows.

psycopg would dump each value by itself, which takes several times as long.
"""

import struct
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any

from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEADER = struct.Struct(">5i")
_LENGTH = struct.Struct(">i").pack
_TEXT, _BIGINT, _DOUBLE, _BYTEA = 25, 20, 701, 17
_ARRAYS = {_TEXT: 1009, _BIGINT: 1016, _DOUBLE: 1022, _BYTEA: 1001}
"""By the type of the elements. The numbers of types are the same in every PostgreSQL."""


class Array(bytes):
    """What is sent, without another copy; each type has its own class, as a dumper has one type."""


class _Texts(Array):
    pass


class _Bigints(Array):
    pass


class _Doubles(Array):
    pass


class _Byteas(Array):
    pass


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Any) -> Buffer:
        return bytes(obj)


class _TextsDumper(_ArrayDumper):
    oid = _ARRAYS[_TEXT]


class _BigintsDumper(_ArrayDumper):
    oid = _ARRAYS[_BIGINT]


class _DoublesDumper(_ArrayDumper):
    oid = _ARRAYS[_DOUBLE]


class _ByteasDumper(_ArrayDumper):
    oid = _ARRAYS[_BYTEA]


def register(context: AdaptContext) -> None:
    context.adapters.register_dumper(_Texts, _TextsDumper)
    context.adapters.register_dumper(_Bigints, _BigintsDumper)
    context.adapters.register_dumper(_Doubles, _DoublesDumper)
    context.adapters.register_dumper(_Byteas, _ByteasDumper)


def array(values: Sequence[Any]) -> Array:
    """Values of one type, which is that of the first one."""
    first = values[0]
    if isinstance(first, str):
        return _Texts(_of_bytes(_TEXT, [value.encode() for value in values]))
    if isinstance(first, bytes):
        return _Byteas(_of_bytes(_BYTEA, values))
    if isinstance(first, int):
        return _Bigints(_of_numbers(_BIGINT, "iq", values))
    return _Doubles(_of_numbers(_DOUBLE, "id", values))


def _of_bytes(element: int, values: Sequence[bytes]) -> bytes:
    lengths = map(_LENGTH, map(len, values))
    return _head(element, values) + b"".join(chain.from_iterable(zip(lengths, values, strict=True)))


def _of_numbers(element: int, form: str, values: Sequence[float]) -> bytes:
    pairs = chain.from_iterable(zip(repeat(8), values, strict=False))
    return _head(element, values) + struct.pack(">" + form * len(values), *pairs)


def _head(element: int, values: Sequence[object]) -> bytes:
    dimensions, has_null, begins_at = 1, 0, 1
    return _HEADER.pack(dimensions, has_null, element, len(values), begins_at)
