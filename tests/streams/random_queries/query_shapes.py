"""Less common shapes of queries on streams, for `QueryGenerator`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.streams.random_queries.query_text import Text, both, joined

if TYPE_CHECKING:
    from tests.streams.random_queries.query_generator import QueryGenerator

FOR_EVER = Text(" OPTIONS ('allowUnboundedState'='true')", "")


def with_clauses(of: QueryGenerator) -> Text:
    """Clauses on when results come, which change nothing where no row is late and no time
    passes."""
    keys = ["window_end", *of.keys()]
    listed = ", ".join([*keys, *of.aggregates()])
    query = joined(
        f"SELECT {listed} FROM {{w}} w GROUP BY {', '.join(keys)}",
        w=of.window(kind=of.rng.choice(("TUMBLE", "HOP"))),
    )
    every = of.rng.choice(("", " EMIT EVERY INTERVAL '12' HOUR"))
    return Text(
        f"{query.ours}{every} ALLOWED LATENESS {of.size(of.rng.choice((0, 1, 10)))}", query.duckdb
    )


def by_event_time(of: QueryGenerator) -> Text:
    """Groups of the event time itself."""
    key = of.rng.choice(("t", "t", f"t - {of.size(3)}", f"t + {of.size(2)}"))
    if of.chance(0.3):
        return joined(f"SELECT DISTINCT {key}, k FROM {{a}} x", a=of.stream("a"))
    keys = ", ".join([key, *of.keys()])
    return joined(
        f"SELECT {keys}, {', '.join(of.aggregates())} FROM {{a}} x GROUP BY {keys}",
        a=of.stream("a"),
    )


def grouping_sets(of: QueryGenerator) -> Text:
    keys = of.rng.choice(
        (
            "window_end, ROLLUP (k, s)",
            "GROUPING SETS ((window_end, k), (window_end, s), (window_end))",
            "window_end, CUBE (k, b)",
        )
    )
    columns = [name for name in ("window_end", "k", "s", "b") if name in re.findall(r"\w+", keys)]
    listed = ", ".join([*columns, *of.rng.sample(("COUNT(*)", "SUM(v)", "MAX(f)", "MIN(id)"), 2)])
    return joined(f"SELECT {listed} FROM {{w}} w GROUP BY {keys}", w=of.window())


def unnested(of: QueryGenerator) -> Text:
    """The elements of an aggregated array, which are in the window still."""
    inner = joined(
        "SELECT window_end, k, ARRAY_AGG(id ORDER BY id) AS ids FROM {w} w GROUP BY window_end, k",
        w=of.window(),
    )
    if of.chance(0.5):
        return joined("SELECT q.window_end, q.k, u.x FROM ({q}) q, UNNEST(q.ids) AS u (x)", q=inner)
    text = (
        "SELECT q.window_end, u.x % 3, COUNT(*) FROM ({q}) q, UNNEST(q.ids) AS u (x) "
        "GROUP BY q.window_end, u.x % 3"
    )
    return joined(text, q=inner)


def in_a_table(of: QueryGenerator) -> Text:
    condition = of.rng.choice(
        (
            "k IN (SELECT k FROM d)",
            "k NOT IN (SELECT k FROM d WHERE k > 1)",
            "k IN (SELECT k FROM m)",
        )
    )
    if of.chance(0.3):
        return joined(
            "SELECT id, (SELECT MAX(name) FROM d WHERE d.k = x.k) FROM {a} x", a=of.stream("a")
        )
    return joined(f"SELECT id, t FROM {{a}} x WHERE {condition}", a=of.stream("a"))


def in_a_stream(of: QueryGenerator) -> Text:
    if of.chance(0.4):
        text = (
            f"SELECT x.id FROM {{a}} x WHERE x.k IN (SELECT y.k FROM {{b}} y WHERE {of.interval()})"
        )
        return joined(text, a=of.stream("a"), b=of.stream("b"))
    left, right = of.windows_of_two()
    condition = of.rng.choice(
        (
            "x.k NOT IN (SELECT y.k FROM {b} y WHERE y.window_end = x.window_end)",
            "x.k IN (SELECT y.k FROM {b} y WHERE y.window_end = x.window_end)",
            "EXISTS (SELECT 1 FROM {b} y WHERE y.window_end = x.window_end AND y.k = x.k)",
            (
                "NOT EXISTS (SELECT 1 FROM {b} y WHERE y.window_end = x.window_end AND y.k = x.k "
                "AND y.v > x.v)"
            ),
        )
    )
    return joined(f"SELECT x.id, x.window_end FROM {{a}} x WHERE {condition}", a=left, b=right)


def over_time(of: QueryGenerator) -> Text:
    """OVER in the order of event time."""
    low, high = of.size(of.rng.choice((0, 2, 7))), of.size(of.rng.choice((0, 3)))
    frame = of.rng.choice(
        (
            f"RANGE BETWEEN {low} PRECEDING AND CURRENT ROW",
            f"RANGE BETWEEN {low} PRECEDING AND {high} FOLLOWING",
            f"RANGE BETWEEN CURRENT ROW AND {high} FOLLOWING",
        )
    )
    call = of.rng.choice(("SUM(v)", "COUNT(*)", "MAX(f)", "MIN(s)", "AVG(v)", "COUNT(k)"))
    by = of.rng.choice(("PARTITION BY k ", "PARTITION BY k ", "", "PARTITION BY s, b "))
    return joined(f"SELECT id, {call} OVER ({by}ORDER BY t {frame}) FROM {{a}} x", a=of.stream("a"))


def running(of: QueryGenerator) -> Text:
    """OVER whose state is for ever."""
    of.needs_unique = of.needs_times = True
    call = of.rng.choice(
        (
            "SUM(v) OVER (PARTITION BY k ORDER BY t)",
            "SUM(v) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
            "ROW_NUMBER() OVER (PARTITION BY k ORDER BY t)",
            "LAG(v) OVER (PARTITION BY k ORDER BY t)",
            "MAX(v) OVER (PARTITION BY s ORDER BY t ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING)",
        )
    )
    return joined(f"SELECT id, {call} FROM {{a}} x{{o}}", a=of.stream("a"), o=FOR_EVER)


def three_streams(of: QueryGenerator) -> Text:
    second = of.rng.choice(("JOIN", "LEFT JOIN"))
    gap = of.size(of.rng.choice((1, 4)))
    last = of.rng.choice(
        (f"z.t BETWEEN x.t - {gap} AND x.t + {gap}", f"z.t BETWEEN y.t AND y.t + {gap}")
    )
    kind = "JOIN" if "y.t" in last else of.rng.choice(("JOIN", "LEFT JOIN"))
    first = f"{kind} {{b}} y ON x.k = y.k AND {of.between()}"
    text = f"SELECT x.id, y.id, z.id FROM {{a}} x {first} {second} {{a}} z ON z.k = x.k AND {last}"
    return joined(text, a=of.stream("a"), b=of.stream("b"))


def named_twice(of: QueryGenerator) -> Text:
    """A common table that is joined with itself."""
    groups = joined(
        "SELECT window_end, k, COUNT(*) AS n, SUM(v) AS v FROM {w} w GROUP BY window_end, k",
        w=of.window(),
    )
    if of.chance(0.5):
        text = (
            "WITH q AS ({q}) SELECT x.window_end, x.k, x.n, y.n FROM q x "
            "JOIN q y ON x.window_end = y.window_end AND x.k = y.k"
        )
        return joined(text, q=groups)
    text = "WITH q AS ({q}), r AS (SELECT window_end, MAX(n) AS n FROM q GROUP BY window_end) "
    return joined(
        text
        + (
            "SELECT q.window_end, q.k, q.n FROM q JOIN r ON q.window_end = r.window_end AND q.n = "
            "r.n"
        ),
        q=groups,
    )


def union_of_groups(of: QueryGenerator) -> Text:
    left, right = of.windows_of_two()
    groups = "SELECT window_end, COUNT(*) AS n FROM {} w GROUP BY window_end"
    parts = {"a": left.map(groups.format), "b": right.map(groups.format)}
    if of.chance(0.5):
        return joined("{a} UNION ALL {b}", **parts)
    return joined(
        "SELECT window_end, SUM(n), COUNT(*) FROM ({a} UNION ALL {b}) u GROUP BY window_end",
        **parts,
    )


def full_join(of: QueryGenerator) -> Text:
    """The time of either side, which both watermarks bound."""
    left, right = of.windows_of_two()
    groups = "SELECT window_end, k, COUNT(*) AS n FROM {} w GROUP BY window_end, k"
    parts = {"a": left.map(groups.format), "b": right.map(groups.format)}
    joined_by = of.rng.choice(
        ("USING (window_end, k)", "ON x.window_end = y.window_end AND x.k = y.k AND x.n <= y.n")
    )
    key = "window_end" if "USING" in joined_by else "COALESCE(x.window_end, y.window_end)"
    text = (
        f"SELECT {key} AS e, SUM(x.n), SUM(y.n), COUNT(*) FROM ({{a}}) x "
        f"FULL JOIN ({{b}}) y {joined_by} GROUP BY e"
    )
    return joined(text, **parts)


def top_groups(of: QueryGenerator) -> Text:
    groups = joined(
        "SELECT window_end, k, COUNT(*) AS n FROM {w} w GROUP BY window_end, k", w=of.window()
    )
    order = of.rng.choice(("n DESC, k", "k DESC", "n, k"))
    return joined(
        f"SELECT window_end, k, n FROM ({{q}}) q QUALIFY ROW_NUMBER() OVER (PARTITION BY "
        f"window_end ORDER BY {order}) <= 2",
        q=groups,
    )


def first_of_each(of: QueryGenerator) -> Text:
    text = (
        "SELECT DISTINCT ON (window_end, k) window_end, k, id FROM {w} w ORDER BY window_end, k, id"
    )
    return joined(text + of.rng.choice(("", " DESC")), w=of.window())


def of_some_windows(of: QueryGenerator) -> Text:
    """A filter on bounds of windows, and a table beside them."""
    where = f"window_end > window_start + {of.size(1)} AND v IS NOT NULL"
    if of.chance(0.5):
        return joined(
            f"SELECT w.id, y.name FROM {{w}} w CROSS JOIN d y WHERE {where}", w=of.window()
        )
    return joined(
        f"SELECT window_end, COUNT(*) FROM {{w}} w WHERE {where} GROUP BY window_end", w=of.window()
    )


def version_at(of: QueryGenerator) -> Text:
    if not of.ordered:
        return both("SELECT 1 AS one")
    of.needs_unique = True
    kind = of.rng.choice(("", "LEFT "))
    plain = f"SELECT x.id, r.id, r.v FROM a x ASOF {kind}JOIN b r ON x.k = r.k AND x.t >= r.t"
    return Text(
        f"SELECT x.id, r.id, r.v FROM a x {kind}JOIN b FOR SYSTEM_TIME AS OF x.t AS r ON x.k = r.k",
        plain,
        plain,
    )


SHAPES: tuple[tuple[int, Callable[[QueryGenerator], Text]], ...] = (
    (2, with_clauses),
    (2, by_event_time),
    (1, grouping_sets),
    (1, unnested),
    (1, in_a_table),
    (2, in_a_stream),
    (2, over_time),
    (1, running),
    (2, three_streams),
    (2, named_twice),
    (1, union_of_groups),
    (1, full_join),
    (2, top_groups),
    (1, first_of_each),
    (1, of_some_windows),
    (1, version_at),
)
