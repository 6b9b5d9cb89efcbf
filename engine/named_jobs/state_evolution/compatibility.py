"""What becomes of the state in a snapshot when a query that may be another one starts from it.

Vertices are found again by name and meaning: first those that mean the same, under whatever number
they have now, then those that can go on with state of other windows. A vertex that means something
else is refused, not started without its state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from textwrap import wrap

from runnel.base.frozen import frozen
from runnel.dag import DAG, Edge
from runnel.errors import ErrorCode, OperationalError
from runnel.named_jobs.state_evolution.recombination import Change, Refusal, change_of, difference
from runnel.named_jobs.state_evolution.row_columns import Columns, missing_columns, moved_columns
from runnel.relation.state_identity import Form, Meaning
from runnel.relation.streams import WINDOW_COLUMNS

_OTHER_STAGES = {"accumulate": "aggregate", "combine": "aggregate", "aggregate": "combine"}

_SESSION_ROWS_NOW = (
    "as the rows of sessions would be kept now, where only what they come to was kept"
)
_SESSION_ROWS_BEFORE = "as only what sessions come to would be kept now, where their rows were kept"

_WIDTH = 110
"""How long lines may be."""

_READ_ANEW = "as its rows are read again for what is new"

_INCOMPLETE = "its first results miss what came before the change"


class Fate(Enum):
    """KEPT: the vertex goes on with its state. RECOMBINED: with what its state comes to for other
    windows. EMPTY: it is new.
    DROPPED: the query has no such vertex. REFUSED: it has one, which is for something else."""

    KEPT = "kept"
    RECOMBINED = "recombined"
    EMPTY = "starts empty"
    DROPPED = "dropped"
    REFUSED = "refused"

    def __str__(self) -> str:
        return self.value


@frozen
class VertexFate:
    """What becomes of the state of one vertex. `reason` is a clause, `notes` are what to expect of
    the first results; `source` is the vertex whose state it was; `change` and `watermarks` say how
    the state becomes this one's: its watermarks' numbers, by those before. `crosses_stages`: it is
    that of an aggregation in more or fewer stages. `columns`: where the columns of its rows were
    (`kept_rows`), of inputs of `widths` columns, and `names` what they are called now."""

    vertex: str
    fate: Fate
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
        return self.fate in (Fate.KEPT, Fate.RECOMBINED)

    def __str__(self) -> str:
        return _line([self])


def told(found: Sequence[VertexFate]) -> list[tuple[str, tuple[str, ...]]]:
    """What becomes of state, and what to expect then. Vertices that share a step of the query, and
    so a reason, are told as one."""
    together: dict[object, list[VertexFate]] = {}
    for item in found:
        together.setdefault(
            (item.fate, item.reason, item.notes) if item.reason else item.vertex, []
        ).append(item)
    return [(_line(items), items[0].notes) for items in together.values()]


def explained(found: Sequence[VertexFate]) -> list[str]:
    """The same as lines for a terminal."""
    lines = []
    for text, notes in told(found):
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


def _line(items: Sequence[VertexFate]) -> str:
    first = items[0]
    sources = [item.source for item in items if item.source not in ("", item.vertex)]
    renamed = f" (state of {' and '.join(sources)})" if sources else ""
    reason = f", {first.reason}" if first.reason else ""
    return (
        f"{' and '.join(dict.fromkeys(item.vertex for item in items))}: "
        f"{first.fate}{renamed}{reason}"
    )


def fates(
    with_state: Collection[str],
    before: Mapping[str, str],
    after: Mapping[str, str],
    dag: DAG,
    *,
    empties: bool = False,
) -> list[VertexFate]:
    """For each vertex that has state, and each new one that keeps any. `before` and `after` are the
    encoded meanings of the plan that took the snapshot and of that which is to go on, which is
    `dag`. `empties`: state that can't be had is left out, but for that of sources and sinks, which
    says what was read and written."""
    matching = _Matching(with_state, _decoded(before), _decoded(after))
    matching.run()
    found = matching.fates()
    unknown = set(with_state) - {item.source for item in found}
    found += [
        VertexFate(vertex, Fate.REFUSED, "as no step goes on with it", source=vertex)
        for vertex in sorted(unknown)
    ]
    if empties:
        found = [_emptied(item) if _may_begin_empty(item, dag) else item for item in found]
    anew = read_anew(dag, found)
    return [
        VertexFate(item.vertex, Fate.EMPTY, _READ_ANEW)
        if item.vertex in anew and item.takes_state
        else item
        for item in found
    ]


def _may_begin_empty(item: VertexFate, dag: DAG) -> bool:
    return (
        item.fate is Fate.REFUSED
        and bool(dag.inputs(item.vertex))
        and not item.vertex.startswith("write ")
    )


def _emptied(item: VertexFate) -> VertexFate:
    return replace(item, fate=Fate.EMPTY, notes=(_INCOMPLETE,))


def read_anew(dag: DAG, found: Sequence[VertexFate]) -> frozenset[str]:
    """The vertices that must do once more what they did, for others that are new: these read some
    inputs to their end before they go on, and those have ended."""
    anew: set[str] = set()
    empty = [item.vertex for item in found if item.fate is Fate.EMPTY]
    waiting = [edge.source for vertex in empty for edge in _read_first(dag.inputs(vertex))]
    while waiting:
        vertex = waiting.pop()
        if vertex not in anew:
            anew.add(vertex)
            waiting += [edge.source for edge in dag.inputs(vertex)]
    return frozenset(anew)


def _read_first(edges: Sequence[Edge]) -> list[Edge]:
    last = max((edge.priority for edge in edges), default=0)
    return [edge for edge in edges if edge.priority < last]


def keeping(meanings: Mapping[str, str]) -> list[str]:
    """The vertices that keep state, as far as that is known."""
    return [vertex for vertex, meaning in _decoded(meanings).items() if meaning.keeps]


def _decoded(meanings: Mapping[str, str]) -> dict[str, Meaning]:
    return {vertex: Meaning.decode(text) for vertex, text in meanings.items()}


def _kind(vertex: str, meaning: Meaning) -> str:
    """A vertex's name without what a hint calls it, and without the number that tells it from
    others of that name."""
    name, _, number = vertex.rpartition(" ")
    name = name if name and number.isdecimal() else vertex
    return name.removesuffix(f" {meaning.name}") if meaning.name else name


def _may_be(vertex: str, new: Meaning, source: str, old: Meaning) -> bool:
    """Whether a vertex may be one that had another number, or whose state a hint only now gives a
    name, or no more."""
    return _kind(vertex, new) == _kind(source, old) and (
        not new.name or not old.name or new.name == old.name
    )


class _Matching:
    """Finds for each vertex that has state the one that is to have it."""

    def __init__(
        self,
        with_state: Collection[str],
        before: Mapping[str, Meaning],
        after: Mapping[str, Meaning],
    ) -> None:
        self._before, self._after = before, after
        self._old = {vertex: before.get(vertex, Meaning(text="")) for vertex in sorted(with_state)}
        self._new = dict(after)
        self._found: list[VertexFate] = []

    def run(self) -> None:
        """From the surest to the least sure."""
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

    def _match(self, test: Callable[[Meaning, Meaning], bool], by_number: bool) -> None:
        """Pairs vertices of one name, with the numbers that they had or with others."""
        for source, old in list(self._old.items()):
            names = (
                [source]
                if by_number
                else [name for name, new in self._new.items() if _may_be(name, new, source, old)]
            )
            for vertex in names:
                if vertex in self._new and test(old, self._new[vertex]):
                    self._found.append(_fate(vertex, source, old, self._new[vertex]))
                    del self._old[source], self._new[vertex]
                    break

    def _match_stages(self) -> None:
        """An aggregation in two stages becomes one in a single stage where its late rows are to be
        written, and back."""
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
                        replace(_fate(vertex, source, old, new), crosses_stages=True)
                    )
                    taken.add((vertex, stage))
                    del self._old[source]
                    break
        for vertex, _ in taken:
            self._new.pop(vertex, None)

    def fates(self) -> list[VertexFate]:
        """What was found, and for what is left over on either side whether it may be."""
        left, dropped = [], {}
        for vertex, old in self._old.items():
            new = self._new.pop(vertex, None)
            if new is None:
                left.append(VertexFate(vertex, Fate.DROPPED, source=vertex))
                dropped[vertex] = old
            else:
                left.append(
                    VertexFate(
                        vertex, Fate.REFUSED, _why_not(old, new), _remedies(old, new), vertex
                    )
                )
        matched = sorted([*self._found, *left], key=lambda item: item.vertex)
        added = [
            vertex
            for vertex, new in sorted(self._new.items())
            if new.keeps and not self._had_none(vertex, new)
        ]
        return matched + [self._begins(vertex, self._new[vertex], dropped) for vertex in added]

    def _begins(self, vertex: str, new: Meaning, dropped: Mapping[str, Meaning]) -> VertexFate:
        """A step that is new. It is refused where it would begin without state over rows of which
        another step's state is left out: what that holds would be lost. That it has another name
        than that step says that this is meant."""
        for source, old in dropped.items():
            is_meant = bool(new.name) and new.name != old.name
            if not is_meant and set(new.holds) & set(old.holds or old.reads):
                return VertexFate(
                    vertex,
                    Fate.REFUSED,
                    _why_lost(source, old, vertex, new),
                    _remedies(old, new),
                    vertex,
                )
        return VertexFate(vertex, Fate.EMPTY)

    def _had_none(self, vertex: str, new: Meaning) -> bool:
        """Whether it was there before, and had no state yet."""
        old = self._before.get(vertex)
        return (
            old is not None
            and old.text == new.text
            and all(item.source != vertex for item in self._found)
        )


def _is_same(old: Meaning, new: Meaning) -> bool:
    """Whether state of one is that of the other as it is, or with its rows' columns in another
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


def _has_no_windows(old: Meaning, new: Meaning) -> bool:
    """Whether groups of windows are known as such in one of two plans only: their keys are the same
    columns."""
    assert old.windows is not None and new.windows is not None
    is_one = bool(old.windows.bound) is not bool(new.windows.bound)
    return (
        is_one
        and old.form is new.form is Form.GROUPS
        and old.same.get("types") == new.same.get("types")
    )


def _shares(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether steps read the same tables, or one of them further ones that are joined with
    these."""
    return set(old) <= set(new) or set(new) <= set(old)


def _can_change(old: Meaning, new: Meaning) -> bool:
    """Whether state of one can become that of the other."""
    if not old.is_known or not new.is_known or _watermarks(old, new) is None:
        return False
    if len(old.columns) != len(new.columns) or missing_columns(old, new):
        return False
    if old.windows is None or new.windows is None:
        is_same = difference(old.same, new.same) is None
        return old.windows is new.windows and old.form is new.form and is_same
    return isinstance(change_of(old, new), Change)


def _fate(vertex: str, source: str, old: Meaning, new: Meaning) -> VertexFate:
    watermarks = tuple((_watermarks(old, new) or {}).items())
    above = (
        ()
        if old.text == new.text or new.columns
        else ("what it holds keeps the bounds of the windows before",)
    )
    columns, widths = moved_columns(old, new), tuple(map(len, old.columns))
    kept = VertexFate(
        vertex,
        Fate.KEPT,
        "",
        above,
        source,
        None,
        watermarks,
        columns=columns,
        widths=widths,
        names=new.column_names,
    )
    if old.windows is None or new.windows is None:
        return kept
    change = change_of(old, new)
    if isinstance(change, Refusal):
        return kept  # equal as texts, see `_is_same`
    if change.is_same and not change.text:
        return replace(kept, notes=() if _is_own(new) else above, change=change)
    fate = Fate.KEPT if change.is_same else Fate.RECOMBINED
    return replace(kept, fate=fate, reason=change.text, notes=change.notes, change=change)


def _is_own(meaning: Meaning) -> bool:
    """Whether the windows that states are of stand right below."""
    return meaning.windows is None or not meaning.windows.places or min(meaning.windows.places) < 0


def _watermarks(old: Meaning, new: Meaning) -> dict[int, int] | None:
    """The numbers of watermarks now, by those before: by whose they are, or else in the order of
    numbers; None where there are more or fewer of them."""
    if len(old.watermarks) != len(new.watermarks):
        return None
    now = {name: number for number, name in new.watermarks.items()}
    if len(now) == len(new.watermarks) and sorted(old.watermarks.values()) == sorted(now):
        return {number: now[name] for number, name in old.watermarks.items()}
    return dict(zip(sorted(old.watermarks), sorted(new.watermarks), strict=True))


def _why_not(old: Meaning, new: Meaning) -> str:
    if not old.is_known or not new.is_known:
        return f"as it was {old.text or 'unknown'}, and is {new.text or 'unknown'}"
    if _is_of_sessions(old, new):
        return _SESSION_ROWS_NOW if old.form is Form.SESSIONS else _SESSION_ROWS_BEFORE
    if _watermarks(old, new) is None:
        return f"as it goes by the event times of {_listed(new)}, where it was {_listed(old)}"
    if old.windows is not None and new.windows is not None:
        found = change_of(old, new)
        if isinstance(found, Refusal):
            return f"as {found.reason}"
    if old.windows is not None and new.windows is not None:
        return f"as {difference(old.same, new.same)}"
    if old.form is new.form and old.columns and difference(old.same, new.same) is None:
        return (
            f"as it needs {', '.join(missing_columns(old, new))} of its input, which the rows that "
            "it holds do not have"
        )
    return f"as it was {old.text}, and is {new.text}"


def _why_lost(source: str, old: Meaning, vertex: str, new: Meaning) -> str:
    """Why a step may not begin without state."""
    if (
        _is_of_sessions(old, new)
        or {_kind(vertex, new), _kind(source, old)} <= _OTHER_STAGES.keys()
    ):
        return _why_not(old, new)
    return (
        f'as it would begin without state, and that of "{source}", which holds rows of '
        f"{_tables(old, new)}, would be lost"
    )


def _is_of_sessions(old: Meaning, new: Meaning) -> bool:
    """Whether one works on what sessions come to, the other on their rows or on groups of these."""
    forms = (old.form, new.form)
    return forms.count(Form.SESSIONS) == 1 and all(
        item.form is Form.SESSIONS or _is_of_rows(item) for item in (old, new)
    )


def _is_of_rows(meaning: Meaning) -> bool:
    """Whether it keeps rows of sessions, or groups by their bounds."""
    if meaning.windows is None or meaning.form is not Form.GROUPS:
        return meaning.form is Form.SESSION_ROWS
    return not meaning.windows.bound and any(
        name in meaning.same.get("by", "") for name in WINDOW_COLUMNS
    )


def _tables(old: Meaning, new: Meaning) -> str:
    return ", ".join(name for name in new.holds if name in (old.holds or old.reads))


def _remedies(old: Meaning, new: Meaning) -> tuple[str, ...]:
    if not _is_of_sessions(old, new):
        return (_remedy(new),)
    return (
        (
            "conditions and joins in the query that SESSION reads, or above its GROUP BY, leave "
            "what is kept as it is; between the two only conditions on the keys and bounds of "
            "sessions do"
        ),
        _remedy(new),
    )


def _remedy(new: Meaning) -> str:
    name = "another name" if new.name else "a name"
    return f"to have it begin without state, give it {name}: SELECT /*+ STATE(name) */ …"


def _listed(meaning: Meaning) -> str:
    return ", ".join(dict.fromkeys(meaning.watermarks.values())) or "nothing"


def check_fates(name: str, found: list[VertexFate], *, may_drop: bool) -> list[str]:
    """The vertices whose state is dropped; OperationalError where state is refused, or may not be
    dropped."""
    refused = [item for item in found if item.fate is Fate.REFUSED]
    dropped = [item.vertex for item in found if item.fate is Fate.DROPPED]
    if not refused and (may_drop or not dropped):
        return dropped
    reasons = [text for text, _ in told(refused)]
    reasons += [f"{vertex}: its query has no such vertex" for vertex in dropped if not may_drop]
    hint = (
        "was a view, a mapping or an index that it uses changed? Change it back, "
        "or DROP JOB and create it anew"
    )
    if may_drop:
        hint = (
            "EXPLAIN ALTER JOB tells what a query keeps; with "
            "OPTIONS ('incompatibleState' = 'empty'), or where SELECT "
            "/*+ STATE(name) */ gives it another name, "
            "a step begins without state; or DROP JOB and create it anew"
        )
    raise OperationalError(
        f'job "{name}" can\'t go on from its snapshot: its plan is another one',
        code=ErrorCode.GENERIC,
        detail="; ".join(reasons),
        hint=hint,
    )
