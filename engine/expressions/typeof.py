"""TYPEOF, and GEN_RANDOM_UUID."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from runnel.errors import Position
from runnel.expressions.coercion import check_count
from runnel.expressions.context import EvaluationInput
from runnel.expressions.function import Bound, Datum, Function, Kernel
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.expressions.signature import signature
from runnel.expressions.text.uuids import text_of
from runnel.sqltypes import BOOLEAN, UUID, VARCHAR


def _bind_type(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    """Replaces the argument by the name of its type, so that the argument is never evaluated. Flink
    has a second argument, TRUE or FALSE, which changes the names of types that do not exist
    here."""
    is_flag = len(arguments) == 2 and arguments[1].type == BOOLEAN
    check_count(name, arguments[:1] if is_flag else arguments, 1, position)
    return (
        Literal(value=str(arguments[0].type), type=VARCHAR, position=arguments[0].position),
    ), VARCHAR


def _compile_type(call: Call) -> Kernel:
    literal = call.arguments[0]
    assert isinstance(literal, Literal)
    text = pack_scalar(literal.value, VARCHAR)
    return lambda value: text


def _random_uuids(frame: EvaluationInput) -> Datum:
    """One version 4 UUID (RFC 9562) per row, as text."""
    octets = np.frombuffer(os.urandom(16 * frame.num_rows), np.uint8).reshape(-1, 16).copy()
    octets[:, 6] = octets[:, 6] & 0x0F | 0x40
    octets[:, 8] = octets[:, 8] & 0x3F | 0x80
    return text_of(octets)


FUNCTIONS = (
    Function(
        name="typeof",
        arguments="x ANY [, flag BOOLEAN]",
        result="VARCHAR",
        bind=_bind_type,
        compile=_compile_type,
        sql_names=("TYPEOF", "PG_TYPEOF"),
        family="conversion",
    ),
    Function(
        name="gen_random_uuid",
        arguments="",
        result="UUID, a new one for every row",
        bind=signature(result=UUID),
        compile=lambda call: _random_uuids,
        sql_names=("GEN_RANDOM_UUID", "UUID", "UUIDV4"),
        needs_frame=True,
        is_volatile=True,
        family="conversion",
    ),
)
