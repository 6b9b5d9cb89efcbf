"""What a window call means, row by row in plain Python, with no regard to cost: the oracle of the
window operator.

Written from PostgreSQL's definition, not from the operator: a frame is found by asking of every row
whether it is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from functools import cmp_to_key
from itertools import pairwise
from math import isnan
from statistics import pstdev
from typing import Any

Row = dict[str, Any]
Offset = Any
Bound = tuple[str, Offset]
"""A kind as SQL spells it, and the offset, None where there is none."""


@dataclass(frozen=True)
class Key:
    """One ORDER BY item."""

    column: str
    descending: bool = False
    nulls_first: bool | None = None

    @property
    def sql(self) -> str:
        nulls = (
            "" if self.nulls_first is None else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        )
        return f"{self.column}{' DESC' if self.descending else ''}{nulls}"


@dataclass(frozen=True)
class Call:
    """One call with OVER, over plain columns. `threshold`: FILTER (WHERE id > threshold)."""

    function: str
    arguments: tuple[Any, ...] = ()
    partition: tuple[str, ...] = ()
    order: tuple[Key, ...] = ()
    unit: str = ""
    start: Bound = ("UNBOUNDED PRECEDING", None)
    end: Bound = ("CURRENT ROW", None)
    exclude: str = ""
    ignore_nulls: bool = False
    distinct: bool = False
    threshold: int | None = None
    spelled: tuple[str, ...] = field(default=(), compare=False)

    @property
    def sql(self) -> str:
        arguments = ", ".join(map(_text, self.arguments))
        distinct = "DISTINCT " if self.distinct else ""
        nulls = " IGNORE NULLS" if self.ignore_nulls else ""
        where = "" if self.threshold is None else f" FILTER (WHERE id > {self.threshold})"
        parts = []
        if self.partition:
            parts.append("PARTITION BY " + ", ".join(self.partition))
        if self.order:
            parts.append("ORDER BY " + ", ".join(key.sql for key in self.order))
        if self.unit:
            exclude = f" EXCLUDE {self.exclude}" if self.exclude else ""
            parts.append(
                f"{self.unit} BETWEEN {_bound(self.start)} AND {_bound(self.end)}{exclude}"
            )
        return f"{self.function}({distinct}{arguments}{nulls}){where} OVER ({' '.join(parts)})"


def _bound(bound: Bound) -> str:
    kind, offset = bound
    return kind if offset is None else f"{_text(offset)} {kind}"


def _text(value: Any) -> str:
    if isinstance(value, Months):
        return f"INTERVAL '{value.count}' MONTH"
    if isinstance(value, timedelta):
        return f"INTERVAL '{int(value.total_seconds())}' SECOND"
    return "NULL" if value is None else str(value)


@dataclass(frozen=True)
class Months:
    """An offset by the calendar."""

    count: int


def values(call: Call, rows: Sequence[Row]) -> dict[int, Any]:
    """The call's value for each row, by its `id`."""
    found: dict[int, Any] = {}
    partitions: dict[Any, list[Row]] = {}
    for row in rows:
        partitions.setdefault(tuple(_identity(row[name]) for name in call.partition), []).append(
            row
        )
    for members in partitions.values():
        ordered = sorted(members, key=cmp_to_key(lambda a, b: _compare_rows(call.order, a, b)))
        partition = Partition(call, ordered)
        for place, row in enumerate(ordered):
            found[row["id"]] = partition.value(place)
    return found


def _identity(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if isnan(value) else value + 0.0
    return value


def _compare_rows(order: Sequence[Key], left: Row, right: Row) -> int:
    for key in order:
        result = _compare(left[key.column], right[key.column], key)
        if result:
            return result
    return 0


def _compare(left: Any, right: Any, key: Key) -> int:
    if left is None or right is None:
        if left is right:
            return 0
        nulls_first = (not key.descending) if key.nulls_first is None else key.nulls_first
        return -1 if (left is None) is nulls_first else 1
    return -_ascending(left, right) if key.descending else _ascending(left, right)


def _ascending(left: Any, right: Any) -> int:
    first, second = _rank(left), _rank(right)
    return (first > second) - (first < second)


def _rank(value: Any) -> tuple[int, Any]:
    return (1, 0) if isinstance(value, float) and isnan(value) else (0, value)


class Partition:
    """The ordered rows of one partition."""

    def __init__(self, call: Call, rows: list[Row]) -> None:
        self.call = call
        self.rows = rows
        groups = [0]
        for before, after in pairwise(rows):
            groups.append(groups[-1] + (_compare_rows(call.order, before, after) != 0))
        self.groups = groups

    def value(self, place: int) -> Any:
        function = self.call.function.lower()
        numbering = _NUMBERINGS.get(function)
        if numbering is not None:
            return numbering(self, place)
        if function in ("lag", "lead"):
            return self._shifted(place, 1 if function == "lead" else -1)
        frame = self.frame(place)
        if function in ("first_value", "last_value", "nth_value"):
            return self._nth(function, frame)
        return self._aggregate(function, frame)

    def _argument(self, index: int, row: Row) -> Any:
        given = self.call.arguments[index]
        return row[given] if isinstance(given, str) else given

    def _shifted(self, place: int, direction: int) -> Any:
        row = self.rows[place]
        step = self._argument(1, row) if len(self.call.arguments) > 1 else 1
        if step is None:
            return None
        step *= direction
        target: int | None = place + step
        if self.call.ignore_nulls and step:
            known = [i for i, item in enumerate(self.rows) if self._argument(0, item) is not None]
            beyond = (
                [i for i in known if i > place]
                if step > 0
                else [i for i in reversed(known) if i < place]
            )
            target = beyond[abs(step) - 1] if abs(step) <= len(beyond) else None
        if target is None or not 0 <= target < len(self.rows):
            return self._argument(2, row) if len(self.call.arguments) > 2 else None
        return self._argument(0, self.rows[target])

    def _nth(self, function: str, frame: list[int]) -> Any:
        rows = [self.rows[i] for i in frame]
        if self.call.ignore_nulls:
            rows = [row for row in rows if self._argument(0, row) is not None]
        if function == "nth_value":
            number = self.call.arguments[1]
            return self._argument(0, rows[number - 1]) if number <= len(rows) else None
        if not rows:
            return None
        return self._argument(0, rows[0] if function == "first_value" else rows[-1])

    def _aggregate(self, function: str, frame: list[int]) -> Any:
        rows = [self.rows[i] for i in frame]
        if self.call.threshold is not None:
            rows = [row for row in rows if row["id"] > self.call.threshold]
        if self.call.arguments == ("*",):
            return len(rows)
        taken = [self._argument(0, row) for row in rows]
        if function != "array_agg":
            taken = [value for value in taken if value is not None]
        if self.call.distinct:
            taken = list({_identity(value): value for value in reversed(taken)}.values())
        return _AGGREGATES[function](taken)

    def frame(self, place: int) -> list[int]:
        """The places of the rows in the frame of the row at `place`."""
        call = self.call
        if not call.unit:
            return [
                i
                for i in range(len(self.rows))
                if not call.order or self.groups[i] <= self.groups[place]
            ]
        inside = [
            i
            for i in range(len(self.rows))
            if self._after_start(i, place) and self._before_end(i, place)
        ]
        excluded: Callable[[int], bool] = {
            "": lambda i: False,
            "NO OTHERS": lambda i: False,
            "CURRENT ROW": lambda i: i == place,
            "GROUP": lambda i: self.groups[i] == self.groups[place],
            "TIES": lambda i: self.groups[i] == self.groups[place] and i != place,
        }[call.exclude]
        return [i for i in inside if not excluded(i)]

    def _after_start(self, other: int, place: int) -> bool:
        kind, offset = self.call.start
        if kind == "UNBOUNDED PRECEDING":
            return True
        return self._distance(other, place, kind, offset) >= 0

    def _before_end(self, other: int, place: int) -> bool:
        kind, offset = self.call.end
        if kind == "UNBOUNDED FOLLOWING":
            return True
        return self._distance(other, place, kind, offset) <= 0

    def _distance(self, other: int, place: int, kind: str, offset: Offset) -> int:
        """Where `other` lies as seen from a bound: before (below 0), on it, or after."""
        unit = self.call.unit
        if unit == "RANGE" and offset is not None:
            return self._by_value(other, place, kind, offset)
        step = 0 if offset is None else -offset if kind == "PRECEDING" else offset
        if unit == "ROWS":
            return other - (place + step)
        return self.groups[other] - (self.groups[place] + step)

    def _by_value(self, other: int, place: int, kind: str, offset: Offset) -> int:
        (key,) = self.call.order
        here, there = self.rows[place][key.column], self.rows[other][key.column]
        if here is None or there is None:
            return _compare(there, here, key)
        is_added = (kind == "FOLLOWING") is not key.descending
        wanted = _moved(here, offset, is_added)
        return _compare(_like(there, wanted), wanted, key)


def _moved(value: Any, offset: Any, is_added: bool) -> Any:
    if isinstance(offset, Months):
        months = value.year * 12 + value.month - 1 + (offset.count if is_added else -offset.count)
        year, month = divmod(months, 12)
        base = value if isinstance(value, datetime) else datetime.combine(value, time())
        for day in (value.day, 30, 29, 28):
            if day <= value.day:
                try:
                    return base.replace(year=year, month=month + 1, day=day)
                except ValueError:
                    continue
    if (
        isinstance(offset, timedelta)
        and isinstance(value, date)
        and not isinstance(value, datetime)
    ):
        value = datetime.combine(value, time())
    if isinstance(value, float) or isinstance(offset, float):
        value, offset = float(value), float(offset)
    return value + offset if is_added else value - offset


def _like(value: Any, model: Any) -> Any:
    if isinstance(model, datetime) and not isinstance(value, datetime):
        return datetime.combine(value, time())
    return float(value) if isinstance(model, float) else value


def _tile(partition: Partition, place: int) -> Any:
    buckets = partition.call.arguments[0]
    count = len(partition.rows)
    sizes = [count // buckets + (i < count % buckets) for i in range(buckets)]
    for bucket, size in enumerate(sizes, 1):
        if place < size:
            return bucket
        place -= size
    raise AssertionError(place)


_NUMBERINGS: dict[str, Callable[[Partition, int], Any]] = {
    "row_number": lambda p, i: i + 1,
    "rank": lambda p, i: p.groups.index(p.groups[i]) + 1,
    "dense_rank": lambda p, i: p.groups[i] + 1,
    "percent_rank": lambda p, i: (
        p.groups.index(p.groups[i]) / (len(p.rows) - 1) if len(p.rows) > 1 else 0.0
    ),
    "cume_dist": lambda p, i: sum(group <= p.groups[i] for group in p.groups) / len(p.rows),
    "ntile": _tile,
}


def _best(taken: list[Any], sign: int) -> Any:
    return sorted(taken, key=cmp_to_key(lambda a, b: sign * _ascending(a, b)))[0] if taken else None


def _deviation(taken: list[Any]) -> Any:
    doubles = [float(value) for value in taken]
    if not doubles:
        return None
    return float("nan") if any(map(isnan, doubles)) else pstdev(doubles)


_AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": lambda taken: sum(taken) if taken else None,
    "avg": lambda taken: sum(taken) / len(taken) if taken else None,
    "min": lambda taken: _best(taken, 1),
    "max": lambda taken: _best(taken, -1),
    "any_value": lambda taken: taken[0] if taken else None,
    "array_agg": lambda taken: taken or None,
    "stddev_pop": _deviation,
    "bool_or": lambda taken: any(taken) if taken else None,
}
