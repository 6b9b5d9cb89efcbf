"""The options of a file mapping, read and checked once.

The option `format`, or without it the extensions of the file names, determines the format of a
path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runnel.access import Access
from runnel.connectors.debezium import LOG_OPTIONS, check_unused
from runnel.connectors.files.records.malformed import FAIL, OnError, on_error
from runnel.connectors.files.sniffing.encoding import UTF_8, encoding_named, is_like_ascii
from runnel.connectors.options import (
    Option,
    Options,
    OptionSet,
    boolean,
    choice,
    free_text,
    integer,
    text,
)
from runnel.errors import DataError, NotSupportedError, ProgrammingError

FORMATS = ("csv", "json", "json-flat", "jsonl", "ndjson", "parquet", "arrow", "avro", "lines")
# Names of JSON lines that other systems use.
_JSON_FORMATS = ("json", "json-flat", "jsonl", "ndjson")
COMPRESSIONS = ("auto", "none", "gz", "bz2", "zst", "lz4", "snappy", "brotli")


def _point_or_comma(value: str) -> str:
    if value not in (".", ","):
        raise ValueError(value)
    return value


def _one_character(value: str) -> str:
    if len(value) > 1 or not value.isascii() or value in tuple('\r\n\0"'):
        raise ValueError(value)
    return value


PATH = text("path", required=True)
FORMAT = choice("format", FORMATS)
GLOB = text("glob")
COMPRESSION = choice("compression", COMPRESSIONS, "auto")
IGNORE_FILE_NOT_FOUND = boolean("ignoreFileNotFound", False)
ENCODING = Option(
    "encoding", encoding_named, "the name of an encoding: utf-8, utf-16, latin-1, windows-1252, …"
)
ENCODING_ERRORS = choice("encodingErrors", ("error", "replace"), "error")
HEADER = boolean("header", True)
DELIMITER = text("delimiter", ",")
QUOTE = free_text("quote", '"')
ESCAPE = free_text("escape", "")
NULL_VALUE = free_text("nullValue", "")
SKIP = integer("skip", 0, most=1_000_000)
DATE_FORMAT = text("dateFormat")
TIMESTAMP_FORMAT = text("timestampFormat")
DECIMAL_SEPARATOR = Option("decimalSeparator", _point_or_comma, "a point or a comma", ".")
THOUSANDS = Option("thousands", _one_character, "one character", "")
COMMENT = Option("comment", _one_character, "one character", "")
NULL_PADDING = boolean("nullPadding", False)
QUOTED_NULLS = boolean("quotedNulls", False)
HIVE_PARTITIONING = boolean("hivePartitioning")
PARTITION_BY = text("partitionBy")
FILE_COLUMNS = boolean("fileColumns", False)
ON_ERROR = on_error("onError")
FOLLOW = boolean("follow", False)
POLL_MILLIS = integer("pollMillis", 100, least=1, most=3_600_000)
PARTITIONS = integer("partitions", 64, least=1, most=1024)
CHANGES = choice("changes", ("debezium",))
OF_LOGS: tuple[Option[Any], ...] = (CHANGES, *LOG_OPTIONS)
"""The options of mappings whose records are changes."""
STORAGE = "storage."
"""The prefix of options that are passed to the file system of a URL."""

OPTIONS = OptionSet(
    "File",
    PATH,
    FORMAT,
    GLOB,
    COMPRESSION,
    IGNORE_FILE_NOT_FOUND,
    ENCODING,
    ENCODING_ERRORS,
    HEADER,
    DELIMITER,
    QUOTE,
    ESCAPE,
    NULL_VALUE,
    SKIP,
    DATE_FORMAT,
    TIMESTAMP_FORMAT,
    DECIMAL_SEPARATOR,
    THOUSANDS,
    COMMENT,
    NULL_PADDING,
    QUOTED_NULLS,
    HIVE_PARTITIONING,
    PARTITION_BY,
    FILE_COLUMNS,
    ON_ERROR,
    FOLLOW,
    POLL_MILLIS,
    PARTITIONS,
    *OF_LOGS,
)

_SNIFFED: tuple[Option[Any], ...] = (
    HEADER,
    DELIMITER,
    QUOTE,
    ESCAPE,
    SKIP,
    DATE_FORMAT,
    TIMESTAMP_FORMAT,
    COMMENT,
)
_OF_TIMES = (DATE_FORMAT, TIMESTAMP_FORMAT)
_CSV_ONLY: tuple[Option[Any], ...] = (
    *(option for option in _SNIFFED if option not in _OF_TIMES),
    NULL_VALUE,
    DECIMAL_SEPARATOR,
    THOUSANDS,
    NULL_PADDING,
    QUOTED_NULLS,
)
_TEXT_FORMATS = ("csv", *_JSON_FORMATS, "lines")
_EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".psv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".avro": "avro",
    ".txt": "lines",
    ".log": "lines",
}
_OF_PARQUET = ("snappy", "brotli")
LONGEST_SEPARATOR = 4
"""The maximum number of characters of a delimiter."""
_UNIT_SEPARATOR = "\x1f"
"""The character that a delimiter of several characters is read as."""
_DELIMITERS = {"tsv": "\t", "tab": "\t", "psv": "|"}
_COMPRESSED = {".gz": "gz", ".bz2": "bz2", ".zst": "zst", ".lz4": "lz4"}
CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
"""Arrow's names of the compressions."""
SUFFIXES = {
    "csv": ".csv",
    "json": ".json",
    "parquet": ".parquet",
    "arrow": ".arrow",
    "avro": ".avro",
    "lines": ".txt",
}
"""The extension of a new file, by format."""


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The syntax of a CSV file.

    header: whether the first row has the names of the columns.
    delimiter: the character between two values.
    quote: the character around quoted values; "" for none.
    escape: the character before an escaped one; "" for none.
    null: the unquoted text that stands for NULL.
    more_nulls: further ones, for reading.
    thousands: the character between groups of three digits; "" for none.
    comment: the character from which on a line is ignored; "" for none.
    pads: whether rows with fewer fields than others have NULL in the rest.
    quoted_nulls: whether a quoted value, too, can stand for NULL.
    not_null: the columns, in lower case, in which NULL is the empty text.
    separator: the text between two values if it has several characters: `delimiter` is then the
        character that it is read as.
    quoted: the columns whose values are all written in quotes, also where none are needed.
    skip: the number of lines before the header or the first row.
    date_format: the format of dates that are not ISO dates, such as "%d/%m/%Y"; None: ISO dates.
    timestamp_format: as `date_format`, of timestamps.
    decimal: the character before the fraction of a number.
    """

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    null: str = ""
    skip: int = 0
    date_format: str | None = None
    timestamp_format: str | None = None
    decimal: str = "."
    more_nulls: tuple[str, ...] = ()
    quoted: frozenset[str] = frozenset()
    thousands: str = ""
    comment: str = ""
    pads: bool = False
    quoted_nulls: bool = False
    not_null: frozenset[str] = frozenset()
    separator: str = ""

    @property
    def is_rewritten(self) -> bool:
        """Whether the text is rewritten before it is read: `csv.rewritten`."""
        return bool(self.comment or self.separator or self.pads)

    def changed(self) -> dict[str, str]:
        """The options that differ from the defaults, by name, except texts for NULL."""
        plain = CsvDialect()
        found = {
            option.name: str(value)
            for option, value, default in (
                (DELIMITER, self.separator or self.delimiter, plain.delimiter),
                (QUOTE, self.quote, plain.quote),
                (ESCAPE, self.escape, plain.escape),
                (SKIP, self.skip, plain.skip),
                (DATE_FORMAT, self.date_format, None),
                (TIMESTAMP_FORMAT, self.timestamp_format, None),
                (DECIMAL_SEPARATOR, self.decimal, plain.decimal),
                (COMMENT, self.comment, plain.comment),
            )
            if value != default
        }
        return found if self.header else {**found, HEADER.name: "false"}


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The options of a file mapping.

    path: a path, a pattern or a URL.
    format: None if it is to be derived from the files. "json-flat", "jsonl" and "ndjson" become
        "json", since a JSON column can have any name.
    glob: a pattern of names below `path`.
    compression: one of COMPRESSIONS.
    ignore_file_not_found: whether a path without files counts as empty.
    replace_invalid: whether invalid UTF-8 is replaced by U+FFFD; else it is an error.
    dialect: the syntax of CSV files.
    hive: whether folders named key=value are columns; None: if the path has such folders.
    partition_by: the columns whose values name the folders of new rows.
    storage: the options of the file system of a URL.
    on_error: the policy for malformed records.
    follow: whether the files are read as a stream.
    poll_millis: the interval in milliseconds at which followed files are listed.
    partitions: the number of partitions of a followed folder or pattern.
    access: restricts what may be opened; None: no restriction.
    in_query: whether a query names the files, without a mapping.
    is_merging: whether files with different columns are expected, so that no warning is logged.
    encoding: the encoding of text files.
    group_rows: the number of rows of a written row group of Parquet; None: the usual one.
    compression_level: the level of the compression of a written Parquet file; None: the usual one.
    whole_records: whether each record of JSON is one value, in a column `json`.
    file_columns: whether there are hidden columns about the file of a row.
    unset: the names of the options that the statement leaves out and that sniffing can find.
    log: the options of a log of changes, whose files are read one after the other in the order of
        their names; None: the records are rows.
    """

    path: str
    format: str | None
    glob: str | None
    compression: str
    ignore_file_not_found: bool
    replace_invalid: bool
    dialect: CsvDialect
    hive: bool | None = None
    partition_by: tuple[str, ...] = ()
    storage: tuple[tuple[str, str], ...] = ()
    on_error: OnError = FAIL
    follow: bool = False
    poll_millis: int = 100
    access: Access | None = None
    partitions: int = 64
    in_query: bool = False
    encoding: str = UTF_8
    group_rows: int | None = None
    compression_level: int | None = None
    is_merging: bool = False
    whole_records: bool = False
    file_columns: bool = False
    unset: frozenset[str] = frozenset()
    log: Options | None = None


def read_options(settings: Mapping[str, str], access: Access | None = None) -> FileOptions:
    """Checks the OPTIONS of a CREATE MAPPING; ProgrammingError names the option that is wrong.

    `access` restricts what the mapping may open.
    """
    storage = {
        name[len(STORAGE) :]: value
        for name, value in settings.items()
        if name.lower().startswith(STORAGE)
    }
    options = OPTIONS.read(
        {name: value for name, value in settings.items() if not name.lower().startswith(STORAGE)}
    )
    _check_combinations(options)
    format_name, encoding = options.get(FORMAT), options.get(ENCODING)
    is_log = options.is_set(CHANGES)
    return FileOptions(
        options.require(PATH),
        "json" if format_name in _JSON_FORMATS else format_name,
        options.get(GLOB),
        _compression(options),
        options.require(IGNORE_FILE_NOT_FOUND),
        options.require(ENCODING_ERRORS) == "replace",
        _dialect(options),
        options.get(HIVE_PARTITIONING),
        _names(options),
        tuple(storage.items()),
        options.require(ON_ERROR),
        options.require(FOLLOW),
        options.require(POLL_MILLIS),
        access,
        1 if is_log else options.require(PARTITIONS),
        encoding=encoding or UTF_8,
        file_columns=options.require(FILE_COLUMNS),
        unset=frozenset(item.name for item in (*_SNIFFED, ENCODING) if not options.is_set(item)),
        log=options if is_log else None,
    )


def _check_combinations(options: Options) -> None:
    """ProgrammingError or NotSupportedError for options that exclude each other."""
    format_name = options.get(FORMAT)
    _check_csv_only(options, format_name)
    _check_json_times(options, format_name)
    encoding = options.get(ENCODING)
    if encoding is not None and format_name is not None and format_name not in _TEXT_FORMATS:
        raise ProgrammingError(f'option "encoding" is for text files, not format {format_name}')
    if encoding is not None and options.require(FOLLOW) and not is_like_ascii(encoding):
        raise NotSupportedError(
            f"growing files in {encoding} can't be followed",
            hint="convert them to UTF-8, or read them without 'follow'",
        )
    if options.require(FOLLOW) and options.require(FILE_COLUMNS):
        raise NotSupportedError(
            "files can't be followed with columns about them",
            hint="leave fileColumns (file.path and so on) out, or read the files without 'follow'",
        )
    if options.is_set(PARTITIONS) and not options.require(FOLLOW):
        raise ProgrammingError(
            'option "partitions" is for followed files',
            hint="add 'follow' = 'true', or leave \"partitions\" out",
        )
    if not options.is_set(CHANGES):
        check_unused(options)


def _check_csv_only(options: Options, format_name: str | None) -> None:
    if format_name is None or format_name == "csv":
        return
    others = () if format_name in _JSON_FORMATS else _OF_TIMES
    for option in (*_CSV_ONLY, *others):
        if options.is_set(option):
            raise ProgrammingError(f'option "{option.name}" is for format csv, not {format_name}')


def _check_json_times(options: Options, format_name: str | None) -> None:
    is_by_record = options.require(FOLLOW) or not options.require(ON_ERROR).fails
    if format_name not in _JSON_FORMATS or not is_by_record:
        return
    for option in _OF_TIMES:
        if options.is_set(option):
            raise NotSupportedError(
                f'option "{option.name}" of JSON is not supported with onError or follow',
                hint="read the column as VARCHAR, and write try_strptime(column, '%d/%m/%Y')",
            )


def _compression(options: Options) -> str:
    compression = options.require(COMPRESSION)
    format_name = options.get(FORMAT) or format_of(options.require(PATH)) or "parquet"
    if compression in _OF_PARQUET and format_name != "parquet":
        raise ProgrammingError(
            f"compression {compression} is for format parquet", hint="use gz or zst for text"
        )
    return compression


def _names(options: Options) -> tuple[str, ...]:
    given = options.get(PARTITION_BY)
    names = tuple(name.strip() for name in given.split(",")) if given is not None else ()
    if not all(names) or len({name.lower() for name in names}) < len(names):
        raise ProgrammingError(
            f"wrong value '{given}' for option \"partitionBy\" of connector File",
            hint="it accepts names of columns: 'year, month'",
        )
    if names and options.get(HIVE_PARTITIONING) is False:
        raise ProgrammingError(
            'option "partitionBy" contradicts "hivePartitioning" = \'false\'',
            hint="leave one of them out",
        )
    return names


def _dialect(options: Options) -> CsvDialect:
    delimiter = options.get(DELIMITER) if options.is_set(DELIMITER) else None
    delimiter = delimiter or delimiter_of(options.require(PATH))
    if delimiter.lower() in ("\\t", "tab"):
        delimiter = "\t"
    separator = ""
    if 1 < len(delimiter) <= LONGEST_SEPARATOR and not any(item in delimiter for item in '\r\n"'):
        separator, delimiter = delimiter, _UNIT_SEPARATOR
    dialect = CsvDialect(
        options.require(HEADER),
        delimiter,
        options.require(QUOTE),
        options.require(ESCAPE),
        options.require(NULL_VALUE),
        options.require(SKIP),
        options.get(DATE_FORMAT),
        options.get(TIMESTAMP_FORMAT),
        options.require(DECIMAL_SEPARATOR),
        thousands=options.require(THOUSANDS),
        comment=options.require(COMMENT),
        pads=options.require(NULL_PADDING),
        quoted_nulls=options.require(QUOTED_NULLS),
        separator=separator,
    )
    if dialect.thousands and dialect.thousands == dialect.decimal:
        raise ProgrammingError(
            f"thousands and decimalSeparator are both '{dialect.decimal}'",
            hint="name both: decimalSeparator ',' goes with thousands '.'",
        )
    if options.require(FOLLOW) and dialect.is_rewritten:
        raise NotSupportedError(
            "files can't be followed with comment, nullPadding or a long delimiter",
            hint="read the files without 'follow'",
        )
    for option in (DATE_FORMAT, TIMESTAMP_FORMAT):
        _check_time_format(option, options.get(option))
    _check_character(DELIMITER, dialect.delimiter)
    for option, value in ((QUOTE, dialect.quote), (ESCAPE, dialect.escape)):
        if value:
            _check_character(option, value)
    if dialect.delimiter in (dialect.quote, dialect.escape):
        raise ProgrammingError(
            'option "delimiter" of connector File is the same character as "quote" or "escape"'
        )
    return dialect


def _check_character(option: Option[str], value: str) -> None:
    if len(value) != 1 or not value.isascii() or value in "\r\n\0":
        raise ProgrammingError(
            f"wrong value '{value}' for option \"{option.name}\" of connector File",
            hint="it accepts one ASCII character that doesn't end a line"
            + (", or 2 to 4 of them" if option is DELIMITER else ""),
        )


def _check_time_format(option: Option[str], value: str | None) -> None:
    if value is None:
        return
    # Loaded on first use, because few mappings have a format of their own.
    from runnel.connectors.files.csv.time_patterns import pattern_of

    try:
        pattern_of(value)
    except DataError as error:
        raise ProgrammingError(
            f"wrong value '{value}' for option \"{option.name}\" of connector File",
            detail=error.message,
            hint="it accepts a format such as '%d/%m/%Y %H:%M:%S', or 'DD/MM/YYYY HH24:MI:SS'",
        ) from None


def delimiter_of(path: str) -> str:
    """The delimiter that the extension of a file name implies."""
    stem, _, last = path.rpartition(".")
    if "." + last.lower() in _COMPRESSED:
        last = stem.rpartition(".")[2]
    return _DELIMITERS.get(last.lower(), ",")


def format_of(name: str) -> str | None:
    """The format that the extension of a file name implies, or None.

    The extension of a compression is skipped.
    """
    stem, dot, last = name.rpartition(".")
    if dot and "." + last.lower() in _COMPRESSED:
        stem, dot, last = stem.rpartition(".")
    return _EXTENSIONS.get("." + last.lower()) if dot else None


def compression_of(name: str, option: str) -> str | None:
    """The compression of a file ("gz", …); None if it is not compressed.

    It is the value of the option, or with "auto" the file's extension decides.
    """
    if option != "auto":
        return None if option == "none" else option
    dot = name.rfind(".")
    return _COMPRESSED.get(name[dot:].lower()) if dot >= 0 else None


def text_literal(value: object) -> str:
    """An option's value as SQL spells it."""
    return "'" + str(value).replace("'", "''") + "'"
