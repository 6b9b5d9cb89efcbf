"""The settings: their declarations, parsing, and current values.

A setting is passed to `connect(path, name=value)` or changed by `SET name = value`; `SHOW ALL`
lists all settings. Some can only be set in `connect`. Each has a scope: `DatabaseSettings` has the
values that the sessions of a database share, `SessionSettings` the values of one session.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from threading import Lock
from typing import Any

from runnel.base.frozen import frozen
from runnel.errors import ErrorCode, OperationalError, ProgrammingError, suggest
from runnel.planner.environment import NULL_ORDERS, NULLS_LARGEST, NULLS_SMALLEST, PlanSettings
from runnel.storage.memory_budget import default_limit

Value = str | int | bool | float


LATENCY_TARGET = "10 ms"
"""The default of the setting latency_target."""


class SettingScope(Enum):
    """The extent of a setting.

    DATABASE: SET changes a component that all sessions share, such as the threads or the memory.
    SESSION: SET changes the later statements of its own session. Named jobs, which belong to no
        session, run by the values of the owner's session.
    """

    DATABASE = "database"
    SESSION = "session"


@frozen
class Setting:
    """The declaration of a setting.

    name: lower-case name.
    scope: whether a value is of one session or of the database.
    default: value if it is not set.
    read: converts the user's value, or raises ValueError.
    allowed: the accepted values, in words.
    description: description for SHOW ALL.
    at_start: it cannot be changed after `connect`.
    """

    name: str
    scope: SettingScope
    default: Value
    read: Callable[[Value], Value]
    allowed: str
    description: str
    at_start: bool = False


MOST_PROCESSORS = 256
"""The maximum of query_parallelism. Steps that exchange rows have a queue between each pair of
processors: with 256 processors they take seconds to start, and the time grows with the square."""


def _integer(least: int, most: float = math.inf) -> Callable[[Value], int]:
    def read(value: Value) -> int:
        number = int(str(value))
        if not least <= number <= most:
            raise ValueError(value)
        return number

    return read


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", re.IGNORECASE)


def _bytes(value: Value) -> int:
    """A number of bytes, also with a unit: MB is a million, MiB 2^20."""
    match = _SIZE.fullmatch(str(value).strip())
    if match is None or isinstance(value, bool):
        raise ValueError(value)
    number, unit, binary = match.groups()
    power = " KMGT".index(unit.upper() or " ")
    return int(float(number) * (1024 if binary else 1000) ** power)


LEAST_MEMORY = 1_000_000
"""The minimum of memory_limit, other than 0: with less, operators would mostly read and write
files."""


def _memory(value: Value) -> int:
    number = _bytes(value)
    if 0 < number < LEAST_MEMORY:
        raise ValueError(value)
    return number


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|µs|ms|s)?")
_NANOSECONDS = {"us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_LONGEST = 60 * 1_000_000_000


def _duration(value: Value) -> str:
    """Normalizes a duration such as '20 ms'; a number alone is in milliseconds."""
    match = _DURATION.fullmatch(str(value).strip().lower())
    if match is None or isinstance(value, bool):
        raise ValueError(value)
    text = f"{match[1]} {match[2] or 'ms'}"
    if nanoseconds(text) > _LONGEST:
        raise ValueError(value)
    return text


def nanoseconds(duration: str) -> int:
    """The nanoseconds of a normalized duration."""
    number, unit = duration.split()
    return int(float(number) * _NANOSECONDS[unit])


def _idle(value: Value) -> int:
    return _interval(value, 0)


def _interval(value: Value, least: int = 1) -> int:
    """The milliseconds of a duration as Flink writes it, such as '10 s'."""
    # Loaded on first use: few sessions change it.
    from runnel.planner.parse.flink.generated import milliseconds

    found = milliseconds(str(value), least)
    if found is None:
        raise ValueError(value)
    return found


def _directory(value: Value) -> str:
    text = str(value)
    if "\0" in text or (text and not (Path(text).is_dir() and os.access(text, os.W_OK | os.X_OK))):
        raise ValueError(value)
    return text


def _time_zone(value: Value) -> str:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(str(value)).key
    except (OSError, LookupError) as error:
        _check_zone_files()
        raise ValueError(value) from error


def _check_zone_files() -> None:
    """OperationalError if this machine has no files of time zones."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo("Europe/Vienna")
    except ZoneInfoNotFoundError as error:
        raise OperationalError(
            "this machine has no files of time zones",
            detail="neither the system's folder zoneinfo nor the package tzdata was found",
            hint="install them: pip install tzdata",
        ) from error


def _switch(value: Value) -> Value:
    """A BOOLEAN, or a text that PostgreSQL also accepts as one."""
    if isinstance(value, bool):
        return value
    known = {
        "on": True,
        "true": True,
        "yes": True,
        "1": True,
        "off": False,
        "false": False,
        "no": False,
        "0": False,
    }
    found = known.get(str(value).lower())
    if found is None:
        raise ValueError(value)
    return found


FRESHNESS = ("own_writes", "latest")
"""The values of view_freshness: a statement reads a materialized view with all that was written in
this process before the statement began, or as it is."""


def _freshness(value: Value) -> str:
    text = str(value).lower()
    if text not in FRESHNESS:
        raise ValueError(text)
    return text


def _null_order(value: Value) -> str:
    """The name of an order of NULLs, also by another name that DuckDB has for it."""
    text = str(value).lower().replace("nulls first", "first").replace("nulls last", "last")
    text = text.removeprefix("nulls_") if text in ("nulls_first", "nulls_last") else text
    named = {"first": "nulls_first", "last": "nulls_last", "postgres": NULLS_LARGEST}
    named |= dict.fromkeys(("sqlite", "mysql"), NULLS_SMALLEST)
    found = named.get(text, text)
    if found not in NULL_ORDERS:
        raise ValueError(value)
    return found


SETTINGS = (
    Setting(
        "cooperative_threads",
        SettingScope.DATABASE,
        os.cpu_count() or 1,
        _integer(1),
        "a whole number of at least 1",
        "number of worker threads that all jobs share",
        at_start=True,
    ),
    Setting(
        "default_null_order",
        SettingScope.SESSION,
        NULLS_SMALLEST,
        _null_order,
        ", ".join(NULL_ORDERS),
        "position of NULLs in ORDER BY without NULLS FIRST or NULLS LAST, except in jobs",
    ),
    Setting(
        "dml_sync",
        SettingScope.SESSION,
        False,
        _switch,
        "on or off",
        "whether an INSERT of Flink over a stream waits for the end of the job that it starts",
    ),
    Setting(
        "fragment_rows",
        SettingScope.SESSION,
        300_000,
        _integer(0),
        "a whole number of at least 0",
        "number of rows from which grouping, joining and sorting of data outside DuckDB tables is "
        "handed to DuckDB; 0: always, where possible",
    ),
    Setting(
        "idle_timeout",
        SettingScope.SESSION,
        1000,
        _idle,
        "a length of time, such as '10 s' or '1 min'; a number alone is in milliseconds",
        "milliseconds without a row after which a partition no longer holds back the watermark, of "
        "tables that CREATE TABLE … WITH makes without 'scan.watermark.idle-timeout'; 0: never",
    ),
    Setting(
        "latency_target",
        SettingScope.SESSION,
        LATENCY_TARGET,
        _duration,
        "a time of at most a minute, such as '20 ms'",
        "maximum time for which rows of a stream wait to be processed in larger batches, which "
        "saves work where rows arrive one by one; rows after a pause never wait; 0: none wait",
    ),
    Setting(
        "max_processor_accumulated_records",
        SettingScope.SESSION,
        0,
        _integer(0),
        "a whole number of at least 0",
        "maximum number of rows that one processor may hold before its statement fails; "
        "0: no limit",
    ),
    Setting(
        "memory_limit",
        SettingScope.DATABASE,
        default_limit(),
        _memory,
        "a number of bytes of at least 1 MB, or one with a unit, such as '512MB' or '4GiB'",
        "amount of memory that queries may use; rows and state of streams beyond it are written to "
        "files in temp_directory, except state that by EXPLAIN (STATE) must fit in memory; "
        "0: no limit",
    ),
    Setting(
        "pipeline_name",
        SettingScope.SESSION,
        "",
        str,
        "a text",
        "name of the jobs that an INSERT of Flink starts; empty: insert_into_ and the table",
    ),
    Setting(
        "plan_cache_size",
        SettingScope.DATABASE,
        1000,
        _integer(0),
        "a whole number of at least 0",
        "maximum number of cached plans; 0: none",
    ),
    Setting(
        "pushdown",
        SettingScope.SESSION,
        True,
        _switch,
        "on or off",
        "whether fragments of a query may run on DuckDB or Spark; off: "
        "all run on Runnel's own operators",
    ),
    Setting(
        "python_scan",
        SettingScope.SESSION,
        True,
        _switch,
        "on or off",
        "whether FROM finds data frames by the names of variables of the code that executes the "
        "statement, if no object has the name",
    ),
    Setting(
        "query_parallelism",
        SettingScope.SESSION,
        0,
        _integer(0, MOST_PROCESSORS),
        f"a whole number from 0 to {MOST_PROCESSORS}",
        "number of processors for each step of a statement (above 8: at most one for each 1,000 "
        "rows); 0: by the size of its tables",
    ),
    Setting(
        "savepoint_path",
        SettingScope.SESSION,
        "",
        str,
        "the name of a snapshot",
        "snapshot with which the jobs begin that an INSERT of Flink starts; empty: without state",
    ),
    Setting(
        "snapshot_interval",
        SettingScope.SESSION,
        10_000,
        _interval,
        "a length of time, such as '10 s' or '1 min'; a number alone is in milliseconds",
        "milliseconds between two snapshots of the jobs that an INSERT of Flink starts",
    ),
    Setting(
        "spark_job_rows",
        SettingScope.SESSION,
        30_000,
        _integer(0),
        "a whole number of at least 0",
        "number of rows from which a bounded job that reads Spark's tables runs on Spark; "
        "0: always",
    ),
    Setting(
        "temp_directory",
        SettingScope.DATABASE,
        "",
        _directory,
        "the path of a folder that exists and may be written to",
        "folder for rows that do not fit in memory; empty: the connection's own directory, "
        "or the system's folder for temporary files",
    ),
    Setting(
        "time_zone",
        SettingScope.SESSION,
        "UTC",
        _time_zone,
        "the name of a time zone, such as 'Europe/Vienna'",
        "time zone in which instants are shown, and cast to and from dates and times",
    ),
    Setting(
        "view_freshness",
        SettingScope.SESSION,
        FRESHNESS[0],
        _freshness,
        ", ".join(FRESHNESS),
        "whether a read of a materialized view waits until the view has all rows that this process "
        "wrote to its inputs before",
    ),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}
_LISTS = (
    *("TABLES", "MAPPINGS", "VIEWS", "JOBS", "SNAPSHOTS", "PLANS", "INDEXES", "SETTINGS"),
    *("FUNCTIONS", "DATABASES", "SCHEMAS", "COLUMNS", "RESOURCES"),
)
"""The lists that SHOW accepts instead of a setting."""
Values = Mapping[str, Value]
"""Values by the declared name of the setting."""


def read_settings(written: Mapping[str, Any]) -> dict[str, Value]:
    """The values that a user has passed, by declared name. ProgrammingError for an unknown name, or
    a value that isn't allowed."""
    found = {}
    for name, value in written.items():
        setting = find(name)
        found[setting.name] = _read(setting, value)
    return found


class DatabaseSettings:
    """The values of the settings of a database, which its sessions share. Thread-safe."""

    def __init__(self, values: Values) -> None:
        """`values` of other settings are ignored; a setting without a value has its default."""
        self._lock = Lock()
        self.values: Values = _initial(SettingScope.DATABASE, values)
        """Replaced as a whole when a value changes."""

    def set(self, setting: Setting, value: Value | None) -> None:
        """Changes a setting, None to its default. ProgrammingError for a value that isn't allowed,
        or a setting that is fixed at the start."""
        if setting.at_start:
            raise ProgrammingError(
                f'setting "{setting.name}" can\'t be changed on a connection that is open',
                hint=f"pass it at the start: runnel.connect({setting.name}=…)",
            )
        new = setting.default if value is None else _read(setting, value)
        with self._lock:
            self.values = {**self.values, setting.name: new}

    def integer(self, name: str) -> int:
        """The value of an integer setting, by its declared name."""
        return _as_integer(self.values[name])

    def text(self, name: str) -> str:
        """The value of a setting as text, by its declared name."""
        return str(self.values[name])


class SessionSettings:
    """The values of all settings as one session has them. Thread-safe.

    database: the values that it shares with other sessions.
    """

    def __init__(self, database: DatabaseSettings, values: Values) -> None:
        """`values` of other settings are ignored; a setting without a value has its default."""
        self.database = database
        self._lock = Lock()
        self._own: Values = _initial(SettingScope.SESSION, values)
        self._planned: tuple[Values, Values, PlanSettings] | None = None

    def copy(self) -> SessionSettings:
        """The settings of another session of the database, which begins with these values."""
        return SessionSettings(self.database, self._own)

    def set(self, setting: Setting, value: Value | None) -> None:
        """Changes a setting of the session, None to its default. ProgrammingError for a value that
        isn't allowed."""
        assert setting.scope is SettingScope.SESSION
        new = setting.default if value is None else _read(setting, value)
        with self._lock:
            self._own = {**self._own, setting.name: new}

    def get(self, name: str) -> Value:
        """The value of a setting; ProgrammingError with the nearest known name for an unknown
        one."""
        return self._value(find(name).name)

    def integer(self, name: str) -> int:
        """The value of an integer setting, by its declared name."""
        # Without the calls of `_value` and `_as_integer`: each statement reads some.
        own = self._own
        value = own[name] if name in own else self.database.values[name]
        assert isinstance(value, int)
        return value

    @property
    def of_plans(self) -> PlanSettings:
        """The settings that change plans."""
        own, shared, planned = self._own, self.database.values, self._planned
        if planned is None or planned[0] is not own or planned[1] is not shared:
            found = PlanSettings(
                str(own["time_zone"]),
                bool(own["pushdown"]),
                _as_integer(own["fragment_rows"]),
                _as_integer(shared["memory_limit"]),
                null_order=str(own["default_null_order"]),
            )
            self._planned = planned = own, shared, found
        return planned[2]

    @property
    def latency_target(self) -> int:
        """In nanoseconds."""
        return nanoseconds(str(self._own["latency_target"]))

    @property
    def time_zone(self) -> str:
        return str(self._own["time_zone"])

    def _value(self, name: str) -> Value:
        own = self._own
        return own[name] if name in own else self.database.values[name]


def _initial(scope: SettingScope, values: Values) -> Values:
    return {
        setting.name: values.get(setting.name, setting.default)
        for setting in SETTINGS
        if setting.scope is scope
    }


def _as_integer(value: Value) -> int:
    assert isinstance(value, int)
    return value


def find(name: str) -> Setting:
    """The setting of that name, case-insensitively; ProgrammingError with the nearest known name if
    it is unknown."""
    lower = name.lower()
    setting = _BY_NAME.get(lower)
    if setting is not None:
        return setting
    # Loaded on first use: a first query sets nothing.
    from runnel.base.foreign_settings import ELSEWHERE, OTHER_NAMES

    setting = _BY_NAME.get(OTHER_NAMES.get(lower, ""))
    if setting is None:
        raise ProgrammingError(
            f'setting "{name}" not found',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=ELSEWHERE.get(lower)
            or suggest(name, _BY_NAME)
            or suggest(name, _LISTS, "the settings are " + ", ".join(_BY_NAME)),
        )
    return setting


def _read(setting: Setting, value: Any) -> Value:
    try:
        return setting.read(value)
    except (ValueError, TypeError) as error:
        shown = f"'{value}'" if isinstance(value, str) else value
        raise ProgrammingError(
            f'wrong value {shown} for setting "{setting.name}"',
            hint=f"it accepts {setting.allowed}",
        ) from error
