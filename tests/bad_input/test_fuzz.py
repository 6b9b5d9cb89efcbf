"""Mutated SQL: whatever is thrown at the cursor, the answer is rows or an error of PEP 249, soon,
and never a fault of ours.

`python -m tests.bad_input.test_fuzz SECONDS [SEED]` goes on for as long as told and prints what it
finds.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import runnel
from runnel.expressions.aggregates.window_functions import WINDOW_FUNCTIONS
from runnel.expressions.functions import SQL_NAMES
from tests.effort import some

SEEDS = range(30)
STATEMENTS_PER_SEED = 40
TIMEOUT = 5.0

CORPUS = [
    (
        "SELECT a, b || 'x' AS c FROM t WHERE a > 1 AND b LIKE '%y_' ORDER BY a DESC NULLS LAST "
        "LIMIT 3 OFFSET 1"
    ),
    (
        "SELECT b, COUNT(*), SUM(a) FILTER (WHERE f > 0), AVG(DISTINCT a) FROM t GROUP BY b "
        "HAVING COUNT(*) > 1 ORDER BY 2"
    ),
    (
        "SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a AND u.c <> 'q' "
        "WHERE t.a IN (SELECT a FROM u WHERE c IS NOT NULL)"
    ),
    (
        "SELECT * FROM t FULL JOIN u USING (a), (VALUES (1, 'x'), (2, NULL)) AS v(i, s) "
        "WHERE v.i = t.a"
    ),
    (
        "WITH q(n) AS (SELECT a + 1 FROM t), r AS (SELECT n FROM q UNION ALL SELECT 3) "
        "SELECT MAX(n), MIN(n) FROM r"
    ),
    (
        "SELECT CASE WHEN a > 2 THEN 'big' WHEN a IS NULL THEN NULL ELSE CAST(a AS VARCHAR) END, "
        "COALESCE(f, 0.5) FROM t"
    ),
    "SELECT a FROM t UNION SELECT a FROM u EXCEPT SELECT 2 INTERSECT SELECT 1 ORDER BY 1",
    "SELECT w, COUNT(*) FROM t, UNNEST(regexp_split_to_array(b, '')) AS s(w) GROUP BY w",
    (
        "SELECT EXTRACT(YEAR FROM d), d + INTERVAL '1' MONTH, "
        "CAST(d AS TIMESTAMP) - INTERVAL '1:30' HOUR TO MINUTE FROM t"
    ),
    (
        "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.a = t.a), (SELECT MAX(c) FROM u), "
        "a NOT IN (SELECT a FROM u) FROM t"
    ),
    (
        "SELECT SUBSTRING(b FROM 1 FOR 2), TRIM(BOTH 'x' FROM b), POSITION('y' IN b), ROUND(f, 1), "
        "ABS(-a), f / a FROM t"
    ),
    (
        "SELECT SUM(f) OVER w, LAG(b, 1, 'z') OVER (w ROWS 2 PRECEDING) FROM t "
        "WINDOW w AS (PARTITION BY b ORDER BY a)"
    ),
    (
        "SELECT COUNT(a) FILTER (WHERE f > 0) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND 2 "
        "FOLLOWING EXCLUDE TIES) FROM t"
    ),
    (
        "SELECT a FROM t QUALIFY RANK() OVER (PARTITION BY b "
        "ORDER BY f) <= NTILE(2) OVER (ORDER BY d GROUPS CURRENT ROW)"
    ),
    (
        "SELECT b, SUM(SUM(a)) OVER (ORDER BY b), GROUPING(b, a) FROM t "
        "GROUP BY ROLLUP (b, a), CUBE (b) ORDER BY ALL"
    ),
    "SELECT DISTINCT ON (b) * EXCLUDE (a) REPLACE (f + 1 AS f) FROM t ORDER BY b, a",
    "SELECT __key, this FROM m WHERE __key = 3",
    "SELECT this FROM m WHERE __key BETWEEN 1 AND 5 OR this IN ('a', 'b')",
    "INSERT INTO m VALUES (100, 'x'), (101, 'y')",
    "SINK INTO m (__key, this) SELECT a, b FROM t WHERE a IS NOT NULL",
    "UPDATE m SET this = this || '!' WHERE __key % 2 = 0",
    "DELETE FROM m WHERE __key > 50 AND this IS NOT NULL",
    "CREATE OR REPLACE VIEW v (x, y) AS SELECT a, COUNT(*) FROM t GROUP BY a",
    "CREATE MAPPING IF NOT EXISTS n (__key INT, v DECIMAL(5, 2)) TYPE IMap "
    "OPTIONS ('keyFormat'='int', 'valueFormat'='json-flat')",
    "CREATE INDEX IF NOT EXISTS i ON m (this) TYPE SORTED",
    "DROP VIEW IF EXISTS v",
    "EXPLAIN (FORMAT JSON) SELECT a FROM t JOIN u USING (a) ORDER BY a LIMIT 1",
    "SHOW MAPPINGS",
    "SELECT v FROM TABLE(GENERATE_SERIES(1, 10, 3)) AS g(v) WHERE v <> 4 FETCH FIRST 2 ROWS ONLY",
    "SELECT v FROM TABLE(GENERATE_STREAM(1000)) LIMIT 2",
    (
        "SELECT a, (SELECT SUM(u.a) FROM u WHERE u.a <= t.a HAVING COUNT(*) > 0) AS s FROM t "
        "WHERE f > ALL (SELECT a FROM u)"
    ),
    (
        "SELECT t.a, x.c FROM t LEFT JOIN LATERAL (SELECT c FROM u WHERE u.a = t.a ORDER BY c DESC "
        "LIMIT 1) AS x ON TRUE"
    ),
    (
        "SELECT b, SUM((SELECT MIN(u.a) FROM u WHERE u.a > t.a)) OVER (PARTITION BY b ORDER BY a) "
        "FROM t"
    ),
    (
        "WITH RECURSIVE r (n, s) AS (SELECT 1, 'x' UNION ALL SELECT n + 1, s || n FROM r "
        "WHERE n < 9) SELECT * FROM r ORDER BY n"
    ),
    (
        "WITH RECURSIVE r AS (SELECT a FROM u UNION SELECT t.a FROM t JOIN r ON t.a = r.a + 1) "
        "SELECT COUNT(*) FROM r"
    ),
    (
        "SELECT b, d, GROUPING(b, d), COUNT(*) FROM t GROUP BY GROUPING SETS ((b, d), (b), ()) "
        "HAVING GROUPING(d) = 1 ORDER BY 1"
    ),
    (
        "SELECT e, o FROM t, UNNEST(ARRAY[t.a, 2, NULL]) WITH ORDINALITY AS g(e, o) "
        "WHERE e IS DISTINCT FROM t.a"
    ),
    "SELECT g FROM t, GENERATE_SERIES(1, t.a) AS s(g) ORDER BY g DESC LIMIT 4",
    (
        "SELECT STRING_AGG(b, ',' ORDER BY a DESC), "
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY f), ARG_MAX(b, a) FROM t"
    ),
    (
        "SELECT b, ARRAY_AGG(a ORDER BY f)[1], MODE(a), CORR(a, f), STDDEV_POP(a), "
        "APPROX_DISTINCT(b) FROM t GROUP BY ALL"
    ),
    (
        "SELECT JSON_VALUE(j, '$.a.b[0]' RETURNING BIGINT DEFAULT 0 ON EMPTY), "
        "JSON_QUERY(j, '$.*' WITH WRAPPER) FROM x"
    ),
    "SELECT j -> 'a' ->> 'b', j IS JSON OBJECT, CAST(j AS JSON) FROM x",
    (
        "SELECT JSON_OBJECT('k' : a, 'v' : b ABSENT ON NULL), JSON_ARRAY(a, NULL), "
        "JSON_ARRAYAGG(b) FROM t GROUP BY a, b"
    ),
    (
        "SELECT TO_CHAR(d, 'YYYY-MM-DD HH24:MI'), TO_CHAR(f, 'FM999.00'), "
        "TO_DATE('2024-02', 'YYYY-MM'), AGE(d, d + 1) FROM t"
    ),
    (
        "SELECT REGEXP_REPLACE(b, '(y)(.)', '[\\2]', 'g'), REGEXP_MATCH(b, 'y.')[1], "
        "b SIMILAR TO '(x|z)%' FROM t"
    ),
    (
        "SELECT l[1], l[-1], l[1:2], CARDINALITY(l), ARRAY_SORT(l), LIST_SUM(l), "
        "ARRAY_TO_STRING(l, '-') FROM x WHERE 2 = ANY (l)"
    ),
    (
        "SELECT MAP(ARRAY['p', 'q'], ARRAY[a, 2])['p'], ROW(a, b), (ROW(a, b) = ROW(1, 'xy')), "
        "CAST(b AS VARBINARY), MD5(b) FROM t"
    ),
    (
        "SELECT TRY_CAST(b AS INT), CAST(a AS DECIMAL(38, 10)) * 1.5, "
        "d::TIMESTAMP AT TIME ZONE 'Asia/Tokyo' FROM x, t"
    ),
    (
        "SELECT DATE_TRUNC('month', d), DATE_DIFF('day', d, d + 1), LAST_DAY(d), "
        "MAKE_DATE(2024, a, 2) FROM t"
    ),
    (
        "SELECT LPAD(b, 5, 'é'), OVERLAY(b PLACING 'q' FROM 1 FOR 1), SPLIT_PART(b, 'y', 2), "
        "TRANSLATE(b, 'xy', 'ab') FROM t"
    ),
    (
        "SELECT * FROM t JOIN u ON t.a < u.a, LATERAL (SELECT t.a + u.a AS z) AS s "
        "WHERE EXISTS (SELECT z EXCEPT SELECT 3)"
    ),
    "SELECT plus(a, 2), SUM(plus(a, a)) OVER (ORDER BY a), shout(b) FROM t WHERE plus(a, 1) > 1",
    "SELECT k, s FROM o WHERE k IN (SELECT a FROM t) ORDER BY s",
    "INSERT INTO o (k, s) SELECT a, b FROM t",
    "UPDATE o SET k = k * 2, s = (SELECT MAX(c) FROM u WHERE u.a = o.k) WHERE s IS NOT NULL",
    "DELETE FROM o WHERE k > ALL (SELECT a FROM u WHERE a IS NOT NULL)",
    "CREATE MAPPING IF NOT EXISTS o2 (k BIGINT, l DECIMAL(9, 2)) TYPE DuckDB",
    "CREATE DATA CONNECTION IF NOT EXISTS dc TYPE DuckDB SHARED OPTIONS ('path' = 'nosuch.duckdb')",
    "SHOW RESOURCES FOR dc",
    "SHOW FUNCTIONS",
    "SHOW COLUMNS FROM t",
    "DESCRIBE o",
    (
        "SELECT GET_DDL('relation', 'o'), table_name, data_type FROM information_schema.columns "
        "WHERE table_name = 'o' ORDER BY 2"
    ),
    "SELECT * FROM information_schema.tables JOIN information_schema.mappings USING (table_name)",
    "EXPLAIN ANALYZE SELECT b, COUNT(*) FROM t GROUP BY b",
    "EXPLAIN (PHYSICAL) SELECT k, RANK() OVER (ORDER BY k) FROM o",
    "SET fragment_rows = 0",
    "SET fragment_rows = 300000",
    "SET pushdown = off",
    "SET pushdown = on",
    "SET memory_limit = '4MB'",
    "SET query_parallelism = 3",
    "SET time_zone = 'America/New_York'",
    "RESET memory_limit",
]
WORDS = """
    SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT ( ) , . * + - / % || = <> < > 'x' '' 1 0 -1 1.5
    1e400 9223372036854775807
    NULL TRUE NOT AND OR IN EXISTS BETWEEN LIKE IS a b f d t u m ? " ' ; -- /* CAST AS INT DECIMAL
    VARCHAR DATE INTERVAL
    JOIN LEFT ON USING UNION ALL DISTINCT COUNT SUM MIN CASE WHEN END VALUES UNNEST ARRAY [ ] ::
    OVER TABLE nosuch
    PARTITION ROWS RANGE GROUPS PRECEDING FOLLOWING UNBOUNDED CURRENT ROW EXCLUDE QUALIFY WINDOW
    ROLLUP CUBE SETS LAG RANK
    LATERAL RECURSIVE WITH WITHIN ORDINALITY GROUPING ON l j k o x MAP ROW JSON -> ->> '$.a' ANY
    FILTER FOR : [1] SET
""".split()


FUNCTIONS = [*sorted(SQL_NAMES), *sorted(name.upper() for name in WINDOW_FUNCTIONS)]
ALIKE = [
    (
        "a b f d t.a u.a NULL 1 0 -1 1.5 1e300 'x' '' '7' 9223372036854775807 ? TRUE c this __key "
        "DATE'2024-02-29'"
    ).split(),
    "= <> < > <= >= + - * / % || AND OR LIKE".split(),
    (
        "COUNT SUM AVG MIN MAX ABS ROUND UPPER LENGTH COALESCE NULLIF SQRT FLOOR SUBSTRING "
        "CONCAT_WS ANY_VALUE plus"
    ).split()
    + (
        "ARRAY_AGG STRING_AGG MEDIAN MODE STDDEV_POP FIRST ARG_MAX RANK LAG NTILE FIRST_VALUE "
        "GROUPING"
    ).split(),
    FUNCTIONS,
    "t u m v q o x r (SELECT*FROM(t)) (VALUES(1,'x')) LATERAL(SELECT(t.a)AS(z))".split(),
    (
        "INT DECIMAL VARCHAR DATE TIMESTAMP BOOLEAN DOUBLE TIME SMALLINT JSON UUID VARBINARY "
        "BIGINT[] DECIMAL(38,10)"
    ).split(),
    "LEFT RIGHT FULL INNER CROSS".split(),
    "UNION INTERSECT EXCEPT".split(),
]
"""Words that can stand in each other's place: a statement so changed often still means
something."""


def mutated(source: random.Random) -> str:
    """A statement of the corpus with some words replaced by their like; one in three is also torn
    apart."""
    tokens = (
        source.choice(CORPUS).replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()
    )
    for _ in range(source.randint(1, 3)):
        at = source.randrange(len(tokens))
        alike = [words for words in ALIKE if tokens[at] in words]
        if alike:
            tokens[at] = source.choice(source.choice(alike))
    return torn(tokens, source) if source.random() < 0.33 else " ".join(tokens)


def torn(tokens: list[str], source: random.Random) -> str:
    """The tokens with a few dropped, doubled, replaced by any word, broken, or spliced with another
    statement's."""
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(tokens)) if tokens else 0
        match source.randrange(6):
            case 0 if tokens:
                del tokens[at]
            case 1 if tokens:
                tokens.insert(at, tokens[source.randrange(len(tokens))])
            case 2 if tokens:
                tokens[at] = source.choice(WORDS)
            case 3:
                tokens.insert(at, source.choice(WORDS))
            case 4:
                other = source.choice(CORPUS).split()
                cut = source.randrange(len(other))
                tokens[at:at] = other[cut : cut + source.randint(1, 6)]
            case _ if tokens:
                text = tokens[at]
                place = source.randrange(len(text) + 1)
                tokens[at] = text[:place] + source.choice("()'\"?;.*0é\0 ") + text[place:]
    return " ".join(tokens)


def connected() -> runnel.Connection:
    connection = runnel.connect()
    days = pa.array([0, 19_000, None, -400, 11_016], pa.date32())
    frame = {
        "a": [1, 2, 3, None, 2],
        "b": ["xy", "", None, "y'y", "zy_"],
        "f": [0.5, float("nan"), -0.0, None, 1e300],
        "d": days,
    }
    connection.register("t", pa.table(frame))
    connection.register("u", pa.table({"a": [1, 2, 2, None], "c": ["p", "q", None, "s"]}))
    nested = {
        "l": pa.array([[1, 2, None], [], None], pa.list_(pa.int64())),
        "j": ['{"a": {"b": [1, "é"]}}', "[null]", None],
        "uuid": ["7f1b2c3d-0000-4000-8000-00000000000a", "", None],
    }
    connection.register("x", pa.table(nested))
    connection.create_function("plus", pc.add, ["BIGINT", "BIGINT"], "BIGINT", type="arrow")
    connection.create_function(
        "shout", lambda text: text + "!", ["VARCHAR"], "VARCHAR", scalar=True, nulls="skip"
    )
    cursor = connection.cursor()
    cursor.execute("CREATE MAPPING o (k BIGINT, s VARCHAR) TYPE DuckDB")
    cursor.execute("INSERT INTO o VALUES (1, 'p'), (2, NULL), (NULL, ''), (2, 'q')")
    cursor.execute(
        "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='varchar')"
    )
    cursor.executemany("SINK INTO m VALUES (?, ?)", [(i, "abc"[i % 3]) for i in range(60)])
    return connection


def faults(
    connection: runnel.Connection,
    source: random.Random,
    count: int,
    outcomes: Counter[str] | None = None,
) -> Iterator[str]:
    """What went wrong in `count` statements: exceptions that shouldn't be, and statements that took
    too long. `outcomes` counts the answers."""
    outcomes = Counter() if outcomes is None else outcomes
    for _ in range(count):
        sql = mutated(source)
        arguments = [
            source.choice([1, None, "x", 2.5])
            for _ in range(sql.count("?") if source.random() < 0.9 else 1)
        ]
        start = time.monotonic()
        cursor = connection.cursor()
        try:
            cursor.execute(sql, arguments, timeout=TIMEOUT)
            cursor.fetchmany(1000) if cursor.description else None
            outcomes["answered"] += 1
        except runnel.InternalError as error:
            yield f"internal error: {error!r} for {sql!r} with {arguments!r}"
        except runnel.Error as error:
            outcomes[type(error).__name__] += 1
        except Exception as error:
            yield f"{type(error).__name__}: {error} for {sql!r} with {arguments!r}"
        finally:
            cursor.close()
        if time.monotonic() - start > 2 * TIMEOUT:
            yield f"took {time.monotonic() - start:.1f} s: {sql!r}"


@pytest.mark.parametrize("seed", some(SEEDS, 2))
def test_mutated_statements(seed: int) -> None:
    with connected() as connection:
        assert list(faults(connection, random.Random(seed), STATEMENTS_PER_SEED)) == []


def main(seconds: float, seed: int) -> None:
    end, done, found = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        with connected() as connection:
            for fault in faults(connection, random.Random(seed), 200):
                found += 1
                print(fault, flush=True)
        done, seed = done + 200, seed + 1
    print(f"{done} statements, {found} faults; next seed {seed}")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
