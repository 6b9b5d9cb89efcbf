"""The bounds of window columns go through whatever a query does with them: each query over streams
that end gives what it gives over tables. And what is refused, with its remedy."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

import runnel
from tests.streams.ended_streams import STREAMED, filled, over_tables, random_table, streamed


@pytest.fixture(scope="module", params=(1, 2))
def connection(request: pytest.FixtureRequest) -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        made.execute(f"SET query_parallelism = {request.param}")
        made.register(
            "names", pa.table({"k": pa.array([1, 2], pa.int64()), "name": ["one", "two"]})
        )
        yield made


GROUPED = "SELECT window_end, k, COUNT(*) AS c, SUM(v) AS t FROM {w} GROUP BY window_end, k"
JOINED = (
    "SELECT x.n AS m, y.n AS o, x.k, x.v, y.v AS w FROM {a} AS x "
    "JOIN {b} AS y ON x.k = y.k AND y.n BETWEEN x.n - 3 AND x.n + 4"
)
SHAPES = {
    "alias": "SELECT w.window_end AS e, COUNT(*) FROM {w} AS w GROUP BY e",
    "ordinal": "SELECT window_start, COUNT(*) FROM {w} GROUP BY 1",
    "sub-query": "SELECT e, COUNT(*) FROM (SELECT window_end AS e, k FROM {w}) GROUP BY e",
    "with": (
        "WITH w AS (SELECT * FROM {w}), x AS (SELECT k, window_end AS e FROM w) "
        "SELECT e, k, COUNT(*) FROM x GROUP BY e, k"
    ),
    "moved": "SELECT e, COUNT(*) FROM (SELECT window_end + 3 AS e FROM {w}) GROUP BY e",
    "moved back": (
        "SELECT 5 + e - 2, COUNT(*) FROM (SELECT window_start - 5 AS e FROM {w}) GROUP BY 5 + e - 2"
    ),
    "second group by": "SELECT window_end, MAX(c), SUM(t) FROM ({grouped}) GROUP BY window_end",
    "third group by": (
        "SELECT window_end, SUM(m) FROM (SELECT window_end, c, MAX(t) AS m FROM ({grouped}) "
        "GROUP BY window_end, c) GROUP BY window_end"
    ),
    "having": "SELECT window_end, COUNT(*) FROM {w} GROUP BY window_end HAVING COUNT(*) > 3",
    "filter": "SELECT window_end, COUNT(*) FILTER (WHERE s = 'x') FROM {w} GROUP BY window_end",
    "where below": (
        "SELECT window_end, COUNT(*) FROM {w} WHERE v > 20 AND window_end > 20 GROUP BY window_end"
    ),
    "where above": "SELECT * FROM ({grouped}) WHERE c > 1 AND window_end <> 20",
    "grouped in time": "SELECT n, COUNT(*) FROM {a} GROUP BY n",
    "case of bounds": (
        "SELECT e, COUNT(*) FROM (SELECT CASE WHEN k = 1 THEN window_end ELSE window_start - 2 END "
        "AS e "
        "FROM {w}) GROUP BY e"
    ),
    "full join using": (
        "SELECT window_end, k, SUM(x.c), SUM(y.t), COUNT(*) FROM ({grouped}) AS x "
        "FULL JOIN (SELECT * FROM "
        "({grouped}) WHERE window_end > 30) AS y USING (window_end, k) GROUP BY window_end, k"
    ),
    "full join coalesced": (
        "SELECT COALESCE(x.window_end, y.window_end) AS e, SUM(x.v), SUM(y.v) FROM {w} AS x "
        "FULL JOIN {wb} "
        "AS y ON x.window_end = y.window_end AND x.v = y.v + 5 GROUP BY e"
    ),
    "full join of three": (
        "SELECT window_end, SUM(x.v), SUM(y.v), SUM(z.v), COUNT(*) FROM {w} AS x "
        "FULL JOIN {wb} AS y "
        "USING (window_end, v) FULL JOIN (SELECT window_end + 10 AS window_end, v "
        "FROM {wb}) AS z USING (window_end, v) "
        "GROUP BY window_end"
    ),
    "full join of times": (
        "SELECT n, COUNT(*), SUM(x.v) FROM {a} AS x FULL JOIN {b} AS y USING (n, k) GROUP BY n"
    ),
    "distinct": "SELECT DISTINCT window_end, k FROM {w}",
    "distinct time": "SELECT DISTINCT n, k FROM {a}",
    "distinct aggregate": (
        "SELECT window_end, COUNT(DISTINCT s), SUM(DISTINCT k) FROM {w} GROUP BY window_end"
    ),
    "distinct on": (
        "SELECT DISTINCT ON (window_end, k) window_end, k, v FROM {w} ORDER BY window_end, k, v"
    ),
    "hop": "SELECT window_start, k, COUNT(*) FROM {hop} GROUP BY window_start, k",
    "hop above": (
        "SELECT window_end, MAX(c) FROM (SELECT window_end, k, COUNT(*) AS c FROM {hop} "
        "GROUP BY window_end, k) "
        "GROUP BY window_end"
    ),
    "session": "SELECT window_end, k, COUNT(*) FROM {session} GROUP BY window_end, k",
    "session top": "SELECT window_end, k, v FROM {session} "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end, k ORDER BY v) = 1",
    "unnest": (
        "SELECT window_end, x FROM (SELECT window_end, ARRAY_AGG(v ORDER BY v) AS a FROM {w} "
        "GROUP BY window_end) "
        "CROSS JOIN UNNEST(a) AS u(x)"
    ),
    "unnest grouped": (
        "SELECT window_end, COUNT(x) FROM (SELECT window_end, ARRAY_AGG(v ORDER BY v) AS a "
        "FROM {w} "
        "GROUP BY window_end) CROSS JOIN UNNEST(a) AS u(x) GROUP BY window_end"
    ),
    "unnest together grouped": (
        "SELECT window_end, COUNT(x), COUNT(y) FROM (SELECT window_end, "
        "ARRAY_AGG(v ORDER BY v) AS a, ARRAY_AGG(DISTINCT k ORDER BY k) AS b FROM {w} "
        "GROUP BY window_end) CROSS JOIN UNNEST(a, b) AS u(x, y) GROUP BY window_end"
    ),
    "series grouped": (
        "SELECT window_end, SUM(x) FROM (SELECT window_end, COUNT(*) AS c FROM {w} "
        "GROUP BY window_end) CROSS JOIN LATERAL GENERATE_SERIES(1, c) AS g(x) GROUP BY window_end"
    ),
    "series over": (
        "SELECT window_end, x, SUM(x) OVER (PARTITION BY window_end) FROM "
        "(SELECT window_end, COUNT(*) AS c FROM {w} GROUP BY window_end) "
        "CROSS JOIN LATERAL GENERATE_SERIES(1, c) AS g(x)"
    ),
    "row_number": "SELECT window_end, k FROM ({grouped}) "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY c DESC, k) = 1",
    "row_number grouped": (
        "SELECT window_end, SUM(v) FROM (SELECT window_end, v, "
        "ROW_NUMBER() OVER (PARTITION BY window_end, k "
        "ORDER BY v) AS r FROM {w}) WHERE r <= 2 GROUP BY window_end"
    ),
    "window in window": "SELECT window_end, COUNT(*) FROM "
    "TABLE(TUMBLE((SELECT window_end AS e, k FROM {w}), DESCRIPTOR(e), 20)) GROUP BY window_end",
    "groups in windows": (
        "SELECT window_end, SUM(c) FROM TABLE(TUMBLE((SELECT window_time AS e, COUNT(*) AS c "
        "FROM {w} "
        "GROUP BY window_time), DESCRIPTOR(e), 30)) GROUP BY window_end"
    ),
    "join of a table": (
        "SELECT window_end, name, COUNT(*) FROM {w} AS w JOIN names ON w.k = names.k "
        "GROUP BY window_end, name"
    ),
    "left join of a table": (
        "SELECT window_end, name, COUNT(*) FROM {w} AS w LEFT JOIN names ON w.k = names.k "
        "GROUP BY window_end, name"
    ),
    "in a table": (
        "SELECT window_end, COUNT(*) FROM {w} WHERE k IN (SELECT k FROM names) GROUP BY window_end"
    ),
    "window join": (
        "SELECT x.window_end, x.c, y.c FROM ({grouped}) AS x "
        "JOIN (SELECT window_end, k, COUNT(*) AS c FROM {wb} "
        "GROUP BY window_end, k) AS y ON x.window_end = y.window_end AND x.k = y.k"
    ),
    "full window join": (
        "SELECT COALESCE(x.window_end, y.window_end), x.c, y.c FROM ({grouped}) AS x FULL JOIN "
        "(SELECT window_end, k, COUNT(*) AS c FROM {wb} GROUP BY window_end, k) AS y "
        "ON x.window_end = y.window_end AND x.k = y.k"
    ),
    "union all": "SELECT window_end, COUNT(*) FROM "
    "(SELECT window_end, k FROM {w} UNION ALL SELECT window_end, k FROM {wb}) GROUP BY window_end",
    "union all of groups": (
        "SELECT window_end, SUM(c) FROM "
        "({grouped} UNION ALL SELECT window_end, k, COUNT(*), SUM(v) FROM {wb} "
        "GROUP BY window_end, k) GROUP BY window_end"
    ),
    "union": "SELECT window_end, k FROM {w} UNION SELECT window_end, k FROM {wb}",
    "grouping sets": (
        "SELECT window_end, k, COUNT(*) FROM {w} GROUP BY GROUPING SETS ((window_end, k), "
        "(window_end))"
    ),
    "rollup": "SELECT window_end, k, s, COUNT(*) FROM {w} GROUP BY window_end, ROLLUP (k, s)",
    "case": (
        "SELECT window_end, CASE WHEN k = 1 THEN 'one' ELSE 'other' END AS x, COUNT(*) FROM {w} "
        "GROUP BY window_end, x"
    ),
    "limit above a limit": (
        "SELECT COUNT(*) FROM (SELECT n FROM {a} ORDER BY n NULLS LAST, v LIMIT 30)"
    ),
    "over a join": (
        "SELECT m, v, w, COUNT(*) OVER (PARTITION BY k "
        "ORDER BY m RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) AS c "
        "FROM ({joined})"
    ),
    "over the other side of a join": (
        "SELECT m, v, w, SUM(w) OVER (ORDER BY o RANGE BETWEEN 3 PRECEDING AND 2 FOLLOWING) AS c "
        "FROM ({joined})"
    ),
    "grouped above over a join": (
        "SELECT m, SUM(c) FROM (SELECT m, COUNT(*) OVER (PARTITION BY m) AS c FROM ({joined})) "
        "GROUP BY m"
    ),
    "joined to a window": (
        "SELECT x.v, x.r, y.v FROM (SELECT n, k, v, "
        "ROW_NUMBER() OVER (PARTITION BY n, k ORDER BY v) AS r "
        "FROM {a}) AS x JOIN {b} AS y ON x.k = y.k AND y.n BETWEEN x.n - 2 AND x.n + 2"
    ),
    "over union all": "SELECT v, COUNT(*) OVER (PARTITION BY n) AS c FROM "
    "(SELECT n, v FROM {a} UNION ALL SELECT n, v FROM {b})",
    "ordered union all": (
        "SELECT v, n, SUM(v) OVER (ORDER BY n RANGE BETWEEN 4 PRECEDING AND CURRENT ROW) AS c "
        "FROM (SELECT n, v FROM {a} UNION ALL SELECT n, v FROM {b})"
    ),
    "lag of groups": (
        "SELECT window_end, c - LAG(c) OVER (ORDER BY window_end NULLS LAST) AS d FROM "
        "(SELECT window_end, COUNT(*) AS c FROM {w} GROUP BY window_end)"
    ),
    "cumulated groups": "SELECT window_end, SUM(c) OVER (ORDER BY window_end NULLS LAST) AS d FROM "
    "(SELECT window_end, COUNT(*) AS c FROM {w} GROUP BY window_end)",
    "lateral": (
        "SELECT window_end, l.x FROM ({grouped}) AS g CROSS JOIN LATERAL (SELECT g.c + 1 AS x) AS l"
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_gives_what_tables_give(connection: runnel.Connection, name: str) -> None:
    rng = random.Random(name)
    tables = {"a": random_table(rng, 120), "b": random_table(rng, 90)}
    sql = SHAPES[name].replace("{grouped}", GROUPED).replace("{joined}", JOINED)
    wanted = over_tables(connection, sql, tables)
    assert sorted(map(repr, streamed(connection, sql, tables, len(name)))) == sorted(
        map(repr, wanted)
    )
    assert wanted, "an empty answer proves nothing"


@pytest.mark.parametrize("name", ["grouped", "top"])
def test_views_keep_bounds(connection: runnel.Connection, name: str) -> None:
    over = {
        "grouped": "SELECT e, COUNT(*) FROM seen GROUP BY e",
        "top": (
            "SELECT e, v FROM seen QUALIFY ROW_NUMBER() OVER (PARTITION BY e ORDER BY v DESC) = 1"
        ),
    }[name]
    table = random_table(random.Random(name), 120)
    windows = "TUMBLE({0}, DESCRIPTOR(n), 10)"
    found = []
    for source in ("TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(n), 20))", "TABLE a"):
        view = (
            "CREATE OR REPLACE VIEW seen AS SELECT window_end AS e, k, v "
            f"FROM TABLE({windows.format(source)})"
        )
        if source == "TABLE a":
            connection.register("a", table)
            connection.execute(view)
            found.append(connection.execute(over).fetchall())
        else:
            with connection.register_stream("a", table.schema) as writer:
                connection.execute(view)
                cursor = connection.execute(over)
                for at in range(0, table.num_rows, 7):
                    writer.write(table.slice(at, 7))
            found.append(cursor.fetchall())
        connection.execute("DROP VIEW seen")
        connection.unregister("a")
    assert sorted(map(repr, found[0])) == sorted(map(repr, found[1]))


REFUSED = {
    "no order": (
        (
            "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(n), 10)) "
            "GROUP BY window_end"
        ),
        "supported only for window aggregation, with imposed order",
        "IMPOSE_ORDER",
    ),
    "no bound": (
        "SELECT k, COUNT(*) FROM {w} GROUP BY k",
        "supported only for window aggregation",
        "by window_end",
    ),
    "no windows": (
        "SELECT MAX(v) FROM {a}",
        "supported only for window aggregation",
        "by window_end",
    ),
    "transformed": (
        "SELECT window_start * 2, COUNT(*) FROM {w} GROUP BY window_start * 2",
        "must be used directly, without any transformation",
        "group by window_start or window_end as well",
    ),
    "distinct": (
        "SELECT DISTINCT k FROM {a}",
        "streaming DISTINCT is supported only",
        "by window_end",
    ),
    "union": (
        "SELECT k FROM {a} UNION SELECT k FROM {b}",
        "streaming DISTINCT is supported only",
        "by window_end",
    ),
    "sort": (
        "SELECT v FROM {a} ORDER BY v",
        "sorting is not supported for a streaming query",
        "column that has a watermark",
    ),
    "sort descending": (
        "SELECT v FROM {a} ORDER BY n DESC",
        "sorting is not supported for a streaming query",
        "ascending",
    ),
    "left join with stream": (
        "SELECT * FROM names LEFT JOIN {a} AS x ON names.k = x.k",
        "cannot be a streaming source",
        "",
    ),
    "no order in join": (
        "SELECT * FROM a AS x JOIN b AS y ON x.k = y.k",
        "both joined sides must have an order imposed",
        "IMPOSE_ORDER",
    ),
    "no bounds in join": (
        "SELECT * FROM {a} AS x JOIN {b} AS y ON x.k = y.k",
        "both directions",
        "",
    ),
    "except": (
        "SELECT k FROM {a} EXCEPT SELECT k FROM names",
        "EXCEPT is not supported for a streaming query",
        "UNION ALL",
    ),
    "over nothing": (
        "SELECT ROW_NUMBER() OVER (PARTITION BY k) FROM a",
        "OVER and DISTINCT ON over a stream",
        "WATERMARK FOR",
    ),
    "over all": (
        "SELECT COUNT(*) OVER () FROM {w}",
        "OVER and DISTINCT ON over a stream",
        "PARTITION BY window_end",
    ),
    "over backwards": (
        "SELECT RANK() OVER (ORDER BY n DESC) FROM {a}",
        "OVER and DISTINCT ON over a stream",
        "ascending",
    ),
    "over a value": (
        "SELECT RANK() OVER (PARTITION BY k ORDER BY v) FROM {w}",
        "OVER and DISTINCT ON",
        "BY window_end",
    ),
    "top of all": (
        "SELECT v FROM {a} QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= 3",
        "OVER and DISTINCT ON over a stream",
        "PARTITION BY window_end",
    ),
    "over for ever": (
        "SELECT SUM(v) OVER (PARTITION BY k ORDER BY n) FROM {a}",
        "OVER would need state for each of its partitions without bound",
        "allowUnboundedState",
    ),
    "first for ever": (
        "SELECT v FROM {a} QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) = 1",
        "OVER would need state for each of its partitions without bound",
        "allowUnboundedState",
    ),
    "lead": (
        "SELECT LEAD(v) OVER (ORDER BY n) FROM {a}",
        "OVER and DISTINCT ON over a stream",
        "FOLLOWING",
    ),
    "rows following": (
        "SELECT SUM(v) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM {a}",
        "OVER and DISTINCT ON over a stream",
        "RANGE BETWEEN",
    ),
    "whole partition": (
        "SELECT NTILE(4) OVER (ORDER BY n) FROM {a}",
        "OVER and DISTINCT ON over a stream",
        "window_end",
    ),
    "all earlier rows": (
        "SELECT COUNT(DISTINCT s) OVER (ORDER BY n) FROM {a}",
        "OVER and DISTINCT ON over a stream",
        "offset PRECEDING",
    ),
    "to the end": (
        (
            "SELECT SUM(v) OVER (ORDER BY n RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) "
            "FROM {a}"
        ),
        "OVER and DISTINCT ON over a stream",
        "CURRENT ROW",
    ),
    "months": (
        "SELECT SUM(v) OVER (ORDER BY ts RANGE INTERVAL '1' MONTH PRECEDING) FROM {at}",
        "OVER and DISTINCT ON over a stream",
        "INTERVAL of days or less",
    ),
    "unknown reach": (
        "SELECT LAG(v, k) OVER (ORDER BY n) FROM {a}",
        "OVER and DISTINCT ON over a stream",
        "literal number",
    ),
    "bound lost": (
        "SELECT e, COUNT(*) FROM (SELECT MAX(n) AS e FROM {w} GROUP BY window_end) GROUP BY e",
        "supported only for window aggregation",
        "window_end",
    ),
    "limit for each row": (
        (
            "SELECT names.k, l.v FROM names CROSS JOIN LATERAL (SELECT v FROM {a} AS x "
            "WHERE x.k = names.k LIMIT 2) AS l"
        ),
        "is not supported for a streaming query",
        "",
    ),
    "both sides of a join": (
        (
            "SELECT COUNT(*) OVER (PARTITION BY x.n), COUNT(*) OVER (PARTITION BY y.n) "
            "FROM {a} AS x JOIN {b} AS y "
            "ON x.k = y.k AND y.n BETWEEN x.n - 3 AND x.n + 4"
        ),
        "OVER and DISTINCT ON over a stream",
        "one of the times",
    ),
    "groups of a limited stream": (
        (
            "SELECT window_end, SUM(c) FROM (SELECT window_end, COUNT(*) AS c "
            "FROM (SELECT * FROM {w} LIMIT 9) GROUP BY window_end "
            "UNION ALL SELECT window_end, 1 FROM {wb}) GROUP BY window_end"
        ),
        "supported only for window aggregation",
        "by window_end",
    ),
    "recursion": (
        (
            "WITH RECURSIVE r AS (SELECT k FROM {a} UNION ALL SELECT k + 1 FROM r WHERE k < 3) "
            "SELECT * FROM r"
        ),
        "a recursive query cannot read a streaming source",
        "LIMIT",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_remedy(connection: runnel.Connection, name: str) -> None:
    sql, message, hint = REFUSED[name]
    schema = random_table(random.Random(0), 1).schema
    with (
        connection.register_stream("a", schema),
        connection.register_stream("b", schema),
        pytest.raises(runnel.NotSupportedError) as caught,
    ):
        connection.execute(filled(sql, STREAMED))
    connection.unregister("a")
    connection.unregister("b")
    assert message in str(caught.value)
    assert caught.value.hint
    assert hint in caught.value.hint
    assert caught.value.position is not None
