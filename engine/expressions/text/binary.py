"""Functions on VARBINARY: encodings, digests, substrings."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow.compute as pc

from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.coercion import convert
from runnel.expressions.function import Bound, Datum, Function, always_may_fail, never_fails
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.kernels.per_value import per_value
from runnel.expressions.nodes import Expression
from runnel.expressions.signature import by_value, named, signature
from runnel.sqltypes import BIGINT, INTEGER, VARBINARY, VARCHAR, Kind, SqlType


def _encode(data: bytes, form: str) -> str:
    kind = form.lower()
    if kind == "hex":
        return data.hex()
    if kind == "base64":
        return binascii.b2a_base64(data, newline=False).decode()
    if kind == "escape":
        return "".join(
            "\\\\" if octet == 92 else chr(octet) if 0 < octet < 128 else f"\\{octet:03o}"
            for octet in data
        )
    raise _unknown(form)


def _decode(text: str, form: str) -> bytes:
    kind = form.lower()
    try:
        if kind == "hex":
            return bytes.fromhex(text)
        if kind == "base64":
            return binascii.a2b_base64("".join(text.split()), strict_mode=True)
        if kind == "escape":
            return _unescaped(text)
    except (ValueError, binascii.Error):
        raise DataError(f"a text is not in the form {kind}") from None
    raise _unknown(form)


def _unescaped(text: str) -> bytes:
    r"""The bytes of PostgreSQL's `escape` form: \\ is a backslash, \ooo a byte in octal."""
    data = bytearray()
    octets = text.encode()
    at = 0
    while at < len(octets):
        if octets[at] != 92:
            data.append(octets[at])
            at += 1
        elif octets[at + 1 : at + 2] == b"\\":
            data.append(92)
            at += 2
        else:
            data.append(int(octets[at + 1 : at + 4].decode(), 8))
            at += 4
    return bytes(data)


def _unknown(form: str) -> DataError:
    return DataError(
        f"there is no encoding '{form}'", hint="the encodings are hex, base64 and escape"
    )


def _from_utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DataError("a VARBINARY is not UTF-8") from None


def _digest(name: str) -> Callable[[bytes], bytes]:
    def run(data: bytes) -> bytes:
        import hashlib

        return hashlib.new(name, data, usedforsecurity=False).digest()

    return run


def _crc32(data: bytes) -> int:
    return binascii.crc32(data)


def _get_byte(data: bytes, position: int) -> int:
    if not 0 <= position < len(data):
        raise DataError(f"there is no byte {position}", hint="bytes are counted from 0")
    return data[position]


def _substring(data: bytes, start: int, length: int | None = None) -> bytes:
    if start < 1 or (length is not None and length < 0):
        raise DataError(
            "a substring of a VARBINARY must begin at 1 or later, without a negative length"
        )
    return data[start - 1 :] if length is None else data[start - 1 : start - 1 + length]


def _bind_octets(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """Binds one VARBINARY or text; a text is converted to its UTF-8 bytes."""
    if len(arguments) == 1:
        argument = arguments[0]
        if argument.type.kind in (Kind.VARCHAR, Kind.JSON, Kind.NULL):
            return (convert(argument, VARBINARY),), _RESULTS[name]
        if argument.type.kind is Kind.VARBINARY:
            return (argument,), _RESULTS[name]
        raise ProgrammingError(
            f"argument 1 of {name.upper()} must be VARBINARY or VARCHAR, not {argument.type}",
            hint="add an explicit CAST",
            position=argument.position or position,
        )
    raise ProgrammingError(
        f"{name.upper()} expects 1 argument, not {len(arguments)}", position=position
    )


_RESULTS: dict[str, SqlType] = {
    **dict.fromkeys(("md5", "sha256", "sha1", "sha512", "hex", "to_base64"), VARCHAR),
    **dict.fromkeys(("sha224", "sha384"), VARCHAR),
    "crc32": BIGINT,
}


def _octets(name: str, function: Callable[[bytes], Any], names: tuple[str, ...] = ()) -> Function:
    return named(
        name,
        "x VARBINARY or VARCHAR",
        str(_RESULTS[name]),
        _bind_octets,
        per_value(function),
        sql_names=names,
        family="binary",
    )


def _hexadecimal(name: str) -> Function:
    digest = _digest(name)
    return _octets(name, lambda data: digest(data).hex())


def _join(left: Datum, right: Datum) -> Datum:
    return pc.binary_join_element_wise(left, right, _EMPTY)


_EMPTY = pack_scalar(b"", VARBINARY)
_plain = partial(by_value, family="binary", can_fail=always_may_fail)
FUNCTIONS = (
    _plain("encode", "x VARBINARY, form VARCHAR", [VARBINARY, VARCHAR], VARCHAR, _encode),
    _plain("decode", "s VARCHAR, form VARCHAR", [VARCHAR, VARCHAR], VARBINARY, _decode),
    _plain(
        "unhex",
        "s VARCHAR",
        [VARCHAR],
        VARBINARY,
        lambda text: _decode(text, "hex"),
        sql_names=("FROM_HEX",),
    ),
    _plain(
        "from_base64",
        "s VARCHAR",
        [VARCHAR],
        VARBINARY,
        lambda text: _decode(text, "base64"),
        sql_names=("UNBASE64",),
    ),
    _plain("from_utf8", "x VARBINARY", [VARBINARY], VARCHAR, _from_utf8),
    _plain("to_utf8", "s VARCHAR", [VARCHAR], VARBINARY, str.encode, can_fail=never_fails),
    _plain("get_byte", "x VARBINARY, position BIGINT", [VARBINARY, BIGINT], INTEGER, _get_byte),
    _plain(
        "binary_substring",
        "x VARBINARY, start BIGINT [, length BIGINT]",
        [VARBINARY, BIGINT, BIGINT],
        VARBINARY,
        _substring,
        optional=1,
    ),
    Function(
        name="concat_binary",
        arguments="x VARBINARY, y VARBINARY",
        result="VARBINARY",
        bind=signature(VARBINARY, VARBINARY, result=VARBINARY),
        compile=lambda call: _join,
        family="binary",
    ),
    _octets("hex", lambda data: data.hex().upper()),
    _octets("to_base64", lambda data: _encode(data, "base64"), ("BASE64",)),
    *(_hexadecimal(name) for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")),
    _octets("crc32", _crc32),
)
