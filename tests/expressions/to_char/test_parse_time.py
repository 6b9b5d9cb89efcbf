"""TO_DATE and TO_TIMESTAMP by a pattern: whole columns against one text at a time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runnel
from runnel.expressions.to_char.parse_time import read
from tests.effort import examples
from tests.expressions.to_char.slow_reading import read_slowly

PATTERNS = [
    "YYYY-MM-DD",
    "YYYY-MM-DD HH24:MI:SS",
    "YYYYMMDDHH24MISSMS",
    'YYYY-MM-DD"T"HH24:MI:SS.US',
    "DD.MM.YY HH12:MI AM",
    "Mon DD, YYYY",
    "DAY, DDth MONTH YYYY",
    "YYYY DDD",
    "J SSSSS",
    "YYY/MM/DD HH:MI p.m.",
    "YYYY-MM-DD HH24:MI:SS.FF3 OF",
    "YYYY-MM-DD TZH:TZM",
    "Y-MM",
    "HH24:MI",
    "YYYYMMDD",
    "FF1 FF6",
    "--YYYY++MM",
    "quarter",
]
EPOCH = datetime(1970, 1, 1)


def outcome_of(texts: list[str], pattern: str) -> object:
    try:
        reading = read(pa.array(texts), pattern)
    except runnel.DataError as error:
        return error.message
    moments = [EPOCH + timedelta(microseconds=int(value)) for value in reading.micros]
    offsets = [None] * len(texts) if reading.offsets is None else reading.offsets.tolist()
    return list(zip(moments, offsets, strict=True))


def slow_outcome_of(texts: list[str], pattern: str) -> object:
    found = []
    misfits, others = [], []
    for text in texts:
        try:
            found.append(read_slowly(text, pattern))
        except runnel.DataError as error:
            (
                misfits
                if "doesn't fit" in error.message or "can't be read" in error.message
                else others
            ).append(error.message)
    return (misfits or others or [found])[0]


def written(pattern: str, moment: datetime) -> str:
    with runnel.connect() as connection:
        row = connection.execute(
            "SELECT TO_CHAR(CAST(? AS TIMESTAMP), ?)", (moment, pattern)
        ).fetchone()
    assert row is not None
    return str(row[0])


DAMAGE = st.sampled_from(
    [
        "",
        " ",
        "x",
        "9",
        "0",
        "-",
        "+",
        "/",
        ".",
        "13",
        "32",
        "a.m.",
        "PM",
        "+05:30",
        "-8",
        "é",
        "\n",
    ]
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_of_a_pattern_and_damaged_ones(pattern: str) -> None:
    moments = [
        datetime(1970, 1, 1),
        datetime(2024, 2, 29, 23, 59, 59, 999999),
        datetime(1999, 12, 31, 12, 0, 1, 5000),
        datetime(1, 1, 1),
        datetime(9999, 12, 31, 1, 2, 3, 456789),
    ]
    texts = (
        [written(pattern, moment) for moment in moments]
        if "OF" not in pattern and "TZ" not in pattern
        else []
    )
    texts += [
        "2024-02-30",
        "2023-02-29 24:00:00",
        "2024-1-5 7:8:9.5 +5",
        "2024-01-05 -08:30",
        "20240229",
        "1 2",
        "12:60",
        "2460000 99999",
    ]
    for text in texts:
        assert outcome_of([text], pattern) == slow_outcome_of([text], pattern), text


@settings(max_examples=examples(300), deadline=None)
@given(
    st.sampled_from(PATTERNS),
    st.lists(
        st.tuples(
            st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),
            st.integers(0, 12),
            DAMAGE,
            st.integers(0, 30),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_generated_texts(pattern: str, given_texts: list[tuple[datetime, int, str, int]]) -> None:
    texts = []
    for moment, form, damage, place in given_texts:
        forms = (
            "%Y-%m-%d %H:%M:%S.%f",
            "%Y%m%d%H%M%S",
            "%Y-%m-%d",
            "%d.%m.%y %I:%M %p",
            "%b %d, %Y",
            "%Y %j",
            "%H:%M",
        )
        text = moment.strftime(forms[form % len(forms)])
        texts.append(text[:place] + damage + text[place:])
    assert outcome_of(texts, pattern) == slow_outcome_of(texts, pattern)


def test_columns_of_patterns_and_zones(cursor: runnel.Cursor) -> None:
    cursor.execute("SET time_zone = 'America/New_York'")
    cursor.connection.register(
        "t",
        pa.table(
            {
                "s": ["2024-07-01 00", "01.07.2024", None, "2024-07-01 +02"],
                "p": ["YYYY-MM-DD HH24", "DD.MM.YYYY", "YYYY", "YYYY-MM-DD OF"],
            }
        ),
    )
    cursor.execute("SELECT TO_TIMESTAMP(s, p), TO_DATE(s, p) FROM t")
    local = datetime(2024, 7, 1, 4, tzinfo=UTC)
    assert cursor.fetchall() == [
        (local, date(2024, 7, 1)),
        (local, date(2024, 7, 1)),
        (None, None),
        (datetime(2024, 6, 30, 22, tzinfo=UTC), date(2024, 7, 1)),
    ]


def test_a_long_run_of_separators_takes_no_time(cursor: runnel.Cursor) -> None:
    pattern = "-" * 40 + "YYYY" + "DD" * 30
    cursor.connection.register(
        "t", pa.table({"s": ["-" * 20 + " " * 2000 + "x" + "1" * 40], "p": [pattern]})
    )
    with pytest.raises(runnel.DataError, match="doesn't fit the pattern"):
        cursor.execute("SELECT TO_DATE(s, p) FROM t", timeout=20).fetchall()
