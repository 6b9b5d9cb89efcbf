"""The traceback of an error shows the user's code, and not the inside of Runnel."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel import Connection
from runnel.errors import presentable, shorten


@pytest.fixture(autouse=True)
def short() -> Iterator[None]:
    runnel.set_debug(False)
    yield
    runnel.set_debug(os.environ.get("RUNNEL_DEBUG", "") not in ("", "0"))


def shown(call: Callable[[], Any]) -> str:
    with pytest.raises(runnel.Error) as caught:
        call()
    return "".join(traceback.format_exception(caught.value))


def frames(text: str) -> list[str]:
    """The functions of a traceback, each with the end of its file's path."""
    pattern = re.compile(r'^  File ".*?([^/\\"]+)", line \d+, in (.+)$', re.MULTILINE)
    return [f"{file} {function}" for file, function in pattern.findall(text)]


OWN = Path(__file__).name
FAILING = "SELECT 1 / (v - 3) AS a FROM TABLE(GENERATE_SERIES(1, 9)) AS s(v)"


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.execute("SELECT x"),
        lambda c: c.cursor().execute("SELEC 1"),
        lambda c: c.sql("SELECT x"),
        lambda c: runnel.sql("SELECT x"),
        lambda c: runnel.connect(no_such_setting=1),
        lambda c: c.execute("SELECT ?", ()),
        lambda c: c.execute(FAILING).fetchone(),
        lambda c: c.execute(FAILING).fetchmany(5),
        lambda c: c.execute(FAILING).fetchall(),
        lambda c: list(c.execute(FAILING)),
        lambda c: c.execute(FAILING).df(),
        lambda c: c.execute(FAILING).show(),
        lambda c: c.execute(FAILING).fetch_arrow_table(),
        lambda c: c.cursor().fetchone(),
        lambda c: c.cursor().executemany("INSERT INTO t VALUES (?)", [(1,)]),
        lambda c: c.register("t", 3),
        lambda c: c.unregister("t"),
        lambda c: c.job("j"),
        lambda c: c.create_function("f", None, [], "BIGINT"),
        lambda c: c.execute("ROLLBACK"),
    ],
)
def test_only_the_line_of_the_caller(
    connection: Connection, call: Callable[[Connection], Any]
) -> None:
    text = shown(lambda: call(connection))
    assert set(frames(text)) == {f"{OWN} shown", f"{OWN} <lambda>"}
    assert "direct cause" not in text and "another exception" not in text


def test_a_coroutine(connection: Connection) -> None:
    async def fails() -> None:
        await connection.cursor().execute_async("SELECT x")

    found = frames(shown(lambda: asyncio.run(fails())))
    assert found[-1] == f"{OWN} fails"
    assert not [frame for frame in found if "cursor.py" in frame or "errors.py" in frame]


def test_a_python_function_stays_visible(connection: Connection) -> None:
    def inner(value: int) -> int:
        return value // 0

    def failing(value: int) -> int:
        return inner(value)

    connection.create_function("failing", failing, ["BIGINT"], "BIGINT", scalar=True)
    text = shown(lambda: connection.execute("SELECT failing(1)").fetchall())
    first, _, last = text.partition("direct cause")
    assert frames(first) == [f"{OWN} failing", f"{OWN} inner"] and "ZeroDivisionError" in first
    assert set(frames(last)) == {f"{OWN} shown", f"{OWN} <lambda>"}


def test_an_exception_that_the_caller_handles_stays_visible(connection: Connection) -> None:
    def handles() -> None:
        try:
            {}["missing"]
        except KeyError:
            connection.execute("SELECT x")

    text = shown(handles)
    assert "KeyError: 'missing'" in text and "another exception occurred" in text
    assert set(frames(text)) == {f"{OWN} shown", f"{OWN} handles"}


def test_a_second_fetch_shows_no_earlier_call(connection: Connection) -> None:
    sql = "SELECT v FROM TABLE(GENERATE_SERIES(1, 9000000)) AS s(v) WHERE 1 / (v - 8000000) > 1"
    cursor = connection.execute(sql)

    def again() -> None:
        cursor.fetchall()

    with pytest.raises(runnel.DataError) as caught:
        cursor.fetchall()
    with pytest.raises(runnel.DataError) as repeated:
        again()
    text = "".join(traceback.format_exception(repeated.value))
    assert frames(text)[-1] == f"{OWN} again"
    assert caught.value.sql == sql


def test_the_removed_cause_is_the_context() -> None:
    try:
        raise KeyError("inside")
    except KeyError as cause:
        inside = cause
    inside.__traceback__ = None
    error = presentable(inside, "SELECT 1")
    shorten(error)
    assert error.__cause__ is None and error.__context__ is inside
    assert error.__suppress_context__


def test_debugging_shows_all(connection: Connection) -> None:
    runnel.set_debug(True)
    text = shown(lambda: connection.execute("SELECT x"))
    assert "cursor.py execute" in frames(text) and "query.py" in text
    program = "import runnel\nrunnel.sql('SELECT x')"
    for value, expected in (("1", True), ("0", False), ("", False)):
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=False,
            env={**os.environ, "RUNNEL_DEBUG": value},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 1
        assert ("cursor.py" in done.stderr) is expected
        assert 'UndefinedColumn: column "x" does not exist' in done.stderr
        assert expected or len(done.stderr.splitlines()) <= 7
