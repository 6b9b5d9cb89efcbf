"""The options of DuckDB's command line and of psql."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from runnel import InterfaceError
from runnel.shell.arguments import arguments_of
from runnel.shell.command import main
from runnel.shell.options import OPTIONS, REFUSED

QUERY = "SELECT * FROM (VALUES (1, 'x'), (20, NULL)) AS v (a, b)"
Done = tuple[int, str, str]
Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def called(*arguments: str, text: str = "") -> Done:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return (main(arguments), *capsys.readouterr())

    return called


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("-csv", "a,b\n1,x\n20,\n"),
        ("--csv -noheader", "1,x\n20,\n"),
        ("-csv -separator ; -nullvalue ?", "a;b\n1;x\n20;?\n"),
        ("-json", '[\n  {"a": 1, "b": "x"},\n  {"a": 20, "b": null}\n]\n'),
        ("-jsonlines -header", '{"a": 1, "b": "x"}\n{"a": 20, "b": null}\n'),
        ("-list", "a|b\n1|x\n20|\n"),
        ("-list -separator \\t", "a\tb\n1\tx\n20\t\n"),
        ("-A", "a|b\n1|x\n20|\n"),
        ("-At", "1|x\n20|\n"),
        ("-AtF,", "1,x\n20,\n"),
        ("-qAtX -F -", "1-x\n20-\n"),
        ("-t", " 1 | x\n20 | NULL\n"),
        ("-column", " a  b\n--  ----\n 1  x\n20  NULL\n2 rows\n"),
        ("-markdown -nullvalue=", "| a | b |\n|---:|---|\n| 1 | x |\n| 20 |  |\n"),
        ("-html", "<table>\n<tr><th>a</th><th>b</th></tr>\n<tr><td>1</td><td>x</td></tr>\n"
         "<tr><td>20</td><td></td></tr>\n</table>\n"),
        ("-insert", "INSERT INTO \"table\" (a, b) VALUES (1, 'x');\n"
         'INSERT INTO "table" (a, b) VALUES (20, NULL);\n'),
        ("-tx", "a | 1\nb | x\na | 20\nb | NULL\n"),
        ("-ascii -noheader", "+----+------+\n|  1 | x    |\n| 20 | NULL |\n+----+------+\n"
         "2 rows\n"),
        ("-P format=unaligned -P fieldsep=; -P tuples_only=on", "1;x\n20;\n"),
    ],
)  # fmt: skip
def test_how_rows_are_printed(run: Run, arguments: str, expected: str) -> None:
    assert run(*arguments.split(" "), "-c", QUERY) == (0, expected, "")


def test_where_statements_come_from(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "s.sql"
    script.write_text("CREATE TABLE t (a INT);\n")
    before = ("-q", "-init", str(script), "-cmd", "INSERT INTO t VALUES (7)")
    assert run("-csv", *before, text="FROM t") == (0, "a\n7\n", "")
    assert run("-csv", *before, "-s", "FROM t", text="SELECT x") == (0, "a\n7\n", "")
    assert run("-csv", "-no-stdin", *before, text="SELECT x") == (0, "", "")
    assert run("-csv", ":memory:", "SELECT 1 AS a") == (0, "a\n1\n", "")
    assert run("-batch", "-bail", "-csv", text="SELECT 1 AS a") == (0, "a\n1\n", "")
    assert run("-csv", "-e", "-c", "SELECT 1 AS a") == (0, "SELECT 1 AS a;\na\n1\n", "")
    assert run("-l")[1].count("runnel") == 1


def test_the_directory_and_the_file_of_results(run: Run, tmp_path: Path) -> None:
    shop, out = str(tmp_path / "shop.duckdb"), tmp_path / "out.txt"
    assert run("-d", shop, "-qc", "CREATE TABLE t AS SELECT 5 AS a") == (0, "", "")
    assert run(shop, "-o", str(out), "-At", "-c", "FROM t") == (0, "", "")
    assert out.read_text() == "5\n"
    assert run(shop, "-o", str(tmp_path / "no" / "f"), "-c", "FROM t")[0] == 1


def test_one_transaction(run: Run, tmp_path: Path) -> None:
    shop = str(tmp_path / "shop.duckdb")
    run("-c", "CREATE TABLE t (a INT)", shop)
    assert run(shop, "-1q", "-c", "INSERT INTO t VALUES (1)", "-c", "SELECT x")[0] == 1
    assert run(shop, "-At", "-c", "SELECT count(*) FROM t")[1] == "0\n"
    assert run(shop, "-1q", "-c", "INSERT INTO t VALUES (1)")[0] == 0
    assert run(shop, "-At", "-c", "SELECT count(*) FROM t")[1] == "1\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("-readonly f.duckdb", "the option -readonly is not supported\nHINT: a file is opened"),
        ("-h localhost -U me", "the option -h is not supported\nHINT: no PostgreSQL server"),
        ("-p5432", "the option -p is not supported"),
        ("-unsigned", "the option -unsigned is not supported"),
        ("-cvs", 'there is no option -cvs\nHINT: did you mean "-csv"?'),
        ("--cvs", 'there is no option --cvs\nHINT: did you mean "--csv"?'),
        ("-Atg", "there is no option -Atg"),
        ("-y", "there is no option -y"),
        ("-csv -json", "-json and --csv exclude each other"),
        ("-c", "-c needs an argument\nHINT: write -c SQL"),
        ("-csv=1", "-csv has no argument"),
        ("a b", "one directory is opened, not a and b\nHINT: write SQL after -c"),
        ("dbname=shop", "the option -d dbname=shop is not supported"),
        ("--set a", "--set needs NAME=VALUE, not a"),
    ],
)
def test_wrong_arguments(run: Run, arguments: str, expected: str) -> None:
    status, out, err = run(*arguments.split(" "))
    assert (status, out) == (2, "")
    assert expected in err and "Traceback" not in err


def test_words_after_two_dashes_are_no_options() -> None:
    assert arguments_of(["-csv", "--", "-d"]).directory == "-d"
    with pytest.raises(InterfaceError, match="one directory"):
        arguments_of(["--", "-d", "-e"])


def test_each_name_has_one_option(run: Run) -> None:
    names = [name for option in OPTIONS for name in option.names]
    assert len({*names, *REFUSED}) == len(names) + len(REFUSED)
    shown = run("-help")[1]
    assert all(option.names[0] in shown for option in OPTIONS)


def test_rows_as_insert_statements(run: Run) -> None:
    values = (
        "SELECT 1.50 AS d, 'it''s' AS s, TRUE AS b, DATE '2020-01-02' AS t, [1, NULL] AS l, "
        "MAP {'k': 2} AS m, {'a': 'x'} AS r, X'0aff' AS o, 'NaN'::DOUBLE AS f, 2 AS \"a b\""
    )
    _, out, err = run("-q", text=f".mode insert copied\n{values};\n")
    assert out == (
        'INSERT INTO copied (d, s, b, t, l, m, r, o, f, "a b") VALUES '
        "(1.50, 'it''s', true, '2020-01-02', [1, NULL], MAP {'k': 2}, {'a': 'x'}, X'0aff', "
        "'NaN'::DOUBLE, 2);\n"
    ), err
    again = f"CREATE TABLE copied AS {values};\n{out}\n.mode csv\n"
    shown = run(
        "-q", text=f"{again}SELECT count(*) AS n FROM copied; SELECT DISTINCT s FROM copied"
    )
    assert shown == (0, "n\n2\ns\nit's\n", "")


def test_separators_and_lists(run: Run) -> None:
    text = f".mode list\n.separator ' ~ '\n{QUERY};\n\\a\n\\a\n\\t\n.separator\n{QUERY};\n"
    assert run(text=text)[1] == "a ~ b\n1 ~ x\n20 ~ \n1|x\n20|\n"
    assert run(text=".mode insert a b")[0] == 1
