"""The options of a job: names, values, defaults, and parsing of OPTIONS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError, suggest
from runnel.foreign.job_runtime import TASKLETS
from runnel.processor import ExpiredPosition, Guarantee

DAY = 86_400_000

AUTO = "auto"
RUNTIMES = (AUTO, "spark", TASKLETS)


@frozen
class NamedJobOptions:
    """The options of a named job.

    guarantee: processing guarantee.
    snapshot_interval: milliseconds between the beginnings of two snapshots.
    initial_snapshot: name of the snapshot with which it starts; None: it starts without state.
    suspend_on_failure: whether a failure suspends the job instead of ending it; None: only if it
        reads a stream.
    accumulation_limit: maximum number of rows that one processor may accumulate; None: the setting
        max_processor_accumulated_records; 0: no limit.
    state_limit: maximum number of bytes of the state of all its processors; 0: no limit.
    is_measured: whether its metrics are measured.
    retention: milliseconds for which the job is shown after its end.
    modules: paths of Python files, packages and archives whose sources are stored with the job.
    runtime: one of RUNTIMES.
    expired_position: what the job does when a source no longer has the rows after the position in
        a snapshot.
    empties_state: after a change of its query, a step that cannot use its state begins without.
    """

    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    snapshot_interval: int = 10_000
    initial_snapshot: str | None = None
    suspend_on_failure: bool | None = None
    accumulation_limit: int | None = None
    state_limit: int = 0
    is_measured: bool = False
    retention: int = 7 * DAY
    modules: tuple[str, ...] = ()
    runtime: str = AUTO
    expired_position: ExpiredPosition = ExpiredPosition.FAIL
    empties_state: bool = False

    def to_json(self) -> dict[str, Any]:
        """JSON values by stored name, without defaults."""
        changed = {
            name: getattr(self, attribute)
            for name, attribute in _ATTRIBUTES.items()
            if getattr(self, attribute) != getattr(_DEFAULTS, attribute)
        }
        return {
            name: value.value if isinstance(value, Enum) else value
            for name, value in changed.items()
        }

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> NamedJobOptions:
        """The options that `to_json` wrote."""
        stored = {name: value for name, value in values.items() if name in _ATTRIBUTES}
        if "guarantee" in stored:
            stored["guarantee"] = Guarantee(stored["guarantee"])
        if "expired_position" in stored:
            stored["expired_position"] = ExpiredPosition(stored["expired_position"])
        if "modules" in stored:
            stored["modules"] = tuple(stored["modules"])
        return NamedJobOptions(**{_ATTRIBUTES[name]: value for name, value in stored.items()})


_DEFAULTS = NamedJobOptions()

_ATTRIBUTES = {
    "guarantee": "guarantee",
    "snapshot_interval": "snapshot_interval",
    "initial_snapshot": "initial_snapshot",
    "suspend_on_failure": "suspend_on_failure",
    "accumulation_limit": "accumulation_limit",
    "state_limit": "state_limit",
    "is_measured": "is_measured",
    "retention": "retention",
    "modules": "modules",
    "runtime": "runtime",
    "expired_position": "expired_position",
    "empties_state": "empties_state",
}
"""The attributes of the options by stored name. An attribute may be renamed, a stored name may
not."""

OptionValue = tuple[str, str, Position | None]
"""Name, value, and position of the name in the statement."""


@frozen
class _Option:
    """The declaration of one option.

    field: field of `NamedJobOptions` that it sets.
    read: parses its text; raises ValueError or KeyError for a wrong value.
    allowed: the accepted values, in words.
    is_changeable: whether ALTER JOB may change it.
    """

    field: str
    read: Callable[[str], Any]
    allowed: str
    is_changeable: bool = True


def _guarantee(text: str) -> Guarantee:
    for item in Guarantee:
        if item.value.lower() == text.lower():
            return item
    raise ValueError(text)


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _number(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 16 and int(text) >= least):
            raise ValueError(text)
        return int(text)

    return read


def _name(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    return text


def _paths(text: str) -> tuple[str, ...]:
    paths = tuple(part.strip() for part in text.split(","))
    if not all(paths):
        raise ValueError(text)
    return paths


_VALUES: dict[str, type[Enum]] = {"guarantee": Guarantee, "expired_position": ExpiredPosition}


def _runtime(text: str) -> str:
    if text.lower() not in RUNTIMES:
        raise ValueError(text)
    return text.lower()


_GUARANTEES = "'exactlyOnce', 'atLeastOnce' or 'none'"
_BOOLEANS = "'true' or 'false'"
_EXPIRED = "'fail', 'earliest' or 'latest'"

OPTIONS: dict[str, _Option] = {
    "processingGuarantee": _Option("guarantee", _guarantee, _GUARANTEES, is_changeable=False),
    "snapshotIntervalMillis": _Option(
        "snapshot_interval", _number(1), "a whole number of milliseconds, at least 1"
    ),
    "initialSnapshotName": _Option(
        "initial_snapshot", _name, "the name of a snapshot", is_changeable=False
    ),
    "suspendOnFailure": _Option("suspend_on_failure", _boolean, _BOOLEANS),
    "maxProcessorAccumulatedRecords": _Option(
        "accumulation_limit", _number(0), "a whole number of rows; 0 is no limit"
    ),
    "maxStateBytes": _Option("state_limit", _number(0), "a whole number of bytes; 0 is no limit"),
    "metricsEnabled": _Option("is_measured", _boolean, _BOOLEANS),
    "modules": _Option(
        "modules",
        _paths,
        "paths of Python files, packages and archives, with commas between them",
        is_changeable=False,
    ),
    "expiredPosition": _Option(
        "expired_position", lambda text: ExpiredPosition(text.strip().lower()), _EXPIRED
    ),
    "incompatibleState": _Option(
        "empties_state",
        lambda text: {"refuse": False, "empty": True}[text.strip().lower()],
        "'refuse' or 'empty'",
    ),
    "runtime": _Option("runtime", _runtime, "'auto', 'spark' or 'tasklets'", is_changeable=False),
    "resultRetentionMillis": _Option("retention", _number(0), "a whole number of milliseconds"),
}
"""By the name that users write."""

_ONE_MEMBER = (
    "autoScaling",
    "splitBrainProtectionEnabled",
    "storeMetricsAfterJobCompletion",
    "timeoutMillis",
)


def read_options(values: Iterable[OptionValue]) -> NamedJobOptions:
    """The options of CREATE JOB."""
    return changed_options(_DEFAULTS, values, is_new=True)


def changed_options(
    options: NamedJobOptions, changes: Iterable[OptionValue], *, is_new: bool = False
) -> NamedJobOptions:
    """The options with the changes of OPTIONS (…); ProgrammingError for an unknown option or a
    wrong value."""
    known = {name.lower(): name for name in OPTIONS}
    for written, text, position in changes:
        name = known.get(written.lower())
        if name is None:
            raise _unknown(written, position)
        option = OPTIONS[name]
        if not (option.is_changeable or is_new):
            raise NotSupportedError(
                f"option '{name}' is not supported for ALTER JOB",
                hint="DROP JOB … WITH SNAPSHOT s, and CREATE JOB with 'initialSnapshotName'='s'",
                position=position,
            )
        try:
            value = option.read(text)
        except (ValueError, KeyError):
            known_values = _VALUES.get(option.field)
            guess = (
                None
                if known_values is None
                else suggest(text, [item.value for item in known_values])
            )
            raise ProgrammingError(
                f"option '{name}' can't be '{text}'",
                detail=None if guess is None else f"it accepts {option.allowed}",
                hint=guess or f"it accepts {option.allowed}",
                position=position,
            ) from None
        options = replace(options, **{option.field: value})
    return options


def _unknown(written: str, position: Position | None) -> ProgrammingError | NotSupportedError:
    if written.lower() in [name.lower() for name in _ONE_MEMBER]:
        return NotSupportedError(
            f"job option '{written}' is not supported",
            hint="a job runs in one process: leave it out",
            position=position,
        )
    names = ", ".join(f"'{name}'" for name in OPTIONS)
    return ProgrammingError(
        f"a job has no option '{written}'",
        hint=suggest(written, OPTIONS, f"its options are {names}"),
        position=position,
    )
