"""The sketch of APPROX_DISTINCT: HyperLogLog, vectorised over groups, and mergeable across stages.

Registers are as in Flajolet, Fusy, Gandouet and Meunier (2007), over Runnel's 64-bit hash, of which
12 bits select one of 4,096 registers (a standard error of 1.04 / √4096 = 1.6 %). The estimate is
the improved raw estimator of Ertl, "New cardinality estimation algorithms for HyperLogLog sketches"
(2017). It needs no tables of corrections, and is almost exact for few values. A sketch is a list of
its registers that aren't zero, each as number << 6 | value, so that groups of few values are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, from_numbers, indexes, numbers, validity
from runnel.columns.key_hash import hash_column
from runnel.expressions.aggregates.moments import grouped_rows
from runnel.expressions.aggregates.states import (
    AggregateState,
    Column,
    GroupByRequest,
    Work,
    contiguous,
)

INDEX_BITS = 12
REGISTERS = 1 << INDEX_BITS
_REST_BITS = 64 - INDEX_BITS
_VALUE_BITS = 6
_CODE_BITS = INDEX_BITS + _VALUE_BITS
_TYPE = pa.list_(pa.int32())
_GROUPS_AT_ONCE = 1 << 13
"""The number of sketches that are estimated at a time, which bounds the memory for histograms."""


@frozen
class Sketch(AggregateState):
    """The registers of the arguments that aren't NULL."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (_TYPE,)

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        column = contiguous(arguments[0])
        positions = indexes(np.arange(num_rows), validity(column))

        def collect(results: list[pa.Array]) -> list[pa.Array]:
            rows, groups, number = grouped_rows(results[0])
            hashes = hash_column(column)[rows]
            rest = hashes & np.uint64((1 << _REST_BITS) - 1)
            # 52 bits are exact as a DOUBLE, whose exponent says how many of them are used.
            used = np.frexp(rest.astype(np.float64))[1].astype(np.int64)
            index = (hashes >> np.uint64(_REST_BITS)).astype(np.int64)
            return [_sketches(groups, index << _VALUE_BITS | (_REST_BITS + 1 - used), number)]

        return [GroupByRequest(positions, "list")], collect

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        positions = indexes(np.arange(len(columns[0])))

        def collect(results: list[pa.Array]) -> list[pa.Array]:
            rows, groups, number = grouped_rows(results[0])
            codes, owners = _codes(columns[0].take(indexes(rows)))
            return [_sketches(groups[owners], codes, number)]

        return [GroupByRequest(positions, "list")], collect


def _codes(sketches: pa.Array) -> tuple[Indexes, Indexes]:
    """The registers of all sketches, and the sketch of each register."""
    lengths = np.zeros(0, np.int64)
    if len(sketches):
        offsets = np.frombuffer(
            sketches.buffers()[1], np.int32, len(sketches) + 1, 4 * sketches.offset
        )
        valid = validity(sketches)
        lengths = np.diff(offsets) if valid is None else np.diff(offsets) * valid
    return numbers(sketches.flatten(), np.int32).astype(np.int64), np.repeat(
        np.arange(len(sketches)), lengths
    )


# For the groups [0, 0, 1] with the codes (register << 6 | value) of (5, 2), (5, 3) and (5, 1):
#     ordered     sorted by group, register, value: (0, 5, 2), (0, 5, 3), (1, 5, 1)
#     registers   the same without the values: (0, 5), (0, 5), (1, 5)
#     is_largest  [F, T, T]  whether the next row has another register
#     largest     (0, 5, 3), (1, 5, 1)
#     offsets     [0, 1, 2]
def _sketches(groups: Indexes, codes: Indexes, number: int) -> pa.Array:
    """One sketch per group, with the largest value of each register."""
    ordered = np.sort(groups << _CODE_BITS | codes)
    registers = ordered >> _VALUE_BITS
    is_largest = np.ones(len(ordered), np.bool_)
    is_largest[:-1] = registers[1:] != registers[:-1]
    largest = ordered[is_largest]
    counts = np.bincount(largest >> _CODE_BITS, minlength=number)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    items = from_numbers((largest & ((1 << _CODE_BITS) - 1)).astype(np.int32), pa.int32())
    return pa.ListArray.from_arrays(from_numbers(offsets, pa.int32()), items, type=_TYPE)


def estimates(sketches: pa.Array) -> Indexes:
    """The approximate number of distinct values of each sketch; 0 for NULL."""
    counts = [
        _estimates(sketches.slice(at, _GROUPS_AT_ONCE))
        for at in range(0, len(sketches), _GROUPS_AT_ONCE)
    ]
    return np.concatenate(counts) if counts else np.zeros(0, np.int64)


def _estimates(sketches: pa.Array) -> Indexes:
    """The estimates by a histogram: how many registers of each sketch have each value."""
    codes, owners = _codes(sketches)
    count = len(sketches)
    width = _REST_BITS + 2
    values = codes & ((1 << _VALUE_BITS) - 1)
    histogram = (
        np.bincount(owners * width + values, minlength=count * width)
        .reshape(count, width)
        .astype(np.float64)
    )
    histogram[:, 0] = REGISTERS - histogram[:, 1:].sum(axis=1)
    z = REGISTERS * _tau(1.0 - histogram[:, width - 1] / REGISTERS)
    for value in range(width - 2, 0, -1):
        z = 0.5 * (z + histogram[:, value])
    empty = histogram[:, 0] >= REGISTERS
    z += REGISTERS * _sigma(np.where(empty, 0.0, histogram[:, 0] / REGISTERS))
    found = REGISTERS * REGISTERS / (2 * np.log(2) * np.where(empty, 1.0, z))
    result: Indexes = np.where(empty, 0, np.rint(found)).astype(np.int64)
    return result


def _sigma(x: Any) -> Any:
    """Ertl's σ: x + Σ x^(2^k) 2^(k−1) for k from 1, for x below 1."""
    x = x.copy()
    y, z = 1.0, x.copy()
    while True:
        x *= x
        before = z.copy()
        z += x * y
        y += y
        if np.array_equal(z, before):
            return z


def _tau(x: Any) -> Any:
    """Ertl's τ."""
    x = x.copy()
    y, z = 1.0, 1.0 - x
    while True:
        x = np.sqrt(x)
        before = z.copy()
        y *= 0.5
        z -= np.square(1.0 - x) * y
        if np.array_equal(z, before):
            return np.where((x == 0.0), 0.0, z / 3.0)
