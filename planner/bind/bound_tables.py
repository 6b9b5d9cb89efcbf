"""Common tables and views that would be copied too often: each of them is planned and run once.

Normally a common table is bound once, and every use contains its relation, so that the conditions
and columns of the use can be pushed into it. But if every common table reads the table before it
twice, the number of copies doubles with each table: 30 tables would make 2^30 copies. If the copies
outgrow the text, a use therefore gets a `CommonRows` instead, which is a leaf for all rules. The
relation of a `CommonRows` is planned on its own and runs once, like any shared subplan
(`planner/physical/sharing/tables.py`).

Some common tables can't run once: streams, volatile expressions, and tables that read the outer
query or a recursion. They are copied, up to MOST_STEPS nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.deadline import check_time
from runnel.errors import ProgrammingError
from runnel.expressions.nodes import Expression, transform
from runnel.expressions.nodes import walk as expressions_in
from runnel.expressions.properties import is_volatile
from runnel.planner.estimates import estimate
from runnel.relation.nodes import Aggregate, Relation
from runnel.relation.over import Window
from runnel.relation.subqueries import (
    SUBQUERIES,
    CommonRows,
    Recursion,
    WorkingTable,
    everything,
    outer_columns,
)

COPIED_STEPS = 64
"""A common table of at most this many relational nodes, copies included, is always copied."""

COPIES = 4
"""A common table is copied if, with all copies, it has at most this many times the nodes that were
bound for it."""

MOST_STEPS = 5_000
"""The maximum number of nodes, copies included, of a relation that can only be copied."""


@frozen
class _Size:
    """The size of a common table.

    relation: the table's relation, referenced so that its id is not reused for another node.
    own: number of nodes that were bound for this table alone.
    copied: number of nodes with copies included.
    inside: the ids of the common tables in it.
    """

    relation: Relation
    own: int
    copied: int
    inside: frozenset[int]


class BoundTables:
    """The common tables and views of one statement that were bound so far."""

    def __init__(self, may_share: bool) -> None:
        """`may_share`: whether a subplan of the statement may run once for several readers."""
        self._may_share = may_share
        self._relations: dict[int, tuple[object, Relation]] = {}
        self._sizes: dict[int, _Size] = {}
        self._own: dict[int, int] = {}
        self._bound_again = 0
        self.count = 0
        """Number of common tables that run once."""

    def relation(
        self, table: object, bind: Callable[[], Relation], watermarks: Callable[[], int]
    ) -> Relation:
        """The relation that the uses of `table` read.

        `bind` is called once. If the relation has watermarks, `bind` is called for each use,
        because each use needs its own watermarks. `watermarks` returns how many watermarks the
        statement has so far.
        """
        known = self._relations.get(id(table))
        if known is not None:
            return known[1]
        before = watermarks()
        relation = bind()
        if watermarks() != before:
            self._note_again()
            return relation
        relation = self._read(relation)
        self._relations[id(table)] = (table, relation)
        return relation

    def _read(self, relation: Relation) -> Relation:
        """The relation; a `CommonRows` instead if the relation would be copied too often."""
        size = self._measured(relation)
        if self._outgrows(size, COPIED_STEPS) and self._can_share(relation):
            return self._leaf(relation)
        if self._outgrows(size, MOST_STEPS):
            raise _too_many_copies()
        self._sizes[id(relation)] = replace(size, inside=size.inside | {id(relation)})
        self._own[id(relation)] = size.own
        return relation

    def bounded(self, relation: Relation) -> Relation:
        """The relation of the whole statement. If it would have too many copies of its common
        tables, `CommonRows` replace them."""
        if not self._outgrows(self._measured(relation), MOST_STEPS):
            return relation
        leaves: dict[int, Relation] = {}

        def with_leaves(node: Relation) -> Relation:
            if id(node) not in self._sizes:
                return _over(node, with_leaves)
            if id(node) not in leaves:
                leaves[id(node)] = self._leaf(node) if self._can_share(node) else node
            return leaves[id(node)]

        relation = with_leaves(relation)
        if self._outgrows(self._measured(relation), MOST_STEPS):
            raise _too_many_copies()
        return relation

    def _outgrows(self, size: _Size, most: int) -> bool:
        """Whether the relation with all copies has more than `most` nodes, and more than COPIES
        times the nodes that were bound."""
        return size.copied > most and size.copied > COPIES * (
            sum(map(self._own.__getitem__, size.inside)) + size.own
        )

    def _leaf(self, relation: Relation) -> CommonRows:
        self.count += 1
        return CommonRows(number=self.count, relation=relation, position=relation.position)

    def _note_again(self) -> None:
        """Counts a use of a table that is bound again for each use."""
        self._bound_again += 1
        if self._bound_again > MOST_STEPS // 5:
            raise _too_many_copies()

    def _measured(self, relation: Relation) -> _Size:
        own = copied = 0
        inside: frozenset[int] = frozenset()
        waiting = [relation]
        while waiting:
            check_time()
            node = waiting.pop()
            known = self._sizes.get(id(node))
            if known is None:
                own, copied = own + 1, copied + 1
                waiting += node.inputs
                waiting += _subqueries(node)
            else:
                copied += known.copied
                inside |= known.inside
        return _Size(relation, own, copied, inside)

    def _can_share(self, relation: Relation) -> bool:
        if not self._may_share or relation.is_unbounded or outer_columns(relation):
            return False
        nodes = list(everything(relation))
        recursions = {node.name for node in nodes if isinstance(node, Recursion)}
        return not any(
            _is_volatile(node) or (isinstance(node, WorkingTable) and node.name not in recursions)
            for node in nodes
        )


def _too_many_copies() -> ProgrammingError:
    return ProgrammingError(
        "the common tables and views of the statement refer to one another too often",
        detail="they can't run once, and the plan would have thousands of copies of them",
        hint="write an intermediate result to a table, and read the table",
    )


def _is_volatile(node: Relation) -> bool:
    calls = [call.call for call in node.calls] if isinstance(node, Window) else []
    if isinstance(node, Aggregate):
        calls = list(node.aggregates)
    own = any(call.python is not None and not call.python.is_deterministic for call in calls)
    return own or any(map(is_volatile, node.own_expressions))


def _subqueries(node: Relation) -> Iterator[Relation]:
    for expression in node.own_expressions:
        if expression.children or isinstance(expression, SUBQUERIES):
            for part in expressions_in(expression):
                if isinstance(part, SUBQUERIES):
                    yield part.relation


def commons_in(relation: Relation) -> dict[int, CommonRows]:
    """The common tables that run once, by number."""
    return {node.number: node for node in everything(relation) if isinstance(node, CommonRows)}


def copied_where_needed(relation: Relation) -> Relation:
    """Replaces each `CommonRows` whose sharing has no use by its relation: common tables with a
    single reader, common tables within a recursion (whose steps run separately from everything
    else), and all common tables of a statement on streams."""
    uses: dict[int, int] = {}
    for node in everything(relation):
        if isinstance(node, CommonRows):
            uses[node.number] = uses.get(node.number, 0) + 1
    everywhere = relation.is_unbounded
    return _Copies(lambda node: everywhere or uses[node.number] == 1).put_in(relation, False, False)


class _Copies:
    """Replaces each `CommonRows` by its relation if `is_copied` is true for it, or if it is within
    a recursion."""

    def __init__(self, is_copied: Callable[[CommonRows], bool]) -> None:
        self._is_copied = is_copied
        self._common_rows: dict[int, CommonRows] = {}
        self._left = MOST_STEPS

    def put_in(self, relation: Relation, in_recursion: bool, is_copy: bool) -> Relation:
        if isinstance(relation, CommonRows):
            return self._common(relation, in_recursion, is_copy)
        if is_copy:
            self._left -= 1
            if self._left < 0:
                raise _too_many_copies()
        in_recursion = in_recursion or isinstance(relation, Recursion)
        return _over(relation, lambda item: self.put_in(item, in_recursion, is_copy))

    def _common(self, node: CommonRows, in_recursion: bool, is_copy: bool) -> Relation:
        if in_recursion or self._is_copied(node):
            return self.put_in(node.relation, in_recursion, True)
        rows = self._common_rows.get(node.number)
        if rows is None:
            rows = self._common_rows[node.number] = replace(
                node, relation=self.put_in(node.relation, False, is_copy)
            )
        return rows


def rewritten(relation: Relation, rewrite: Callable[[Relation], Relation]) -> Relation:
    """Applies `rewrite` to the relation, and once to each common table that runs once."""
    done: dict[int, CommonRows] = {}

    def put_in(node: Relation) -> Relation:
        if not isinstance(node, CommonRows):
            return _over(node, put_in)
        if node.number not in done:
            inner = rewrite(put_in(node.relation))
            done[node.number] = (
                node
                if inner is node.relation
                else replace(node, relation=inner, rows=estimate(inner))
            )
        return done[node.number]

    return rewrite(put_in(relation))


def _over(node: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """The node with its inputs and the relations of its subqueries changed."""
    inputs = tuple(map(change, node.inputs))
    if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
        node = node.with_inputs(inputs)
    return node.map_expressions(lambda item: _over_subqueries(item, change))


def _over_subqueries(expression: Expression, change: Callable[[Relation], Relation]) -> Expression:
    def changed(item: Expression) -> Expression:
        if not isinstance(item, SUBQUERIES):
            return item
        inner = change(item.relation)
        return item if inner is item.relation else replace(item, relation=inner)

    return transform(expression, changed)
