"""The functions of DuckDB, PostgreSQL and Flink that Runnel does not have, by family, with the
reason or the replacement: the hints for these names, and a table of docs/functions.md.

Imported only when a statement has failed, and by tests.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

TEXT = r"""
Bit strings: there is no type BIT: use integers with & | ~ and <<
  bitstring bitstring_agg bitstring_byte_comparable bit_position get_bit set_bit
Hashes: there is no such hash; use MD5, SHA256, or CRC32(CAST(x AS VARCHAR)) % n for a bucket
  md5_number md5_number_lower md5_number_upper crc32c
Trigonometry in degrees: use SIN(RADIANS(x)) and DEGREES(ASIN(x))
  sind cosd tand cotd asind acosd atand atan2d
Digits of a DECIMAL: a DECIMAL has the digits of its type
  scale min_scale trim_scale
Random numbers: a sample that repeats is USING SAMPLE 10 ROWS REPEATABLE (42)
  setseed random_normal
Graphemes: texts consist of code points
  left_grapheme right_grapheme substring_grapheme length_grapheme
Collations: texts are compared by code point
  collate_* icu_collate_* icu_sort_key create_sort_key pg_collation_for
Case folding: use LOWER
  casefold
Changes of bytes: use SUBSTRING and || over VARBINARY
  set_byte
Encodings: text is UTF-8: use TO_UTF8 and FROM_UTF8
  convert convert_from convert_to unistr
Texts in base 2: there is no inverse of BIN
  unbin from_binary
Watermarks: windows leave late rows out and count them; LATE DATA INTO writes them to a table
  current_watermark source_watermark
Sizes as text: sizes are numbers; FORMAT_BYTES writes one
  parse_formatted_bytes pg_size_bytes
Names and paths: use STRING_SPLIT and ||
  parse_ident path_join hive_partition_component
Timestamps: timestamps are finite, have microseconds, and years from 1 to 9999
  era make_timestamp_ns timezone_hour timezone_minute timetz_byte_comparable normalized_interval
Clocks: a statement has one time: NOW()
  clock_timestamp timeofday pg_sleep pg_sleep_for pg_sleep_until sleep_ms
UUIDs of other versions: use GEN_RANDOM_UUID, which is of version 4
  uuidv7 uuid_extract_timestamp uuid_extract_version
ENUM: there is no type ENUM; use VARCHAR with CHECK (x IN (…))
  enum_code enum_first enum_last enum_range enum_range_boundary
UNION and VARIANT: there are no such types; use JSON
  union_extract union_tag union_value variant_*
Geometry: there are no geometric types; use columns of DOUBLE
  st_* area center diagonal diameter height isclosed isopen npoints pclose popen radius slope width
  box circle line lseg path point polygon bound_box
Network addresses: there are no such types; use VARCHAR
  abbrev broadcast family host hostmask inet_merge inet_same_family masklen netmask network
  set_masklen macaddr8_set7bit inet_client_addr inet_client_port inet_server_addr inet_server_port
Text search: there is no text search; use ILIKE or REGEXP_MATCHES
  array_to_tsvector get_current_ts_config numnode plainto_tsquery phraseto_tsquery
  websearch_to_tsquery querytree setweight strip to_tsquery to_tsvector json_to_tsvector
  jsonb_to_tsvector ts_delete ts_filter ts_headline ts_rank ts_rank_cd ts_rewrite tsquery_phrase
  tsvector_to_array ts_debug ts_lexize ts_parse ts_token_type ts_stat
XML: there is no type XML; use JSON
  xmlcomment xmlconcat xmlelement xmlforest xmlpi xmlroot xmlagg xmlparse xmltable xmlexists xmltext
  xml_is_well_formed xml_is_well_formed_document xml_is_well_formed_content xpath xpath_exists
  table_to_xml query_to_xml
Ranges: there are no range types; use two columns, OVERLAPS and BETWEEN
  isempty lower_inc lower_inf upper_inc upper_inf range_merge multirange range_agg
  range_intersect_agg int4range int8range numrange tsrange tstzrange daterange
Sequences: write INSERT … RETURNING id, or currval('t_id_seq')
  lastval
Settings and variables: use SHOW and SET
  set_config in_search_path
JSON as values: use JSON_VALUE(j, path RETURNING type), or READ_JSON of files
  json_group_structure
  json_populate_record jsonb_populate_record json_populate_recordset jsonb_populate_recordset
  json_to_record jsonb_to_record json_to_recordset jsonb_to_recordset jsonb_populate_record_valid
Changes of JSON: use JSON_MERGE_PATCH
  jsonb_set_lax json_set json_insert json_replace json_remove
  json_deep_merge json_merge_patch_diff json_normalize json_table
Paths of JSON: use JSON_QUERY, JSON_VALUE and JSON_EXISTS; JSON_EACH for each member
  jsonb_path_match jsonb_path_*_tz
  json_tree
Plans as JSON: use EXPLAIN
  json_serialize_sql json_serialize_plan json_deserialize_sql json_execute_serialized_sql
Rows without names of fields: a ROW has named fields: use STRUCT_EXTRACT(row, name)
  struct_values struct_extract_at struct_contains struct_has struct_indexof struct_position
  remap_struct
Arrays: arrays have one dimension and begin at 1; ARRAY_LENGTH has the size
  array_dims array_ndims array_sample array_shuffle unpivot_list
Vectors: write the products of the elements
  array_cross_product
Histograms: use WIDTH_BUCKET with GROUP BY
  equi_width_bins histogram_exact histogram_values is_histogram_other_bin
Aggregates of samples: use TABLESAMPLE, or GROUP BY with LIMIT
  reservoir_quantile approx_top_k lttb
Aggregates of NULL: ARG_MAX and ARG_MIN skip NULL
  arg_max_null arg_min_null arg_max_nulls_last arg_min_nulls_last
States of aggregates: these are internals of DuckDB; use SUM and AVG
  sum_no_overflow decimal_average combine combine_aggr finalize to_aggregate_state
Window functions: use LAST_VALUE(x IGNORE NULLS) OVER (…)
  fill
Types as values: use TYPEOF and CAST
  can_cast_implicitly cast_to_type get_type make_type replace_type format_pg_type
  map_to_pg_oid map_type_id_to_pg_oid
Conditions: use CASE, or CHECK of a table
  switch error assert_true
Tests and internals of DuckDB: these functions are for interactive use or for tests of DuckDB
  bar alias binom decimal_division index_key invoke stats vector_type vertex_extract write_log
  add_grammar_extension remove_grammar_extension
  parse_duckdb_log_message ilike_escape like_escape not_ilike_escape not_like_escape
  json_copy_strftime_* array_to_string_comma_default get_block_size
Sessions: use CURRENT_USER, CURRENT_SCHEMA and SHOW
  current_query current_query_id current_connection_id current_transaction_id
  txid_current* pg_current_* pg_my_temp_schema pg_is_other_temp_schema
  pg_conf_load_time pg_postmaster_start_time row_security_active
Privileges: access is bounded by the tokens of runnel serve
  has_any_column_privilege has_column_privilege has_function_privilege has_language_privilege
  has_sequence_privilege has_server_privilege has_type_privilege has_tablespace_privilege
  has_foreign_data_wrapper_privilege pg_has_role
Descriptions of objects: use GET_DDL, SHOW and information_schema
  pg_get_functiondef pg_get_function_sqlbody pg_get_keywords pg_get_object_address
  pg_get_catalog_foreign_keys pg_operator_is_visible pg_opclass_is_visible
  pg_opfamily_is_visible pg_conversion_is_visible pg_ts_*_is_visible
  to_regproc* to_regrole to_regnamespace pg_column_size pg_database_size
Catalog of DuckDB: use FROM duckdb_tables() and others, SHOW, DESCRIBE and EXPLAIN
  duckdb_* pragma_* which_secret
Settings of DuckDB: use SET
  enable_logging disable_logging enable_profiling disable_profiling truncate_duckdb_logs checkpoint
  force_checkpoint *_external_resource register_external_resource_type
Metadata of Parquet files: use PARQUET_METADATA and PARQUET_SCHEMA
  parquet_bloom_probe parquet_full_metadata parquet_page_index
Other readers: use READ_CSV, READ_JSON, READ_PARQUET, READ_ARROW or READ_LINES
  read_duckdb read_single_* arrow_scan*
  pandas_scan python_arrow_scan seq_scan
Table functions over names: write the name of the table in FROM, and SUMMARIZE t
  query query_table summary python_map_function
Rows for tests: use GENERATE_SERIES, or VALUES
  repeat_row test_all_types test_vector_types
Names of time zones and calendars: see the IANA time zone database
  icu_calendar_names pg_timezone_names pg_timezone_abbrevs
"""
"""Blocks of `family: reason` and lines of names; `*` stands for any characters."""


class LeftOut(NamedTuple):
    """A family of functions.

    family: what the functions have in common.
    reason: why they don't exist, or what to write instead.
    names: the names in lower case, with `*` for any characters.
    """

    family: str
    reason: str
    names: tuple[str, ...]


@cache
def families() -> tuple[LeftOut, ...]:
    """All families, in the order of the text."""
    found: list[LeftOut] = []
    for line in TEXT.strip().splitlines():
        if line.startswith("  "):
            last = found[-1]
            found[-1] = last._replace(names=(*last.names, *line.split()))
        else:
            family, _, reason = line.partition(": ")
            found.append(LeftOut(family, reason, ()))
    return tuple(found)


def reason(name: str) -> str | None:
    """Why a function doesn't exist, or what to write instead; None if it isn't listed."""
    lower = name.lower()
    for family in families():
        if any(fnmatchcase(lower, pattern) for pattern in family.names):
            return family.reason
    return None
