"""The commands `runnel serve DIR` and `runnel backup DIR TARGET`.

`serve` keeps a directory's jobs running, and serves the cursors of other processes, until it is
stopped:

    runnel serve DIR [--host H] [--port P] [--token-file F] [--user-token-file F]
                     [--certificate F --key F] [--set NAME=VALUE]…
                     [--files FOLDER…] [--modules FOLDER] [--spark URL]

It stays in the foreground. SIGTERM and Ctrl-C end it cleanly: statements are cancelled, named jobs
stop at a last snapshot, the directory is released. SIGHUP has it read the tokens again. There are
two tokens. The owner's comes from --token-file, or from the environment variable RUNNEL_TOKEN, or
is generated and stored in the file `token` of the directory; the users' comes from
--user-token-file, or RUNNEL_USER_TOKEN, or is stored in `user-token`. Only the directory's owner
can read these files.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType

from runnel.access import access_of, check_apart, modules_in
from runnel.connection import Connection, prepare_job
from runnel.database import Database
from runnel.deadline import LONGEST_WAIT
from runnel.errors import Error, InterfaceError, OperationalError
from runnel.processors.sinks.result_queue import INTERRUPTIBLE
from runnel.serving.remote_connection import TOKEN
from runnel.serving.server import Address, Server, ServerLimits

logger = logging.getLogger("runnel.serving")

TOKEN_BYTES = 32
_MOST_MEGABYTES = 1 << 20
USER_TOKEN = "RUNNEL_USER_TOKEN"
"""The environment variable with the users' token of a server."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status: 0 after a clean end, 1 after an error, 2 for wrong
    arguments."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)  # at INFO it logs each call
    try:
        options.run(options)
    except Error as error:
        print(f"runnel: {error}", file=sys.stderr)
        return 1
    return 0


def back_up(options: argparse.Namespace) -> None:
    """Makes a backup of a directory that no process has open, and prints its size."""
    # Loaded on first use: few servers make a backup.
    from runnel.session.backup import back_up_closed

    made = back_up_closed(Path(options.directory), options.target)
    print(f"{made.path}: {made.files} files, {made.bytes} bytes")


def serve(options: argparse.Namespace) -> None:
    """Opens the directory, serves it, and closes it at a signal."""
    signals: SimpleQueue[int] = SimpleQueue()

    def hear(number: int, frame: FrameType | None) -> None:
        signals.put(number)

    earlier = {
        number: signal.signal(number, hear)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    }
    has_stopped = True
    try:
        with _opened(options) as connection:
            (token, origin), (user_token, user_origin) = _tokens(options)
            address = Address(
                options.host, options.port, _read(options.certificate), _read(options.key)
            )
            limits = ServerLimits(
                options.message_limit << 20, options.table_limit << 20, options.client_timeout
            )
            server = Server(connection, token, address, user_token=user_token, limits=limits)
            try:
                if connection._database.directory is not None:
                    connection._database.directory.announce(server.url)
                where = f"{options.directory} is served at {server.url}"
                print(
                    f"{where} (the owner's token: {origin}; the users': {user_origin}); "
                    "Ctrl-C ends it",
                    flush=True,
                )
                while _next(signals) == signal.SIGHUP:
                    _change_tokens(server, options)
                print("ending", flush=True)
            finally:
                has_stopped = server.stop()
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        if not has_stopped:
            # A thread that returned to a finalized interpreter would crash the process.
            logging.shutdown()
            sys.stdout.flush()
            os._exit(1)


def _opened(options: argparse.Namespace) -> Connection:
    """The connection to the directory, with the bounds of its users. The owner's statements have no
    bounds."""
    # Spark is started only if the owner has specified one, whatever a statement requests.
    spark = spark_of(options.spark) or False
    settings = _settings(options.set)
    spilled = [value for name, value in settings.items() if name.lower() == "temp_directory"]
    hidden = [
        options.directory,
        *filter(None, (options.token_file, options.user_token_file, options.key, *spilled)),
    ]
    bounds = access_of(options.files, hidden)
    if options.modules is not None:
        check_apart(bounds, options.modules, "the folder of modules")
        bounds = replace(bounds, modules=modules_in(options.modules))
    return Connection(
        Database(options.directory, settings, spark, bounds=bounds, prepare_job=prepare_job)
    )


def _next(signals: SimpleQueue[int]) -> int:
    """Waits for the next signal. CPython does not notice a signal that arrives right before it
    sleeps, so it sleeps only briefly."""
    while True:
        with suppress(Empty):
            return signals.get(timeout=INTERRUPTIBLE)


def _change_tokens(server: Server, options: argparse.Namespace) -> None:
    """Reads the tokens again; if one cannot be read, or is invalid, the old ones remain valid, and
    the log has the reason."""
    try:
        (token, _), (user_token, _) = _tokens(options)
        server.change_tokens(token, user_token)
    except Error as error:
        logger.error("the tokens stay as they were: %s", error)
    else:
        logger.info("the tokens were read again")


def _tokens(options: argparse.Namespace) -> tuple[tuple[str, str], tuple[str, str]]:
    """The owner's token and the users' token, each with its origin."""
    owner = _token(options.token_file, TOKEN, Path(options.directory, "token"))
    return owner, _token(options.user_token_file, USER_TOKEN, Path(options.directory, "user-token"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="runnel", description="A SQL engine for tables at rest and streams that never end."
    )
    parser.add_argument("--version", action="version", version=f"runnel {version('runnel')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serving = commands.add_parser(
        "serve", help="keep a directory's jobs running and let other processes' cursors in"
    )
    serving.add_argument("directory", help="the directory of the connection; made if there is none")
    serving.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on; any but loopback needs a certificate",
    )
    serving.add_argument("--port", type=_port, default=0, help="0, the default: any free port")
    serving.set_defaults(run=serve)
    _add_tokens(serving)
    _add_users_bounds(serving)
    serving.add_argument("--certificate", help="a PEM file, for TLS")
    serving.add_argument("--key", help="the PEM file of the certificate's key")
    _add_limits(serving)
    serving.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting, written as in SET",
    )
    serving.add_argument(
        "--spark",
        action="append",
        default=[],
        metavar="URL|NAME=VALUE",
        help=(
            "the Spark that its mappings and jobs use, such as local[4], spark://host:7077 or "
            "sc://host, and settings of it"
        ),
    )
    copying = commands.add_parser(
        "backup",
        help="copy a directory that no process has open; where one has: BACKUP TO 'folder'",
    )
    copying.set_defaults(run=back_up)
    copying.add_argument("directory", help="the directory of the connection")
    copying.add_argument("target", help="the folder of the backup, which does not exist yet")
    return parser


def _add_tokens(serving: argparse.ArgumentParser) -> None:
    serving.add_argument(
        "--token-file",
        help=(
            f"the file that holds the owner's token (else: ${TOKEN}, or DIR/token, made if need be)"
        ),
    )
    serving.add_argument(
        "--user-token-file",
        help=(
            f"the file that holds the users' token (else: ${USER_TOKEN}, or DIR/user-token, "
            "made if need be)"
        ),
    )


def _add_users_bounds(serving: argparse.ArgumentParser) -> None:
    """Adds the options that limit users' statements; the owner's statements have no limits."""
    serving.add_argument(
        "--files",
        nargs="+",
        action="extend",
        default=[],
        metavar="FOLDER|URL",
        help=(
            "folders and URLs that users' statements may read and write, such as /data or "
            "s3://bucket/folder (else: no file and no URL)"
        ),
    )
    serving.add_argument(
        "--modules",
        metavar="FOLDER",
        help="the folder of the Python modules that users' jobs may name",
    )


def _add_limits(serving: argparse.ArgumentParser) -> None:
    serving.add_argument(
        "--client-timeout",
        type=_seconds,
        default=ServerLimits().client_timeout,
        metavar="SECONDS",
        help=(
            "how long a client may leave its rows unread before its statement is ended (default: "
            "%(default)g)"
        ),
    )
    for name, most, what in (
        ("--message-limit", ServerLimits().message, "statement with its arguments"),
        ("--table-limit", ServerLimits().table, "registered table"),
    ):
        help_text = f"the size of a {what} that the server accepts (default: {most >> 20})"
        serving.add_argument(
            name, type=_megabytes, default=most >> 20, metavar="MEGABYTES", help=help_text
        )


def spark_of(items: Sequence[str]) -> dict[str, str] | None:
    """The value of `connect(spark=…)` for an address and settings, all of them optional."""
    settings: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not (equals and name.startswith("spark.")):
            name, value = "spark.remote" if item.startswith("sc://") else "spark.master", item
        if name in settings:
            raise InterfaceError(
                f'--spark sets "{name}" twice',
                hint="pass one address, and each setting once",
            )
        settings[name] = value
    return settings or None


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 65_536:
        raise argparse.ArgumentTypeError(f"a port is a whole number from 0 to 65535, not {text}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= LONGEST_WAIT:
        raise argparse.ArgumentTypeError(f"a time is a number of seconds above 0, not {text}")
    return value


def _megabytes(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= _MOST_MEGABYTES:
        raise argparse.ArgumentTypeError(
            f"a size is a whole number of megabytes above 0, not {text}"
        )
    return int(text)


def _settings(items: Sequence[str]) -> dict[str, str]:
    pairs = [item.partition("=") for item in items]
    for name, equals, _ in pairs:
        if not equals:
            raise InterfaceError(f'--set needs NAME=VALUE, not "{name}"')
    return {name: value for name, _, value in pairs}


def _token(file: str | None, variable: str, path: Path) -> tuple[str, str]:
    """A token and its origin: a file, an environment variable, or a path, where it is generated if
    it does not exist."""
    if file is not None:
        content = _read(file)
        assert content is not None
        return content.decode(errors="replace").strip(), file
    if token := os.environ.get(variable):
        return token, f"${variable}"
    try:
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as stream:
                stream.write(secrets.token_urlsafe(TOKEN_BYTES))
        return path.read_text("utf-8").strip(), str(path)
    except OSError as error:
        raise OperationalError(
            f'the token "{path}" can\'t be read or made', detail=error.strerror
        ) from error


def _read(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OperationalError(f'"{path}" can\'t be read', detail=error.strerror) from error


if __name__ == "__main__":
    sys.exit(main())
