"""The commands of the shell that describe relations and print definitions."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import runnel
from runnel.shell.command import main

MADE = """CREATE TABLE u (id INT PRIMARY KEY, name VARCHAR NOT NULL, n INT CHECK (n > 0));
CREATE TABLE c (id SERIAL PRIMARY KEY, uid INT REFERENCES u (id));
CREATE UNIQUE INDEX by_name ON u (name);
CREATE VIEW a AS SELECT id FROM u;
COMMENT ON COLUMN u.name IS 'the name';
.mode ascii
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> object:
    """Runs a script after MADE; returns the exit status, and what it printed and reported."""

    def script(text: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(MADE.replace(".mode", "\\t on\n.mode") + text))
        return main(("-q",)), *capsys.readouterr()

    return script


def test_a_table_has_its_keys_below_its_columns(run: object) -> None:
    status, out, err = run("\\t off\n\\d u\n")  # type: ignore[operator]
    assert (status, err) == (0, "")
    assert out.partition("3 rows\n")[2].splitlines() == [
        "Indexes:",
        "    u_pkey PRIMARY KEY, btree (id)",
        "    by_name UNIQUE, btree (name)",
        "Check constraints:",
        "    u_n_check CHECK ((n > 0))",
        "Referenced by:",
        "    TABLE c CONSTRAINT c_uid_fkey FOREIGN KEY (uid) REFERENCES u(id)",
    ]
    _, out, _ = run("\\t off\n\\d c\n")  # type: ignore[operator]
    assert out.endswith(
        "Foreign-key constraints:\n    c_uid_fkey FOREIGN KEY (uid) REFERENCES u(id)\n"
    )


@pytest.mark.parametrize(
    ("command", "row"),
    [
        ("\\d by_name", "name,character varying,name,true,false,u"),
        ("\\d c_id_seq", "bigint,1,1,9223372036854775807,1,false,1"),
        ("\\d a", "id,INTEGER,YES,,,"),
        ("\\d u", "id,INTEGER,NO,PRI,,"),
        ("\\du", "runnel,true"),
        ("\\dg", "runnel,true"),
        ("\\dT", "bigint,BIGINT"),
        ("\\dd", "u,name,the name"),
        (".show", "mode: csv"),
    ],
)
def test_a_row_of(run: object, command: str, row: str) -> None:
    status, out, _ = run(f".mode csv\n{command}\n")  # type: ignore[operator]
    assert status == 0
    assert row in out.splitlines()


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (".large_number_rendering all", "to_char"),
        (".mode trash", "/dev/null"),
        (".mode latex", "markdown"),
        ("\\lo_list", "VARBINARY"),
        ("\\r", "Ctrl-C"),
        ("\\db", "tablespaces"),
        (".sniff f.csv", "sniff_csv"),
        (".read_line_version", "no command"),
        ("\\w", "one file"),
        ("\\d nope", 'object "nope" not found'),
        ("\\d it's", "it"),
    ],
)
def test_a_refused_command_has_a_hint(run: object, command: str, hint: str) -> None:
    status, _, err = run(f"{command}\n")  # type: ignore[operator]
    assert status == 1
    assert hint in err


def test_the_schema_can_be_run_again(run: object) -> None:
    status, out, _ = run(".schema\n")  # type: ignore[operator]
    assert status == 0
    with runnel.connect() as other:
        other.execute(out)
        tables = "SELECT conname FROM pg_constraint ORDER BY 1"
        assert other.execute(tables).fetchall() == [
            ("c_pkey",),
            ("c_uid_fkey",),
            ("u_n_check",),
            ("u_pkey",),
        ]
        found = other.execute("SELECT indexname FROM pg_indexes WHERE indexname = 'by_name'")
        assert found.fetchall() == [("by_name",)]


def test_a_statement_is_written_to_a_file(run: object, tmp_path: Path) -> None:
    file = tmp_path / "last.sql"
    status, _, _ = run(f"SELECT 1;\n\\w {file}\n")  # type: ignore[operator]
    assert (status, file.read_text()) == (0, "SELECT 1;\n")
