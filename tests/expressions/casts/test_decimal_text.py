"""Text as DECIMAL, compared with Python's decimal: whatever its digits, exponents and length,
nothing wraps around."""

from __future__ import annotations

import random
import re
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from pathlib import Path

import pyarrow as pa
import pytest

import runnel
from runnel.connectors.files.conversion import converter
from runnel.connectors.files.json.json_numbers import has_long_number
from runnel.expressions.casts.decimal_text import text_to_decimal
from runnel.sqltypes import VARCHAR, SqlType, decimal, to_arrow
from tests.effort import examples

EXACT = Context(prec=500)
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
LENGTHS = (0, 1, 1, 5, 18, 19, 28, 29, 36, 37, 38, 39, 40, 60, 80)
EXPONENTS = (0, 1, 5, 10, 20, 37, 38, 39, 40, 60, 77, 400, 10**6, 10**20)
NO_NUMBERS = (
    "1_0",
    "1_0e2",
    "１e2",
    "0x1e2",
    "e5",
    "1e",
    "--1",
    "1.2.3",
    "",
    ".",
    "NaN",
    "Infinity",
    "1 e5",
    "1e5.0",
)


def number(rng: random.Random) -> str:
    if rng.random() < 0.05:
        return rng.choice(NO_NUMBERS)
    nines = rng.random() < 0.2
    whole, fraction = (
        "".join("9" if nines else rng.choice("0123456789") for _ in range(rng.choice(LENGTHS)))
        for _ in "ab"
    )
    if rng.random() < 0.2:
        whole = "0" * rng.choice((1, 20, 40)) + whole
    text = rng.choice(("", "", "-", "+")) + (whole + "." + fraction if fraction else whole or "7")
    if rng.random() < 0.3:
        text += rng.choice("eE") + rng.choice(("", "-", "+")) + str(rng.choice(EXPONENTS))
    return text


def expected(text: str, target: SqlType) -> Decimal | None:
    """The number as `target` has it; None where it has none."""
    if NUMBER.fullmatch(text) is None or not text.isascii():
        return None
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return None
    if exact and exact.adjusted() > 100:
        return None
    if exact.adjusted() < -400:
        exact = Decimal(0)
    rounded = exact.quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, EXACT)
    return rounded if abs(rounded) < Decimal(10) ** (target.precision - target.scale) else None


def types(rng: random.Random) -> SqlType:
    precision = rng.choice((1, 5, 18, 19, 28, 37, 38, 38, 38))
    scales = (0, precision, precision // 2, min(2, precision), precision - 1, min(10, precision))
    return decimal(precision, rng.choice(scales))


@pytest.mark.parametrize("seed", range(examples(60)))
def test_a_text_is_the_number_that_python_reads(seed: int) -> None:
    rng = random.Random(seed)
    target = types(rng)
    texts = [number(rng) for _ in range(60)]
    fine = []
    for text in texts:
        wanted = expected(text, target)
        if wanted is None:
            with pytest.raises(pa.ArrowInvalid):
                text_to_decimal(pa.array([text]), to_arrow(target))
            continue
        fine.append((text, wanted))
        assert text_to_decimal(pa.scalar(text), to_arrow(target)).as_py() == wanted, (text, target)
    column = pa.array([None, *(text for text, _ in fine)], pa.string())
    wanted_column = [None, *(wanted for _, wanted in fine)]
    assert text_to_decimal(column, to_arrow(target)).to_pylist() == wanted_column
    assert text_to_decimal(column.slice(1), to_arrow(target)).to_pylist() == wanted_column[1:]
    convert = converter(VARCHAR, target)
    assert convert is not None
    assert convert(column).to_pylist() == wanted_column


TOO_LARGE = "75874465050688222888198250977"
"""With ten digits after the point it is 78179916665005301955233294906463577088 modulo 2^128."""


@pytest.fixture
def con() -> runnel.Connection:
    return runnel.connect()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CAST('4' AS DECIMAL(38, 38))",
        f"SELECT CAST('{TOO_LARGE}' AS DECIMAL(38, 10))",
        f"SELECT CAST(s AS DECIMAL(38, 10)) FROM (VALUES ('1'), ('{TOO_LARGE}')) AS t (s)",
        "SELECT CAST('4e38' AS DECIMAL(38, 0))",
        (
            f"SELECT JSON_VALUE('{{\"a\": {TOO_LARGE}}}', '$.a' "
            "RETURNING DECIMAL(38, 10) ERROR ON ERROR)"
        ),
    ],
)
def test_what_has_too_many_digits_is_an_error(con: runnel.Connection, sql: str) -> None:
    with pytest.raises(runnel.DataError):
        con.execute(sql).fetchall()


def test_try_cast_of_too_many_digits_is_null(con: runnel.Connection) -> None:
    sql = "SELECT TRY_CAST(s AS DECIMAL(38, 10)) FROM (VALUES ('1.5'), (?)) AS t (s)"
    assert con.execute(sql, [TOO_LARGE]).fetchall() == [(Decimal("1.5"),), (None,)]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (f"n\n1.5\n{TOO_LARGE}\n", "csv"),
        (f'{{"n": 1.5}}\n{{"n": {TOO_LARGE}}}\n', "json"),
        (f'{{"n": 1.5}}\n{{"n": "{TOO_LARGE}"}}\n', "json"),
        ('{"n": 1.5}\n{"n": 1e30}\n', "json"),
    ],
)
def test_files_with_too_many_digits(
    con: runnel.Connection, tmp_path: Path, text: str, form: str
) -> None:
    (tmp_path / "f").write_text(text)
    con.execute(
        "CREATE MAPPING f (n DECIMAL(38, 10)) TYPE File "
        f"OPTIONS ('path' = '{tmp_path}/f', 'format' = '{form}')"
    )
    with pytest.raises(runnel.DataError, match="doesn't fit column"):
        con.execute("SELECT n FROM f").fetchall()


def test_an_array_of_decimals_in_json(con: runnel.Connection, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(f'{{"n": [1.5, {TOO_LARGE}]}}\n')
    con.execute(
        "CREATE MAPPING f (n DECIMAL(38, 10) ARRAY) TYPE File "
        f"OPTIONS ('path' = '{tmp_path}/f', 'format' = 'json')"
    )
    with pytest.raises(runnel.DataError, match="doesn't fit column"):
        con.execute("SELECT n FROM f").fetchall()


@pytest.mark.parametrize(
    ("data", "digits", "found"),
    [
        (b"12345", 5, False), (b"12345", 4, True), (b"1234.5678", 4, False), (b"x12345y", 4, True),
        (b"", 4, False), (b"1", 0, True), (b"a", 0, False), (b"1e5", 9, True), (b"1E5", 9, True),
        (b"we5", 9, False), (b"123", 5, False),
    ],
)  # fmt: skip
def test_long_numbers_in_json(data: bytes, digits: int, found: bool) -> None:
    assert has_long_number(data, digits) is found
