"""The key hash: pinned, because snapshots depend on it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runnel.columns.batches import empty_columns
from runnel.columns.key_hash import LONG_TEXT, NULL_HASH, hash_column, hash_columns, partition

NAN = float("nan")

PINNED: list[tuple[list[Any], pa.DataType, list[int]]] = [
    (
        [0, 1, -1, 2**63 - 1, None],
        pa.int64(),
        [
            0xE220A8397B1DCDAF,
            0x910A2DEC89025CC1,
            0xE4D971771B652C20,
            0x2A67D7552E039EA7,
            0x9E3779B97F4A7C15,
        ],
    ),
    (
        [0.0, -0.0, 1.5, NAN, float("-inf")],
        pa.float64(),
        [
            0xE220A8397B1DCDAF,
            0xE220A8397B1DCDAF,
            0xD6DAB18E1392608A,
            0xC72971D82E15BB46,
            0x8CE2CA027CDA7FFE,
        ],
    ),
    ([1.5, -0.0], pa.float32(), [0xD6DAB18E1392608A, 0xE220A8397B1DCDAF]),
    ([True, False], pa.bool_(), [0x910A2DEC89025CC1, 0xE220A8397B1DCDAF]),
    (
        ["", "a", "abcdefgh", "abcdefghi", "ü" * 32, "x" * 65],
        pa.string(),
        [
            0xE220A8397B1DCDAF,
            0x3E506E5796335AF0,
            0x78750AFED38ADE36,
            0x5C31EBAA7452A21F,
            0x88CED6ECE0F7E901,
            0x36C9C5DF1F7285C0,
        ],
    ),
    ([b"", b"a"], pa.binary(), [0xE220A8397B1DCDAF, 0x3E506E5796335AF0]),
    (
        [Decimal("0.01"), Decimal("-0.01"), Decimal("1E+30")],
        pa.decimal128(38, 2),
        [0xDCE423FC82C0D5B8, 0x4650BC0EB3312E23, 0x25093D8E18A2F609],
    ),
    (
        [datetime(2024, 2, 29), datetime(1969, 12, 31, 23, 59)],
        pa.timestamp("us"),
        [0x076DE3AF40FE6332, 0xE3274BE438BC7FE3],
    ),
    (
        [[], [1], [1, 2], [2, 1], [None]],
        pa.list_(pa.int64()),
        [
            0xE220A8397B1DCDAF,
            0x61B263EF43AB4A8C,
            0xCAC1235AFC368C07,
            0xE9E25A2927CEB254,
            0x2A98F501AF37E97F,
        ],
    ),
    (
        [{"a": 1, "b": "x"}, {"a": None, "b": "x"}],
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        [0xE5A32798D4C8F8BE, 0x44EDB6D3114703FA],
    ),
    ([[("k", 1)], []], pa.map_(pa.string(), pa.int64()), [0xAB8672C3309EFCDE, 0xE220A8397B1DCDAF]),
]


@pytest.mark.parametrize(
    ("values", "arrow", "expected"), PINNED, ids=[str(item[1]) for item in PINNED]
)
def test_values_are_pinned(values: list[Any], arrow: pa.DataType, expected: list[int]) -> None:
    assert hash_column(pa.array(values, arrow)).tolist() == expected


def test_several_columns_are_pinned() -> None:
    columns = [pa.array([1, None]), pa.array(["a", "b"])]
    assert hash_columns(columns).tolist() == [0x26F241AF172413F4, 0xE57776F62EB0F6A3]


def test_null_has_a_hash_of_its_own_in_every_type() -> None:
    for _, arrow, _ in PINNED:
        assert hash_column(pa.nulls(2, arrow)).tolist() == [NULL_HASH] * 2
    assert hash_column(pa.nulls(1, pa.null())).tolist() == [NULL_HASH]


def test_integers_hash_alike_in_every_width() -> None:
    hashes = [
        hash_column(pa.array([-3, 100], arrow)).tolist()
        for arrow in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    ]
    assert all(item == hashes[0] for item in hashes)


def test_all_nans_are_equal() -> None:
    bits = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    array = pa.Array.from_buffers(pa.float64(), 2, [None, pa.py_buffer(bits)])
    assert set(hash_column(array).tolist()) == set(hash_column(pa.array([NAN])).tolist())


@pytest.mark.parametrize(("values", "arrow", "_"), PINNED, ids=[str(item[1]) for item in PINNED])
def test_slices_hash_as_the_whole(values: list[Any], arrow: pa.DataType, _: list[int]) -> None:
    array = pa.array([None, *values, None, *values], arrow)
    whole = hash_column(array).tolist()
    for start in range(len(array)):
        assert hash_column(array.slice(start)).tolist() == whole[start:]
        assert hash_column(array.slice(start, 1)).tolist() == whole[start : start + 1]


def test_text_hash_follows_the_written_rule() -> None:
    """The rule of the module's docstring, worked out with Python's integers."""
    mask = 2**64 - 1

    def mix(x: int) -> int:
        x ^= x >> 30
        x = x * 0xBF58476D1CE4E5B9 & mask
        x ^= x >> 27
        x = x * 0x94D049BB133111EB & mask
        return x ^ x >> 31

    for text in ("", "a", "12345678", "123456789", "x" * LONG_TEXT):
        data = text.encode()
        expected = mix(len(data) + NULL_HASH & mask)
        for start in range(0, len(data), 8):
            expected = mix(expected ^ int.from_bytes(data[start : start + 8], "little"))
        assert hash_column(pa.array([text])).tolist() == [expected]


def test_partitions_keep_all_rows_in_order_and_equal_keys_together() -> None:
    batch = pa.RecordBatch.from_pydict({"k": [i % 97 for i in range(1000)], "v": list(range(1000))})
    parts = partition(batch, [0], 7)
    assert len(parts) == 7
    rows = [row for part in parts for row in part.column(1).to_pylist()]
    assert sorted(rows) == list(range(1000))
    for part in parts:
        assert part.column(1).to_pylist() == sorted(part.column(1).to_pylist())
    owners = Counter(key for part in parts for key in set(part.column(0).to_pylist()))
    assert set(owners.values()) == {1}
    assert all(part.num_rows > 50 for part in parts)


def test_a_batch_of_one_key_goes_to_one_partition_uncopied() -> None:
    batch = pa.RecordBatch.from_pydict({"k": [5] * 10})
    parts = partition(batch, [0], 4)
    assert sorted(part.num_rows for part in parts) == [0, 0, 0, 10]
    assert max(parts, key=lambda part: part.num_rows) is batch


def test_no_rows_and_one_partition() -> None:
    batch = pa.RecordBatch.from_pydict({"k": pa.array([], pa.string())})
    assert [part.num_rows for part in partition(batch, [0], 3)] == [0, 0, 0]
    assert partition(empty_columns(3), [], 1)[0].num_rows == 3
