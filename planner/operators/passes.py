"""The passes of the planner that treat classes of nodes differently, and what a home registers in
each.

A home states for each of its classes and each pass either a rule (`PASS.of(Class)`, `PASS.add`) or
that the default of the pass is right (`by_default`). `tests/planner/test_node_tables.py` finds a
class that states neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from runnel.errors import internal

if TYPE_CHECKING:
    from runnel.catalog import Snapshot
    from runnel.expressions.nodes import Expression
    from runnel.planner.event_time.expressions import Bounds
    from runnel.planner.explain.parts import Description
    from runnel.planner.live.maintained import Maintain, Maintained
    from runnel.planner.physical.nodes import Physical
    from runnel.planner.rules.decorrelation.anchoring import Anchoring
    from runnel.planner.rules.decorrelation.pulled import Pulled
    from runnel.processors.recursion import StageDefinition
    from runnel.relation.nodes import Limit, Relation
    from runnel.relation.state_identity import Form, StateWindows

Rule = TypeVar("Rule")
Registered = TypeVar("Registered")

RELATION, PHYSICAL = "relation", "physical"
"""The kinds of nodes that a pass treats."""

_LOADED = {""}
"""The families whose homes are imported. A node whose family is "" has no home."""


def load_homes_by(load: Callable[[str], None]) -> None:
    """Sets the function that imports the home of a family."""
    Pass.load = staticmethod(load)


class Pass(Generic[Rule]):
    """The rules of one pass, by class of node.

    purpose: what the pass does, for messages.
    kinds: the kinds of nodes that it treats.
    default: its effect on a class without a rule; "" if each class needs a rule.
    """

    load: Callable[[str], None]

    def __init__(self, purpose: str, *kinds: str, default: str = "") -> None:
        self.purpose = purpose
        self.kinds = kinds
        self.default = default
        self.rules: dict[type, Rule] = {}
        self.defaulted: set[type] = set()

    def of(self, *classes: type) -> Callable[[Registered], Registered]:
        """Registers the decorated function as the rule of these classes."""

        def register(rule: Registered) -> Registered:
            self.add(rule, *classes)  # type: ignore[arg-type]
            return rule

        return register

    def add(self, rule: Rule, *classes: type) -> None:
        """Registers a rule of these classes."""
        self.rules.update(dict.fromkeys(classes, rule))

    def find(self, node: Any) -> Rule | None:
        """The rule of a node; None if the default applies."""
        found = self.rules.get(type(node))
        if found is None:
            if node.family not in _LOADED:
                # In this order: a second thread that meets the family meanwhile waits for the
                # import. Otherwise it would apply defaults instead of rules that are not registered
                # yet.
                Pass.load(node.family)
                _LOADED.add(node.family)
            # Again, also for a loaded family: another thread may have just loaded it.
            found = self.rules.get(type(node))
        return found

    def rule(self, node: Any) -> Rule:
        """The rule of a node."""
        found = self.find(node)
        if found is None:
            raise internal(f"{self.purpose}: no rule for {type(node).__name__}")
        return found


class NodeSet(Pass[bool]):
    """The classes of nodes that have a property."""

    def add_classes(self, *classes: type) -> None:
        self.add(True, *classes)

    def __contains__(self, node: object) -> bool:
        return self.find(node) is not None


def by_default(classes: type | tuple[type, ...], *passes: Pass[Any]) -> None:
    """States that the defaults of these passes are right for these classes."""
    for item in passes:
        assert item.default, f"{item.purpose}: each class needs a rule"
        item.defaulted.update(classes if isinstance(classes, tuple) else (classes,))


def not_met(classes: type | tuple[type, ...], *passes: Pass[Any]) -> None:
    """States that these passes never meet these classes: an internal error if one does."""
    for item in passes:
        assert not item.default, f"{item.purpose}: it has a default"
        item.defaulted.update(classes if isinstance(classes, tuple) else (classes,))


# Rules on relations ------------------------------------------------------------------------------

Positions = dict[int, int]
"""For each old position of a column that was requested its new position."""

PRUNING: Pass[Callable[[Any, set[int]], tuple[Relation, Positions]]] = Pass(
    "column pruning", RELATION
)
"""`rule(node, needed)`: the node with at least the needed columns in their order, and their
positions."""

PREDICATES: Pass[Callable[[Any, list[Expression]], Relation]] = Pass(
    "predicate push-down", RELATION, default="the conditions stay above the node"
)
"""`rule(node, conjuncts)`: the rows of the node for which all conjuncts are true."""

EMPTY: Pass[Callable[[Any], Relation]] = Pass(
    "empty relations", RELATION, default="the node stays, even if its inputs are empty"
)
"""`rule(node)`: the node, or a smaller relation if some of its inputs are certainly empty."""

LIMITS: Pass[Callable[[Any, Limit], Relation]] = Pass(
    "limit push-down", RELATION, default="the limit stays above the node"
)
"""`rule(node, limit)`: the limit, which is above the node, with the node rewritten."""

CORRELATION: Pass[Callable[[Anchoring, Any], Pulled]] = Pass(
    "correlation", RELATION, default="a correlated subquery with the node is refused"
)
"""`rule(to, node)`: the node without references to the outer row."""

GRAFTING: Pass[Callable[[Any, Relation], tuple[Relation, list[Expression]] | None]] = Pass(
    "LATERAL without a join", RELATION, default="LATERAL over the node becomes a join"
)
"""`rule(node, left)`: the left side with the computation of the node, the right side of LATERAL, on
top, and the columns of the node over that; None if a join is needed."""

HOISTING: Pass[Callable[[Any, Any], Relation]] = Pass(
    "subqueries of a node", RELATION, default="a subquery in the node's expressions is refused"
)
"""`rule(node, rewrite)`: the node without subqueries in its own expressions."""

ESTIMATES: Pass[Callable[..., int | None]] = Pass(
    "estimates",
    RELATION,
    default="a node with one input has as many rows as its input; others are unknown",
)
"""`rule(node, of)`: the estimated number of rows; `of` returns the estimate of an input."""

# Streams -----------------------------------------------------------------------------------------

BOUNDS: Pass[Callable[[Any], Bounds]] = Pass(
    "bounds of event time", RELATION, default="no column of the node has a watermark"
)
"""`rule(node)`: the columns that a watermark bounds."""

ORIGINS: Pass[Callable[[Any, int], tuple[Relation, Expression] | None]] = Pass(
    "origins of columns", RELATION, default="each column originates in the node"
)
"""`rule(node, index)`: the input that a column comes from, and the column as an expression over
it; None if it originates in the node."""

STREAM_CHECKS: Pass[Callable[[Any, bool], None]] = Pass(
    "refusals of streams", RELATION, default="the node emits the rows of a stream as they come"
)
"""`rule(node, unbounded_state)`: raises NotSupportedError if the node can't run on a stream."""

STATE_NAMES: Pass[Callable[[Any], bool]] = Pass(
    "names of state", RELATION, default="the node has no state on a stream"
)
"""`rule(node)`: whether the hint STATE names the state of the node. State is all that the
processor's `state()` returns, also a count or a seed."""

REPLAY: Pass[Callable[[Any, Any], Relation]] = Pass(
    "VERIFY JOB: the query over tables", RELATION, default="the node means the same over tables"
)
"""`rule(node, replay)`: the node over bounded tables. See `planner/verify/replay.py::Replay`."""

FINAL_ROWS: Pass[Callable[[Any], bool]] = Pass(
    "VERIFY JOB: final rows", RELATION, default="the results over a stream come later than its rows"
)
"""`rule(node)`: whether each row of a stream has its whole effect at once."""

MAINTENANCE: Pass[Callable[[Any, Maintain], Maintained]] = Pass(
    "live queries",
    RELATION,
    default="the node stays as it is over rows that only appear, and is refused over others",
)
"""`rule(node, maintain)`: the node that maintains the result of the node while its inputs grow;
`maintain` returns the one of an input. See `planner/live/maintenance.py`."""

# Other engines -----------------------------------------------------------------------------------

FRAGMENT_INPUTS = NodeSet(
    "fragments", RELATION, default="no fragment is searched for below the node"
)
"""Nodes whose inputs are computed once and as a whole, so that a fragment may be one of them."""

RENDERED = NodeSet("rendering for other engines", RELATION, default="no other engine runs the node")
"""Nodes that DuckDB or Spark runs: those in a table of `engine/rendering/`."""

BLOCKING: Pass[Callable[[Any], str | None]] = Pass(
    "nodes that hold their input in memory", RELATION, default="the node holds no input"
)
"""`rule(node)`: the verb for what an engine does with the whole input of the node in memory."""

MOST_ROWS: Pass[Callable[[Any], int | None]] = Pass(
    "the most rows of a node", RELATION, default="its estimate is used"
)
"""`rule(node)`: the number of rows at most; None if it is unknown."""

# Choice and description of operators -------------------------------------------------------------

CHOICES: Pass[Callable[[Any, Snapshot], Physical]] = Pass("choice of operators", RELATION)
"""`rule(node, snapshot)`: the physical node of a relational node;
`planner/physical/choose.py::choose_as` makes the rule of one with the same fields."""

EXPLAIN: Pass[Callable[[Any], Description]] = Pass("EXPLAIN", RELATION, PHYSICAL)
"""`rule(node)`: a title, and properties by name; a property without a text isn't shown."""

STATE_TEXTS: Pass[Callable[[Any], str]] = Pass(
    "EXPLAIN (STATE), and which operators keep state",
    PHYSICAL,
    default="the operator keeps no rows and no results",
)
"""`rule(node)`: the state of the operator, in words. With a rule, EXPLAIN (STATE) shows the state,
and EXPLAIN ALTER JOB lists it also before the first snapshot. LIMIT has none: whether a node has a
rule is stored with snapshots."""

NARROWABLE = NodeSet(
    "operators that drop columns", PHYSICAL, default="a calculation above it drops columns"
)
"""Operators with the field `columns`, the indexes of the columns that they return."""

# The DAG -----------------------------------------------------------------------------------------

LOWERING: Pass[Callable[[Any, Any], Any]] = Pass(
    "lowering", PHYSICAL, default="an earlier step replaces the node"
)
"""`rule(to, node)`: adds the vertices of the node to the DAG. `to` is a
`planner/lower/dag_builder.py::Lowering`; the result is the `VertexOutput` with its rows."""

STAGES: Pass[Callable[[Any], StageDefinition]] = Pass(
    "stages of a recursion", PHYSICAL, default="it is refused in a recursive term"
)
"""`rule(node)`: the processor of the operator within a round of a recursion."""

STREAM_SHARING = NodeSet("sharing on streams", PHYSICAL, default="it runs once for each use")
"""Operators with one input that may be shared with everything below them."""

TABLE_SHARING = NodeSet("sharing on tables", PHYSICAL, default="it runs once for each use")
"""Operators that may be shared with everything below them."""

WORTH_SHARING = NodeSet(
    "operators that are worth sharing", PHYSICAL, default="it is as quick to run again"
)
"""Operators whose work is more than to spool their results."""

READS_ALL = NodeSet(
    "operators that read all their input first",
    PHYSICAL,
    default="it may emit rows while it reads: a shared input of it is spooled",
)
"""Operators that read all their input before they emit a row."""

DYNAMIC_FILTERS: Pass[Callable[..., Physical | None]] = Pass(
    "dynamic filters", PHYSICAL, default="the keys of a join above filter nothing below the node"
)
"""`rule(node, keys, feed)`: the node over fragments that are narrowed by the keys of a join above;
None if there are none."""

LATE_ROWS: Pass[Callable[[Any], Physical]] = Pass(
    "late rows of a SESSION below", PHYSICAL, default="the node has other rows than its input"
)
"""`rule(node)`: the node with the late rows of a SESSION below among its rows."""

# State -------------------------------------------------------------------------------------------

IDENTITY: Pass[Callable[[Any], tuple[str, dict[str, str]]]] = Pass(
    "identity of operators", PHYSICAL, default="the node has no vertex of its own"
)
"""`rule(node)`: a title and properties that are stored with snapshots: they never change."""

STATE_FORMS: Pass[Callable[[Any], tuple[Form, StateWindows | None, dict[str, str]]]] = Pass(
    "forms of state",
    PHYSICAL,
    default="the state is used again if the text of the operator is the same",
)
"""`rule(node)`: the form of the state, its windows, and the texts that may not change."""

STATE_COLUMNS: Pass[Callable[[Any, int], tuple[str, Physical, int] | None]] = Pass(
    "names of columns in state", PHYSICAL, default="each column originates in the node"
)
"""`rule(node, index)`: the side that a column comes from, the input and the index there; None if
the column originates in the node."""
