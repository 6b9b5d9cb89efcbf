"""The settings of DuckDB, PostgreSQL and Flink: the ones that are settings here under another name,
the ones that SET accepts without effect, and hints for other settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from runnel.errors import NotSupportedError

log = logging.getLogger("runnel.settings")

OTHER_NAMES = {
    "timezone": "time_zone",
    "table.local-time-zone": "time_zone",
    "max_memory": "memory_limit",
    "null_order": "default_null_order",
    "python_enable_replacements": "python_scan",
    "threads": "cooperative_threads",
    "worker_threads": "cooperative_threads",
    "work_mem": "memory_limit",
    "parallelism.default": "query_parallelism",
    "pipeline.name": "pipeline_name",
    "table.dml-sync": "dml_sync",
    "execution.savepoint.path": "savepoint_path",
    "execution.state-recovery.path": "savepoint_path",
    "execution.checkpointing.interval": "snapshot_interval",
    "table.exec.resource.default-parallelism": "query_parallelism",
    "table.exec.source.idle-timeout": "idle_timeout",
}
"""The names that DuckDB, PostgreSQL and Flink have for settings."""

_POSTGRESQL = frozenset(
    (
        "application_name bytea_output check_function_bodies client_encoding client_min_messages "
        "constraint_exclusion default_table_access_method default_tablespace extra_float_digits "
        "jit maintenance_work_mem max_parallel_workers_per_gather random_page_cost row_security "
        "session_replication_role standard_conforming_strings synchronous_commit xmloption"
    ).split()
)
"""Settings of PostgreSQL that change no result. SET accepts them, so that scripts run."""

SHOWN = {
    "client_encoding": ("UTF8", "encoding of texts"),
    "datestyle": ("ISO, MDY", "form of dates as text"),
    "default_transaction_isolation": ("repeatable read", "isolation of transactions"),
    "default_transaction_read_only": ("off", "whether transactions only read"),
    "in_hot_standby": ("off", "whether the server is a copy of another one"),
    "integer_datetimes": ("on", "whether times are whole numbers of microseconds"),
    "intervalstyle": ("postgres", "form of intervals as text"),
    "is_superuser": ("on", "whether the user may do everything"),
    "lc_collate": ("C", "order of texts"),
    "lc_ctype": ("C", "classes of characters"),
    "lock_timeout": ("0", "how long a statement waits for a lock"),
    "max_identifier_length": ("63", "length of names in PostgreSQL"),
    "server_encoding": ("UTF8", "encoding of texts"),
    "server_version": ("16.0", "version of PostgreSQL whose catalog the tables of pg_catalog have"),
    "server_version_num": ("160000", "server_version as a number"),
    "standard_conforming_strings": ("on", "whether a backslash in a string is a character"),
    "statement_timeout": ("0", "how long a statement may run"),
    "transaction_isolation": ("repeatable read", "isolation of the transaction"),
    "transaction_read_only": ("off", "whether the transaction only reads"),
}
"""The values of settings of PostgreSQL that SHOW, current_setting and pg_settings return, each with
its meaning. They do not change."""

_DUCKDB = frozenset(
    (
        "arrow_large_buffer_size arrow_lossless_conversion autoinstall_known_extensions "
        "autoload_known_extensions checkpoint_threshold custom_extension_repository "
        "enable_fsst_vectors enable_http_metadata_cache enable_logging enable_macro_dependencies "
        "enable_object_cache enable_profiling enable_progress_bar enable_progress_bar_print "
        "enable_view_dependencies explain_output extension_directory external_threads "
        "force_compression home_directory immediate_transaction_mode max_expression_depth "
        "max_temp_directory_size merge_join_threshold nested_loop_join_threshold "
        "ordered_aggregate_threshold parquet_metadata_cache partitioned_write_flush_threshold "
        "partitioned_write_max_open_files perfect_ht_threshold pivot_filter_threshold pivot_limit "
        "prefer_range_joins preserve_insertion_order produce_arrow_string_view profile_output "
        "profiling_coverage profiling_mode profiling_output progress_bar_time "
        "python_map_function python_scan_all_frames wal_autocheckpoint"
    ).split()
)
"""Settings of DuckDB that change no result. SET accepts them with a warning."""

_AT_START = "pass it at the start: runnel.connect(cooperative_threads=…)"
_BOUNDS = (
    "the owner of a connection may read all files: runnel serve has bounds, see docs/security.md"
)
_SNAPSHOTS = "snapshots are in the directory of the connection: runnel.connect('directory')"
_EARLY = "write EMIT EVERY INTERVAL '10' SECOND at the end of the query"
_FIXED: dict[str, tuple[tuple[str, ...], str]] = {
    "calendar": (("gregorian",), "the calendar is gregorian"),
    "datestyle": (("iso", "iso, mdy", "iso, dmy", "iso, ymd"), "write strftime(x, '%d/%m/%Y')"),
    "default_collation": (("", "c", "binary"), "write lower(x) where case is ignored"),
    "default_order": (("asc", "ascending"), "write DESC in ORDER BY"),
    "enable_external_access": (("true", "1", "on"), _BOUNDS),
    "errors_as_json": (("false", "0", "off"), "an error of Python has fields: error.code, .hint"),
    "ieee_floating_point_ops": (
        ("false", "0", "off"),
        "division by zero is an error: x / nullif(y, 0)",
    ),
    "integer_division": (("true", "1", "on"), "write 7 / 2.0 for 3.5"),
    "intervalstyle": (("postgres",), "write to_char(x, 'HH24:MI')"),
    "lock_configuration": (("false", "0", "off"), _BOUNDS),
    "old_implicit_casting": (("false", "0", "off"), "add an explicit CAST"),
    "scalar_subquery_error_on_multiple_rows": (("true", "1", "on"), "add LIMIT 1 to the subquery"),
    "table.exec.legacy-cast-behaviour": (("disabled",), "write TRY_CAST(x AS INT) for NULL"),
    "table.exec.sink.not-null-enforcer": (
        ("error",),
        "leave the rows out in the INSERT: WHERE c IS NOT NULL",
    ),
    "table.exec.sink.type-length-enforcer": (
        ("ignore",),
        "cut the values in the INSERT: CAST(c AS VARCHAR(3))",
    ),
    "table.sql-dialect": (("default",), "statements are Flink's, PostgreSQL's or DuckDB's"),
}
"""Settings of DuckDB, PostgreSQL and Flink with the values that describe what happens here, and a
hint for other values."""

_FAMILIES_WITHOUT_EFFECT = (
    *("execution.", "state.", "table.", "restart-strategy", "python.", "sql-client."),
    *("taskmanager.", "jobmanager.", "parallelism.", "pipeline.", "rest.", "web.", "metrics."),
    *("cluster.", "classloader.", "high-availability.", "heartbeat.", "env.", "security."),
    *("yarn.", "kubernetes.", "akka.", "pekko.", "client.", "fs.", "s3.", "io."),
)
"""The beginnings of the names of Flink's settings that SET accepts without effect."""
_CLUSTER = tuple(
    name
    for name in _FAMILIES_WITHOUT_EFFECT
    if name not in ("execution.", "sql-client.", "table.", "pipeline.", "parallelism.", "state.")
)
"""The families of settings of a cluster, which Runnel does not have: SET warns."""
WITHOUT_LIMIT = frozenset(
    {
        "idle_in_transaction_session_timeout",
        "lock_timeout",
        "statement_timeout",
        "transaction_timeout",
    }
)
"""Settings of PostgreSQL that SET accepts with the value 0, which is no limit."""
ELSEWHERE = {
    "statement_timeout": "pass it to the statement: cursor.execute(sql, args, timeout=seconds)",
    "lock_timeout": "pass it to the statement: cursor.execute(sql, args, timeout=seconds)",
    "search_path": "write SET search_path = s",
    **dict.fromkeys(("threads", "worker_threads", "external_threads"), _AT_START),
    "disabled_filesystems": _BOUNDS,
    "allowed_directories": _BOUNDS,
    "allowed_paths": _BOUNDS,
    "file_search_path": "write the path of a file, or change the folder of the process",
    "enable_seqscan": "EXPLAIN shows the plan; SET pushdown = off for Runnel's own operators",
    **dict.fromkeys(
        ("execution.checkpointing.dir", "execution.checkpointing.savepoint-dir"), _SNAPSHOTS
    ),
    **dict.fromkeys(("state.checkpoints.dir", "state.savepoints.dir"), _SNAPSHOTS),
    **dict.fromkeys(("pipeline.jars", "pipeline.classpaths"), "connectors are Python packages"),
    **dict.fromkeys(
        ("python.files", "python.requirements", "python.archives"),
        "CREATE FUNCTION imports modules from Python's own path: add their folder to PYTHONPATH",
    ),
    "table.exec.emit.early-fire.enabled": _EARLY,
    "table.exec.emit.early-fire.delay": _EARLY,
    "table.exec.emit.allow-lateness": "write ALLOWED LATENESS INTERVAL '1' MINUTE after the window",
    "execution.checkpointing.mode": "it is an option of a job: CREATE JOB j OPTIONS "
    "('processingGuarantee' = 'exactlyOnce') AS INSERT INTO …",
    "sql-client.execution.result-mode": "the shell prints each result when it ends, and the rows "
    "of a stream as they come; .mode has the forms",
    "table.exec.state.ttl": "the state of a stream is bounded by its watermark: EXPLAIN (STATE) "
    "shows how long rows are kept",
}
"""Hints for settings of other engines."""


def is_fixed(name: str, value: Any) -> bool:
    """Whether a value of a setting of another engine describes what happens here anyway; None:
    RESET."""
    if value is None:
        return name.lower() in _FIXED
    return str(value).lower() in _FIXED.get(name.lower(), ((), ""))[0]


def refused_hint(name: str) -> str | None:
    """The remedy for a value that `is_fixed` does not accept; None for other settings."""
    found = _FIXED.get(name.lower())
    return None if found is None else found[1]


def has_no_effect(name: str) -> bool:
    """Whether SET accepts a setting of another engine, without effect."""
    lower = name.lower()
    if lower in _POSTGRESQL or lower in _DUCKDB:
        return True
    return lower.startswith(_FAMILIES_WITHOUT_EFFECT) and lower not in OTHER_NAMES


def hint_without_effect(name: str) -> str:
    """The remedy for a setting without effect; "" if SET needs no warning."""
    lower = name.lower()
    if lower in _DUCKDB:
        default = "it changes no result"
    else:
        default = "it is a setting of Flink's cluster" if lower.startswith(_CLUSTER) else ""
    return ELSEWHERE.get(lower, default)


def hint_after_change(name: str) -> str:
    """The limits of SET of another engine's setting; "" if it needs no warning."""
    if OTHER_NAMES.get(name.lower()) != "idle_timeout":
        return ""
    return (
        "tables that exist stay as they are: ALTER TABLE t SET ('scan.watermark.idle-timeout' = …)"
    )


def is_of_threads(name: str) -> bool:
    """Whether it is the name that DuckDB has for cooperative_threads, which SET cannot change."""
    return OTHER_NAMES.get(name.lower()) == "cooperative_threads"


def at_start(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a `config` of DuckDB, without the ones that have no effect here, of which a
    warning is logged."""
    found = {}
    for name, value in config.items():
        if is_fixed(name, value):
            continue
        if (hint := refused_hint(name)) is not None:
            raise NotSupportedError(f"config {name} = {value!r} is not supported", hint=hint)
        if has_no_effect(name):
            log.warning("config: %s has no effect: %s", name, hint_without_effect(name))
        else:
            found[name] = value
    return found
