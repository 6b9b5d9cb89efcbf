"""Files that a query names itself: `FROM 'f.csv'`, and the table functions that read files.

Imports `connectors/files` (connector, options, paths), `hive`, `tables` of `connectors/arrow`, and
the engine's basics and contracts.

Begin with `table_functions.file_table`. `reader_options` has the options of the functions,
`columns` applies them to the columns that were found, `queried_path` stands for several paths;
`copied_rows` opens the files of COPY FROM, `copy_options` has the options that COPY TO shares;
`parquet_metadata` describes Parquet files,
`opened_tables` has the tables of earlier queries, `sniffed_table` the row of SNIFF_CSV.
"""
