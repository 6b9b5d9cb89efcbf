"""Jobs whose queries call Python functions: their sources are kept, and make the functions again in
a reopened directory."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import runnel
from runnel import JobStatus
from tests.jobs.lifecycle.test_create_job import MAP, PATIENCE, SCHEMA, rows

TWICE = """
import pyarrow.compute as pc

def twice(column):
    return pc.multiply(column, 2)

def register(connection):
    connection.create_function("twice", twice, ["BIGINT"], "BIGINT", type="arrow")
"""


def registered(connection: runnel.Connection, path: Path) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.register(connection)


def test_the_function_is_there_when_the_directory_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "twice.py"
    path.write_text(TWICE)
    series = "TABLE(GENERATE_STREAM(50))"
    with runnel.connect(tmp_path / "db") as connection:
        connection.execute(f"CREATE MAPPING m {MAP}")
        connection.execute(
            f"CREATE JOB j OPTIONS ('modules'='{path}') AS SINK INTO m SELECT v, twice(v) "
            f"FROM {series}"
        )
        registered(connection, path)
        connection.execute(f"CREATE JOB without AS SINK INTO m SELECT v, twice(v) FROM {series}")
    path.unlink()
    with runnel.connect(tmp_path / "db") as connection:
        assert connection.job("j").status is JobStatus.RUNNING
        assert connection.job("without").status is JobStatus.SUSPENDED, (
            "the function is visible in the job that has the module alone"
        )
        with pytest.raises(runnel.ProgrammingError, match="twice"):
            connection.execute("SELECT twice(21)")
        connection.execute("CREATE SNAPSHOT s FOR JOB j", timeout=PATIENCE)
        assert all(value == key * 2 for key, value in rows(connection))
        connection.execute("DROP JOB j", timeout=PATIENCE)
    with runnel.connect(tmp_path / "db") as connection:
        job = connection.job("without")
        assert (
            job.status is JobStatus.SUSPENDED
            and job.error is not None
            and '"twice"' in job.error.message
        )


@pytest.mark.parametrize(
    ("source", "message", "detail"),
    [
        (None, "can't be read", "No such file or directory"),
        ("def register(connection:", 'module "bad" can\'t be loaded', "SyntaxError"),
        ("1 / 0", 'module "bad" can\'t be loaded', "ZeroDivisionError: division by zero"),
        ("x = 1", 'module "bad" has no function register', None),
        (
            "def register(connection):\n    raise KeyError('k')",
            'module "bad" can\'t be loaded',
            "KeyError: 'k'",
        ),
        (
            "def register(connection):\n    connection.create_function('f', 1, ['INT'], 'INT')",
            "function",
            None,
        ),
    ],
)
def test_modules_that_cannot_be_used(
    tmp_path: Path, source: str | None, message: str, detail: str | None
) -> None:
    path = tmp_path / "bad.py"
    if source is not None:
        path.write_text(source)
    with runnel.connect() as connection:
        connection.execute(f"CREATE MAPPING m {MAP}")
        connection.register_stream("s", SCHEMA)
        with pytest.raises(runnel.Error, match=message) as caught:
            connection.execute(
                f"CREATE JOB j OPTIONS ('modules'='{path}') AS SINK INTO m SELECT k, v FROM s"
            )
        assert not isinstance(caught.value, runnel.InternalError)
        assert detail is None or detail in (caught.value.detail or "")
        assert connection.jobs() == []
