"""COPY … FROM STDIN and TO STDOUT: PostgreSQL's formats text and CSV, in scripts and pipes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.shell.conftest import RunScript

DUMP = """SET statement_timeout = 0;
SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.t (id integer NOT NULL, name text, d date, b boolean, l integer[]);
CREATE SEQUENCE public.t_id_seq AS integer START WITH 1 INCREMENT BY 1 NO MINVALUE CACHE 1;
ALTER TABLE ONLY public.t ALTER COLUMN id SET DEFAULT nextval('public.t_id_seq'::regclass);
COPY public.t (id, name, d, b, l) FROM stdin;
5\tAda\\tx\t2024-01-02\tt\t{1,2}
6\t\\N\t\\N\tf\t\\N
7\tse;mi\\\\ 'q'\t2024-02-02\tt\t{}
\\.


CREATE TABLE public.empty (a integer);
COPY public.empty (a) FROM stdin;
\\.

SELECT pg_catalog.setval('public.t_id_seq', 7, true);
ALTER TABLE ONLY public.t ADD CONSTRAINT t_pkey PRIMARY KEY (id);
"""

ROWS = "8\n5|Ada\tx|2024-01-02|true|[1, 2]\n6|||false|\n7|se;mi\\ 'q'|2024-02-02|true|[]\n8|n|||\n"


@pytest.mark.parametrize("is_file", [False, True])
def test_a_dump(run_script: RunScript, tmp_path: Path, is_file: bool) -> None:
    script = DUMP + "INSERT INTO t (name) VALUES ('n') RETURNING id;\nFROM t ORDER BY id;\n"
    (tmp_path / "dump.sql").write_text(script, "utf-8")
    status, out, err = run_script("", "-f", "dump.sql") if is_file else run_script(script)
    assert (status, "COPY 3" in err, "COPY 0" in err) == (0, True, True), err
    assert out.endswith(ROWS), out


def test_csv_and_a_pipe(run_script: RunScript) -> None:
    made = "CREATE TABLE t (id INT, name VARCHAR);\n"
    rows = 'id,name\n20,"a ""q"", \nb"\n21,\n22,""\n'
    shown = "SELECT id, coalesce(replace(name, chr(10), '/'), 'none') FROM t ORDER BY id;\n"
    expected = '20|a "q", /b\n21|none\n22|\n'
    copies = (
        "COPY t (id, name) FROM STDIN WITH CSV HEADER;\n",
        "COPY t FROM STDIN (FORMAT csv, HEADER true);\n",
        "\\copy t from stdin with (format csv, header)\n",
    )
    for copy in copies:
        status, out, err = run_script(f"{made}{copy}{rows}\\.\n{shown}")
        assert (status, out) == (0, expected), err
    status, out, err = run_script(rows, "-c", f"{made}{copies[0]}", "-c", shown)
    assert (status, out) == (0, expected), err


def test_to_stdout_and_back(run_script: RunScript) -> None:
    made = "CREATE TABLE t (a INT, b VARCHAR);\n"
    rows = "INSERT INTO t VALUES (1, 'x' || chr(9)), (2, NULL);\n"
    copies = "COPY t TO STDOUT;\nCOPY (SELECT b, a FROM t) TO STDOUT CSV HEADER;\n"
    status, out, err = run_script(made + rows + copies)
    assert (status, out) == (0, "1\tx\\t\n2\t\\N\nb,a\nx\t,1\n,2\n"), err
    text = out.partition("b,a")[0]
    status, again, err = run_script(f"{made}COPY t FROM STDIN;\n{text}\\.\nCOPY t TO STDOUT;\n")
    assert (status, again) == (0, text), err


def test_binary_values(run_script: RunScript) -> None:
    made = "CREATE TABLE t (x BYTEA, y INT);\nCOPY t FROM stdin;\n"
    rows = "\\\\x0aff\t1\n\\N\t2\n\\\\x\t3\n"
    status, out, err = run_script(
        f"{made}{rows}\\.\nSELECT length(x) FROM t WHERE y <> 2 ORDER BY y;\nCOPY t TO STDOUT;\n"
    )
    assert (status, out) == (0, f"2\n0\n{rows}"), err
    status, out, err = run_script(f"{made}\\\\xzz\t1\n\\.\n")
    assert (status, "is no binary value" in err) == (1, True), err


@pytest.mark.parametrize(
    ("copy", "rows", "message"),
    [
        ("COPY t FROM STDIN", "1\n", "row 1 of COPY has 1 columns, but 2 are written"),
        ("COPY t FROM STDIN", "x\ty\n", "(?i)x"),
        ("COPY t (a, zz) FROM STDIN", "1\t2\n", '"zz" of table "t" does not exist'),
        ("COPY zz FROM STDIN", "1\n", 'object "zz" not found'),
        ("COPY t FROM STDIN (FORMAT binary)", "1\n", "write FORMAT text or csv"),
        ("COPY t FROM STDIN (QUOTE '~')", "1\n", "the option QUOTE"),
        ("COPY t FROM STDIN (DELIMITER '--')", "1\n", "one character"),
        ("COPY t FROM STDIN CSV", '1,"x\n', "has no end"),
        ("COPY t FROM STDIN CSV", '1,"x"y\n', "a quote within"),
        ("COPY t FROM STDOUT", "", 'syntax error at "STDOUT"'),
        ("COPY (SELECT 1) TO STDIN", "", "STDIN"),
    ],
)
def test_wrong_rows(run_script: RunScript, copy: str, rows: str, message: str) -> None:
    script = f".bail off\nCREATE TABLE t (a INT, b VARCHAR);\n{copy};\n{rows}"
    script += "\\.\nSELECT count(*) FROM t;\n" if rows else "SELECT count(*) FROM t;\n"
    status, out, err = run_script(script)
    assert out.endswith("0\n"), (out, err)
    assert re.search(message, err), err
    assert status != 0


def test_rows_of_a_skipped_block(run_script: RunScript) -> None:
    skipped = "\\if false\nCOPY t FROM STDIN;\n1\n\\.\n\\endif\n"
    status, out, err = run_script(f"CREATE TABLE t (a INT);\n{skipped}SELECT count(*) FROM t;\n")
    assert (status, out) == (0, "0\n"), err


def test_tables_in_schemas(run_script: RunScript) -> None:
    """A name means the same table as in other statements: also public under a search path, a
    catalog with a schema, and names with dots."""
    script = """CREATE SCHEMA s;
CREATE TABLE t (a INT); CREATE TABLE s.t (a INT); CREATE TABLE s."x.y" (a INT);
ATTACH ':memory:' AS d; CREATE TABLE d.t (a INT); CREATE TABLE "order" (a INT);
SET search_path = 's,public';
COPY public.t FROM STDIN;
1
\\.
COPY t FROM STDIN;
2
\\.
COPY d.main.t FROM STDIN;
3
\\.
COPY s."x.y" FROM STDIN;
4
\\.
COPY runnel.public."order" (a) FROM STDIN;
5
\\.
COPY public.t TO STDOUT;
COPY s.t TO STDOUT;
COPY d.t TO STDOUT;
COPY s."x.y" (a) TO STDOUT;
COPY "order" TO STDOUT;
"""
    status, out, err = run_script(script)
    assert (status, out) == (0, "1\n2\n3\n4\n5\n"), err
