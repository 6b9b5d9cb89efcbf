"""Random queries over the streams `a` and `b` and the table `d`, with what DuckDB is asked for the
same."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from tests.streams.random_queries.query_shapes import SHAPES
from tests.streams.random_queries.query_text import Text, both, joined
from tests.streams.random_queries.random_feeds import COLUMNS, unit_of

ROW = ", ".join(COLUMNS)
BOUNDS = ("window_start", "window_end", "window_time")
FLOOR = "(m - (((m - ({offset})) % {period} + {period}) % {period}))"
AGGREGATES = (
    "COUNT(*)",
    "COUNT(v)",
    "SUM(v)",
    "AVG(v)",
    "MIN(v)",
    "MAX(v)",
    "MIN(s)",
    "MAX(t)",
    "MIN(t)",
    "SUM(f)",
    "AVG(f)",
    "SUM(d)",
    "MAX(d)",
    "COUNT(DISTINCT s)",
    "COUNT(DISTINCT k)",
    "SUM(DISTINCT v)",
    "SUM(v) FILTER (WHERE b)",
    "COUNT(*) FILTER (WHERE k = 1)",
    "STRING_AGG(s, ',' ORDER BY id)",
    "ARRAY_AGG(v ORDER BY id)",
    "ARRAY_AGG(id ORDER BY v DESC, id)",
    "MEDIAN(v)",
    "BOOL_AND(b)",
    "BOOL_OR(b)",
    "STDDEV_SAMP(v)",
    "VAR_POP(f)",
    "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY v)",
    "FIRST(v ORDER BY id)",
)
FILTERS = (
    "v > 0",
    "b",
    "k = 1",
    "s IS NOT NULL",
    "v % 3 = 0 OR v IS NULL",
    "id % 2 = 0",
    "FALSE",
    "t IS NOT NULL",
)
INTERVALS = "y.t BETWEEN x.t - {low} AND x.t + {high}"


class QueryGenerator:
    """`ordered`: whether the streams have an event time of their own, so that no IMPOSE_ORDER is
    needed. `lag` in units."""

    def __init__(self, rng: random.Random, kind: str, lag: int, ordered: bool) -> None:
        self.rng = rng
        self.kind = kind
        self.lag = lag
        self.ordered = ordered
        self.needs_unique = False
        """Whether times must differ."""
        self.needs_times = False
        """Whether they may not be NULL."""

    def query(self) -> Text:
        shapes: list[tuple[int, Callable[[], Text]]] = [
            (8, self.grouped),
            (3, self.grouped_twice),
            (2, self.windows_of_groups),
            (2, self.distinct),
            (2, self.rows),
            (3, self.window_join),
            (2, self.group_join),
            (5, self.interval_join),
            (2, self.semi_join),
            (2, self.windows_of_a_join),
            (3, self.look_up),
            (3, self.top_n),
            (2, self.over_a_window),
            (1, self.projected),
            (1, self.union),
            (2, self.as_of),
            *((weight, partial(shape, self)) for weight, shape in SHAPES),
        ]
        weights = [weight for weight, _ in shapes]
        return self.rng.choices([shape for _, shape in shapes], weights)[0]()

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def size(self, units: int) -> str:
        """A distance of so many units."""
        if self.kind == "date":
            return f"INTERVAL '{units}' DAY"
        return f"INTERVAL '{units}' SECOND" if self.kind in ("timestamp", "instant") else str(units)

    # Sources

    def stream(self, name: str) -> Text:
        """A stream as FROM takes it."""
        if self.ordered:
            return both(name)
        return Text(
            f"TABLE(IMPOSE_ORDER(TABLE {name}, DESCRIPTOR(t), {self.size(self.lag)}))", name
        )

    def input(self, name: str | None = None) -> Text:
        """What a window function reads, in the way that it takes it."""
        if name is None and self.chance(0.12):
            return joined(
                f"(SELECT {ROW} FROM {{a}} UNION ALL SELECT {ROW} FROM {{b}})",
                a=self.stream("a"),
                b=self.stream("b"),
            )
        name = name or self.rng.choice("ab")
        stream = self.stream(name)
        if self.chance(0.25):
            return joined(f"(SELECT {ROW} FROM {{a}} WHERE {self.rng.choice(FILTERS)})", a=stream)
        if self.chance(0.1):
            return joined(
                "(SELECT id, d, b, f, v, UPPER(s) AS s, k + 1 AS k, t FROM {a})", a=stream
            )
        return Text(f"TABLE {name}" if self.ordered else stream.ours, name)

    def micros(self, time: str) -> str:
        """DuckDB's expression of an event time."""
        if self.kind == "date":
            return f"epoch_us({time}::TIMESTAMP)"
        return f"epoch_us({time})" if self.kind in ("timestamp", "instant") else f"{time}::BIGINT"

    def moment(self, micros: str) -> str:
        if self.kind == "instant":
            return f"make_timestamptz({micros})"
        return f"make_timestamp({micros})" if self.kind in ("date", "timestamp") else f"({micros})"

    def window(
        self,
        name: str | None = None,
        kind: str | None = None,
        time: str = "t",
        data: Text | None = None,
    ) -> Text:
        """A window function over a stream, as FROM takes it."""
        rng, unit = self.rng, unit_of(self.kind)
        data = self.input(name) if data is None else data
        kind = kind or rng.choice(("TUMBLE", "TUMBLE", "HOP", "HOP", "CUMULATE", "SESSION"))
        step = rng.choice((1, 2, 3, 7))
        size = step * rng.choice((1, 2, 3, 5))
        if kind == "HOP" and self.chance(0.3):
            size += rng.randint(0, step - 1)
        offset = rng.choice((0, 0, 0, 1, -1, 5)) if kind != "SESSION" else 0
        shift = f", {self.size(offset)}" if offset else ""
        head = f"{kind}({data.ours}"
        if kind == "SESSION":
            keys = rng.choice(("", "", "k", "k, s", "s"))
            ours = (
                f"TABLE({head}{' PARTITION BY ' + keys if keys else ''}, DESCRIPTOR({time}), "
                f"{self.size(size)}))"
            )
            return Text(ours, self._sessions(data.duckdb, keys, size * unit, time))
        sizes = {
            "TUMBLE": self.size(size),
            "HOP": f"{self.size(size)}, {self.size(step)}",
            "CUMULATE": f"{self.size(step)}, {self.size(size)}",
        }
        ours = f"TABLE({head}, DESCRIPTOR({time}), {sizes[kind]}{shift}))"
        if kind == "TUMBLE":
            step = size
        return Text(
            ours, self._windows(data.duckdb, kind, (size * unit, step * unit, offset * unit), time)
        )

    def _windows(self, data: str, kind: str, shape: tuple[int, int, int], time: str) -> str:
        size, step, offset = shape
        timed = f"(SELECT *, {self.micros(time)} AS m FROM {data})"
        count = -(-size // step)
        if kind == "CUMULATE":
            start = FLOOR.format(offset=offset, period=size)
            found = (
                f"SELECT *, {start} AS w0, {start} + (i + 1) * {step} AS w1 "
                f"FROM {timed}, range({count}) r(i)"
            )
        else:
            start = f"{FLOOR.format(offset=offset, period=step)} - i * {step}"
            found = (
                f"SELECT *, {start} AS w0, {start} + {size} AS w1 FROM {timed}, range({count}) r(i)"
            )
        return self._bounded(f"SELECT * FROM ({found}) WHERE w1 > m OR m IS NULL AND i = 0")

    def _sessions(self, data: str, keys: str, gap: int, time: str) -> str:
        timed = f"(SELECT *, {self.micros(time)} AS m FROM {data})"
        over = f"PARTITION BY {keys + ', ' if keys else ''}m IS NULL"
        marked = (
            f"SELECT *, CASE WHEN m - LAG(m) OVER ({over} "
            f"ORDER BY m, id) <= {gap} THEN 0 ELSE 1 END AS n0 FROM {timed}"
        )
        numbered = (
            f"SELECT *, SUM(n0) OVER ({over} ORDER BY m, id ROWS UNBOUNDED PRECEDING) AS n1 "
            f"FROM ({marked})"
        )
        ends = f"MIN(m) OVER ({over}, n1) AS w0, MAX(m) OVER ({over}, n1) + {gap} AS w1"
        return self._bounded(f"SELECT *, {ends} FROM ({numbered})")

    def _bounded(self, windows: str) -> str:
        bounds = zip(("w0", "w1", "w1 - 1"), BOUNDS, strict=True)
        named = ", ".join(f"{self.moment(text)} AS {name}" for text, name in bounds)
        return f"(SELECT * EXCLUDE (m, w0, w1), {named} FROM ({windows}))"

    # Queries

    def aggregates(self, most: int = 4) -> list[str]:
        return self.rng.sample(AGGREGATES, self.rng.randint(1, most))

    def bounds(self) -> list[str]:
        """Columns of a window to group by: its end at least, as sessions want it."""
        return [
            "window_end",
            *(name for name in ("window_start", "window_time") if self.chance(0.4)),
        ]

    def keys(self) -> list[str]:
        return self.rng.choice(([], [], ["k"], ["k"], ["s"], ["b"], ["k", "s"], ["v % 3"]))

    def grouped(self, name: str | None = None) -> Text:
        keys = [*self.bounds(), *self.keys()]
        where = f" WHERE {self.rng.choice(FILTERS)}" if self.chance(0.3) else ""
        having = self.rng.choice(
            (" HAVING COUNT(*) > 1", " HAVING SUM(v) > 0", " HAVING MIN(s) IS NOT NULL")
        )
        having = having if self.chance(0.2) else ""
        listed = ", ".join([*keys, *self.aggregates()])
        return joined(
            f"SELECT {listed} FROM {{w}} w{where} GROUP BY {', '.join(keys)}{having}",
            w=self.window(name),
        )

    def grouped_twice(self) -> Text:
        keys = [*self.bounds(), "k", "s"]
        inner = joined(
            f"SELECT {', '.join(keys)}, COUNT(*) AS n, SUM(v) AS v, MAX(f) AS f FROM {{w}} w "
            f"GROUP BY {', '.join(keys)}",
            w=self.window(),
        )
        outer = ["window_end", *(["k"] if self.chance(0.5) else [])]
        wanted = self.rng.sample(
            ("COUNT(*)", "SUM(n)", "MAX(v)", "AVG(v)", "COUNT(DISTINCT s)", "MIN(f)", "MEDIAN(n)"),
            3,
        )
        return joined(
            f"SELECT {', '.join([*outer, *wanted])} FROM ({{q}}) q GROUP BY {', '.join(outer)}",
            q=inner,
        )

    def windows_of_groups(self) -> Text:
        """Windows over the results of windows."""
        groups = (
            "SELECT window_time AS t, k, COUNT(*) AS n, MIN(id) AS id FROM {w} w "
            "GROUP BY window_time, k"
        )
        inner = joined(
            f"({groups})", w=self.window(kind=self.rng.choice(("TUMBLE", "HOP", "CUMULATE")))
        )
        kind = self.kind
        self.kind = "timestamp" if kind == "date" else kind
        outer = self.window(kind=self.rng.choice(("TUMBLE", "HOP")), data=inner)
        self.kind = kind
        return joined(
            "SELECT window_end, SUM(n), COUNT(*), MAX(t) FROM {w} w GROUP BY window_end", w=outer
        )

    def distinct(self) -> Text:
        return joined(
            f"SELECT DISTINCT {', '.join([*self.bounds(), *self.keys()])} FROM {{w}} w",
            w=self.window(),
        )

    def rows(self) -> Text:
        where = f" WHERE {self.rng.choice(FILTERS)}" if self.chance(0.5) else ""
        return joined(
            f"SELECT id, window_start, window_end, window_time FROM {{w}} w{where}", w=self.window()
        )

    def projected(self) -> Text:
        return joined(
            f"SELECT id, v + 1, t, s || 'z', CASE WHEN b THEN f END FROM {{a}} x "
            f"WHERE {self.rng.choice(FILTERS)}",
            a=self.stream("a"),
        )

    def union(self) -> Text:
        parts = {"a": self.stream("a"), "b": self.stream("b")}
        return joined(
            "SELECT id, t, v FROM {a} x UNION ALL SELECT id, t, k FROM {b} y WHERE v > 0", **parts
        )

    def windows_of_two(self) -> tuple[Text, Text]:
        """The same windows over both streams."""
        state = self.rng.getstate()
        left = self.window("a", "TUMBLE", data=self._plain("a"))
        self.rng.setstate(state)
        return left, self.window("b", "TUMBLE", data=self._plain("b"))

    def _plain(self, name: str) -> Text:
        return Text(f"TABLE {name}" if self.ordered else self.stream(name).ours, name)

    def window_join(self) -> Text:
        left, right = self.windows_of_two()
        kind = self.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        key = self.rng.choice(("", " AND x.k = y.k", " AND x.k = y.k AND x.v < y.v"))
        on = f"x.window_start = y.window_start AND x.window_end = y.window_end{key}"
        return joined(
            f"SELECT x.id, y.id, x.window_end, y.window_start FROM {{a}} x {kind} {{b}} y ON {on}",
            a=left,
            b=right,
        )

    def group_join(self) -> Text:
        left, right = self.windows_of_two()
        kind = self.rng.choice(("JOIN", "LEFT JOIN", "FULL JOIN"))
        group = (
            "(SELECT window_end, k, COUNT(*) AS n, SUM(v) AS v FROM {} w GROUP BY window_end, k)"
        )
        a, b = left.map(group.format), right.map(group.format)
        on = "x.window_end = y.window_end AND x.k = y.k"
        return joined(
            "SELECT x.window_end, y.window_end, x.k, x.n, y.n, x.v "
            f"FROM {{a}} x {kind} {{b}} y ON {on}",
            a=a,
            b=b,
        )

    def between(self) -> str:
        return INTERVALS.format(
            low=self.size(self.rng.choice((0, 2))), high=self.size(self.rng.choice((0, 3)))
        )

    def interval(self) -> str:
        low, high = (
            self.size(self.rng.choice((0, 1, 3, 10))),
            self.size(self.rng.choice((0, 2, 5, 10))),
        )
        text = self.rng.choice(
            (INTERVALS, INTERVALS, "y.t >= x.t AND y.t < x.t + {high}", "x.t = y.t")
        )
        key = self.rng.choice(
            (
                " AND x.k = y.k",
                " AND x.k = y.k",
                " AND x.k = y.k AND x.v < y.v",
                " AND x.s = y.s",
                "",
            )
        )
        return text.format(low=low, high=high) + key

    def interval_join(self) -> Text:
        kind = self.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        text = f"SELECT x.id, y.id, x.t, y.k FROM {{a}} x {kind} {{b}} y ON {self.interval()}"
        return joined(text, a=self.stream("a"), b=self.stream("b"))

    def semi_join(self) -> Text:
        exists = self.rng.choice(("EXISTS", "NOT EXISTS"))
        text = (
            f"SELECT x.id, x.t FROM {{a}} x WHERE {exists} (SELECT 1 FROM {{b}} y "
            f"WHERE {self.interval()})"
        )
        return joined(text, a=self.stream("a"), b=self.stream("b"))

    def windows_of_a_join(self) -> Text:
        kind = self.rng.choice(("JOIN", "LEFT JOIN"))
        text = (
            "(SELECT x.t AS t, x.k AS k, x.s AS s, y.v AS v, x.f AS f, y.b AS b, y.d AS d, "
            "x.id * 100000 + COALESCE(y.id, 0) "
            f"AS id FROM {{a}} x {kind} {{b}} y ON {self.interval()})"
        )
        data = joined(text, a=self.stream("a"), b=self.stream("b"))
        keys = [*self.bounds(), *self.keys()]
        listed = ", ".join([*keys, *self.aggregates(3)])
        return joined(
            f"SELECT {listed} FROM {{w}} w GROUP BY {', '.join(keys)}", w=self.window(data=data)
        )

    def look_up(self) -> Text:
        """A stream beside what doesn't end."""
        kind, table = self.rng.choice(("JOIN", "LEFT JOIN")), self.rng.choice(("d", "m"))
        if self.chance(0.3):
            exists = self.rng.choice(("EXISTS", "NOT EXISTS"))
            text = (
                f"SELECT x.id FROM {{a}} x WHERE {exists} (SELECT 1 FROM {table} y WHERE y.k = x.k)"
            )
            return joined(text, a=self.stream("a"))
        if self.chance(0.5):
            text = f"SELECT x.id, y.name FROM {{a}} x {kind} {table} y ON x.k = y.k"
            return joined(text, a=self.stream("a"))
        text = (
            "SELECT window_end, y.name, COUNT(*), SUM(v) "
            f"FROM {{w}} x {kind} {table} y ON x.k = y.k"
        )
        return joined(text + " GROUP BY window_end, y.name", w=self.window())

    def top_n(self) -> Text:
        partition = ", ".join(["window_end", *(["k"] if self.chance(0.5) else [])])
        function = self.rng.choice(("ROW_NUMBER()", "RANK()", "DENSE_RANK()"))
        order = self.rng.choice(("v DESC, id", "id", "t DESC, id", "s, id DESC"))
        text = (
            f"SELECT id, window_end, v FROM {{w}} w QUALIFY {function} OVER (PARTITION BY "
            f"{partition} ORDER BY {order}) <= "
        )
        return joined(text + str(self.rng.choice((1, 2, 5))), w=self.window())

    def over_a_window(self) -> Text:
        frame = self.rng.choice(
            ("", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", " ROWS UNBOUNDED PRECEDING")
        )
        call = self.rng.choice(("SUM(v)", "COUNT(*)", "MAX(f)", "LAST_VALUE(v)", "MIN(v)"))
        order = " ORDER BY id" if frame or "LAST" in call or self.chance(0.5) else ""
        text = (
            f"SELECT id, window_start, {call} OVER (PARTITION BY window_end, k{order}{frame}) "
            f"FROM {{w}} w"
        )
        return joined(text, w=self.window())

    def as_of(self) -> Text:
        self.needs_unique = True
        kind = self.rng.choice(("ASOF JOIN", "ASOF LEFT JOIN"))
        on = self.rng.choice(("x.k = y.k AND x.t >= y.t", "x.t >= y.t", "x.t > y.t AND x.k = y.k"))
        return joined(
            f"SELECT x.id, y.id, y.v FROM {{a}} x {kind} {{b}} y ON {on}",
            a=self.stream("a"),
            b=self.stream("b"),
        )
