"""The commands of the shell that users of psql type."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from runnel.shell.command import main

Shell = Callable[[str], tuple[int, str, str]]
"""Runs a script; returns the exit status, and what it printed and reported."""

MADE = (
    "CREATE TABLE t (id INT PRIMARY KEY, name TEXT);\nINSERT INTO t VALUES (1, 'a'), (2, NULL);\n"
)


@pytest.fixture
def shell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> object:
    """Runs a script after MADE; returns the exit status, and what it printed without MADE."""
    monkeypatch.chdir(tmp_path)

    def run(script: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(f".mode csv\n{MADE}{script}"))
        status = main(())
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.mark.parametrize(
    ("script", "out"),
    [
        ("\\echo one 'two three'\n", "one two three\n"),
        ("\\pset null '?'\n\\t on\nFROM t ORDER BY id;\n", "1,a\n2,?\n"),
        ("\\t\nSELECT 1;\n\\t\nSELECT 2 AS b;\n", "1\nb\n2\n"),
        ("\\pset tuples_only on\nSELECT 1;\n", "1\n"),
        ("\\pset expanded on\nSELECT 7 AS n;\n", "-[ row 1 ]----------\nn | 7\n1 row\n"),
        ("\\dt+\n", "name,type\nt,DuckDB\n"),
        ("\\conninfo\n", "<runnel.Connection in memory>\n"),
        ("\\l\n", "database_name\nrunnel\n"),
        ("\\! echo shown\n", ""),
        ("\\o f.txt\nSELECT 1 AS a;\n\\o\nSELECT 2 AS b;\n", "b\n2\n"),
        ("\\copy t TO c.csv csv header\nFROM 'c.csv' SELECT count(*) AS n;\n", "n\n2\n"),
        ("\\copy (SELECT id FROM t) TO 'd.csv' CSV\nSELECT count(*) n FROM 'd.csv';\n", "n\n2\n"),
        ("\\copy t (id) TO e.csv CSV HEADER\nDELETE FROM t;\n\\copy t (id) FROM e.csv CSV HEADER\n"
         "SELECT count(*) AS n FROM t;\n", "n\n2\n"),
        ("SELECT 1 AS a \\gx\n", "-[ row 1 ]----------\na | 1\n1 row\n"),
        ("SELECT 1 AS a \\g\n", "a\n1\n"),
    ],
)  # fmt: skip
def test_a_command(shell: object, script: str, out: str) -> None:
    status, shown, _ = shell(script)  # type: ignore[operator]
    assert (status, shown) == (0, out)


def test_the_file_of_o_has_the_results(shell: object, tmp_path: Path) -> None:
    shell("\\o f.txt\nSELECT 1 AS a;\n\\o\n")  # type: ignore[operator]
    assert (tmp_path / "f.txt").read_text() == "a\n1\n"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("\\copy\n", "\\copy needs a table or a query"),
        ("\\pset nothing on\n", "\\pset needs null, format"),
        ("\\t maybe\n", "\\t needs on or off, not maybe"),
        ("\\o no/folder/f.txt\n", "no/folder/f.txt can't be written: No such file"),
        ("\\o a b\n", "\\o needs one file"),
        ("\\!\n", "\\! needs a command of the system"),
    ],
)
def test_a_wrong_argument(shell: object, script: str, error: str) -> None:
    status, _, err = shell(script)  # type: ignore[operator]
    assert status == 1
    assert error in err


def test_rows_to_a_file(shell: Shell, tmp_path: Path) -> None:
    status, out, _ = shell("SELECT id FROM t ORDER BY id \\g 'a b.csv'\nSELECT 5 AS n;\n\\g\n")
    assert (status, out) == (0, "n\n5\nn\n5\n")
    assert Path(tmp_path, "a b.csv").read_text("utf-8") == "id\n1\n2\n"
    status, out, _ = shell("\\o all.csv\nSELECT 1 AS x \\g one.csv\nSELECT 2 AS x;\n")
    assert (status, out) == (0, "")
    assert Path(tmp_path, "one.csv").read_text("utf-8") == "x\n1\n"
    assert Path(tmp_path, "all.csv").read_text("utf-8") == "x\n2\n"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("\\g\n", "needs a statement before it"),
        ("SELECT 1 \\g | cat\n", "needs one file"),
        ("SELECT 1 \\g nowhere/x.csv\n", "can't be written"),
        ("SELECT nope \\g x.csv\n", "nope"),
        ("\\encoding LATIN1\n", "the encoding LATIN1 is not supported"),
        ("\\prompt\n", "needs a text and the name of a variable"),
        ("\\x auto\n", "write \\x, or \\gx"),
        (".excel\n", ".export file.csv"),
        (".import --csv x.csv\n", "needs a file and a table"),
        (".import --schema s x.csv t\n", "needs a file and a table"),
    ],
)
def test_refused_forms(shell: Shell, script: str, error: str) -> None:
    status, _, err = shell(script if script.startswith("\\g") else f"SELECT 0 AS zero;\n{script}")
    assert status == 1 or script == "\\g\n"
    assert error in err or script == "\\g\n"


def test_prompt_reads_a_line(shell: Shell) -> None:
    script = "\\prompt 'name? ' who\nBärbel\nSELECT :'who' AS who;\n"
    assert shell(script)[:2] == (0, "name? who\nBärbel\n")
    assert shell("\\prompt other\n\nSELECT :'other' = '' AS e;\n")[:2] == (0, "e\ntrue\n")


def test_lists_of_psql(shell: Shell) -> None:
    assert shell("\\encoding\n")[:2] == (0, "UTF8\n")
    assert shell("CREATE SEQUENCE s;\n\\ds\n")[1].splitlines()[-1].startswith("s,")
    assert "t,t_pkey," in shell("\\di\n")[1]
    for pattern in ("public.*", "*.*", "public.t", "t"):
        assert "t,DuckDB\n" in shell(f"\\dt {pattern}\n")[1]


def test_import_with_an_option(shell: Shell, tmp_path: Path) -> None:
    Path(tmp_path, "rows.txt").write_text("a,b\n1,x\n", "utf-8")
    Path(tmp_path, "tabs.txt").write_text("a\tb\n2\ty\n", "utf-8")
    script = ".import --csv rows.txt u\n.import --tsv tabs.txt u\nFROM u ORDER BY a;\n"
    assert shell(script)[:2] == (0, "a,b\n1,x\n2,y\n")
