"""Queries over streams, small changes to them, and what a job gives that is changed in the middle
of its rows.

The expected rows come from queries over tables. A column `p` says which rows were read before the
change (0), so a condition that only one of the two queries has can hold for the rows that this
query read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from runnel.base.frozen import frozen

Row = tuple[int, int, int]
"""A key, an event time, and a value."""

Result = tuple[int | None, ...]
"""The time of a result, its key, and two values."""

CHANGE = 57
"""The watermark at the change."""

BEFORE: list[Row] = [
    *((i % 3, i, i * 7 % 11) for i in range(30)),
    *((0, 36, 4), (1, 37, 9), (2, 38, 1), (0, 43, 2), (2, 44, 8), (1, 49, 3), (0, 50, 7)),
    *((2, 53, 5), (1, 54, 0), (2, 55, 6), (0, 57, 3)),
]
AFTER: list[Row] = [
    *((1, 58, 8), (2, 58, 2), (0, 59, 9), (1, 61, 1), (2, 62, 7), (0, 63, 6), (2, 66, 4)),
    *((1, 70, 5), (0, 77, 2), (2, 78, 3), (1, 79, 9), (0, 95, 1), (2, 96, 9)),
]

TABLES = (
    (
        "CREATE MAPPING names (__key BIGINT, name VARCHAR) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
    ),
    "INSERT INTO names VALUES (0, 'a'), (1, 'b')",
    "CREATE MAPPING cities (__key BIGINT, name VARCHAR) TYPE DuckDB",
    "INSERT INTO cities VALUES (0, 'a'), (1, 'b')",
)
SINKS = (
    "CREATE MAPPING o (e BIGINT, k BIGINT, n BIGINT, x BIGINT) TYPE DuckDB",
    "CREATE MAPPING o2 (e BIGINT, k BIGINT, n BIGINT, x BIGINT) TYPE DuckDB",
    "CREATE MAPPING late (k BIGINT, ts BIGINT, v BIGINT) TYPE DuckDB",
)


@frozen(kw_only=True)
class Query:
    """What a small change changes. `below`, `above` and `after` are conditions on the rows of the
    stream, on these in their windows (of a join: on its pairs), and on results. A `join` is the
    kind of a join with a table, its position (one of the same three) and the table. `outer` is a
    query around the whole."""

    below: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    join: tuple[str, str, str] = ("", "", "")
    values: tuple[str, str] = ("COUNT(*)", "SUM({w}v)")
    columns: str = "k, ts, v"
    keys: str = ""
    having: str = ""
    tail: str = ""
    outer: str = "{q}"
    sink: str = "o"
    order: tuple[str, ...] = ("e", "k", "n", "x")
    names: tuple[str, ...] = ("e", "k", "n", "x")


@frozen(kw_only=True)
class Shape:
    """A query of one kind. `text` has holes: {s} for the stream, {p} and {q} for its parts, {f} for
    a frame, {join} and {above} for what follows FROM, {n} and {x} for values, {e} and {k} for
    aliases, {keys}, {having} and {tail}; `w` stands before columns of its rows. Results before the
    change are those of which `is_due` is true; of a join those since are of pairs that `since`
    selects."""

    name: str
    text: str
    is_due: Callable[[Result], bool]
    since: str = ""
    w: str = "w."
    keys: str = ""
    two_streams: bool = False
    has_windows: bool = False
    has_groups: bool = False
    values: tuple[str, str] = ("COUNT(*)", "SUM({w}v)")


def _windows(name: str, call: str, is_due: Callable[[Result], bool]) -> Shape:
    return Shape(
        name=name,
        text=(
            f"SELECT w.window_end AS {{e}}, w.k AS {{k}}, {{n}}, {{x}} "
            f"FROM TABLE({call}) AS w {{join}} {{above}} "
            "GROUP BY {keys} {having} {tail}"
        ),
        is_due=is_due,
        keys="w.window_start, w.window_end, w.k",
        has_windows=True,
        has_groups=True,
    )


def _complete(row: Result) -> bool:
    return (row[0] or 0) <= CHANGE


def _passed(row: Result) -> bool:
    return (row[0] or 0) < CHANGE


_PAIRED = "w.p = 1 OR b.p = 1"

SHAPES = (
    _windows("tumble", "TUMBLE({s}, DESCRIPTOR(ts), 10)", _complete),
    _windows("hop", "HOP({s}, DESCRIPTOR(ts), 20, 5)", _complete),
    _windows("cumulate", "CUMULATE({s}, DESCRIPTOR(ts), 5, 20)", _complete),
    _windows("session", "SESSION({s} PARTITION BY k, DESCRIPTOR(ts), 5)", _passed),
    Shape(
        name="by time",
        text=(
            "SELECT w.ts AS {e}, w.k AS {k}, {n}, {x} FROM {s} AS w {join} {above} "
            "GROUP BY {keys} {having} {tail}"
        ),
        is_due=_passed,
        keys="w.ts, w.k",
        has_groups=True,
    ),
    Shape(
        name="chained",
        text=(
            "SELECT w.window_end AS {e}, w.k AS {k}, {n}, {x} "
            "FROM TABLE(TUMBLE((SELECT window_time AS at, k, SUM(v) AS v{p} "
            "FROM TABLE(TUMBLE({s}, DESCRIPTOR(ts), 5)) GROUP BY window_time, k), DESCRIPTOR(at), "
            "20)) AS w {join} {above} "
            "GROUP BY {keys} {having} {tail}"
        ),
        is_due=_complete,
        keys="w.window_start, w.window_end, w.k",
        has_windows=True,
        has_groups=True,
    ),
    Shape(
        name="join",
        text=(
            "SELECT w.ts AS {e}, w.k AS {k}, {n}, {x} FROM {s} AS w "
            "JOIN t AS b ON w.k = b.k AND b.ts BETWEEN w.ts "
            "AND w.ts + 10 {join} {above} {tail}"
        ),
        is_due=lambda _: True,
        since=_PAIRED,
        two_streams=True,
        values=("{w}v", "b.v"),
    ),
    Shape(
        name="outer join",
        text=(
            "SELECT w.ts AS {e}, w.k AS {k}, {n}, {x} FROM {s} AS w "
            "LEFT JOIN t AS b ON w.k = b.k AND b.ts BETWEEN w.ts "
            "AND w.ts + 4 {join} {above} {tail}"
        ),
        is_due=lambda row: row[3] is not None or (row[0] or 0) + 4 < CHANGE,
        since=f"{_PAIRED} OR (b.p IS NULL AND w.ts + 4 >= {CHANGE})",
        two_streams=True,
        values=("{w}v", "b.v"),
    ),
    Shape(
        name="self-join",
        text=(
            "SELECT w.ts AS {e}, w.k AS {k}, {n}, {x} FROM {s} AS w "
            "JOIN s AS b ON w.k = b.k AND b.ts BETWEEN w.ts "
            "AND w.ts + 10 {join} {above} {tail}"
        ),
        is_due=lambda _: True,
        since=_PAIRED,
        values=("{w}v", "b.v"),
    ),
    Shape(
        name="three streams",
        text=(
            "SELECT w.ts AS {e}, w.k AS {k}, {n}, {x} FROM {s} AS w "
            "JOIN t AS b ON w.k = b.k AND b.ts BETWEEN w.ts "
            "AND w.ts + 10 JOIN t AS c ON w.k = c.k AND c.ts BETWEEN w.ts + 8 AND w.ts + 10 {join} "
            "{above} {tail}"
        ),
        is_due=lambda _: True,
        since=f"{_PAIRED} OR c.p = 1",
        two_streams=True,
        values=("{w}v", "b.v"),
    ),
    Shape(
        name="as of",
        text=(
            "SELECT w.ts AS {e}, w.k AS {k}, {n}, {x} "
            "FROM {s} AS w ASOF JOIN t AS b ON w.k = b.k AND w.ts >= b.ts "
            "{join} {above} {tail}"
        ),
        is_due=_passed,
        two_streams=True,
        values=("{w}v", "b.v"),
    ),
    Shape(
        name="over",
        text=(
            "SELECT w.ts AS {e}, w.k AS {k}, {n}, {x} "
            "FROM (SELECT ts, k{q}, COUNT(*) OVER {f} AS v, SUM(v) OVER {f} AS u "
            "FROM {s} {tail}) AS w {join} {above}"
        ),
        is_due=_passed,
        values=("{w}v", "{w}u"),
    ),
    Shape(
        name="first of each",
        text=(
            "SELECT w.window_end AS {e}, w.k AS {k}, {n}, {x} "
            "FROM TABLE(TUMBLE({s}, DESCRIPTOR(ts), 10)) AS w {join} {above} "
            "QUALIFY ROW_NUMBER() OVER (PARTITION BY w.window_end, w.k "
            "ORDER BY w.ts DESC) = 1 {tail}"
        ),
        is_due=_complete,
        has_windows=True,
        values=("{w}ts", "{w}v"),
    ),
    Shape(
        name="sorted",
        text=(
            "SELECT w.ts AS {e}, w.k AS {k}, {n}, {x} FROM {s} AS w {join} {above} "
            "ORDER BY w.ts {tail}"
        ),
        is_due=_passed,
        values=("{w}v", "{w}v"),
    ),
)


def text(shape: Shape, query: Query, sink: bool = True) -> str:
    """The statement of a job."""
    return _filled(shape, query, sink)


def over_tables(shape: Shape, query: Query, other: Query, newer: int, is_strict: bool) -> str:
    """The same over tables with all rows. A condition that only one of both queries has counts for
    the rows that this one read: those of part `newer` are of `query`. With `is_strict` conditions
    above the windows are those of `query` for all rows."""
    mine, theirs = _as_conditions(query), _as_conditions(other)
    found: dict[str, tuple[str, ...]] = {}
    for position in ("below", "above"):
        own, others = (getattr(item, position) for item in (mine, theirs))
        if is_strict and position == "above":
            found[position] = own
            continue
        found[position] = tuple(
            item
            if item in own and item in others
            else f"({{w}}p {'<>' if item in own else '='} {newer} OR ({item}))"
            for item in dict.fromkeys((*own, *others))
        )
    outer = "{q}" if "seen" in query.outer else query.outer
    return _filled(
        shape, replace(mine, columns=query.columns + ", p", outer=outer, **found), False, True
    )  # type: ignore[arg-type]


def by_part(shape: Shape, small: Small) -> tuple[Query, Query]:
    """The queries of a change, but rows from before it have the values of the old one."""
    old, new = (
        shape.values if query.values == Query().values else query.values
        for query in (small.old, small.new)
    )
    first, second = (
        f"CASE WHEN {{w}}p = 1 THEN {mine} ELSE {theirs} END"
        for mine, theirs in zip(new, old, strict=True)
    )
    return small.old, replace(small.new, values=(first, second))


def _as_conditions(query: Query) -> Query:
    """The query with conditions in the place of inner joins with tables below results: a row has
    one partner or none."""
    kind, position, table = query.join
    if kind != "JOIN" or position == "after":
        return query
    has = f"{{w}}k IN (SELECT __key FROM {table})"
    named = {"below": query.below, "above": query.above}[position]
    return replace(query, join=("", "", ""), **{position: (*named, has)})  # type: ignore[arg-type]


def _filled(shape: Shape, query: Query, sink: bool, has_parts: bool = False) -> str:
    kind, position, other = query.join
    joined = {
        kind_of: f"{kind} {other} AS d ON {{w}}k = d.__key" if kind and position == kind_of else ""
        for kind_of in _POSITIONS
    }
    below = _where(query.below).replace("{w}", "y.")
    source = (
        f"(SELECT {_of_y(query.columns)} FROM s AS y {joined['below'].replace('{w}', 'y.')} "
        f"{below})"
    )
    n, x = query.values if query.values != Query().values else shape.values
    names = dict(zip(("e", "k", "n", "x"), query.names, strict=True))
    made = shape.text.format(
        s=source,
        join=joined["above"].replace("{w}", shape.w),
        above=_where(query.above).replace("{w}", shape.w),
        e=names["e"],
        k=names["k"],
        n=f"{n} AS {names['n']}".replace("{w}", shape.w),
        x=f"{x} AS {names['x']}".replace("{w}", shape.w),
        keys=query.keys or shape.keys,
        having=query.having,
        tail=query.tail,
        f="(PARTITION BY k ORDER BY ts RANGE BETWEEN 10 PRECEDING AND CURRENT ROW)",
        q=", p" if has_parts else "",
        p=f", CAST(window_time >= {CHANGE} AS BIGINT) AS p" if has_parts else "",
    )
    if query.after or joined["after"]:
        columns = ", ".join(f"z.{name}" for name in query.names)
        more = f"{joined['after']} {_where(query.after)}".replace("{w}", "z.")
        made = f"SELECT {columns} FROM ({made}) AS z {more}"
    made = query.outer.replace("{q}", made)
    return f"INSERT INTO {query.sink} ({', '.join(query.order)}) {made}" if sink else made


_POSITIONS = ("below", "above", "after")


def _of_y(columns: str) -> str:
    return ", ".join(item if " AS " in item else f"y.{item.strip()}" for item in columns.split(","))


def _where(conditions: Sequence[str]) -> str:
    return "WHERE " + " AND ".join(f"({item})" for item in conditions) if conditions else ""


@frozen
class Small:
    """A change of a query into another. `fits`: the shapes that have such a part. `parallelism`:
    before and after."""

    name: str
    old: Query
    new: Query
    fits: Callable[[Shape], bool] = lambda shape: True
    parallelism: tuple[int, int] = (2, 2)
    reads_as: tuple[Query, Query] | None = None
    """What it may be taken for as well: a filter may be moved to where it sees rows."""
    keeps_values: bool = False
    """Rows that were read before the change may have what the old query computes of them."""


def _both_ways(
    name: str,
    fits: Callable[[Shape], bool] = lambda shape: True,
    reads_as: Query | None = None,
    keeps: bool = False,
    **changes: object,
) -> list[Small]:
    """Something that comes, and that goes."""
    plain, other = Query(), replace(Query(), **changes)  # type: ignore[arg-type]
    read = None if reads_as is None else (plain, reads_as)
    return [
        Small(f"{name} comes", plain, other, fits, reads_as=read, keeps_values=keeps),
        Small(f"{name} goes", other, plain, fits, reads_as=read and read[::-1], keeps_values=keeps),
    ]


def _of_windows(shape: Shape) -> bool:
    return shape.has_windows


def _of_windows_grouped(shape: Shape) -> bool:
    return shape.has_windows and shape.has_groups


def _of_groups(shape: Shape) -> bool:
    return shape.has_groups


def _of_rows(shape: Shape) -> bool:
    return not shape.has_groups


def _of_one_join(shape: Shape) -> bool:
    return "b.v" in shape.values and shape.name != "three streams"


def _of_aggregates(shape: Shape) -> bool:
    return shape.has_groups or shape.name == "over"


CHANGES: tuple[Small, ...] = (
    *_both_ways("filter of keys below", below=("{w}k <> 2",)),
    *_both_ways("filter of values below", below=("{w}v > 2",)),
    *_both_ways("filter of times below", below=("{w}ts % 4 <> 2",)),
    *_both_ways("filter of keys", reads_as=Query(below=("{w}k <> 2",)), above=("{w}k <> 2",)),
    *_both_ways("filter of values", above=("{w}v > 2",)),
    *_both_ways("filter of window_end", _of_windows, above=("{w}window_end > 65",)),
    *_both_ways("filter of window_start", _of_windows, above=("{w}window_start > 48",)),
    *_both_ways(
        "filter of all", _of_windows, above=("{w}window_end > 65 OR {w}v > 2", "{w}k <> 1")
    ),
    *_both_ways("filter of results", _of_groups, after=("{w}n > 1",)),
    *_both_ways(
        "filter of pairs", _of_rows, reads_as=Query(above=("{w}v > 1",)), after=("{w}n > 1",)
    ),
    *_both_ways(
        "filter of keys of results", reads_as=Query(below=("{w}k < 2",)), after=("{w}k < 2",)
    ),
    *_both_ways("look-up below", join=("JOIN", "below", "names")),
    *_both_ways("outer look-up below", join=("LEFT JOIN", "below", "names")),
    *_both_ways(
        "look-up", reads_as=Query(join=("JOIN", "below", "names")), join=("JOIN", "above", "names")
    ),
    *_both_ways("outer look-up", join=("LEFT JOIN", "above", "names")),
    *_both_ways("look-up of results", join=("JOIN", "after", "names")),
    *_both_ways("join with a table below", join=("JOIN", "below", "cities")),
    *_both_ways(
        "join with a table",
        reads_as=Query(join=("JOIN", "below", "cities")),
        join=("JOIN", "above", "cities"),
    ),
    *_both_ways("outer join with a table", join=("LEFT JOIN", "above", "cities")),
    *_both_ways("join of results with a table", join=("LEFT JOIN", "after", "cities")),
    *_both_ways("HAVING", _of_groups, having="HAVING COUNT(*) > 1"),
    *_both_ways("window_start in GROUP BY", _of_windows_grouped, keys="w.window_end, w.k"),
    *_both_ways("order of keys", _of_windows_grouped, keys="w.k, w.window_end, w.window_start"),
    *_both_ways("another aggregate", _of_groups, values=("COUNT(*)", "MAX({w}v)")),
    *_both_ways("a distinct aggregate", _of_groups, values=("COUNT(*)", "COUNT(DISTINCT {w}v)")),
    *_both_ways("FILTER", _of_groups, values=("COUNT(*)", "SUM({w}v) FILTER (WHERE {w}v > 2)")),
    *_both_ways("less to compute", _of_groups, values=("COUNT(*)", "7")),
    *_both_ways("order of aggregates", _of_aggregates, order=("e", "k", "x", "n")),
    *_both_ways("order in SELECT", _of_groups, values=("SUM({w}v)", "COUNT(*)")),
    *_both_ways(
        "another column",
        lambda shape: _of_rows(shape) and shape.name != "over",
        values=("{w}k", "{w}k"),
        keeps=True,
    ),
    *_both_ways(
        "another column of the other side",
        lambda shape: "b.v" in shape.values,
        values=("b.v", "{w}v"),
    ),
    *_both_ways("only the other side", lambda shape: "b.v" in shape.values, values=("b.v", "b.v")),
    *_both_ways(
        "filter of both sides",
        lambda shape: "b.v" in shape.values and "three" not in shape.name,
        above=("{w}v < b.v",),
    ),
    *_both_ways("other names", names=("ee", "kk", "nn", "xx")),
    *_both_ways("another sink", sink="o2"),
    *_both_ways(
        "LATE DATA INTO",
        lambda shape: shape.name not in ("chained", "over"),
        tail="LATE DATA INTO late",
    ),
    *_both_ways("ALLOWED LATENESS", _of_groups, tail="ALLOWED LATENESS 10"),
    *_both_ways("EMIT EVERY", _of_groups, tail="EMIT EVERY INTERVAL '1' HOUR"),
    *_both_ways("WITH", outer="WITH q AS ({q}) SELECT * FROM q"),
    *_both_ways("view", outer="SELECT * FROM seen"),
    *_both_ways("DISTINCT", _of_groups, outer="SELECT DISTINCT * FROM ({q}) AS q"),
    *_both_ways("ORDER BY", _of_groups, outer="SELECT * FROM ({q}) AS q ORDER BY e"),
    *_both_ways("computed column", columns="k, ts, y.v + 0 AS v"),
    *_both_ways("other order of columns", columns="v, ts, k"),
    *_both_ways("further column", columns="k, ts, v, y.v + y.k AS more"),
    Small("more processors", Query(), Query(), parallelism=(1, 3)),
    Small("fewer processors", Query(), Query(), parallelism=(3, 1)),
)
