"""The jobs of the stored directories: one or more for each operator with state, sink and source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

EVENTS = ("events",)
BOTH = ("events", "payments")
UNBOUNDED = " OPTIONS ('allowUnboundedState'='true')"
EVENT = "id BIGINT, ts TIMESTAMP, k VARCHAR, v BIGINT"


@dataclass(frozen=True)
class StoredJob:
    """One job of the directory.

    name: of the job, and of the mapping that it writes.
    columns: of that mapping.
    query: the SELECT.
    reads: the streams, and the tables that are read once, whose rows count as input.
    options: of CREATE JOB.
    sink: TYPE and OPTIONS of the mapping; none: JSON files.
    late: the columns of the mapping "<name>_late", which the query names in LATE DATA INTO.
    arguments: of the parameters of the query.
    has_time: whether a watermark comes to the sink.
    statement: the beginning of the statement that the job runs.
    zone: the time zone of the session that made the job.
    """

    name: str
    columns: str
    query: str
    reads: tuple[str, ...] = EVENTS
    options: str = ""
    sink: str = ""
    late: str = ""
    arguments: tuple[object, ...] = ()
    has_time: bool = True
    statement: str = "INSERT INTO"
    zone: str = "UTC"

    @property
    def sql(self) -> str:
        """The statement that the job runs."""
        return f"{self.statement} {self.name} {self.query}"

    @property
    def again(self) -> StoredJob:
        """The same job with another name and other mappings to write to."""
        query = self.query.replace(f"INTO {self.name}_late", f"INTO {self.name}_again_late")
        return replace(
            self,
            name=f"{self.name}_again",
            query=query,
            sink=self.sink.replace(f"/{self.name}'", f"/{self.name}_again'"),
        )


def tumble(size: int, table: str = "TABLE events") -> str:
    return f"TABLE(TUMBLE({table}, DESCRIPTOR(ts), INTERVAL '{size}' SECOND))"


def hop(size: int, step: int) -> str:
    sizes = f"INTERVAL '{size}' SECOND, INTERVAL '{step}' SECOND"
    return f"TABLE(HOP(TABLE events, DESCRIPTOR(ts), {sizes}))"


def cumulate(step: int, size: int) -> str:
    sizes = f"INTERVAL '{step}' SECOND, INTERVAL '{size}' SECOND"
    return f"TABLE(CUMULATE(TABLE events, DESCRIPTOR(ts), {sizes}))"


def session(gap: int) -> str:
    return f"TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{gap}' SECOND))"


UNITED = "(SELECT id, ts, k, v FROM events UNION ALL SELECT id, ts, k, v FROM payments)"
WINDOW = "window_end TIMESTAMP, k VARCHAR"

AGGREGATIONS = (
    StoredJob(
        "numbers",
        f"{WINDOW}, n BIGINT, m BIGINT, sv BIGINT, sd DECIMAL(38, 2), sf DOUBLE, av DOUBLE, ad "
        "DECIMAL(38, 16), af DOUBLE",
        "SELECT window_end, k, COUNT(*), COUNT(v), SUM(v), SUM(d), SUM(f), AVG(v), AVG(d), AVG(f) "
        f"FROM {tumble(20)} GROUP BY window_end, k",
    ),
    StoredJob(
        "extremes",
        f"{WINDOW}, lv BIGINT, hd DECIMAL(12, 2), lf DOUBLE, hs VARCHAR, lt TIMESTAMP, e BOOLEAN, "
        "a BOOLEAN, y VARCHAR",
        "SELECT window_end, k, MIN(v), MAX(d), MIN(f), MAX(s), MIN(ts), EVERY(b), BOOL_OR(b), "
        "ANY_VALUE(k) "
        f"FROM {tumble(20)} GROUP BY window_end, k",
    ),
    StoredJob(
        "collected",
        f"{WINDOW}, ids BIGINT ARRAY, texts VARCHAR, f VARCHAR, l VARCHAR, most VARCHAR, least "
        "VARCHAR",
        "SELECT window_end, k, ARRAY_AGG(id ORDER BY id), STRING_AGG(s, '-' ORDER BY id), FIRST(s "
        "ORDER BY id), "
        f"LAST(s ORDER BY id), ARG_MAX(s, id), ARG_MIN(s, id) FROM {tumble(20)} GROUP BY "
        "window_end, k",
    ),
    StoredJob(
        "different",
        f"{WINDOW}, n BIGINT, sv BIGINT, vs BIGINT ARRAY, few BIGINT, about BIGINT",
        "SELECT window_end, k, COUNT(DISTINCT v), SUM(DISTINCT v), ARRAY_AGG(DISTINCT v ORDER BY "
        "v), "
        f"COUNT(*) FILTER (WHERE v > 5), APPROX_DISTINCT(s) FROM {tumble(20)} GROUP BY "
        "window_end, k",
    ),
    StoredJob(
        "quantiles",
        f"{WINDOW}, m DOUBLE, c DOUBLE, d BIGINT, often BIGINT",
        "SELECT window_end, k, MEDIAN(v), PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY f), "
        "PERCENTILE_DISC(0.75) WITHIN GROUP (ORDER BY v), MODE() WITHIN GROUP (ORDER BY v) "
        f"FROM {tumble(20)} GROUP BY window_end, k",
    ),
    StoredJob(
        "statistics",
        f"{WINDOW}, a DOUBLE, b DOUBLE, c DOUBLE, d DOUBLE, e DOUBLE, f DOUBLE, g DOUBLE, h "
        "DOUBLE, "
        "i BIGINT, j BIGINT, l BIGINT",
        "SELECT window_end, k, STDDEV(v), VAR_POP(f), CORR(v, f), COVAR_SAMP(v, f), REGR_SLOPE(f, "
        "v), SKEWNESS(v), "
        f"KURTOSIS(f), PRODUCT(v + 1), BIT_AND(v), BIT_OR(v), BIT_XOR(v) FROM {tumble(40)} GROUP "
        "BY window_end, k",
    ),
    StoredJob(
        "programmed",
        f"{WINDOW}, spread BIGINT, doubled BIGINT",
        f"SELECT window_end, k, spread(v), SUM(doubled(v)) FROM {tumble(20)} GROUP BY window_end, "
        "k",
        options="'modules' = 'functions.py'",
    ),
    StoredJob(
        "two_stages",
        f"{WINDOW}, n BIGINT, sv BIGINT, a DOUBLE, h VARCHAR, vs BIGINT ARRAY, q DOUBLE, about "
        "BIGINT, sd DOUBLE",
        "SELECT window_end, k, COUNT(*), SUM(v), AVG(v), MAX(k), ARRAY_AGG(v ORDER BY v), "
        "MEDIAN(v), APPROX_DISTINCT(v), "
        f"STDDEV(v) FROM {tumble(20, UNITED)} GROUP BY window_end, k",
        reads=BOTH,
    ),
    StoredJob(
        "two_stages_of_frames",
        f"{WINDOW}, n BIGINT, sv BIGINT",
        "SELECT window_end, k, COUNT(*), SUM(v) FROM "
        f"TABLE(HOP({UNITED}, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '10' SECOND)) GROUP "
        "BY window_end, k",
        reads=BOTH,
    ),
    StoredJob(
        "integers",
        "window_end BIGINT, k VARCHAR, n BIGINT, sv BIGINT",
        "SELECT window_end, k, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(t), 20, "
        "3)) GROUP BY window_end, k",
        reads=("ticks",),
    ),
    StoredJob(
        "by_time",
        "hour TIMESTAMP, k VARCHAR, n BIGINT",
        "SELECT DATE_TRUNC('minute', ts), k, COUNT(*) FROM events GROUP BY DATE_TRUNC('minute', "
        "ts), k",
    ),
    StoredJob("distinct_keys", WINDOW, f"SELECT DISTINCT window_end, k FROM {tumble(20)}"),
    StoredJob(
        "sets",
        f"{WINDOW}, v BIGINT, n BIGINT",
        f"SELECT window_end, k, v, COUNT(*) FROM {tumble(20)} GROUP BY window_end, ROLLUP (k, v) "
        "LATE DATA INTO sets_late",
        late=EVENT,
    ),
    StoredJob(
        "frames",
        f"{WINDOW}, n BIGINT, sv BIGINT, d BIGINT",
        f"SELECT window_end, k, COUNT(*), SUM(v), COUNT(DISTINCT v) FROM {hop(30, 10)} GROUP BY "
        "window_end, k",
    ),
    StoredJob(
        "growing",
        f"{WINDOW}, n BIGINT, a DOUBLE",
        f"SELECT window_end, k, COUNT(*), AVG(v) FROM {cumulate(10, 40)} GROUP BY window_end, k "
        "LATE DATA INTO growing_late",
        late=EVENT,
    ),
    StoredJob(
        "overlapping",
        f"{WINDOW}, n BIGINT, final BOOLEAN",
        f"SELECT window_end, k, COUNT(*), window_final FROM {hop(30, 10)} GROUP BY window_end, k "
        "EMIT EVERY INTERVAL '1' HOUR",
    ),
    StoredJob(
        "lasting",
        f"{WINDOW}, n BIGINT, sv BIGINT",
        f"SELECT window_end, k, COUNT(*), SUM(v) FROM {tumble(20)} GROUP BY window_end, k "
        "EMIT EVERY INTERVAL '1' HOUR ALLOWED LATENESS INTERVAL '40' SECOND LATE DATA INTO "
        "lasting_late",
        late=EVENT,
    ),
    StoredJob(
        "twice",
        "window_end TIMESTAMP, n BIGINT, most BIGINT",
        "SELECT window_end, COUNT(*), MAX(n) FROM (SELECT window_end, k, COUNT(*) AS n "
        f"FROM {tumble(20)} GROUP BY window_end, k) GROUP BY window_end",
    ),
    StoredJob(
        "late",
        f"{WINDOW}, n BIGINT",
        f"SELECT window_end, k, COUNT(*) FROM {tumble(20)} GROUP BY window_end, k LATE DATA INTO "
        "late_late",
        late=EVENT,
    ),
    StoredJob(
        "hinted",
        f"{WINDOW}, n BIGINT",
        f"SELECT /*+ STATE(minutes) */ window_end, k, COUNT(*) FROM {tumble(60)} GROUP BY "
        "window_end, k",
    ),
    StoredJob(
        "kinds_of_keys",
        """
        window_end TIMESTAMP, b BOOLEAN, d DECIMAL(12, 2), y DATE, f DOUBLE, s VARCHAR, u VARCHAR,
        n BIGINT, ht TIME, lb BOOLEAN, hy DATE, sr DOUBLE, si BIGINT,
        sbig DECIMAL(38, 0), hx VARCHAR
        """,
        """
        SELECT window_end, b, d, CAST(ts AS DATE), f, s, CAST(NULL AS VARCHAR), COUNT(*),
        MAX(CAST(ts AS TIME)), MIN(b), MAX(CAST(ts AS DATE)), SUM(CAST(f AS REAL)),
        SUM(CAST(v AS INTEGER)), SUM(CAST(v AS DECIMAL(38, 0)) * 1000000000000000000),
        CAST(MAX(CAST(ts AS TIMESTAMP WITH TIME ZONE)) AS VARCHAR)
        """
        f"FROM {tumble(20)} GROUP BY window_end, b, d, CAST(ts AS DATE), f, s, CAST(NULL AS "
        "VARCHAR)",
    ),
    StoredJob(
        "keys_of_integers",
        "window_end TIMESTAMP, v BIGINT, n BIGINT, m BIGINT",
        f"SELECT window_end, v, COUNT(*), MAX(id) FROM {tumble(20)} GROUP BY window_end, v",
    ),
    StoredJob(
        "frames_of_integers",
        "window_end TIMESTAMP, v BIGINT, n BIGINT, m BIGINT",
        f"SELECT window_end, v, COUNT(*), SUM(id) FROM {hop(30, 10)} GROUP BY window_end, v",
    ),
)

SESSIONS = (
    StoredJob(
        "sessions",
        "window_start TIMESTAMP, window_end TIMESTAMP, k VARCHAR, n BIGINT, sv BIGINT",
        f"SELECT window_start, window_end, k, COUNT(*), SUM(v) FROM {session(7)} GROUP BY "
        "window_start, window_end, k "
        "LATE DATA INTO sessions_late",
        late=EVENT,
    ),
    StoredJob(
        "changed_sessions",
        "window_start TIMESTAMP, window_end TIMESTAMP, k VARCHAR, n BIGINT, final BOOLEAN",
        f"SELECT window_start, window_end, k, COUNT(*), window_final FROM {session(7)} "
        "GROUP BY window_start, window_end, k EMIT EVERY INTERVAL '1' HOUR ALLOWED LATENESS "
        "INTERVAL '60' SECOND",
    ),
    StoredJob(
        "rows_of_sessions",
        "window_end TIMESTAMP, k VARCHAR, id BIGINT",
        f"SELECT window_end, k, id FROM {session(7)}",
    ),
)

IN_ORDER = (
    StoredJob(
        "over_windows",
        "window_end TIMESTAMP, id BIGINT, r BIGINT, l BIGINT, s BIGINT",
        "SELECT window_end, id, ROW_NUMBER() OVER (PARTITION BY window_end, k ORDER BY v, id), "
        "LEAD(id) OVER (PARTITION BY window_end, k ORDER BY v, id), SUM(v) OVER (PARTITION BY "
        "window_end) "
        f"FROM {tumble(20)}",
    ),
    StoredJob(
        "first_of_windows",
        "window_end TIMESTAMP, k VARCHAR, id BIGINT",
        f"SELECT window_end, k, id FROM {tumble(20)} "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end, k ORDER BY v DESC, id) <= 2",
    ),
    StoredJob(
        "over_ranges",
        "id BIGINT, s BIGINT, f BIGINT, d BIGINT",
        "SELECT id, SUM(v) OVER w, FIRST_VALUE(id) OVER w, COUNT(DISTINCT v) OVER w FROM events "
        "WINDOW w AS (PARTITION BY k ORDER BY ts "
        "RANGE BETWEEN INTERVAL '20' SECOND PRECEDING AND INTERVAL '5' SECOND FOLLOWING) LATE "
        "DATA INTO over_ranges_late",
        late=EVENT,
    ),
    StoredJob(
        "over_rows",
        "id BIGINT, s BIGINT, l BIGINT",
        "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts NULLS LAST, id ROWS BETWEEN 3 "
        "PRECEDING AND CURRENT ROW), "
        f"LAG(v, 2) OVER (PARTITION BY k ORDER BY ts NULLS LAST, id) FROM events{UNBOUNDED}",
    ),
    StoredJob(
        "running",
        "id BIGINT, n BIGINT, r BIGINT, s BIGINT, a DOUBLE, h BIGINT, f BIGINT",
        "SELECT id, ROW_NUMBER() OVER w, RANK() OVER w, SUM(v) OVER w, AVG(v) OVER w, MAX(v) OVER "
        "w, FIRST_VALUE(id) OVER w "
        f"FROM events WINDOW w AS (PARTITION BY k ORDER BY ts NULLS LAST, id){UNBOUNDED}",
    ),
    StoredJob("sorted", "ts TIMESTAMP, id BIGINT", "SELECT ts, id FROM events ORDER BY ts, id"),
    StoredJob(
        "imposed",
        "window_end BIGINT, n BIGINT",
        "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE(IMPOSE_ORDER(TABLE raw, "
        "DESCRIPTOR(t), 5)), DESCRIPTOR(t), 20)) "
        "GROUP BY window_end",
        reads=("raw",),
    ),
    StoredJob(
        "imposed_on_rows",
        "window_end BIGINT, n BIGINT",
        "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE(IMPOSE_ORDER("
        "(SELECT r.t, n.name FROM raw r LEFT JOIN names n ON n.k = r.k), DESCRIPTOR(t), 5)), "
        "DESCRIPTOR(t), 20)) "
        "GROUP BY window_end",
        reads=("raw", "names"),
    ),
)

JOINS = (
    StoredJob(
        "within",
        "a BIGINT, b BIGINT",
        "SELECT e.id, p.id FROM events e LEFT JOIN payments p "
        "ON p.k = e.k AND p.ts BETWEEN e.ts - INTERVAL '5' SECOND AND e.ts + INTERVAL '10' SECOND "
        "LATE DATA INTO within_late",
        reads=BOTH,
        late="id BIGINT, ts TIMESTAMP, v BIGINT",
    ),
    StoredJob(
        "within_full",
        "a BIGINT, b BIGINT",
        "SELECT e.id, p.id FROM events e FULL JOIN payments p "
        "ON p.k = e.k AND p.v > e.v AND p.ts BETWEEN e.ts - INTERVAL '5' SECOND AND e.ts + "
        "INTERVAL '5' SECOND",
        reads=BOTH,
    ),
    StoredJob(
        "unbounded_pairs",
        "a BIGINT, b BIGINT",
        f"SELECT e.id, p.id FROM events e JOIN payments p ON p.v = e.v AND p.k = e.k{UNBOUNDED}",
        reads=BOTH,
        has_time=False,
    ),
    StoredJob(
        "not_within",
        "window_end TIMESTAMP, id BIGINT",
        f"SELECT window_end, id FROM {tumble(10)} e WHERE v NOT IN "
        f"(SELECT p.v FROM {tumble(10, 'TABLE payments')} p WHERE p.window_end = e.window_end)",
        reads=BOTH,
    ),
    StoredJob(
        "joined_windows",
        "window_end TIMESTAMP, n BIGINT, m BIGINT",
        f"SELECT a.window_end, a.n, b.n FROM (SELECT window_end, COUNT(*) AS n FROM {tumble(20)} "
        "GROUP BY window_end) a "
        f"FULL JOIN (SELECT window_end, COUNT(*) AS n FROM {tumble(20, 'TABLE payments')} GROUP "
        "BY window_end) b "
        "ON a.window_end = b.window_end",
        reads=BOTH,
    ),
    StoredJob(
        "as_of_stream",
        "a BIGINT, b BIGINT",
        "SELECT e.id, p.id FROM events e ASOF LEFT JOIN payments p ON e.k = p.k AND e.ts >= p.ts "
        "LATE DATA INTO as_of_stream_late",
        reads=BOTH,
        late="id BIGINT, ts TIMESTAMP, v BIGINT",
    ),
    StoredJob(
        "as_of_table",
        "id BIGINT, price DOUBLE",
        "SELECT e.id, p.price FROM events e ASOF JOIN prices p ON e.k = p.k AND e.ts >= p.since",
        reads=("events", "prices"),
    ),
    StoredJob(
        "with_table",
        "id BIGINT, name VARCHAR",
        "SELECT e.id, n.name FROM events e LEFT JOIN names n ON n.k = e.k",
        reads=("events", "names"),
    ),
    StoredJob(
        "with_groups",
        "id BIGINT, price DOUBLE, least DOUBLE",
        "SELECT e.id, p.price, p.least FROM events e JOIN "
        "(SELECT k, MAX(price) AS price, MIN(price) AS least FROM prices GROUP BY k) p ON p.k = "
        "e.k",
        reads=("events", "prices"),
    ),
    StoredJob(
        "with_prepared",
        "id BIGINT, price DOUBLE, r BIGINT",
        """
        SELECT e.id, p.price, p.r FROM events e JOIN (
          SELECT k, price, r FROM (
            SELECT k, price, ROW_NUMBER() OVER (PARTITION BY k ORDER BY price) AS r FROM prices
          ) WHERE r < 3 EXCEPT SELECT 'a', 1.5, CAST(1 AS BIGINT) ORDER BY 2 LIMIT 4
        ) p ON p.k = e.k
        """,
        reads=("events", "prices"),
    ),
    StoredJob(
        "with_refreshed",
        "id BIGINT, name VARCHAR",
        "SELECT e.id, n.name FROM events e JOIN refreshed_names n ON n.k = e.k",
        reads=("events",),
    ),
    StoredJob(
        "looked_up",
        "id BIGINT, name VARCHAR",
        "SELECT e.id, p.name FROM events e JOIN people p ON p.__key = e.v",
    ),
    StoredJob(
        "twice_read",
        "a BIGINT, b BIGINT",
        "SELECT a.id, b.id FROM events a JOIN events b ON a.k = b.k AND a.id < b.id AND "
        "b.ts BETWEEN a.ts AND a.ts + INTERVAL '6' SECOND",
    ),
)

SOURCES_AND_SINKS = (
    StoredJob(
        "united",
        "id BIGINT, k VARCHAR",
        f"SELECT id, k FROM {UNITED} u",
        reads=BOTH,
        has_time=False,
    ),
    StoredJob(
        "parameters",
        "id BIGINT, t TIMESTAMP, d DECIMAL(12, 2), s VARCHAR",
        "SELECT id, CAST(? AS TIMESTAMP), d * CAST(? AS DECIMAL(4, 1)), s || ? FROM events WHERE "
        "id >= ?",
        arguments=("2026-01-01 00:00:00", "2.5", "é", 3),
    ),
    StoredJob(
        "kinds_of_parameters",
        """
        id BIGINT, y VARCHAR, d VARCHAR, x BIGINT, u VARCHAR, i VARCHAR, l BIGINT, f DOUBLE,
        b BOOLEAN, t VARCHAR, ts VARCHAR, z VARCHAR, n BIGINT
        """,
        """
        SELECT id, CAST(? AS VARCHAR), CAST(? AS VARCHAR), OCTET_LENGTH(?), CAST(? AS VARCHAR),
        CAST(? AS VARCHAR), CARDINALITY(?), ?, ?, CAST(? AS VARCHAR), CAST(? AS VARCHAR),
        CAST(? AS VARCHAR), CAST(? AS BIGINT) FROM events
        """,
        arguments=(
            *(date(2026, 1, 2), Decimal("1.50"), b"\x00\xff", UUID(int=5), timedelta(hours=1)),
            *([1, 2, None], 0.1, True, time(1, 2, 3), datetime(2026, 1, 1)),
            *(datetime(2026, 1, 1, tzinfo=UTC), None),
        ),
    ),
    StoredJob(
        "zoned",
        "id BIGINT, s VARCHAR",
        "SELECT id, CAST(CAST(ts AS TIMESTAMP WITH TIME ZONE) AS VARCHAR) FROM events",
        zone="Europe/Berlin",
    ),
    StoredJob(
        "from_map",
        "id BIGINT, name VARCHAR",
        "SELECT e.id, p.name FROM events e JOIN people p ON p.name = e.s",
    ),
    StoredJob(
        "into_map",
        "__key TIMESTAMP, n BIGINT, s BIGINT",
        f"SELECT window_end, COUNT(*), SUM(v) FROM {tumble(20)} GROUP BY window_end",
        sink="TYPE IMap OPTIONS ('keyFormat' = 'timestamp', 'valueFormat' = 'json-flat')",
        statement="SINK INTO",
    ),
    StoredJob(
        "inserted_into_map",
        "__key BIGINT, this VARCHAR",
        "SELECT id, k FROM events",
        sink="TYPE IMap OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'varchar')",
    ),
    StoredJob(
        "into_duckdb",
        f"{WINDOW}, n BIGINT",
        f"SELECT window_end, k, COUNT(*) FROM {tumble(20)} GROUP BY window_end, k",
        sink="TYPE DuckDB",
    ),
    StoredJob(
        "into_folders",
        "id BIGINT, k VARCHAR",
        "SELECT id, k FROM events",
        sink="TYPE File OPTIONS ('path' = '/proc/self/cwd/out/into_folders', 'format' = 'csv', "
        "'partitionBy' = 'k')",
    ),
    StoredJob(
        "into_parquet",
        "id BIGINT, d DECIMAL(12, 2), ts TIMESTAMP",
        "SELECT id, d, ts FROM events",
        sink="TYPE File OPTIONS ('path' = '/proc/self/cwd/out/into_parquet', 'format' = 'parquet')",
    ),
    StoredJob(
        "into_delta",
        "id BIGINT, k VARCHAR",
        "SELECT id, k FROM events",
        sink="TYPE Delta OPTIONS ('path' = '/proc/self/cwd/out/into_delta', 'create' = 'true')",
    ),
    StoredJob(
        "diverted",
        "t BIGINT, v BIGINT",
        "SELECT t, v FROM broken",
        reads=("broken",),
        has_time=False,
    ),
    StoredJob(
        "of_parquet",
        "id BIGINT, v BIGINT",
        "SELECT id, v FROM columnar",
        reads=("columnar",),
        has_time=False,
    ),
    StoredJob(
        "at_least_once",
        f"{WINDOW}, n BIGINT",
        f"SELECT window_end, k, COUNT(*) FROM {tumble(20)} GROUP BY window_end, k",
        options="'processingGuarantee' = 'atLeastOnce'",
    ),
    StoredJob(
        "without_guarantee",
        f"{WINDOW}, n BIGINT",
        f"SELECT window_end, k, COUNT(*) FROM {tumble(20)} GROUP BY window_end, k",
        options="'processingGuarantee' = 'none'",
    ),
)

EXPORTED = (
    "numbers",
    "frames",
    "sessions",
    "over_ranges",
    "twice_read",
    "with_table",
    "into_delta",
)
"""Jobs with a named snapshot, "of_<job>", from which another job starts."""
DROPPED = ("extremes", "first_of_windows")
"""Jobs that were dropped WITH SNAPSHOT of_<job>."""
RUNNING = ("late", "over_windows")
"""Jobs that run when the directory is closed."""

NOT_ALTERED = ("programmed", "zoned")
"""Jobs that need functions or the time zone of the session that created them."""

ENDING = (
    StoredJob(
        "generated", "v BIGINT", "SELECT v FROM TABLE(GENERATE_STREAM(400)) LIMIT 600", reads=()
    ),
    StoredJob(
        "auctions",
        "window_end TIMESTAMP, auction BIGINT, n BIGINT",
        "SELECT window_end, auction, COUNT(*) FROM TABLE(HOP(TABLE bids, DESCRIPTOR(date_time), "
        "INTERVAL '1' SECOND, "
        "INTERVAL '0.5' SECOND)) GROUP BY window_end, auction HAVING COUNT(*) > 2",
        reads=(),
    ),
)
"""Jobs whose sources generate rows as time passes, and end."""

LIVE = (
    StoredJob(
        "pushed",
        "window_end BIGINT, n BIGINT, s BIGINT",
        "SELECT window_end, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE stream, DESCRIPTOR(t), 10)) "
        "GROUP BY window_end",
    ),
    StoredJob(
        "changed",
        "operation VARCHAR, k VARCHAR, old VARCHAR, new VARCHAR",
        "SELECT operation, __key, old_this, this FROM TABLE(CHANGES(TABLE texts))",
    ),
    StoredJob("of_delta", "id BIGINT, s VARCHAR", "SELECT id, s FROM followed_versions"),
)
"""Jobs that read what statements and the process write: see `feeding`."""

KILLED = (
    *("late", "numbers", "into_map", "inserted_into_map", "into_duckdb", "into_folders"),
    *("into_parquet", "into_delta", "diverted"),
)
"""Jobs of the directory whose process was killed while its sinks had staged rows."""

JOBS = (*AGGREGATIONS, *SESSIONS, *IN_ORDER, *JOINS, *SOURCES_AND_SINKS)
