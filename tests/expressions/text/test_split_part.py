"""SPLIT_PART with a separator of one byte against Python's split."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as some

from runnel.expressions.text.split_part import nth_field

TEXTS = some.lists(some.none() | some.text("a/é-€", max_size=8), max_size=12)


def expected(text: str | None, separator: str, index: int) -> str | None:
    if text is None:
        return None
    parts = text.split(separator)
    return parts[index - 1] if index <= len(parts) else ""


@settings(deadline=None)
@given(
    TEXTS,
    some.sampled_from("/-a"),
    some.integers(1, 10),
    some.integers(0, 12),
    some.integers(0, 12),
)
def test_parts_of_a_slice(
    texts: list[str | None], separator: str, index: int, start: int, count: int
) -> None:
    column = pa.array(texts, pa.string()).slice(start, count)
    found = nth_field(column, ord(separator), index)
    found.validate(full=True)
    assert found.to_pylist() == [expected(text, separator, index) for text in column.to_pylist()]


@settings(deadline=None)
@given(TEXTS, some.integers(1, 4))
def test_bytes_under_null_are_no_part(texts: list[str | None], index: int) -> None:
    filled = pa.array(["x/y" if text is None else text for text in texts], pa.string())
    valid = pa.array([text is not None for text in texts], pa.bool_())
    column = pa.Array.from_buffers(
        pa.string(), len(texts), [valid.buffers()[1], *filled.buffers()[1:]]
    )
    assert nth_field(column, ord("/"), index).to_pylist() == [
        expected(text, "/", index) for text in texts
    ]


@settings(deadline=None)
@given(some.lists(TEXTS, min_size=2, max_size=4), some.data())
def test_parts_of_one_column_after_another(
    columns: list[list[str | None]], data: some.DataObject
) -> None:
    arrays = [pa.array(texts, pa.string()) for texts in columns]
    for _ in range(8):
        array = data.draw(some.sampled_from(arrays))
        separator, index = data.draw(some.sampled_from("/-")), data.draw(some.integers(1, 4))
        wanted = [expected(text, separator, index) for text in array.to_pylist()]
        assert nth_field(array, ord(separator), index).to_pylist() == wanted
