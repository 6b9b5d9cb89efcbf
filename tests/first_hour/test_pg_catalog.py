"""The tables of pg_catalog, as psql, SQLAlchemy and PostgreSQL's JDBC driver read them."""

from __future__ import annotations

from typing import Any

import pytest

import runnel
from tests.first_hour import psql_queries as psql
from tests.first_hour import reflection_queries as reflection

DEFINITIONS = (
    "CREATE TABLE u (id INT PRIMARY KEY, name VARCHAR NOT NULL DEFAULT 'x', e text UNIQUE, "
    "n numeric(10, 2) CHECK (n > 0), l int[], g int GENERATED ALWAYS AS (id * 2))",
    "CREATE TABLE c (id SERIAL PRIMARY KEY, uid int REFERENCES u (id))",
    "CREATE VIEW v AS SELECT id, name FROM u",
    "CREATE INDEX by_name ON u (name)",
    "CREATE SCHEMA s",
    'CREATE TABLE s."T" (x DOUBLE)',
    "COMMENT ON TABLE u IS 'users'",
    "COMMENT ON COLUMN u.name IS 'the name'",
    "CREATE MACRO plus(a, b) AS a + b",
)


@pytest.fixture
def con(connection: runnel.Connection) -> runnel.Connection:
    for statement in DEFINITIONS:
        connection.execute(statement)
    return connection


def rows(con: runnel.Connection, sql: str) -> list[tuple[Any, ...]]:
    return con.execute(sql).fetchall()


def oid(con: runnel.Connection, name: str) -> str:
    ((number, _, _),) = rows(con, psql.NAMED % name)
    return str(number)


def of(con: runnel.Connection, sql: str, name: str) -> list[tuple[Any, ...]]:
    return rows(con, sql.replace("%s", oid(con, name)))


def test_lists_of_psql(con: runnel.Connection) -> None:
    assert rows(con, psql.listed("'r','p','v','m','S','f',''")) == [
        ("public", "c", "table", "runnel"),
        ("public", "c_id_seq", "sequence", "runnel"),
        ("public", "u", "table", "runnel"),
        ("public", "v", "view", "runnel"),
    ]
    assert rows(con, psql.listed("'v',''")) == [("public", "v", "view", "runnel")]
    (found,) = rows(con, psql.TABLES_WITH_DETAILS)
    assert found == ("public", "u", "table", "runnel", "permanent", "heap", None, "users")
    assert [(row[1], row[4]) for row in rows(con, psql.INDEXES)] == [
        ("by_name", "u"),
        ("c_pkey", "c"),
        ("u_e_key", "u"),
        ("u_pkey", "u"),
    ]
    assert rows(con, psql.FUNCTIONS) == [("public", "plus", None, "a, b", "func")]
    assert rows(con, psql.SCHEMAS) == [("public", "runnel"), ("s", "runnel")]
    ((name, owner, encoding, *_),) = rows(con, psql.DATABASES)
    assert (name, owner, encoding) == ("runnel", "runnel", "UTF8")
    assert [row[0] for row in rows(con, psql.ROLES)] == ["runnel"]
    assert rows(con, psql.TYPES % "<>") == []
    assert ("pg_catalog", "double precision", None) in rows(con, psql.TYPES % "=")


def test_the_search_path_decides_what_is_visible(con: runnel.Connection) -> None:
    con.execute("SET search_path TO s")
    assert rows(con, psql.listed("'r',''")) == [("s", "T", "table", "runnel")]
    assert rows(con, "SELECT 'public.u'::regclass, '\"T\"'::regclass") == [("public.u", '"T"')]
    assert rows(con, "SELECT current_schemas(false)") == [(["s"],)]


def test_a_table_of_psql(con: runnel.Connection) -> None:
    ((checks, kind, has_index, *_, method),) = of(con, psql.RELATION, "u")
    assert (checks, kind, has_index, method) == (1, "r", True, "heap")
    assert [(*row[:4], row[6], row[-1]) for row in of(con, psql.COLUMNS, "u")] == [
        ("id", "integer", None, True, "", None),
        ("name", "character varying", "'x'", True, "", "the name"),
        ("e", "character varying", None, False, "", None),
        ("n", "numeric(10,2)", None, False, "", None),
        ("l", "integer[]", None, False, "", None),
        ("g", "integer", "id * 2", False, "s", None),
    ]
    assert [(row[0], row[5], row[6]) for row in of(con, psql.INDEXES_OF_TABLE, "u")] == [
        ("u_pkey", "CREATE UNIQUE INDEX u_pkey ON public.u USING btree (id)", "PRIMARY KEY (id)"),
        ("by_name", "CREATE INDEX by_name ON public.u USING btree (name)", None),
        ("u_e_key", "CREATE UNIQUE INDEX u_e_key ON public.u USING btree (e)", "UNIQUE (e)"),
    ]
    assert of(con, psql.CHECKS, "u") == [("u_n_check", "CHECK ((n > 0))")]
    foreign = "FOREIGN KEY (uid) REFERENCES u(id)"
    assert of(con, psql.FOREIGN_KEYS, "c") == [(True, "c_uid_fkey", foreign, "c")]
    assert of(con, psql.REFERENCES, "u") == [("c_uid_fkey", "c", foreign)]
    for query in psql.WITHOUT_ROWS:
        assert of(con, query, "u") == []


def test_views_indexes_and_sequences_of_psql(con: runnel.Connection) -> None:
    assert of(con, psql.VIEW, "v") == [("SELECT id, name FROM u",)]
    assert [row[:2] for row in of(con, psql.COLUMNS, "v")] == [
        ("id", "integer"),
        ("name", "character varying"),
    ]
    ((is_unique, *_, method, table, _),) = of(con, psql.OF_INDEX, "by_name")
    assert (is_unique, method, table) == (False, "btree", "u")
    columns = of(con, psql.COLUMNS_OF_INDEX, "by_name")
    assert columns == [("name", "character varying", "yes", "name")]
    assert of(con, psql.SEQUENCE, "c_id_seq") == [("bigint", 1, 1, 2**63 - 1, 1, "no", 1)]
    assert of(con, psql.OWNER_OF_SEQUENCE, "c_id_seq") == [("public.c.id", "i")]


def test_sqlalchemy(con: runnel.Connection) -> None:
    assert rows(con, reflection.HAS_TABLE) == [("u",)]
    assert rows(con, reflection.TABLE_NAMES) == [("c",), ("u",)]
    numbers = {name: number for number, name in rows(con, reflection.TABLE_OIDS)}
    oids = ", ".join(map(str, numbers.values()))
    columns = rows(con, reflection.COLUMNS)
    assert [(row[4], row[0], row[1]) for row in columns][:3] == [
        ("c", "id", "integer"),
        ("c", "uid", "integer"),
        ("u", "id", "integer"),
    ]
    assert '"start":1' in columns[0][7]
    assert columns[3][2:6] == ("'x'", True, "u", "the name")
    keys = rows(con, reflection.KEYS.format(kind="p", oids=oids))
    assert sorted(keys) == sorted(
        [
            (numbers["u"], ["id"], "u_pkey", None, None),
            (numbers["c"], ["id"], "c_pkey", None, None),
        ]
    )
    unique = rows(con, reflection.KEYS.format(kind="u", oids=oids))
    assert unique == [(numbers["u"], ["e"], "u_e_key", None, None)]
    found = rows(con, reflection.FOREIGN_KEYS)
    assert found[0] == ("c", "c_uid_fkey", "FOREIGN KEY (uid) REFERENCES u(id)", "public", None)
    indexes = rows(con, reflection.INDEXES.format(oids=oids))
    assert [(row[1], row[2], row[3], row[10]) for row in indexes] == [
        ("by_name", False, False, ["name"]),
        ("u_e_key", True, True, ["e"]),
    ]


def test_jdbc(con: runnel.Connection) -> None:
    assert [row[1:5] for row in rows(con, reflection.JDBC_TABLES)] == [
        ("public", "c", "TABLE", None),
        ("public", "u", "TABLE", "users"),
        ("public", "v", "VIEW", None),
    ]
    found = rows(con, reflection.JDBC_COLUMNS)
    assert [(row[2], row[3], row[4], row[5], row[8], row[10]) for row in found] == [
        ("id", 23, True, -1, 1, None),
        ("name", 1043, True, -1, 2, None),
        ("e", 1043, False, -1, 3, None),
        ("n", 1700, False, ((10 << 16) | 2) + 4, 4, None),
        ("l", 1007, False, -1, 5, None),
        ("g", 23, False, -1, 6, "s"),
    ]


def test_numbers_are_stable_and_different(con: runnel.Connection) -> None:
    numbers = dict(rows(con, "SELECT oid, relname FROM pg_class"))
    assert len(numbers) == rows(con, "SELECT count(*) FROM pg_class")[0][0]
    before = oid(con, "u")
    con.execute("CREATE TABLE more (a int)")
    con.execute("DROP TABLE c")
    con.execute("DROP INDEX by_name")
    con.execute("ALTER TABLE u ADD COLUMN more int")
    assert oid(con, "u") == before
    assert "by_name" not in {row[0] for row in rows(con, "SELECT relname FROM pg_class")}


def test_a_cached_plan_follows_the_catalog(con: runnel.Connection) -> None:
    query = "SELECT to_regclass('late') IS NULL, to_regclass('u')::regclass::text"
    assert rows(con, query) == [(True, "u")]
    con.execute("CREATE TABLE late (a int)")
    assert rows(con, query) == [(False, "u")]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 'u'::regclass", "u"),
        ("SELECT 'PUBLIC.U'::regclass::text", "u"),
        ("SELECT 'pg_class'::regclass::oid", 1259),
        ("SELECT 'pg_catalog.pg_type'::regclass::int", 1247),
        ("SELECT attrelid::regclass FROM pg_attribute WHERE attname = 'l'", "u"),
        ("SELECT count(*) FROM pg_attribute WHERE attrelid = CAST('u' AS regclass)", 6),
        ("SELECT count(*) FROM pg_attribute WHERE attrelid IN ('u'::regclass, 'c'::regclass)", 8),
        ("SELECT relname FROM pg_class WHERE oid = ANY (ARRAY['v'::regclass])", "v"),
        ("SELECT 's.\"T\"'::regclass", 's."T"'),
        ("SELECT NULL::regclass", None),
        ("SELECT 0::regclass", "-"),
        ("SELECT 'int'::regtype", "integer"),
        ("SELECT 'timestamptz'::regtype::oid", 1184),
        ("SELECT atttypid::regtype FROM pg_attribute WHERE attname = 'l'", "integer[]"),
        ("SELECT 'public'::regnamespace::oid", 2200),
        ("SELECT relnamespace::regnamespace FROM pg_class WHERE relname = 'u'", "public"),
        ("SELECT relowner::regrole FROM pg_class WHERE relname = 'u'", "runnel"),
        ("SELECT to_regclass('nope')", None),
        ("SELECT to_regtype('bigint')", 20),
        ("SELECT format_type(1700, 655366)", "numeric(10,2)"),
        ("SELECT format_type(25, NULL)", "text"),
        ("SELECT format_type(NULL, NULL)", None),
        ("SELECT pg_get_viewdef('v')", "SELECT id, name FROM u"),
        ("SELECT pg_get_userbyid(10)", "runnel"),
        ("SELECT pg_get_indexdef('by_name'::regclass, 1, true)", "name"),
        ("SELECT pg_table_is_visible('s.\"T\"'::regclass)", False),
        ("SELECT obj_description('u'::regclass)", "users"),
        ("SELECT obj_description('u'::regclass, 'pg_proc')", None),
        ("SELECT col_description('u'::regclass, 2)", "the name"),
        ("SELECT pg_total_relation_size('u')", None),
        ("SELECT current_schemas(true)", ["pg_catalog", "public"]),
        ("SELECT pg_is_in_recovery()", False),
        ("SELECT pg_get_serial_sequence('c', 'id')", "public.c_id_seq"),
        ("SELECT pg_get_serial_sequence('c', 'uid')", None),
        ("SELECT setval(pg_get_serial_sequence('c', 'id'), 7)", 7),
        ("SELECT pg_get_function_arguments(oid) FROM pg_proc WHERE proname = 'plus'", "a, b"),
        ("SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'u'", 0),
        ("SELECT usename FROM pg_user", "runnel"),
        ("SELECT count(*) FROM pg_extension", 0),
        ("SELECT sequencename FROM pg_sequences", "c_id_seq"),
        ("SELECT state FROM pg_stat_activity WHERE pid = pg_backend_pid()", "active"),
        ("SELECT 'a' OPERATOR(pg_catalog.=) 'a' COLLATE \"C\"", True),
        ("SELECT 1::pg_catalog.int8 + pg_catalog.abs(-1)", 2),
        ("SELECT 'x'::\"char\"", "x"),
        ("SELECT 'x'::name", "x"),
    ],
)
def test_values(con: runnel.Connection, sql: str, expected: object) -> None:
    assert rows(con, sql) == [(expected,)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 'nope'::regclass", 'object "nope" not found'),
        ("SELECT 'uu'::regclass", '(?s)object "uu" not found.*did you mean "u"'),
        ("SELECT 'nope'::regtype", 'type "nope" not found'),
        ("SELECT 'nope'::regnamespace", 'schema "nope" not found'),
        ("SELECT relname::regclass FROM (SELECT 'gone' AS relname) AS x", '"gone" not found'),
        ("SELECT TRY_CAST('u' AS regclass)", "(?s)not supported.*to_regclass"),
        ("SELECT pg_get_viewdef()", "pg_get_viewdef"),
        ("SELECT current_schemas()", "TRUE or FALSE"),
        ("SELECT pg_get_serial_sequence('c')", "expects 2 arguments"),
        ("INSERT INTO pg_class VALUES (1)", "can only be read"),
        ("SELECT 'a' COLLATE \"de_DE\"", "COLLATE is not supported"),
    ],
)
def test_errors(con: runnel.Connection, sql: str, message: str) -> None:
    with pytest.raises(runnel.Error, match=message):
        con.execute(sql).fetchall()


def test_materialized_views(con: runnel.Connection) -> None:
    con.execute("CREATE MATERIALIZED VIEW mv AS SELECT name, count(*) AS n FROM u GROUP BY name")
    assert rows(con, psql.listed("'m',''")) == [("public", "mv", "materialized view", "runnel")]
    text = "SELECT name, count(*) AS n FROM u GROUP BY name"
    assert rows(con, "SELECT matviewname, definition FROM pg_matviews") == [("mv", text)]
    assert rows(con, "SELECT pg_get_viewdef('mv')") == [(text,)]
    assert rows(con, "SELECT tablename FROM pg_tables WHERE tablename = 'mv'") == []


def test_an_unknown_relation_is_an_undefined_table(con: runnel.Connection) -> None:
    with pytest.raises(runnel.errors.UndefinedTable) as error:
        con.execute("SELECT 'nope'::regclass")
    assert error.value.sqlstate == "42P01"


def test_settings_of_postgresql(con: runnel.Connection) -> None:
    assert rows(con, "SHOW server_version") == [("16.0",)]
    assert rows(con, "SHOW client_encoding") == [("UTF8",)]
    assert rows(con, "SHOW transaction_isolation") == [("repeatable read",)]
    assert rows(con, "SHOW standard_conforming_strings") == [("on",)]
    assert rows(con, "SELECT current_setting('server_version_num')::int / 10000") == [(16,)]
    assert rows(con, "SELECT current_setting('search_path')") == [("public",)]
    con.execute("SET TIME ZONE 'Europe/Vienna'")
    assert rows(con, "SELECT current_setting('TimeZone')") == [("Europe/Vienna",)]
    found = "SELECT current_setting(name) FROM (SELECT 'timezone' AS name, 1 AS setting) AS x"
    assert rows(con, found) == [("Europe/Vienna",)]
    names = {row[0] for row in rows(con, "SELECT name FROM pg_settings")}
    assert {"server_version", "memory_limit", "search_path"} <= names


def test_arrays_are_read_from_texts(con: runnel.Connection) -> None:
    values = "(VALUES (1, ARRAY['a', 'b'])) AS x(n, tags)"
    query = "SELECT tags @> '{a}', '{c}' <@ tags, tags && '{b,c}', tags = '{a,b}', n = ANY('{1,2}')"
    assert rows(con, f"{query} FROM {values}") == [(True, False, True, True, True)]
    with pytest.raises(runnel.Error, match="cannot parse VARCHAR value"):
        rows(con, f"SELECT n = ANY('{{x}}') FROM {values}")
