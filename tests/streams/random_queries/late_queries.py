"""Random queries on streams that end with LATE DATA INTO, and the same over tables without the late
rows."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from enum import Enum

from tests.streams.random_queries.random_feeds import COLUMNS

AGGREGATES = (
    "COUNT(*)",
    "SUM(v)",
    "MAX(f)",
    "MIN(s)",
    "COUNT(DISTINCT s)",
    "SUM(DISTINCT v)",
    "SUM(v) FILTER (WHERE b)",
    "COUNT(*) FILTER (WHERE v > 0)",
    "ARRAY_AGG(v ORDER BY id)",
    "MEDIAN(v)",
)
SETS = (
    "window_end, ROLLUP (k, s)",
    "window_end, CUBE (k, s)",
    "GROUPING SETS ((window_end, k), (window_end, s), (window_end))",
    "GROUPING SETS ((window_end, k), (window_end, k), (window_end, k, s))",
    "GROUPING SETS ((window_end), (window_end, window_start, k)), ROLLUP (s)",
)
FILTERS = ("v > 0 OR v IS NULL", "b IS DISTINCT FROM TRUE", "id % 3 > 0")
ROW = ", ".join(COLUMNS)


class Account(Enum):
    """What late rows and results must come to. ROWS: the results are those of the rows that aren't
    late, each of which is late once at most. WINDOWS: the same of rows in windows. MISSED: a row is
    late once that is missing in a window at least. LAST: as ROWS, of the last result of each group.
    PAIRS: what is missing in a join are pairs with late rows."""

    ROWS = "rows"
    WINDOWS = "windows"
    MISSED = "missed"
    LAST = "last"
    PAIRS = "pairs"


@dataclass(frozen=True)
class LateQuery:
    """`stream`: over streams. `table`: over tables, of which those of ROWS and LAST hold no late
    rows, and those of WINDOWS have a table `gone` of the late rows (id, window_end). `late`: the
    columns of the mapping. `keys`: of LAST how many columns the group is. `window`: of a single
    window function its name, size, step and (SESSION) keys, in units of time."""

    stream: str
    table: str
    account: Account
    late: tuple[str, ...]
    keys: int = 0
    window: tuple[str, int, int, tuple[str, ...]] | None = None
    condition: str | None = None
    is_timed: bool = False
    """Whether rows must have a time."""


class LateQueries:
    """Makes queries over `a` and `b`, whose time is of a kind of `random_feeds`; `ordered` and
    `lag` are as in QueryGenerator."""

    def __init__(self, rng: random.Random, kind: str, lag: int, ordered: bool) -> None:
        self.rng = rng
        self.kind = kind
        self.lag = lag
        self.ordered = ordered
        self.window: tuple[str, int, int, tuple[str, ...]] | None = None
        self.condition: str | None = None

    def query(self) -> LateQuery:
        shapes = (
            self.grouped,
            self.grouped,
            self.grouped,
            self.given_again,
            self.over,
            self.in_order,
            self.interval_join,
        )
        return self.rng.choice(shapes)()

    def size(self, units: int) -> str:
        if self.kind == "date":
            return f"INTERVAL '{units}' DAY"
        return f"INTERVAL '{units}' SECOND" if self.kind in ("timestamp", "instant") else str(units)

    def stream(self, name: str) -> str:
        """A stream as FROM takes it."""
        return (
            name
            if self.ordered
            else f"TABLE(IMPOSE_ORDER(TABLE {name}, DESCRIPTOR(t), {self.size(self.lag)}))"
        )

    def source(self) -> tuple[str, str, bool]:
        """What a window reads, of streams and of tables, and whether that is one stream."""
        self.condition = None
        dice = self.rng.random()
        if dice < 0.1:
            texts = [
                f"(SELECT {ROW} FROM {a} UNION ALL SELECT {ROW} FROM {b})" for a, b in self._both()
            ]
            return texts[0], texts[1], False
        if dice < 0.3:
            self.condition = self.rng.choice(FILTERS)
            texts = [f"(SELECT {ROW} FROM {a} WHERE {self.condition})" for a, _ in self._both()]
            return texts[0], texts[1], True
        if dice < 0.4 and self.ordered:
            return "TABLE va", "TABLE va", True
        return ("TABLE a" if self.ordered else self.stream("a")), "TABLE a", True

    def _both(self) -> list[tuple[str, str]]:
        return [(self.stream("a"), self.stream("b")), ("a", "b")]

    def windowed(self, kind: str | None = None) -> tuple[str, str]:
        """A window function over a source, of streams and of tables."""
        kind = kind or self.rng.choice(("TUMBLE", "HOP", "CUMULATE", "SESSION", "SESSION"))
        ours, theirs, is_single = self.source()
        step = self.rng.choice((1, 2, 3, 7))
        size = step * self.rng.choice((1, 2, 3))
        keys: tuple[str, ...] = ()
        if kind == "SESSION":
            keys = self.rng.choice(((), ("k",), ("k",), ("k", "s")))
            by = f" PARTITION BY {', '.join(keys)}" if keys else ""
            rest = f"{by}, DESCRIPTOR(t), {self.size(size)}"
        else:
            sizes = {"TUMBLE": (size,), "HOP": (size, step), "CUMULATE": (step, size)}[kind]
            rest = f", DESCRIPTOR(t), {', '.join(map(self.size, sizes))}"
        self.window = (kind, size, size if kind == "TUMBLE" else step, keys) if is_single else None
        texts = [f"TABLE({kind}({text}{rest}))" for text in (ours, theirs)]
        return texts[0], texts[1]

    def grouped(self) -> LateQuery:
        """GROUP BY, plain or with grouping sets, perhaps with a look-up."""
        ours, theirs = self.windowed()
        kind = ours[len("TABLE(") :].partition("(")[0]
        is_in_frames = kind in ("HOP", "CUMULATE") and self.rng.random() < 0.3
        sets = None if is_in_frames else self.rng.choice((None, *SETS))
        names = (
            ["window_end", *self.rng.choice(((), ("k",), ("k", "s")))]
            if sets is None
            else ["window_end", "k", "s"]
        )
        listed = [*names, *self.rng.sample(AGGREGATES, 2), "ARRAY_AGG(id ORDER BY id)"]
        if sets is not None:
            names = [name for name in ("window_end", "k", "s") if name in sets]
            listed = [f"GROUPING({', '.join(names)})", *names, *listed[3:]]
            if self.rng.random() < 0.25:
                sets = re.sub(
                    r"\b(window_end|k|s)\b", lambda found: str(2 + names.index(found[0])), sets
                )
        join = ""
        if not is_in_frames and self.rng.random() < 0.2:
            listed.append("COUNT(label)")
            join = self.rng.choice(
                (" LEFT JOIN m ON m.__key = w.k", " LEFT JOIN u ON u.number = w.k")
            )
        group = ", ".join(names) if sets is None else sets
        texts = [
            f"SELECT {', '.join(listed)} FROM {{}} w{join} GROUP BY {group}".format(text)
            for text in (ours, theirs)
        ]
        if is_in_frames:
            return self._made(texts[0], texts[1], Account.MISSED, ("id",))
        if kind == "SESSION":
            return self._made(texts[0], texts[1], Account.ROWS, ("id",))
        return self._by_windows(texts[0], f"{theirs} w", texts[1])

    def _by_windows(self, stream: str, source: str, table: str) -> LateQuery:
        """Of rows in windows: over tables without those that were late for a window."""
        gone = (
            "SELECT 1 FROM gone g WHERE g.id = w.id AND g.window_end IS NOT DISTINCT FROM "
            "w.window_end"
        )
        left = f"(SELECT * FROM {source} WHERE NOT EXISTS ({gone})) w"
        return self._made(
            stream, table.replace(source, left), Account.WINDOWS, ("id", "window_end")
        )

    def given_again(self) -> LateQuery:
        """ALLOWED LATENESS: the last result of each group counts."""
        kind = self.rng.choice(("TUMBLE", "TUMBLE", "HOP"))
        ours, theirs = self.windowed(kind)
        sets = self.rng.choice((None, SETS[0], SETS[2]))
        listed = [*self.rng.sample(AGGREGATES, 2), "ARRAY_AGG(id ORDER BY id)"]
        keys = (
            ["window_end", "k"]
            if sets is None
            else ["GROUPING(window_end, k, s)", "window_end", "k", "s"]
        )
        group = sets or "window_end, k"
        texts = [
            f"SELECT {', '.join(keys + listed)} FROM {text} w GROUP BY {group}"
            for text in (ours, theirs)
        ]
        lateness = self.size(self.rng.choice((1, 3, 10)))
        made = self._by_windows(f"{texts[0]} ALLOWED LATENESS {lateness}", f"{theirs} w", texts[1])
        return LateQuery(made.stream, made.table, Account.LAST, made.late, len(keys))

    def over(self) -> LateQuery:
        """OVER, DISTINCT ON and ORDER BY over windows."""
        ours, theirs = self.windowed(self.rng.choice(("TUMBLE", "HOP", "SESSION", "SESSION")))
        text = self.rng.choice(
            (
                "SELECT id, window_end, COUNT(*) OVER (PARTITION BY window_end, k) FROM {} w",
                "SELECT id, SUM(v) OVER (PARTITION BY k, window_end ORDER BY id) FROM {} w",
                (
                    "SELECT id, window_end FROM {} w QUALIFY ROW_NUMBER() OVER (PARTITION BY "
                    "window_end ORDER BY id) <= 2"
                ),
                "SELECT id, window_end FROM {} w ORDER BY window_end",
            )
        )
        if "SESSION" in ours:
            return self._made(text.format(ours), text.format(theirs), Account.ROWS, ("id",))
        return self._by_windows(text.format(ours), f"{theirs} w", text.format(theirs))

    def in_order(self) -> LateQuery:
        """OVER and ORDER BY in the order of event time."""
        low = self.size(self.rng.choice((0, 2, 7)))
        before = f"RANGE BETWEEN {low} PRECEDING AND CURRENT ROW"
        text = self.rng.choice(
            (
                f"SELECT id, COUNT(*) OVER (PARTITION BY k ORDER BY t {before}) FROM {{}} w",
                (
                    f"SELECT id, SUM(v) OVER (ORDER BY t RANGE BETWEEN {low} PRECEDING AND {low} "
                    f"FOLLOWING) FROM {{}} w"
                ),
                "SELECT id, t FROM {} w ORDER BY t",
                "SELECT t, k, COUNT(*), ARRAY_AGG(id ORDER BY id) FROM {} w GROUP BY t, k",
                (
                    "SELECT t, k, COUNT(*), ARRAY_AGG(id ORDER BY id) FROM {} w "
                    "GROUP BY t, ROLLUP (k, s)"
                ),
            )
        )
        self.window = self.condition = None
        return self._made(
            text.format(self.stream("a")), text.format("a"), Account.ROWS, ("id",), is_timed=True
        )

    def interval_join(self) -> LateQuery:
        low, high = (self.size(self.rng.choice((0, 1, 5))) for _ in range(2))
        text = (
            f"SELECT x.id, y.id FROM {{}} x JOIN {{}} y ON x.k = y.k AND y.t BETWEEN x.t - {low} "
            f"AND x.t + {high}"
        )
        self.window = self.condition = None
        return self._made(
            text.format(self.stream("a"), self.stream("b")),
            text.format("a", "b"),
            Account.PAIRS,
            ("id",),
        )

    def _made(
        self,
        stream: str,
        table: str,
        account: Account,
        late: tuple[str, ...],
        is_timed: bool = False,
    ) -> LateQuery:
        return LateQuery(stream, table, account, late, 0, self.window, self.condition, is_timed)
