"""The functions of the lazy families, whose modules are imported on first use.

For each module: the keys of its functions and the names under which SQL calls them (none for an
operator). A test generates the words of the table from the modules (tests/expressions/
test_lazy_families.py, with RUNNEL_REFRESH=1): add only the names of new modules by hand.
"""

from __future__ import annotations

from collections.abc import Mapping


def _family(text: str) -> dict[str, tuple[str, ...]]:
    """Parses a list of words: SQL calls `key` by the same word in upper case, `key=A,B` by A and by
    B, and `key=` by no name.
    """
    functions = {}
    for word in text.split():
        key, equals, names = word.partition("=")
        functions[key] = tuple(names.split(",")) if names else () if equals else (key.upper(),)
    return functions


_MODULES = {
    "casts.try_cast": """
        try_cast=
    """,
    "text.binary": """
        encode decode unhex=UNHEX,FROM_HEX from_base64=FROM_BASE64,UNBASE64 from_utf8 to_utf8
        get_byte binary_substring concat_binary= hex to_base64=TO_BASE64,BASE64 md5 sha1 sha224
        sha256 sha384 sha512 crc32
    """,
    "time.make_dates": """
        make_date make_time make_timestamp make_timestamptz make_interval to_microseconds
        to_milliseconds to_seconds to_minutes to_hours to_days to_weeks to_months to_quarters
        to_years to_decades
    """,
    "time.dates": """
        date_bin=DATE_BIN,TIME_BUCKET date_diff=DATE_DIFF,DATEDIFF age overlaps= last_day
        day_name=DAYNAME,DAY_NAME month_name=MONTHNAME,MONTH_NAME year_of=YEAR quarter_of=QUARTER
        month_of=MONTH week_of=WEEK,WEEKOFYEAR day_of=DAY,DAYOFMONTH dow_of=DAYOFWEEK,WEEKDAY
        isodow_of=ISODOW doy_of=DAYOFYEAR hour_of=HOUR minute_of=MINUTE second_of=SECOND
        isoyear_of=ISOYEAR century_of=CENTURY decade_of=DECADE millennium_of=MILLENNIUM epoch_ms
        epoch_us justify_days justify_hours justify_interval
    """,
    "numbers.exact_decimals": """
        decimal_key= exact_cast=
    """,
    "numbers.bits": """
        bit_and= bit_or= bit_xor=XOR bit_not= bit_shift_left= bit_shift_right= bit_count
    """,
    "numbers.integers": """
        div gcd=GCD,GREATEST_COMMON_DIVISOR lcm=LCM,LEAST_COMMON_MULTIPLE factorial width_bucket
    """,
    "json.build": """
        json_object= json_array= json_array_of_list= json_object_of_lists=
        to_json=TO_JSON,TO_JSONB,ROW_TO_JSON json_pretty=JSON_PRETTY,JSONB_PRETTY json_strip_nulls
        json_merge_patch
    """,
    "json.functions": """
        json_value= json_outcome= json_query= json_exists= is_json=
    """,
    "json.members": """
        json_arrow= json_arrow_text= json_extract=JSON_EXTRACT,JSON_EXTRACT_PATH
        json_extract_string=JSON_EXTRACT_STRING,JSON_EXTRACT_PATH_TEXT json_array_length json_keys
        json_type=JSON_TYPE,JSON_TYPEOF json_contains json_valid
    """,
    "nested.lists": """
        array_slice=ARRAY_SLICE,LIST_SLICE array_cat=ARRAY_CAT,ARRAY_CONCAT,LIST_CONCAT,LIST_CAT
        array_append=ARRAY_APPEND,LIST_APPEND array_prepend=ARRAY_PREPEND,LIST_PREPEND
        array_contains=ARRAY_CONTAINS,LIST_CONTAINS,ARRAY_HAS,LIST_HAS
        array_position=ARRAY_POSITION,LIST_POSITION,ARRAY_INDEXOF,LIST_INDEXOF array_positions
        array_remove array_replace
    """,
    "nested.list_values": """
        array_sort=ARRAY_SORT,LIST_SORT array_reverse_sort=ARRAY_REVERSE_SORT,LIST_REVERSE_SORT
        array_distinct=ARRAY_DISTINCT,LIST_DISTINCT array_reverse=ARRAY_REVERSE,LIST_REVERSE
        array_has_all=ARRAY_HAS_ALL,LIST_HAS_ALL
        array_has_any=ARRAY_HAS_ANY,LIST_HAS_ANY,ARRAYS_OVERLAP
        array_intersect=ARRAY_INTERSECT,LIST_INTERSECT array_except flatten
        array_sum=ARRAY_SUM,LIST_SUM array_avg=ARRAY_AVG,LIST_AVG,ARRAY_AVERAGE
        array_min=ARRAY_MIN,LIST_MIN array_max=ARRAY_MAX,LIST_MAX array_range=RANGE array_series
        array_fill
    """,
    "nested.maps": """
        map_of= map map_from_entries map_keys map_values map_entries map_size
        map_contains=MAP_CONTAINS,MAP_CONTAINS_KEY map_concat
    """,
    "text.regexps": """
        regexp_match regexp_matches regexp_extract regexp_extract_all regexp_count regexp_substr
        regexp_instr regexp_full_match similar_to=
    """,
    "kernels.samples": """
        in_sample=
    """,
    "text.rare_strings": """
        translate overlay quote_literal quote_ident quote_nullable format
        levenshtein=LEVENSHTEIN,EDITDIST3 to_base to_hex to_bin to_oct normalize strip_accents
        to_ascii unicode=UNICODE,ORD space bit_length contains
    """,
    "to_char.functions": """
        to_char to_date to_timestamp to_number
    """,
    "typeof": """
        typeof=TYPEOF,PG_TYPEOF gen_random_uuid=GEN_RANDOM_UUID,UUID,UUIDV4
    """,
}
LATER: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    module: _family(text) for module, text in _MODULES.items()
}
"""By module, relative to `runnel.expressions`: the SQL names of each function key."""

SLOW = frozenset(
    key
    for module in (
        "json.functions",
        "json.members",
        "json.build",
        "text.regexps",
        "text.rare_strings",
        "text.binary",
        "to_char.functions",
    )
    for key in LATER[module]
)
"""The functions that call Python code for each distinct value; see `Function.is_slow`."""
