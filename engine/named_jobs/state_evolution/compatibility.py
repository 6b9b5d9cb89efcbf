"""The decision what happens to the state in a snapshot when a query, perhaps a changed one, starts
from it.

Vertices are matched by name and state signature: first vertices with equal signatures, whatever
number their names have now, then vertices that can use state of other windows. A vertex whose
signature differs otherwise is refused instead of started without its state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from textwrap import wrap

from runnel.base.frozen import frozen
from runnel.dag import DAG, Edge
from runnel.errors import ErrorCode, OperationalError
from runnel.named_jobs.state_evolution.recombination import (
    Change,
    RecombinationRefusal,
    change_of,
    difference,
)
from runnel.named_jobs.state_evolution.row_columns import Columns, missing_columns, moved_columns
from runnel.relation.state_identity import Form, StateSignature
from runnel.relation.streams import WINDOW_COLUMNS

_OTHER_STAGES = {"accumulate": "aggregate", "combine": "aggregate", "aggregate": "combine"}

_SESSION_ROWS_NOW = (
    "as the rows of sessions would be stored now, where only their aggregates were stored"
)
_SESSION_ROWS_BEFORE = (
    "as only the aggregates of sessions would be stored now, where their rows were stored"
)

_WIDTH = 110
"""Maximum number of characters in a line of EXPLAIN."""

_REREAD = "as its rows are read again for a new step"

_INCOMPLETE = "its first results miss the rows from before the change"


class StateOutcome(Enum):
    """The outcome for the state of a vertex.

    KEPT: the vertex continues with its state.
    RECOMBINED: it continues with its state, converted to other windows.
    EMPTY: it starts without state, for example because it is new.
    DROPPED: the query no longer has the vertex.
    REFUSED: the query has the vertex, but it computes something else.
    """

    KEPT = "kept"
    RECOMBINED = "recombined"
    EMPTY = "starts empty"
    DROPPED = "dropped"
    REFUSED = "refused"

    def __str__(self) -> str:
        return self.value


@frozen
class VertexOutcome:
    """The outcome for the state of one vertex.

    vertex: name of the vertex in the new plan; for dropped state in the old plan.
    outcome: the outcome.
    reason: reason of the outcome, as a clause.
    notes: remarks on the first results.
    source: vertex of the old plan whose state it is.
    change: change of the windows; None: none.
    watermarks: pairs of a watermark's number in the old plan and in the new plan.
    crosses_stages: the state belongs to an aggregation with more or fewer stages.
    columns: positions of the columns in the stored rows, per input (`row_columns`).
    widths: number of columns of each old input.
    names: new names of the columns, per input.
    """

    vertex: str
    outcome: StateOutcome
    reason: str = ""
    notes: tuple[str, ...] = ()
    source: str = ""
    change: Change | None = None
    watermarks: tuple[tuple[int, int], ...] = ()
    crosses_stages: bool = False
    columns: Columns = ()
    widths: tuple[int, ...] = ()
    names: tuple[tuple[str, ...], ...] = ()

    @property
    def takes_state(self) -> bool:
        return self.outcome in (StateOutcome.KEPT, StateOutcome.RECOMBINED)

    def __str__(self) -> str:
        return _line([self])


def grouped(found: Sequence[VertexOutcome]) -> list[tuple[str, tuple[str, ...]]]:
    """The outcomes as text, each with its notes. Vertices that implement one step of the query, and
    therefore have the same reason, are combined."""
    together: dict[object, list[VertexOutcome]] = {}
    for item in found:
        together.setdefault(
            (item.outcome, item.reason, item.notes) if item.reason else item.vertex, []
        ).append(item)
    return [(_line(items), items[0].notes) for items in together.values()]


def explained(found: Sequence[VertexOutcome]) -> list[str]:
    """The outcomes as lines for a terminal."""
    lines = []
    for text, notes in grouped(found):
        lines += wrap(
            text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
        )
        for note in notes:
            lines += wrap(
                note,
                _WIDTH,
                initial_indent="    - ",
                subsequent_indent="      ",
                break_on_hyphens=False,
            )
    return lines


def _line(items: Sequence[VertexOutcome]) -> str:
    first = items[0]
    sources = [item.source for item in items if item.source not in ("", item.vertex)]
    renamed = f" (state of {' and '.join(sources)})" if sources else ""
    reason = f", {first.reason}" if first.reason else ""
    return (
        f"{' and '.join(dict.fromkeys(item.vertex for item in items))}: "
        f"{first.outcome}{renamed}{reason}"
    )


def state_outcomes(
    with_state: Collection[str],
    before: Mapping[str, str],
    after: Mapping[str, str],
    dag: DAG,
    *,
    empties: bool = False,
) -> list[VertexOutcome]:
    """The outcome for each vertex that has state, and for each new one that will have some.

    with_state: vertices with state in the snapshot.
    before: encoded state signatures of the plan that took the snapshot.
    after: encoded state signatures of the new plan.
    dag: the new plan.
    empties: state that cannot be used is dropped instead of refused, except the state of sources
        and sinks, which contains how far they have read and written.
    """
    matching = _Matching(with_state, _decoded(before), _decoded(after))
    matching.run()
    found = matching.outcomes()
    unknown = set(with_state) - {item.source for item in found}
    found += [
        VertexOutcome(vertex, StateOutcome.REFUSED, "as no step can use it", source=vertex)
        for vertex in sorted(unknown)
    ]
    if empties:
        found = [_emptied(item) if may_begin_empty(item, dag) else item for item in found]
    repeated = reread_vertices(dag, found)
    return [
        VertexOutcome(item.vertex, StateOutcome.EMPTY, _REREAD)
        if item.vertex in repeated and item.takes_state
        else item
        for item in found
    ]


def may_begin_empty(item: VertexOutcome, dag: DAG) -> bool:
    """Whether a vertex whose state is refused may begin without. Sources and sinks may not: their
    state is how far they have read and written."""
    return (
        item.outcome is StateOutcome.REFUSED
        and bool(dag.inputs(item.vertex))
        and not item.vertex.startswith("write ")
    )


def _emptied(item: VertexOutcome) -> VertexOutcome:
    return replace(item, outcome=StateOutcome.EMPTY, notes=(_INCOMPLETE,))


def reread_vertices(dag: DAG, found: Sequence[VertexOutcome]) -> frozenset[str]:
    """The vertices that must process their input again, for consumers that are new. A consumer may
    read some inputs to their end before the rest; their producers have ended in the snapshot."""
    repeated: set[str] = set()
    empty = [item.vertex for item in found if item.outcome is StateOutcome.EMPTY]
    waiting = [edge.source for vertex in empty for edge in _read_first(dag.inputs(vertex))]
    while waiting:
        vertex = waiting.pop()
        if vertex not in repeated:
            repeated.add(vertex)
            waiting += [edge.source for edge in dag.inputs(vertex)]
    return frozenset(repeated)


def _read_first(edges: Sequence[Edge]) -> list[Edge]:
    last = max((edge.priority for edge in edges), default=0)
    return [edge for edge in edges if edge.priority < last]


def keeping(signatures: Mapping[str, str]) -> list[str]:
    """The vertices that have state, as far as it is known."""
    return [vertex for vertex, signature in _decoded(signatures).items() if signature.keeps]


def _decoded(signatures: Mapping[str, str]) -> dict[str, StateSignature]:
    return {vertex: StateSignature.decode(text) for vertex, text in signatures.items()}


def _kind(vertex: str, signature: StateSignature) -> str:
    """A vertex's name without the name from a hint, and without the number that distinguishes it
    from vertices of the same name."""
    name, _, number = vertex.rpartition(" ")
    name = name if name and number.isdecimal() else vertex
    return name.removesuffix(f" {signature.name}") if signature.name else name


def _may_be(vertex: str, new: StateSignature, source: str, old: StateSignature) -> bool:
    """Whether two vertices may be the same one, with another number, or with a name from a hint
    that was added or removed."""
    return _kind(vertex, new) == _kind(source, old) and (
        not new.name or not old.name or new.name == old.name
    )


class _Matching:
    """Matches each vertex that has state with a vertex of the new plan."""

    def __init__(
        self,
        with_state: Collection[str],
        before: Mapping[str, StateSignature],
        after: Mapping[str, StateSignature],
    ) -> None:
        self._before = before
        self._old = {
            vertex: before.get(vertex, StateSignature(text="")) for vertex in sorted(with_state)
        }
        self._new = dict(after)
        self._found: list[VertexOutcome] = []

    def run(self) -> None:
        """Matches from the most certain pairs to the least certain ones."""
        self._match(lambda old, new: _is_same(old, new) and old.reads == new.reads, by_number=True)
        self._match(lambda old, new: _is_same(old, new) and old.reads == new.reads, by_number=False)
        self._match(_is_same, by_number=True)
        self._match(
            lambda old, new: _is_same(old, new) and _shares(old.reads, new.reads), by_number=False
        )
        for by_number in (True, False):
            self._match(
                lambda old, new: old.reads == new.reads and _can_change(old, new),
                by_number=by_number,
            )
        self._match(_can_change, by_number=True)
        self._match(
            lambda old, new: _can_change(old, new) and _shares(old.reads, new.reads),
            by_number=False,
        )
        self._match_stages()

    def _match(
        self, test: Callable[[StateSignature, StateSignature], bool], by_number: bool
    ) -> None:
        """Matches vertices with equal names: with equal numbers, or with any."""
        for source, old in list(self._old.items()):
            names = (
                [source]
                if by_number
                else [name for name, new in self._new.items() if _may_be(name, new, source, old)]
            )
            for vertex in names:
                if vertex in self._new and test(old, self._new[vertex]):
                    self._found.append(_outcome(vertex, source, old, self._new[vertex]))
                    del self._old[source], self._new[vertex]
                    break

    def _match_stages(self) -> None:
        """Matches an aggregation in two stages with the single stage that it becomes when its late
        rows are written to a table, and the other way round."""
        taken: set[tuple[str, str]] = set()
        for source, old in list(self._old.items()):
            stage = _kind(source, old)
            for vertex, new in self._new.items():
                fits = _kind(vertex, new) == _OTHER_STAGES.get(stage) and old.name in ("", new.name)
                fits = fits and _shares(old.reads, new.reads)
                if (
                    fits
                    and (vertex, stage) not in taken
                    and (_is_same(old, new) or _can_change(old, new))
                ):
                    self._found.append(
                        replace(_outcome(vertex, source, old, new), crosses_stages=True)
                    )
                    taken.add((vertex, stage))
                    del self._old[source]
                    break
        for vertex, _ in taken:
            self._new.pop(vertex, None)

    def outcomes(self) -> list[VertexOutcome]:
        """The matches, and the outcomes for the unmatched vertices of both plans."""
        left, dropped = [], {}
        for vertex, old in self._old.items():
            new = self._new.pop(vertex, None)
            if new is None:
                left.append(VertexOutcome(vertex, StateOutcome.DROPPED, source=vertex))
                dropped[vertex] = old
            else:
                left.append(
                    VertexOutcome(
                        vertex,
                        StateOutcome.REFUSED,
                        _why_not(old, new),
                        _remedies(old, new),
                        vertex,
                    )
                )
        matched = sorted([*self._found, *left], key=lambda item: item.vertex)
        added = [
            vertex
            for vertex, new in sorted(self._new.items())
            if new.keeps and not self._had_none(vertex, new)
        ]
        return matched + [self._begins(vertex, self._new[vertex], dropped) for vertex in added]

    def _begins(
        self, vertex: str, new: StateSignature, dropped: Mapping[str, StateSignature]
    ) -> VertexOutcome:
        """The outcome for a new step. It is refused if it would begin without state while the state
        of another step over the same rows is dropped, because that state would be lost. A new name
        from a hint states that this is intended."""
        for source, old in dropped.items():
            is_meant = bool(new.name) and new.name != old.name
            if not is_meant and set(new.holds) & set(old.holds or old.reads):
                return VertexOutcome(
                    vertex,
                    StateOutcome.REFUSED,
                    _why_lost(source, old, vertex, new),
                    _remedies(old, new),
                    vertex,
                )
        return VertexOutcome(vertex, StateOutcome.EMPTY)

    def _had_none(self, vertex: str, new: StateSignature) -> bool:
        """Whether the vertex existed in the old plan, without state so far."""
        old = self._before.get(vertex)
        return (
            old is not None
            and old.text == new.text
            and all(item.source != vertex for item in self._found)
        )


def _is_same(old: StateSignature, new: StateSignature) -> bool:
    """Whether state can be used unchanged, or with only the columns of its rows in another
    order."""
    if old.text != new.text:
        return False
    if not old.is_known or not new.is_known:
        return True
    if old.columns and new.columns and old.columns != new.columns:
        return False
    if old.windows is None or new.windows is None:
        return old.windows is new.windows
    return isinstance(change_of(old, new), Change) or _has_no_windows(old, new)


def _has_no_windows(old: StateSignature, new: StateSignature) -> bool:
    """Whether only one of the two plans recognizes groups as windows, while their keys are the same
    columns."""
    assert old.windows is not None and new.windows is not None
    is_one = bool(old.windows.bound) is not bool(new.windows.bound)
    return (
        is_one
        and old.form is new.form is Form.GROUPS
        and old.same.get("types") == new.same.get("types")
    )


def _shares(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether one step reads all tables of another, perhaps with further tables joined to them."""
    return set(old) <= set(new) or set(new) <= set(old)


def _can_change(old: StateSignature, new: StateSignature) -> bool:
    """Whether state can be converted."""
    if not old.is_known or not new.is_known or _watermarks(old, new) is None:
        return False
    if len(old.columns) != len(new.columns) or missing_columns(old, new):
        return False
    if old.windows is None or new.windows is None:
        is_same = difference(old.same, new.same) is None
        return old.windows is new.windows and old.form is new.form and is_same
    return isinstance(change_of(old, new), Change)


def _outcome(vertex: str, source: str, old: StateSignature, new: StateSignature) -> VertexOutcome:
    watermarks = _watermarks(old, new)
    if watermarks is None:
        watermarks = _watermarks_by_name(old, new)
    above = (
        ()
        if old.text == new.text or new.columns
        else ("its rows keep the bounds of the windows from before",)
    )
    columns, widths = moved_columns(old, new), tuple(map(len, old.columns))
    kept = VertexOutcome(
        vertex,
        StateOutcome.KEPT,
        "",
        above,
        source,
        None,
        tuple(watermarks.items()),
        columns=columns,
        widths=widths,
        names=new.column_names,
    )
    if old.windows is None or new.windows is None:
        return kept
    change = change_of(old, new)
    if isinstance(change, RecombinationRefusal):
        return kept  # the signatures' texts are equal, see `_is_same`
    if change.is_same and not change.text:
        return replace(kept, notes=() if _has_own_watermarks(new) else above, change=change)
    outcome = StateOutcome.KEPT if change.is_same else StateOutcome.RECOMBINED
    return replace(kept, outcome=outcome, reason=change.text, notes=change.notes, change=change)


def _has_own_watermarks(signature: StateSignature) -> bool:
    """Whether the windows are assigned directly below the vertex."""
    return (
        signature.windows is None
        or not signature.windows.key_indexes
        or min(signature.windows.key_indexes) < 0
    )


def _watermarks(old: StateSignature, new: StateSignature) -> dict[int, int] | None:
    """The new numbers of watermarks by their old ones: matched by name, or else in numerical order;
    None if there are more or fewer of them."""
    if len(old.watermarks) != len(new.watermarks):
        return None
    now = {name: number for number, name in new.watermarks.items()}
    if len(now) == len(new.watermarks) and sorted(old.watermarks.values()) == sorted(now):
        return {number: now[name] for number, name in old.watermarks.items()}
    return dict(zip(sorted(old.watermarks), sorted(new.watermarks), strict=True))


def _watermarks_by_name(old: StateSignature, new: StateSignature) -> dict[int, int]:
    """The new numbers of the watermarks that both plans have, by their old ones.

    For a vertex whose input has more or fewer watermarks than before, but which uses those that
    both have. Names that are not unique are left out.

    For example, IMPOSE_ORDER over a union of a and b has {0: "a, b"}; over a join of a and b, which
    have watermarks of their own, {0: "a", 1: "b", 2: "a, b"}: the result is {0: 2}.
    """
    before, now = Counter(old.watermarks.values()), Counter(new.watermarks.values())
    numbers = {name: number for number, name in new.watermarks.items()}
    return {
        number: numbers[name]
        for number, name in old.watermarks.items()
        if before[name] == now[name] == 1
    }


def _why_not(old: StateSignature, new: StateSignature) -> str:
    if not old.is_known or not new.is_known:
        return f"as it was {old.text or 'unknown'}, and is {new.text or 'unknown'}"
    if _is_of_sessions(old, new):
        return _SESSION_ROWS_NOW if old.form is Form.SESSIONS else _SESSION_ROWS_BEFORE
    if _watermarks(old, new) is None:
        return f"as it uses the event times of {_listed(new)}, where it used {_listed(old)}"
    if old.windows is not None and new.windows is not None:
        found = change_of(old, new)
        if isinstance(found, RecombinationRefusal):
            return f"as {found.reason}"
    if old.windows is not None and new.windows is not None:
        return f"as {difference(old.same, new.same)}"
    if old.form is new.form and old.columns and difference(old.same, new.same) is None:
        return (
            f"as it needs {', '.join(missing_columns(old, new))} of its input, which its stored "
            "rows do not have"
        )
    return f"as it was {old.text}, and is {new.text}"


def _why_lost(source: str, old: StateSignature, vertex: str, new: StateSignature) -> str:
    """The reason why a step may not begin without state."""
    if (
        _is_of_sessions(old, new)
        or {_kind(vertex, new), _kind(source, old)} <= _OTHER_STAGES.keys()
    ):
        return _why_not(old, new)
    return (
        f'as it would begin without state, and the state of "{source}", with rows of '
        f"{_tables(old, new)}, would be lost"
    )


def _is_of_sessions(old: StateSignature, new: StateSignature) -> bool:
    """Whether one vertex aggregates sessions, and the second one stores their rows or groups by
    them."""
    forms = (old.form, new.form)
    return forms.count(Form.SESSIONS) == 1 and all(
        item.form is Form.SESSIONS or _is_of_rows(item) for item in (old, new)
    )


def _is_of_rows(signature: StateSignature) -> bool:
    """Whether it stores rows of sessions, or groups by their bounds."""
    if signature.windows is None or signature.form is not Form.GROUPS:
        return signature.form is Form.SESSION_ROWS
    return not signature.windows.bound and any(
        name in signature.same.get("by", "") for name in WINDOW_COLUMNS
    )


def _tables(old: StateSignature, new: StateSignature) -> str:
    return ", ".join(name for name in new.holds if name in (old.holds or old.reads))


def _remedies(old: StateSignature, new: StateSignature) -> tuple[str, ...]:
    if not _is_of_sessions(old, new):
        return (_remedy(new),)
    return (
        (
            "the state stays usable with other conditions and joins in the query that SESSION "
            "reads, or above its GROUP BY; between the two only with conditions on the keys and "
            "bounds of sessions"
        ),
        _remedy(new),
    )


def _remedy(new: StateSignature) -> str:
    name = "another name" if new.name else "a name"
    return f"to have it begin without state, give it {name}: SELECT /*+ STATE(name) */ …"


def _listed(signature: StateSignature) -> str:
    return ", ".join(dict.fromkeys(signature.watermarks.values())) or "nothing"


def check_outcomes(
    name: str, found: list[VertexOutcome], *, may_drop: bool, work: str = "query"
) -> list[str]:
    """The vertices whose state is dropped; OperationalError if state is refused, or must not be
    dropped.

    work: what the job runs: "query" or "DAG".
    """
    refused = [item for item in found if item.outcome is StateOutcome.REFUSED]
    dropped = [item.vertex for item in found if item.outcome is StateOutcome.DROPPED]
    if not refused and (may_drop or not dropped):
        return dropped
    reasons = [text for text, _ in grouped(refused)]
    reasons += [f"{vertex}: its {work} has no such vertex" for vertex in dropped if not may_drop]
    raise OperationalError(
        f'job "{name}" can\'t resume from its snapshot: its plan has changed',
        code=ErrorCode.GENERIC,
        detail="; ".join(reasons),
        hint=_ways_out(may_drop, work),
    )


def _ways_out(may_drop: bool, work: str) -> str:
    if work == "DAG":
        return (
            "vertices keep their state under the same name and supplier; with the option "
            "'incompatibleState' = 'empty' other state is dropped; or DROP JOB and submit it again"
        )
    if may_drop:
        return (
            "EXPLAIN ALTER JOB shows the state that a query keeps; with "
            "OPTIONS ('incompatibleState' = 'empty'), or where SELECT "
            "/*+ STATE(name) */ changes its name, "
            "a step begins without state; or DROP JOB and create it again"
        )
    return (
        "was a view, a mapping or an index that it uses changed? Change it back, "
        "or DROP JOB and create it again"
    )
