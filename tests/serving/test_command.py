"""`runnel serve` as a process: another process's cursor reaches it, and a signal ends it
cleanly."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import runnel
from runnel.serving.command import main, spark_of
from tests.waiting import eventually

MAP = (
    "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
)


@contextmanager
def served(directory: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that serves the directory, and its address."""
    command = [sys.executable, "-m", "runnel", "serve", str(directory), *more]
    environment = {name: value for name, value in os.environ.items() if name != "RUNNEL_TOKEN"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"runnel://127\.0\.0\.1:\d+", line)
            assert found is not None, line + process.stderr.read() if process.stderr else line
            yield process, found[0]
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_served_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "kept"
    with served(directory) as (process, url):
        token = directory / "token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        with runnel.connect(url, token=token.read_text()) as made:
            made.execute(MAP)
            made.execute("INSERT INTO m VALUES (1, 2)")
            endless = made.execute("SELECT * FROM TABLE(GENERATE_STREAM(1000))")
            assert endless.fetchone() is not None
            process.send_signal(number)
            assert process.wait(30) == 0
            with pytest.raises(runnel.OperationalError):
                while endless.fetchone() is not None:
                    pass
    with runnel.connect(directory) as made:
        assert made.execute("SELECT this FROM m WHERE __key = 1").fetchone() == (2,)


def test_the_token_stays_the_same(tmp_path: Path) -> None:
    tokens = []
    for _ in range(2):
        with served(tmp_path) as (process, url):
            tokens.append((tmp_path / "token").read_text())
            with runnel.connect(url, token=tokens[-1]) as made:
                assert made.execute("SELECT 1").fetchone() == (1,)
            process.terminate()
            assert process.wait(30) == 0
    assert tokens[0] == tokens[1]


def test_tokens_are_read_again_at_a_signal(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    with served(directory) as (process, url):
        earlier = (directory / "token").read_text()
        with runnel.connect(url, token=earlier) as made:
            endless = made.execute("SELECT * FROM TABLE(GENERATE_STREAM(1000))")
            assert endless.fetchone() is not None
            (directory / "token").write_text("short")
            process.send_signal(signal.SIGHUP)
            (directory / "user-token").write_text("another token of the users\n")
            (directory / "token").write_text("another token of the owner\n")
            process.send_signal(signal.SIGHUP)
            assert eventually(lambda: _is_let_in(url, "another token of the owner"), longest=0.1)
            assert _is_let_in(url, "another token of the users")
            assert not _is_let_in(url, earlier)
            assert endless.fetchone() is not None
            process.terminate()
            assert process.wait(30) == 0


def test_a_time_out_holds_where_the_server_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnel.serving.remote.LATE", 0.2)
    directory = tmp_path / "kept"
    with served(directory) as (process, url):
        made = runnel.connect(url, token=(directory / "token").read_text())
        endless = made.execute("SELECT * FROM TABLE(GENERATE_STREAM(10))", timeout=2)
        assert endless.fetchone() is not None
        process.send_signal(signal.SIGSTOP)
        for wait in (lambda: made.execute("SELECT 1", timeout=0.1), lambda: list(endless)):
            with pytest.raises(runnel.OperationalError) as caught:
                wait()
            assert caught.value.code is runnel.ErrorCode.TIMEOUT
        process.kill()
        made.close()


def _is_let_in(url: str, token: str) -> bool:
    try:
        with runnel.connect(url, token=token) as made:
            return made.execute("SELECT 1").fetchone() == (1,)
    except runnel.OperationalError:
        return False


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--set", "time_zone"], "--set needs NAME=VALUE"),
        (["--set", "nope=1"], 'setting "nope"'),
        (["--host", "0.0.0.0"], "needs a certificate"),
        (["--token-file", "/nowhere/at/all"], "can't be read"),
        (["--certificate", "/nowhere/at/all"], "can't be read"),
        (["--spark", "local[2]", "--spark", "local[4]"], 'sets "spark.master" twice'),
        (["--spark", "laptop"], "laptop"),
    ],
)
def test_wrong_arguments_end_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert main(["serve", str(tmp_path), *arguments]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("runnel: ")
    assert told in shown
    assert "Traceback" not in shown


def test_the_spark_that_jobs_use() -> None:
    assert spark_of(["spark.driver.memory=1g", "sc://host:15002/;token=a=b"]) == {
        "spark.driver.memory": "1g",
        "spark.remote": "sc://host:15002/;token=a=b",
    }
    assert spark_of(["spark://host:7077"]) == {"spark.master": "spark://host:7077"}
    assert spark_of([]) is None


def test_a_directory_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with runnel.connect(tmp_path):
        assert main(["serve", str(tmp_path)]) == 1
    assert "is in use by another connection" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["99999", "-1", "http", "1.5"])
def test_a_port_that_is_none(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "somewhere", f"--port={port}"])
    assert f"a port is a whole number from 0 to 65535, not {port}" in capsys.readouterr().err


def test_the_bounds_of_users(tmp_path: Path) -> None:
    data, modules, spill = (tmp_path / name for name in ("data", "modules", "data/spill"))
    for folder in (data, modules, spill):
        folder.mkdir()
    for path in (data / "a.txt", spill / "b.txt", data / "secret.token"):
        path.write_text("a token of the tests\n")
    token = str(data / "secret.token")
    more = (
        "--files",
        str(data),
        "--modules",
        str(modules),
        "--token-file",
        token,
        "--set",
        f"temp_directory={spill}",
    )
    with served(tmp_path / "kept", *more) as (_, url):
        user = runnel.connect(url, token=(tmp_path / "kept/user-token").read_text())
        read = "SELECT * FROM TABLE(LINES_FILE('{}'))"
        assert user.execute(read.format(data / "a.txt")).fetchall() == [("a token of the tests",)]
        for path in (token, spill / "b.txt", tmp_path / "kept/user-token", "/proc/self/environ"):
            with pytest.raises(runnel.ProgrammingError, match="outside of what may be reached"):
                user.execute(read.format(path))
        user.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--files", "/nowhere/at/all"], "does not exist"),
        (["--files", "{0}"], "always out of reach"),
        (["--files", "{0}/.."], "in a folder that clients may write"),
        (["--modules", "/nowhere/at/all"], "can't be read"),
    ],
)
def test_bounds_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "modules").mkdir()
    modules = [] if "--modules" in arguments else ["--modules", str(tmp_path / "modules")]
    given = [item.format(tmp_path / "kept") for item in arguments]
    assert main(["serve", str(tmp_path / "kept"), *given, *modules]) == 1
    assert told in capsys.readouterr().err
