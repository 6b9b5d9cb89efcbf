"""A query over streams in Spark's SQL, as Structured Streaming runs it in append mode.

Spark marks the column with the event time of a stream. The mark is lost when the column is
converted, and a marked column has Spark's type TIMESTAMP, while Runnel's TIMESTAMP has no zone. An
event time therefore exists twice: a converted column for expressions, and the marked column, which
subqueries return in addition to the columns of the relation. Groups, joins and windows use the
marked column. `_times` maps the text of the converted column to the text of the marked column.

In the same way `_windows` maps the three bounds of a window to the column that identifies the
window in Spark. Spark's window is a struct, and grouping by a struct costs twice as much as
grouping by a number. The identifying column is therefore Spark's `window_time`, the last
microsecond of the window, which has the mark as well. The struct is used in two cases:

- The end of the window is not a whole millisecond, as watermarks are. By its `window_time`, the
  window would be closed by a watermark one microsecond before its end.
- The window is a session, whose start does not follow from its `window_time`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from runnel.base.frozen import frozen
from runnel.expressions.evaluate import can_fail
from runnel.expressions.nodes import Column, Expression, conjuncts
from runnel.foreign.fragment import Unrenderable
from runnel.relation import nodes
from runnel.relation.nodes import JoinKind, Relation
from runnel.relation.streams import WINDOW_COLUMNS, AssignWindows, ImposeOrder, WindowKind
from runnel.rendering.relations import Block, ScanText, block_text
from runnel.rendering.render import Rendering
from runnel.rendering.spark.relations import SparkRelations
from runnel.rendering.spark.time_bounds import time_bound
from runnel.sqltypes import Kind, SqlType

OrderText = Callable[[ImposeOrder, str], str]
"""Returns the FROM item for the rows of a SELECT with a watermark. Its columns are c0, c1, …; the
column of the event time is a marked TIMESTAMP."""

_REFUSED = {
    "sort": "ORDER BY of a stream",
    "limit": "LIMIT of a stream",
    "group_limit": "the first rows of each group of a stream",
    "set_operation": "UNION, INTERSECT or EXCEPT of streams",
    "window": "OVER a stream",
    "expand": "GROUPING SETS over a stream",
}
"""The methods that Spark's append mode refuses for unbounded relations, with the reason."""

_BOTH = (JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)
_STREAM_LEFT = (JoinKind.INNER, JoinKind.CROSS, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
_STREAM_RIGHT = (JoinKind.INNER, JoinKind.CROSS, JoinKind.RIGHT)


@frozen
class WindowBoundColumn:
    """One of the three bounds of a window.

    window: the text of the column that identifies the window in Spark.
    index: the index of the bound in WINDOW_COLUMNS.
    size: the size of the window in microseconds; None: a session.
    is_struct: whether `window` is a struct, not a `window_time`.
    """

    window: str
    index: int
    size: int | None
    is_struct: bool


def render_stream(
    relation: Relation, rendering: Rendering, scan: ScanText, order: OrderText
) -> str:
    """The SELECT of an unbounded relation. Raises Unrenderable."""
    return _Streams(rendering, scan, order).whole(relation)


class _Streams(SparkRelations):
    """Renders relations, with a marked column for each event time and window."""

    rules: ClassVar[Mapping[type[Relation], str]] = {
        **SparkRelations.rules,
        ImposeOrder: "order",
        AssignWindows: "assign",
    }

    def __init__(self, rendering: Rendering, scan: ScanText, order: OrderText) -> None:
        super().__init__(rendering, scan)
        self._order = order
        self._times: dict[str, str] = {}
        """Texts of marked columns, by the text of the converted column."""
        self._windows: dict[str, WindowBoundColumn] = {}
        """Window bounds, by the text of their column."""
        self._sessions: dict[str, str] = {}
        """Calls of `session_window`, which only GROUP BY may contain, by the text of a bound."""
        self._partitions: dict[str, frozenset[str]] = {}
        """The keys of PARTITION BY of a session, by the text of its call."""

    def select(self, relation: Relation) -> str:
        return block_text(self._without_sessions(self.block(relation)))

    def part(self, relation: Relation) -> str:
        self._without_sessions(self.block(relation))
        return super().part(relation)

    def _without_sessions(self, block: Block) -> Block:
        if any(text in self._sessions for text in block.columns):
            raise _session_use(None)
        return block

    def block(self, relation: Relation) -> Block:
        refused = _REFUSED.get(self.rules.get(type(relation), ""))
        if refused is not None and relation.is_unbounded:
            raise Unrenderable(refused, relation.position)
        return super().block(relation)

    def around(self, block: Block) -> Block:
        """A block that selects from `block` as a subquery, which also returns the marked columns of
        its event times and windows."""
        self._without_sessions(block)
        times = {
            i: self._times[text] for i, text in enumerate(block.columns) if text in self._times
        }
        bounds = {
            i: self._windows[text] for i, text in enumerate(block.columns) if text in self._windows
        }
        beside = list(
            dict.fromkeys((*times.values(), *(bound.window for bound in bounds.values())))
        )
        made = super().around(replace(block, columns=(*block.columns, *beside)))
        width = len(block.columns)
        carried = dict(zip(beside, made.columns[width:], strict=True))
        for i, text in times.items():
            self._times[made.columns[i]] = carried[text]
        for i, bound in bounds.items():
            self._windows[made.columns[i]] = replace(bound, window=carried[bound.window])
        return replace(made, columns=made.columns[:width])

    def project(self, node: nodes.Project) -> Block:
        block = super().project(node)
        for text, expression in zip(block.columns, node.expressions, strict=True):
            if "session_window(" in text and text not in self._sessions:
                raise _session_use(expression)
        return block

    def order(self, node: ImposeOrder) -> Block:
        block = self.block(node.input)
        if not node.is_unbounded:
            return block
        time = node.fields[node.time].type
        if time.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
            raise Unrenderable(f"event time of type {time}", node.position)
        made = self.item(self._order(node, block_text(block)), len(node.fields))
        marked = made.columns[node.time]
        shown = _shown(marked, time)
        self._times[shown] = marked
        return replace(
            made, columns=(*made.columns[: node.time], shown, *made.columns[node.time + 1 :])
        )

    def assign(self, node: AssignWindows) -> Block:
        if not node.is_unbounded:
            raise Unrenderable(
                f"{node.shape.kind.value.upper()} over a table that ends", node.position
            )
        block = self.plain(node.input)
        marked = self._times.get(block.columns[node.time.index])
        if marked is None:
            raise Unrenderable(
                f"{node.shape.kind.value.upper()} over a column that isn't the event time",
                node.position,
            )
        shape = node.shape
        if shape.kind is WindowKind.CUMULATE:
            raise Unrenderable("CUMULATE", node.position)
        if shape.kind is WindowKind.SESSION:
            return self._session(
                node, block, f"session_window({marked}, '{shape.size} microseconds')"
            )
        step = shape.step or shape.size
        numbers = (shape.size, step, shape.offset)
        call = (
            f"window({marked}, " + ", ".join(f"'{number} microseconds'" for number in numbers) + ")"
        )
        is_struct = any(number % 1_000 for number in numbers)
        call = call if is_struct else f"window_time({call})"
        made = self.around(replace(block, columns=(*block.columns, call), is_plain=False))
        bounds = self._bounds(made.columns[-1], node.bound_type, shape.size, is_struct=is_struct)
        return replace(made, columns=(*made.columns[:-1], *bounds))

    def _bounds(
        self, window: str, kind: SqlType, size: int | None, *, is_struct: bool
    ) -> tuple[str, ...]:
        """The three columns of a window."""
        if is_struct or size is None:
            texts = (
                f"{window}.start",
                f"{window}.end",
                f"({window}.end - INTERVAL '0.000001' SECOND)",
            )
        else:
            texts = (
                f"timestampadd(MICROSECOND, {1 - size}, {window})",
                f"timestampadd(MICROSECOND, 1, {window})",
                window,
            )
        shown = tuple(_shown(text, kind) for text in texts)
        self._windows.update(
            (text, WindowBoundColumn(window, index, size, is_struct))
            for index, text in enumerate(shown)
        )
        return shown

    def _session(self, node: AssignWindows, block: Block, call: str) -> Block:
        if not node.partition:
            raise Unrenderable("SESSION without PARTITION BY", node.position)
        self._partitions[call] = frozenset(
            self.rendering.key(item, block.columns) for item in node.partition
        )
        shown = tuple(f"{call}.{name}" for name in WINDOW_COLUMNS)
        self._sessions.update(dict.fromkeys(shown, call))
        return replace(block, columns=(*block.columns, *shown))

    def aggregate(self, node: nodes.Aggregate) -> Block:
        if not node.is_unbounded:
            return super().aggregate(node)
        self._check_aggregate(node)
        block = self.plain(node.input)
        texts = [block.columns[key.index] if isinstance(key, Column) else "" for key in node.keys]
        groups = [self._group(key, text, block) for key, text in zip(node.keys, texts, strict=True)]
        bounds = [self._windows[text] for text in texts if text in self._windows]
        windows = {
            *(bound.window for bound in bounds),
            *(self._sessions[text] for text in texts if text in self._sessions),
        }
        if not windows and not any(text in self._times for text in texts):
            raise Unrenderable(
                "GROUP BY of a stream without a window or its event time", node.position
            )
        if len(windows) > 1:
            raise Unrenderable("GROUP BY of two kinds of windows", node.position)
        if any(bound.size is None for bound in bounds):
            # Spark would merge the sessions again, or refuse the query.
            raise Unrenderable("GROUP BY of sessions that are groups already", node.position)
        self._check_session(node, texts, groups)
        inner = list(dict.fromkeys(groups))
        values = [self.rendering.aggregate(call, block.columns) for call in node.aggregates]
        numbers = ", ".join(str(i + 1) for i in range(len(inner)))
        made = super().around(
            replace(block, columns=(*inner, *values), is_plain=False, group=numbers)
        )
        columns = []
        for key, text, group in zip(node.keys, texts, groups, strict=True):
            columns.append(self._key_column(made.columns[inner.index(group)], text, key))
        return replace(made, columns=(*columns, *made.columns[len(inner) :]))

    def _group(self, key: Expression, text: str, block: Block) -> str:
        if text in self._windows:
            return self._windows[text].window
        marked = self._sessions.get(text) or self._times.get(text)
        return self.rendering.key(key, block.columns) if marked is None else marked

    def _key_column(self, column: str, text: str, key: Expression) -> str:
        """The text of a key above GROUP BY. `column` is the result of the grouping, `text` the key
        below it."""
        if text in self._times:
            shown = _shown(column, key.type)
            self._times[shown] = column
            return shown
        if text in self._windows:
            known = self._windows[text]
            return self._bounds(column, key.type, known.size, is_struct=known.is_struct)[
                known.index
            ]
        if text in self._sessions:
            index = next(i for i, name in enumerate(WINDOW_COLUMNS) if text.endswith(name))
            return self._bounds(column, key.type, None, is_struct=True)[index]
        return column

    def _check_aggregate(self, node: nodes.Aggregate) -> None:
        if node.emission is not None:
            raise Unrenderable("EMIT EVERY, ALLOWED LATENESS or LATE DATA INTO", node.position)
        if any(call.distinct for call in node.aggregates):
            raise Unrenderable("an aggregate of DISTINCT values of a stream", node.position)

    def _check_session(
        self, node: nodes.Aggregate, texts: Sequence[str], groups: Sequence[str]
    ) -> None:
        """Checks that GROUP BY has exactly the keys of PARTITION BY next to the session. Spark
        builds sessions per group, so with other keys it would split or merge them."""
        sessions = [text for text in texts if text in self._sessions]
        if not sessions:
            return
        keys = {
            group for group, text in zip(groups, texts, strict=True) if text not in self._sessions
        }
        if keys != self._partitions[self._sessions[sessions[0]]]:
            raise Unrenderable(
                "SESSION with a GROUP BY of other columns than its window and PARTITION BY",
                node.position,
            )

    def filter(self, node: nodes.Filter) -> Block:
        """Adds a condition. All rows advance the watermark, so Spark must not push the condition
        below it: a reference to the marked column prevents that."""
        if not node.is_unbounded:
            return super().filter(node)
        block = self.plain(node.input)
        if any(text in self._sessions for text in block.columns):
            raise Unrenderable("a condition between SESSION and GROUP BY", node.position)
        if can_fail(node.condition) and any(
            isinstance(item, nodes.Join | nodes.Aggregate) for item in nodes.walk(node.input)
        ):
            return self._decided_here(block, node)
        condition = self.rendering.condition(node.condition, block.columns)
        if can_fail(node.condition) and block.where:
            # Spark may evaluate the conjuncts of a WHERE in any order.
            condition = f"CASE WHEN {' AND '.join(block.where)} THEN {condition} ELSE FALSE END"
        marked = next((self._times[text] for text in block.columns if text in self._times), None)
        if marked is not None:
            condition = f"IF({marked} IS NULL, ({condition}) <=> TRUE, {condition})"
        return replace(block, where=(*block.where, condition))

    def join(self, node: nodes.Join) -> Block:
        if not node.is_unbounded:
            return super().join(node)
        if node.late is not None:
            raise Unrenderable("LATE DATA INTO", node.position)
        both = node.left.is_unbounded and node.right.is_unbounded
        allowed = _BOTH if both else _STREAM_LEFT if node.left.is_unbounded else _STREAM_RIGHT
        if node.kind not in allowed:
            raise Unrenderable(
                f"a {node.kind.value.upper()} join with the stream on that side", node.position
            )
        # Spark would build the sessions from the output of the join.
        return self._without_sessions(self._join_streams(node) if both else super().join(node))

    def _join_streams(self, node: nodes.Join) -> Block:
        left, right = self.plain(node.left), self.item_of(node.right)
        if left.where:
            left = self.around(left)
        columns = (*left.columns, *right.columns)
        parts = [
            self._same_keys(node, number, left, right) for number in range(len(node.left_keys))
        ]
        rest = []
        for condition in () if node.condition is None else conjuncts(node.condition):
            bound = time_bound(condition, columns, self._times)
            if bound is not None:
                parts.append(bound)
            elif not can_fail(condition):
                parts.append(self.rendering.condition(condition, columns))
            else:
                rest.append(condition)
        if rest and node.kind is not JoinKind.INNER:
            raise Unrenderable(
                "a condition that can fail of a join that isn't an inner one", rest[0].position
            )
        on = " AND ".join(parts) or "1 = 1"
        made = Block(
            f"{left.source} {node.kind.value.upper()} JOIN {right.source} ON {on}", columns
        )
        if not rest:
            return made
        made = self.around(made)
        tests = [self.rendering.condition(item, made.columns) for item in rest]
        return replace(made, where=tuple(tests))

    def _same_keys(self, node: nodes.Join, number: int, left: Block, right: Block) -> str:
        keys = (node.left_keys[number], node.right_keys[number])
        own = [
            block.columns[key.index] if isinstance(key, Column) else ""
            for key, block in zip(keys, (left, right), strict=True)
        ]
        bounds = [self._windows.get(text) for text in own]
        if bounds != [None, None]:
            self._check_same_windows(node, bounds)
        texts = [
            self._group(key, text, block)
            for key, text, block in zip(keys, own, (left, right), strict=True)
        ]
        return f"{texts[0]} {self.same if number in node.null_safe else '='} {texts[1]}"

    def _check_same_windows(
        self, node: nodes.Join, bounds: Sequence[WindowBoundColumn | None]
    ) -> None:
        """Checks that the windows of both sides are of one kind, so that they are equal if the
        compared bounds are equal."""
        left, right = bounds
        if (
            left is None
            or right is None
            or left.size is None
            or replace(left, window=right.window) != right
        ):
            raise Unrenderable("a join of streams by windows of different kinds", node.position)


def _shown(marked: str, kind: SqlType) -> str:
    """A marked column, converted to the type `kind`."""
    return f"CAST({marked} AS TIMESTAMP_NTZ)" if kind.kind is Kind.TIMESTAMP else marked


def _session_use(expression: Any) -> Unrenderable:
    return Unrenderable(
        "SESSION without a GROUP BY of its window and PARTITION BY",
        None if expression is None else expression.position,
    )
