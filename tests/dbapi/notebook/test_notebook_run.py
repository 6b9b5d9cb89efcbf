"""A notebook is executed by a kernel, as Jupyter does."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

import runnel
from runnel import Connection
from runnel.results.notebook_progress import CellProgress, bar_html, bar_text
from runnel.results.progress import QueryProgress, StepProgress
from tests.waiting import eventually

CELLS = (
    "import runnel\ncon = runnel.connect()",
    "con.sql('CREATE MAPPING t (a INTEGER, b VARCHAR) TYPE DuckDB')",
    "con.execute(\"INSERT INTO t VALUES (1, 'x<y'), (2, NULL)\")",
    "con.execute('SELECT * FROM t ORDER BY a')",
    "con.execute('EXPLAIN SELECT a FROM t WHERE a > 1')",
    "con.execute('SELECT nope FROM t')",
    "import pyarrow\nt3 = pyarrow.table({'n': [1, 2, 3]})\nrunnel.sql('SELECT SUM(n) FROM t3')",
    "con.close()",
)


@pytest.fixture(scope="module")
def outputs() -> list[Any]:
    """The outputs of each cell."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    v4 = nbformat.v4
    notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in CELLS])
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", allow_errors=True
    )
    client.execute(env={**os.environ, "RUNNEL_DEBUG": "0"})
    return [cell.outputs for cell in notebook.cells]


def test_definitions_and_writes_report_their_outcome(outputs: list[Any]) -> None:
    assert outputs[1][0].data["text/plain"] == "mapping t created"
    assert outputs[1][0].data["text/html"] == "<p>mapping t created</p>"
    assert outputs[2][0].data["text/html"] == "<p>2 rows inserted</p>"


def test_a_query_is_a_table(outputs: list[Any]) -> None:
    html, text = outputs[3][0].data["text/html"], outputs[3][0].data["text/plain"]
    assert "<td>1</td><td>x&lt;y</td>" in html and "<i>NULL</i>" in html
    assert "│ x<y     │" in text and text.endswith("\n2 rows")
    assert "<td>6</td>" in outputs[6][0].data["text/html"]


def test_a_plan_keeps_its_indentation(outputs: list[Any]) -> None:
    html, text = outputs[4][0].data["text/html"], outputs[4][0].data["text/plain"]
    assert html.startswith("<pre>") and "\n  " in html and "\n  " in text


def test_an_error_is_short(outputs: list[Any]) -> None:
    error = outputs[5][0]
    assert error.ename == "UndefinedColumn" and 'column "nope" does not exist' in error.evalue
    assert not [line for line in error.traceback if "cursor.py" in line or "planner" in line]


def test_no_bar_for_short_statements(outputs: list[Any]) -> None:
    assert [len(cell) for cell in outputs] == [0, 1, 1, 1, 1, 1, 1, 0]


def test_a_bar_for_a_long_statement(connection: Connection) -> None:
    release = threading.Event()

    def blocked(values: object) -> object:
        release.wait(60)
        return values

    shown: list[tuple[str, str, bool]] = []
    watcher = CellProgress(lambda html, text, is_shown: shown.append((html, text, is_shown)))
    watcher.watch(connection._database.jobs)
    assert watcher.step(False) is False and shown == []
    connection.create_function("blocked", blocked, ["BIGINT"], "BIGINT", type="arrow")
    thread = threading.Thread(
        target=lambda: connection.execute(
            "SELECT blocked(v) FROM TABLE(GENERATE_SERIES(1, 3)) AS s(v)"
        ).fetchall()
    )
    watcher.begin()
    thread.start()
    try:
        assert eventually(lambda: len(shown) >= 2)
    finally:
        release.set()
        thread.join()
        watcher.end()
    assert shown[0][2] is False and shown[1][2] is True
    assert "<progress" in shown[0][0] and shown[0][1].startswith("running for ")
    assert shown[-1] == ("", "", True)
    count = len(shown)
    watcher.end()
    assert len(shown) == count


def test_texts_of_bars() -> None:
    steps = (StepProgress("scan <t>", 0, 1200), StepProgress("spark", 0, 5, 3, 4))
    progress = QueryProgress(12.4, False, steps)
    assert bar_text(progress) == "running for 12 s, 75%, 1,200 rows read"
    assert 'value="0.750"' in bar_html(progress) and "&lt;t&gt;" in bar_html(progress)
    unknown = QueryProgress(2.0, False, steps[:1])
    assert bar_text(unknown) == "running for 2 s, 1,200 rows read"
    assert "value=" not in bar_html(unknown)


def test_no_notebook_no_watcher() -> None:
    from runnel.results import notebook_progress

    before = dict(notebook_progress._watchers)
    with runnel.connect() as connection:
        notebook_progress.watch_notebook(connection._database.jobs)
    assert notebook_progress._watchers == before
