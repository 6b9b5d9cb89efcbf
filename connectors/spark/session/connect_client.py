"""A session of Spark Connect: its driver is in a server, which accepts plans and returns Arrow
data.

There is no JVM in this process. Operations that `Spark` performs through its JVM use the protocol
instead: the server clones the session, global temporary views transfer analysed plans from one
session to another, and tags replace job groups.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import finalize

import pyarrow as pa

from runnel.connectors.spark.errors import spark_error, spark_errors
from runnel.connectors.spark.session import start as spark_start
from runnel.connectors.spark.session.connect_fetch import RemoteFetch
from runnel.connectors.spark.session.connect_stream import RemoteStream
from runnel.connectors.spark.session.session import CHECKPOINT_ELSEWHERE, OWN_SETTINGS, Spark
from runnel.connectors.spark.session.start import quiet
from runnel.connectors.spark.types import travelling_schema
from runnel.errors import ErrorCode, InterfaceError, OperationalError, ProgrammingError
from runnel.sqltypes import SqlType

if TYPE_CHECKING:
    from runnel.connectors.spark.session.fetch import Fetch

RETRIES = 5
"""The number of times that a call is tried if it does not reach the server: some ten seconds in
total."""
ASKING_SECONDS = 2.0
"""The minimum interval in seconds at which the server is asked whether it still has the session."""
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"

_PACKAGES = "a Spark Connect session needs packages that are not installed"
_PIP = "install them with: pip install 'runnel[spark_connect]'"
_SIZE = re.compile(
    r"Statistics\(sizeInBytes=([\d.]+(?:E[+-]?\d+)?) (B|[KMGTPE]iB)(?:, "
    r"rowCount=([\d.]+(?:E[+-]?\d+)?))?"
)
_UNITS = {"B": 1, **{f"{letter}iB": 1 << (10 * power) for power, letter in enumerate("KMGTPE", 1)}}


def started(url: str, settings: Mapping[str, str]) -> RemoteSpark:
    """A new session of the server at `url` (sc://…), with these settings."""
    spark_start.require_pyspark()
    shown = spark_start.shown(url)
    try:
        with quiet():
            # Before pyspark checks for them itself: it may end the program if one is missing.
            for package in ("pandas", "grpc", "grpc_status", "google.rpc.error_details_pb2"):
                import_module(package)
            from pyspark.sql.connect.client import DefaultChannelBuilder
            from pyspark.sql.connect.session import SparkSession
    except ImportError as error:
        raise InterfaceError(_PACKAGES, detail=str(error), hint=_PIP) from error
    try:
        builder = DefaultChannelBuilder(url)
        endpoint = builder.endpoint
    except Exception:
        # pyspark's message contains the URL, and thereby its token.
        raise ProgrammingError(
            f'"{shown}" is not the address of a Spark Connect server',
            hint=(
                "write 'sc://host:15002', and its options after a slash: "
                "'sc://host:15002/;use_ssl=true;token=…'"
            ),
        ) from None
    spark_start.check_reachable(shown, [endpoint], "Connect server")
    # Not through SparkSession.builder, which would make it the program's active session.
    session = SparkSession(connection=builder)
    try:
        with spark_errors():
            session.client.set_retry_policies([_policy()])
            session.conf._set_all(configs=dict(settings), silent=False)
            session.version  # noqa: B018 - asks the server
    except Exception as error:
        with suppress(Exception):
            session.client.close()
        raise OperationalError(
            f'the Spark Connect server at "{shown}" refuses a session: '
            f"{getattr(error, 'message', type(error).__name__)}",
            code=ErrorCode.CONNECTION_PROBLEM,
            detail=getattr(error, "detail", None),
            hint="check the options of the address, such as use_ssl and token, and the settings",
        ) from None
    return RemoteSpark(session)


def _policy() -> Any:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    return DefaultPolicy(
        max_retries=RETRIES, initial_backoff=100, backoff_multiplier=2.5, max_backoff=5000
    )


class RemoteSpark(Spark):
    """A session of Spark Connect, and Runnel's clone of it on the server."""

    is_remote = True

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._unused: deque[str] = deque()
        """Views that no DataFrame needs any longer."""
        self._asked = monotonic()
        self._is_lost = False
        self._global: str | None = None

    @property
    def own(self) -> Any:
        with self._lock:
            if self._is_stopped:
                raise OperationalError(
                    "the Spark session of this connection was stopped, "
                    "or its server has dropped it",
                    # Retrying a job would not help.
                    code=ErrorCode.GENERIC,
                    hint=(
                        "create a new session, open a new connection with it, and register its "
                        "DataFrames there"
                    ),
                )
            if self._own is None:
                with quiet(), spark_errors():
                    own = self.session.cloneSession()
                    own.client.set_retry_policies([_policy()])
                    own.conf._set_all(configs=OWN_SETTINGS, silent=True)
                self._own = own
            return self._own

    def frame(self, text: str) -> Any:
        with spark_errors():
            return self._analysed(self.own.sql(text))

    def selected(self, frame: Any, names: Sequence[str]) -> Any:
        return frame.select(*names)

    def brought(self, frame: Any) -> Any:
        # The names in a DataFrame are resolved in its own session, when it is analysed. The view
        # has the analysed plan.
        name = f"runnel_frame_{uuid4().hex}"
        frame.createGlobalTempView(name)
        try:
            return self._analysed(self.own.table(f"{self.global_views}.{name}"))
        finally:
            frame.sparkSession.catalog.dropGlobalTempView(name)

    def _analysed(self, frame: Any) -> Any:
        """The DataFrame with its current analysed plan, so that names in its text may be dropped
        later."""
        name = self.view(frame)
        analysed = self.own.table(name)
        # The view is dropped later, since a finalizer may run at any point.
        finalize(analysed._plan, self._unused.append, name)
        return analysed

    def first_rows(self, frame: Any, count: int) -> Any:
        return frame.limit(min(count, 2**31 - 1))

    def made(self, table: pa.Table, types: Sequence[SqlType]) -> Any:
        columns = [
            item.cast(pa.int64()) if pa.types.is_duration(item.type) else item
            for item in table.columns
        ]
        names = [f"c{i}" for i in range(len(columns))]
        with spark_errors():
            return self.own.createDataFrame(
                pa.Table.from_arrays(columns, names=names), schema=travelling_schema(types)
            )

    def view(self, frame: Any) -> str:
        while self._unused:
            self.drop_view(self._unused.popleft())
        name = f"runnel_view_{next(self._names)}"
        frame.createOrReplaceTempView(name)
        return name

    def drop_view(self, name: str) -> None:
        with suppress(Exception):  # the session may be gone
            self.own.catalog.dropTempView(name)

    def _register(self, name: str, run: Callable[..., Any], result: str) -> None:
        from pyspark.util import PythonEvalType

        self.own.client.register_udf(run, result, name, PythonEvalType.SQL_SCALAR_ARROW_UDF)

    def fetch(self, frame: Any, is_ordered: bool, description: str) -> Fetch:
        return RemoteFetch(self, frame, is_ordered, description)

    def counted(self, frame: Any) -> tuple[Any, Callable[[], int]]:
        from pyspark.sql.connect import functions as f
        from pyspark.sql.connect.observation import Observation

        observation = Observation()
        return frame.observe(observation, f.count(f.lit(1)).alias("rows")), lambda: int(
            observation.get["rows"]
        )

    def insert(self, frame: Any, table: str) -> None:
        from pyspark.sql.connect.functions import lit
        from pyspark.sql.connect.plan import SQL, SubqueryAlias

        text = "INSERT INTO IDENTIFIER(:target) BY NAME SELECT * FROM runnel_rows"
        plan = SQL(text, [], {"target": lit(table)}, [SubqueryAlias(frame._plan, "runnel_rows")])
        client = self.own.client
        client.execute_command(plan.command(client), frame._plan.observations)

    def statistics(self, frame: Any) -> tuple[int | None, int | None]:
        client = self.own.client
        text = client.explain_string(frame._plan.to_proto(client), "cost")
        found = _SIZE.search(text)
        if found is None:
            return None, None
        number, unit, rows = found.groups()
        return None if rows is None else int(float(rows)), int(float(number) * _UNITS[unit])

    def checkpoint(self, folder: Path) -> str:
        with spark_errors():
            root = self.own.conf.get(CHECKPOINTS, None)
        return super().checkpoint(folder) if root is None else _named_checkpoint(folder, str(root))

    def start_stream(self, writer: Any, take: Callable[[Any, int], None]) -> Any:
        return RemoteStream(self, take).start(writer)

    @contextmanager
    def group(self, name: str, description: str) -> Iterator[None]:
        own = self.own
        own.addTag(name)  # only for this thread
        try:
            yield
        finally:
            own.removeTag(name)

    def cancel(self, group: str) -> None:
        self.own.interruptTag(group)

    def rows_read(self, group: str) -> int:
        return 0

    @property
    def global_views(self) -> str:
        """The database of the views that all sessions see."""
        if self._global is None:
            self._global = str(self.own.conf.get("spark.sql.globalTempDatabase", "global_temp"))
        return self._global

    @property
    def context(self) -> Any:
        raise NotImplementedError("a session of Spark Connect has no SparkContext")

    @property
    def description(self) -> str:
        return "sc://" + str(self.session.client._builder.endpoint)

    @property
    def is_gone(self) -> bool:
        """Whether the session has ended; asks the server at intervals of ASKING_SECONDS."""
        if not self._is_lost and monotonic() - self._asked > ASKING_SECONDS:
            try:
                self.session.client.get_configs("spark.app.name")
            except Exception as error:
                found = spark_error(error)
                self._is_lost = getattr(found, "code", None) is ErrorCode.CONNECTION_PROBLEM
            self._asked = monotonic()
        return self._is_lost or self._is_stopped

    @property
    def _is_stopped(self) -> bool:
        # pyspark closes a session that its server has dropped.
        return bool(self.session.is_stopped) or (
            self._own is not None and bool(self._own.is_stopped)
        )

    def is_same(self, session: Any) -> bool:
        return self.session is session or (
            self.session.session_id == session.session_id
            and self.description == "sc://" + str(session.client._builder.endpoint)
        )

    def close(self) -> None:
        super().close()
        with self._lock:
            # The stopped clone is retained, so that a late call does not create another one.
            own = self._own
        if own is not None:
            with suppress(Exception):  # the server may be gone
                own.stop()

    def stop(self) -> None:
        with suppress(Exception):
            self.session.stop()


def _named_checkpoint(folder: Path, root: str) -> str:
    """The checkpoint for a local folder, below a path that the server can reach; always the same
    for a folder."""
    path_file = folder / CHECKPOINT_ELSEWHERE
    if not path_file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path_file.write_text(f"{root.rstrip('/')}/runnel-{uuid4().hex}", "utf-8")
    return path_file.read_text("utf-8")
