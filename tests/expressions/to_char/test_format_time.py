"""TO_CHAR of many timestamps at once is TO_CHAR of each alone."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as some

from runnel.expressions.to_char.format_time import FormattedTimes, text_of
from runnel.expressions.to_char.patterns import FIELDS
from runnel.sqltypes import Kind

US = pa.timestamp("us")
ZONE_FIELDS = ("TZH", "TZM", "TZ", "OF")
FIELD = some.sampled_from([field for field in FIELDS if field not in (*ZONE_FIELDS, "RY")])
NEAR = some.integers(-3, 3) | some.sampled_from(
    [10**6, 6 * 10**7, 36 * 10**8, 864 * 10**8, -(10**6), -864 * 10**8]
)


@settings(deadline=None)
@given(
    some.lists(FIELD, min_size=1, max_size=3),
    some.integers(-62_000_000, 250_000_000),
    some.lists(some.none() | NEAR),
)
def test_rows_that_are_written_alike(
    fields: list[str], thousand_seconds: int, offsets: list[int | None]
) -> None:
    near = [None if offset is None else thousand_seconds * 10**9 + offset for offset in offsets]
    values = pa.array(near * 6, US)
    alone = [
        text_of(FormattedTimes(values.slice(row, 1), Kind.TIMESTAMP), " ".join(fields))[0].as_py()
        for row in range(len(near))
    ]
    assert (
        text_of(FormattedTimes(values, Kind.TIMESTAMP), " ".join(fields)).to_pylist() == alone * 6
    )
    assert (
        text_of(FormattedTimes(values.slice(1), Kind.TIMESTAMP), " ".join(fields)).to_pylist()
        == (alone * 6)[1:]
    )
