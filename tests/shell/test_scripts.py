"""`runnel` with -c, -f and pipes: output, exit status, and the commands of the shell."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

import runnel
from runnel.serving.server import Address, Server
from runnel.shell.command import main
from runnel.shell.script import is_complete, items_of


class Done(NamedTuple):
    """The end of a run of the command."""

    status: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def called(*arguments: str, text: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        try:
            status = main(arguments)
        except SystemExit as leaving:
            status = int(str(leaving.code))
        return Done(status, *capsys.readouterr())

    return called


def lines(*texts: str) -> str:
    return "\n".join(texts) + "\n"


def test_statements_print_tables(run: Run) -> None:
    done = run("-c", "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (NULL)", "-c", "FROM t")
    assert done == (
        0,
        lines(
            "table t created",
            "2 rows inserted",
            "┌─────────┐",
            "│    a    │",
            "│ INTEGER │",
            "├─────────┤",
            "│       1 │",
            "│    NULL │",
            "└─────────┘",
            "2 rows",
        ),
        "",
    )


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("csv", "a,b\n1,x\n2,\n"),
        ("tsv", "a\tb\n1\tx\n2\t\n"),
        ("json", '[\n  {"a": 1, "b": "x"},\n  {"a": 2, "b": null}\n]\n'),
        ("jsonlines", '{"a": 1, "b": "x"}\n{"a": 2, "b": null}\n'),
        ("markdown", "| a | b |\n|---:|---|\n| 1 | x |\n| 2 | NULL |\n"),
    ],
)
def test_modes_for_programs_print_rows_alone(run: Run, mode: str, expected: str) -> None:
    sql = "CREATE TABLE t (a INT); VALUES (1, 'x'), (2, NULL)"
    query = "SELECT * FROM (VALUES (1, 'x'), (2, NULL)) AS v (a, b)"
    assert run(f"--{mode}", "-c", sql.partition(";")[0], "-c", query) == (0, expected, "")
    assert run(text=f".mode {mode}\n{query};").out == expected


def test_modes_without_rows(run: Run) -> None:
    query = "SELECT 1 AS a WHERE FALSE"
    assert run("--csv", "-c", query).out == "a\n"
    assert json.loads(run("--json", "-c", query).out) == []
    assert run("--jsonlines", "-c", query).out == ""


def test_large_results_are_printed_in_chunks(run: Run) -> None:
    query = "SELECT v FROM TABLE(GENERATE_SERIES(1, 25000))"
    expected = [*range(1, 25_001)]
    assert [row["v"] for row in json.loads(run("--json", "-c", query).out)] == expected
    assert run("--csv", "-c", query).out == lines("v", *map(str, expected))


def test_a_pipe_has_all_rows_of_a_table(run: Run) -> None:
    out = run("-c", "SELECT v FROM TABLE(GENERATE_SERIES(1, 1500))").out
    assert out.endswith("1,500 rows\n") and out.count("\n") == 1506


def test_semicolons_in_strings_and_comments(run: Run) -> None:
    text = lines(
        "-- one; two",
        "SELECT 'a;b' /* ; */ AS x, ",
        "';' AS \"y;z\";SELECT '--;' AS w",
    )
    assert run("--csv", text=text).out == lines("x,y;z", "a;b,;", "w", "--;")


def test_the_first_error_ends_the_script(run: Run) -> None:
    done = run("--csv", "-c", "SELECT 1 AS a; SELECT b; SELECT 2 AS c")
    assert (done.status, done.out) == (1, "a\n1\n")
    assert done.err.startswith('UndefinedColumn: column "b" does not exist\nLINE 1: SELECT b\n')
    assert done.err.splitlines()[2] == "               ^"


def test_bail_off_runs_the_rest(run: Run) -> None:
    done = run("--csv", text=".bail off\nSELECT b;\nSELECT 2 AS c;\n")
    assert (done.status, done.out) == (1, "c\n2\n")


def test_an_unterminated_string_is_an_error(run: Run) -> None:
    done = run("-c", "SELECT 'abc")
    assert done.status == 1 and "unterminated string" in done.err


def test_files_and_statements_run_in_order(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "s.sql"
    script.write_text("\ufeffINSERT INTO t\nVALUES (2);\n\nSELECT wrong FROM t;", "utf-8")
    done = run("--csv", "-c", "CREATE TABLE t (a INT)", "-f", str(script), "-c", "FROM t")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f'{script}:4: UndefinedColumn: column "wrong" does not exist')
    script.write_text("INSERT INTO t VALUES (2)", "utf-8")
    done = run("--csv", "-c", "CREATE TABLE t (a INT)", "-f", str(script), "-c", "FROM t")
    assert done == (0, "a\n2\n", "")


def test_files_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    done = run("-f", str(tmp_path / "absent.sql"))
    assert done.status == 1
    assert 'absent.sql" cannot be read\nDETAIL: No such file or directory' in done.err
    latin = tmp_path / "latin.sql"
    latin.write_bytes(b"SELECT '\xe9'")
    done = run("-f", str(latin))
    assert done.status == 1 and "is not UTF-8" in done.err


def test_a_script_that_reads_itself(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "s.sql"
    script.write_text(f".read '{script}'\n")
    done = run("-f", str(script))
    assert done.status == 1 and "more than 20 scripts call each other" in done.err


def test_a_directory_is_durable(run: Run, tmp_path: Path) -> None:
    shop = str(tmp_path / "shop")
    assert run(shop, "-c", "CREATE TABLE t AS SELECT 5 AS a").status == 0
    assert run("--csv", shop, "-c", "FROM t").out == "a\n5\n"


def test_parquet(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "o.parquet"
    query = "SELECT 1 AS a, 'x' AS b"
    assert run("--parquet", str(path), "-c", query) == (0, "", "")
    assert pq.read_table(path).to_pylist() == [{"a": 1, "b": "x"}]
    done = run("--parquet", str(path), "-c", f"{query}; {query}")
    assert done.status == 1 and "has the rows of an earlier query" in done.err
    done = run("--parquet", str(path), "-c", "SELECT * FROM TABLE(GENERATE_STREAM(10))")
    assert done.status == 1 and "a query that never ends" in done.err
    done = run("--parquet", str(tmp_path / "absent" / "o"), "-c", query)
    assert done.status == 1 and "cannot be written" in done.err
    done = run("--parquet", str(path), "-c", "SELECT a FROM (SELECT 1/0 AS a)")
    assert done.status == 1 and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--bogus",),
        ("--csv", "--json"),
        ("--set", "x", "-c", "SELECT 1"),
        ("--set", "unknown=1", "-c", "SELECT 1"),
        ("a", "b"),
        ("runnel://127.0.0.1:1", "-c", "SELECT 1"),
    ],
)
def test_wrong_usage(run: Run, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNNEL_TOKEN", raising=False)
    done = run(*arguments)
    assert (done.status, done.out) == (2, "") and "runnel: " in done.err


def test_settings_and_version(run: Run) -> None:
    sql = "SELECT value FROM information_schema.settings WHERE name = 'query_parallelism'"
    assert run("--csv", "--set", "query_parallelism=1", "-c", sql).out == "value\n1\n"
    assert run("--version").out == f"runnel {runnel.__version__}\n"


def test_import_and_export(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in 1.csv").write_text("id,name\n1,Ann\n2,Bo\n")
    done = run(
        text=lines(
            ".import 'in 1.csv' people",
            ".import 'in 1.csv' people",
            ".export out.json SELECT count(*) AS n FROM people;",
            ".export out.parquet people",
            ".export out.tsv people;",
        )
    )
    assert (done.status, done.err) == (
        0,
        lines(
            "1 row written to out.json",
            "4 rows written to out.parquet",
            "4 rows written to out.tsv",
        ),
    )
    assert json.loads((tmp_path / "out.json").read_text()) == [{"n": 4}]
    assert pq.read_table("out.parquet").num_rows == 4
    assert (tmp_path / "out.tsv").read_text().splitlines()[:2] == ["id\tname", "1\tAnn"]
    assert len([*tmp_path.iterdir()]) == 4


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (".mod csv", 'there is no command ".mod"\nHINT: did you mean ".mode"?'),
        (".mode cvs", 'there is no mode "cvs"\nHINT: the modes are table, box,'),
        (".timer maybe", ".timer needs on or off, not maybe"),
        (".import f.csv", ".import needs a file and a table, not f.csv"),
        (".import absent.csv t", 'absent.csv" not found'),
        (".export f.xyz t", 'the format of the file "f.xyz" is unknown'),
        (".export f.csv", ".export needs a file, and a table or a query"),
        (".export f.csv absent", '"absent" not found'),
        (".export /absent/f.csv SELECT 1", 'the file "/absent/f.csv" cannot be written'),
        (".export f.csv SELECT * FROM TABLE(GENERATE_STREAM(1))", "a query that never ends"),
        (".read 'f", ".read needs arguments whose quotes are closed"),
        ("\\d absent", '"absent" not found'),
        ("\\watch", "there is no statement to repeat"),
        ("\\watch 0 SELECT 1", "\\watch needs a number of seconds above 0"),
        (".maxrows many", ".maxrows needs a number of rows"),
        ("\\foo", 'there is no command "\\foo"'),
    ],
)
def test_wrong_commands(run: Run, command: str, expected: str) -> None:
    done = run(text=f"{command}\n")
    assert done.status == 1 and expected in done.err


def test_the_catalog(run: Run) -> None:
    made = lines(
        'CREATE TABLE people (id BIGINT, "full name" VARCHAR);',
        "CREATE VIEW names AS SELECT id FROM people;",
        "CREATE MAPPING logs TYPE File OPTIONS ('path' = 'README.md', 'format' = 'lines');",
    )

    def shown(command: str) -> list[str]:
        return run(text=f"{made}.mode csv\n{command}\n").out.splitlines()[3:]

    assert shown(".tables") == ["logs", "names", "people"]
    assert shown(".tables n%") == ["names"]
    assert shown("\\d") == ["name,type", "logs,File", "names,view", "people,DuckDB"]
    assert shown("\\dt peo") == ["name,type", "people,DuckDB"]
    assert shown("\\dv") == ["name,query,columns", "names,SELECT id FROM people,id BIGINT"]
    assert shown("\\d names")[1].startswith("id,BIGINT,")
    assert [row.split(",")[0] for row in shown("\\df strpos")] == ["name", "STRPOS"]
    assert shown(".schema people") == [
        'CREATE TABLE "people" (',
        '  "id" BIGINT,',
        '  "full name" VARCHAR',
        ");",
    ]
    assert shown(".schema names") == ["CREATE VIEW names AS SELECT id FROM people;"]
    assert shown(".schema logs")[0].startswith(
        "CREATE MAPPING logs (line VARCHAR) TYPE File OPTIONS"
    )
    assert shown("\\dj")[0].startswith("id,name,status,query")


def test_settings_of_output(run: Run) -> None:
    text = (
        ".mode csv\n.headers off\n.nullvalue '-- '\nSELECT NULL AS a;\n.nullvalue\nSELECT 1 AS a;"
    )
    assert run(text=text).out == "-- \n1\n"
    out = run(text=".maxrows 2\nSELECT v FROM TABLE(GENERATE_SERIES(1, 3));").out
    assert out.endswith("the first 2 rows; .maxrows 0 prints all\n")
    done = run(text=".timer on\n.mode csv\nSELECT 1 AS a;\n\\x\nSELECT 1 AS a;")
    assert "Time: 0." in done.err and "-[ row 1 ]" in done.out


def test_help_lists_the_commands_and_quit_ends(run: Run) -> None:
    assert "\\watch [SECONDS] [SQL]" in run(text="\\?\n").out
    assert run(text=".quit\nSELECT wrong;") == (0, "", "")


def test_open_replaces_the_connection(run: Run, tmp_path: Path) -> None:
    text = f"CREATE TABLE t (a INT);\n.open '{tmp_path / 'd'}'\n.tables\nCREATE TABLE u (a INT);\n"
    assert run(text=text).out == "table t created\ntable u created\n"
    assert run(str(tmp_path / "d"), text=".tables").out == "u\n"


def test_explain_prints_lines(run: Run) -> None:
    out = run("-c", "EXPLAIN SELECT 1").out
    assert out.startswith("Logical plan\nValues, 1 row") and "│" not in out


COMMAND = (sys.executable, "-m", "runnel")


def test_no_colour_goes_into_a_pipe() -> None:
    done = subprocess.run(
        [*COMMAND], input="SELECT 1; SELECT x;", capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "1 row" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_a_locale_without_characters() -> None:
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
    }
    done = subprocess.run(
        [*COMMAND, "--csv", "-c", "SELECT 'é漢' AS a"],
        capture_output=True,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, "a\né漢\n", b"")


def test_a_reader_that_ends_early() -> None:
    """`runnel -c … | head -1` ends without an error."""
    with subprocess.Popen(
        [*COMMAND, "--csv", "-c", "SELECT * FROM TABLE(GENERATE_STREAM(1000))"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"v\n"
        process.stdout.close()
        assert (process.wait(30), process.stderr.read()) == (0, b"")


def test_a_signal_ends_a_stream() -> None:
    with subprocess.Popen(
        [*COMMAND, "--json", "-c", "SELECT * FROM TABLE(GENERATE_STREAM(1000))"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        first = process.stdout.readline() + process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(30) == 130
        assert process.stderr.read() == b""
    assert json.loads(first + rest)[0] == {"v": 0}


def test_a_session_on_a_server(run: Run, tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "d") as connection:
        server = Server(connection, "a token of the owner", Address())
        try:
            token = "token=a token of the owner"
            sql = "CREATE TABLE t (a INT); INSERT INTO t VALUES (4)"
            assert run(server.url, "--set", token, "-c", sql).status == 0
            assert run("--csv", server.url, "--set", token, "-c", "SELECT a FROM t").out == "a\n4\n"
            assert run(server.url, "--set", token, text=".tables\n").out == "t\n"
            done = run(server.url, "--set", "token=another token of one", "-c", "SELECT 1")
            assert done.status == 1 and "ERROR" not in done.out
        finally:
            server.stop()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("SELECT 1;", [("SELECT 1", 1, False)]),
        ("SELECT\n1;;\n\n-- c\nSELECT 2", [("SELECT\n1", 1, False), ("-- c\nSELECT 2", 4, False)]),
        (
            "SELECT '\n.mode csv\n;';\n.mode csv",
            [("SELECT '\n.mode csv\n;'", 1, False), (".mode csv", 4, True)],
        ),
        (
            "/* ;\n\\d\n*/ SELECT 1; SELECT 2;",
            [("/* ;\n\\d\n*/ SELECT 1", 1, False), ("SELECT 2", 3, False)],
        ),
        (
            "SHOW JOBS \\watch 2\nSELECT 1",
            [("\\watch 2 SHOW JOBS", 1, True), ("SELECT 1", 2, False)],
        ),
        ("SELECT 1;\nSELECT\n2; \\watch", [("SELECT 1", 1, False), ("\\watch SELECT\n2", 2, True)]),
        ("SELECT 1 \\g\nSELECT 2", [("SELECT 1", 1, False), ("SELECT 2", 2, False)]),
        ("SELECT '\\watch 2';", [("SELECT '\\watch 2'", 1, False)]),
        ("SELECT '\\watch 2\n';", [("SELECT '\\watch 2\n'", 1, False)]),
        ("SELECT 'a", [("SELECT 'a", 1, False)]),
        ("-- only\n;", []),
    ],
)
def test_a_script_is_divided(script: str, expected: list[tuple[str, int, bool]]) -> None:
    found = [*items_of(script.splitlines(keepends=True))]
    assert [(item.text, item.line, item.is_command) for item in found] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- end", True),
        ("SELECT 1; SELECT", False),
        ("SELECT ';", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1 \\watch 2", True),
        (".mode csv", True),
        ("\\?", True),
        ("", True),
    ],
)
def test_an_input_is_complete(text: str, expected: bool) -> None:
    assert is_complete(text) is expected
