"""The queries by which SQLAlchemy's dialect for PostgreSQL and PostgreSQL's JDBC driver read the
catalog, in their form: facts about these programs, which the tests of pg_catalog run."""

_TABLES = """pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p', 'f', 'v', 'm'])
 AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid)
 AND pg_catalog.pg_namespace.nspname != 'pg_catalog'"""

HAS_TABLE = f"""SELECT pg_catalog.pg_class.relname
FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace
 ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE pg_catalog.pg_class.relname = 'u' AND {_TABLES}"""

TABLE_NAMES = """SELECT pg_catalog.pg_class.relname
FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace
 ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p'])
 AND pg_catalog.pg_class.relpersistence != 't'
 AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid)
 AND pg_catalog.pg_namespace.nspname != 'pg_catalog'"""

TABLE_OIDS = f"""SELECT pg_catalog.pg_class.oid, pg_catalog.pg_class.relname
FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace
 ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE {_TABLES} AND pg_catalog.pg_class.relname IN ('u', 'c')"""

COLUMNS = f"""SELECT pg_catalog.pg_attribute.attname AS name,
 pg_catalog.format_type(pg_catalog.pg_attribute.atttypid, pg_catalog.pg_attribute.atttypmod)
  AS format_type,
 (SELECT pg_catalog.pg_get_expr(pg_catalog.pg_attrdef.adbin, pg_catalog.pg_attrdef.adrelid)
   AS pg_get_expr_1
  FROM pg_catalog.pg_attrdef
  WHERE pg_catalog.pg_attrdef.adrelid = pg_catalog.pg_attribute.attrelid
   AND pg_catalog.pg_attrdef.adnum = pg_catalog.pg_attribute.attnum
   AND pg_catalog.pg_attribute.atthasdef) AS "default",
 pg_catalog.pg_attribute.attnotnull AS not_null, pg_catalog.pg_class.relname AS table_name,
 pg_catalog.pg_description.description AS comment,
 pg_catalog.pg_attribute.attgenerated AS generated,
 (SELECT json_build_object('always', pg_catalog.pg_attribute.attidentity = 'a',
   'start', pg_catalog.pg_sequence.seqstart, 'increment', pg_catalog.pg_sequence.seqincrement,
   'minvalue', pg_catalog.pg_sequence.seqmin, 'maxvalue', pg_catalog.pg_sequence.seqmax,
   'cache', pg_catalog.pg_sequence.seqcache, 'cycle', pg_catalog.pg_sequence.seqcycle)
   AS json_build_object_1
  FROM pg_catalog.pg_sequence
  WHERE pg_catalog.pg_attribute.attidentity != ''
   AND pg_catalog.pg_sequence.seqrelid = CAST(CAST(pg_catalog.pg_get_serial_sequence(
    CAST(CAST(pg_catalog.pg_attribute.attrelid AS REGCLASS) AS TEXT),
    pg_catalog.pg_attribute.attname) AS REGCLASS) AS OID)) AS identity_options
FROM pg_catalog.pg_class
 LEFT OUTER JOIN pg_catalog.pg_attribute
  ON pg_catalog.pg_class.oid = pg_catalog.pg_attribute.attrelid
  AND pg_catalog.pg_attribute.attnum > 0 AND NOT pg_catalog.pg_attribute.attisdropped
 LEFT OUTER JOIN pg_catalog.pg_description
  ON pg_catalog.pg_description.objoid = pg_catalog.pg_attribute.attrelid
  AND pg_catalog.pg_description.objsubid = pg_catalog.pg_attribute.attnum
 JOIN pg_catalog.pg_namespace
  ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE {_TABLES} AND pg_catalog.pg_class.relname IN ('c', 'u')
ORDER BY pg_catalog.pg_class.relname, pg_catalog.pg_attribute.attnum"""

KEYS = """SELECT attr.conrelid, array_agg(CAST(attr.attname AS TEXT) ORDER BY attr.ord) AS cols,
 attr.conname, min(attr.description) AS description, NULL AS extra
FROM (SELECT con.conrelid AS conrelid, con.conname AS conname, con.conindid AS conindid,
  con.description AS description, con.ord AS ord,
  pg_catalog.pg_attribute.attname AS attname
 FROM pg_catalog.pg_attribute
 JOIN (SELECT pg_catalog.pg_constraint.conrelid AS conrelid,
   pg_catalog.pg_constraint.conname AS conname, pg_catalog.pg_constraint.conindid AS conindid,
   unnest(pg_catalog.pg_constraint.conkey) AS attnum,
   generate_subscripts(pg_catalog.pg_constraint.conkey, 1) AS ord,
   pg_catalog.pg_description.description AS description
  FROM pg_catalog.pg_constraint
  LEFT OUTER JOIN pg_catalog.pg_description
   ON pg_catalog.pg_description.objoid = pg_catalog.pg_constraint.oid
  WHERE pg_catalog.pg_constraint.contype = '{kind}'
   AND pg_catalog.pg_constraint.conrelid IN ({oids})) AS con
  ON pg_catalog.pg_attribute.attnum = con.attnum
  AND pg_catalog.pg_attribute.attrelid = con.conrelid
 WHERE con.conrelid IN ({oids})) AS attr
GROUP BY attr.conrelid, attr.conname ORDER BY attr.conrelid, attr.conname"""

FOREIGN_KEYS = f"""SELECT pg_catalog.pg_class.relname, pg_catalog.pg_constraint.conname,
 CASE WHEN (pg_catalog.pg_constraint.oid IS NOT NULL)
  THEN pg_catalog.pg_get_constraintdef(pg_catalog.pg_constraint.oid, true) END AS anon_1,
 nsp_ref.nspname, pg_catalog.pg_description.description
FROM pg_catalog.pg_class
 LEFT OUTER JOIN pg_catalog.pg_constraint
  ON pg_catalog.pg_class.oid = pg_catalog.pg_constraint.conrelid
  AND pg_catalog.pg_constraint.contype = 'f'
 LEFT OUTER JOIN pg_catalog.pg_class AS cls_ref
  ON cls_ref.oid = pg_catalog.pg_constraint.confrelid
 LEFT OUTER JOIN pg_catalog.pg_namespace AS nsp_ref ON cls_ref.relnamespace = nsp_ref.oid
 LEFT OUTER JOIN pg_catalog.pg_description
  ON pg_catalog.pg_description.objoid = pg_catalog.pg_constraint.oid
 JOIN pg_catalog.pg_namespace
  ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE {_TABLES} AND pg_catalog.pg_class.relname IN ('c', 'u')
ORDER BY pg_catalog.pg_class.relname, pg_catalog.pg_constraint.conname"""

INDEXES = """SELECT pg_catalog.pg_index.indrelid, pg_catalog.pg_class.relname AS relname_index,
 pg_catalog.pg_index.indisunique, pg_catalog.pg_constraint.conrelid IS NOT NULL AS has_constraint,
 pg_catalog.pg_index.indoption, pg_catalog.pg_class.reloptions, pg_catalog.pg_am.amname,
 CASE WHEN (pg_catalog.pg_index.indpred IS NOT NULL) THEN pg_catalog.pg_get_expr(
  pg_catalog.pg_index.indpred, pg_catalog.pg_index.indrelid) END AS filter_definition,
 pg_catalog.pg_index.indnkeyatts, pg_catalog.pg_index.indnullsnotdistinct,
 idx_cols.elements, idx_cols.elements_is_expr
FROM pg_catalog.pg_index
 JOIN pg_catalog.pg_class ON pg_catalog.pg_index.indexrelid = pg_catalog.pg_class.oid
 JOIN pg_catalog.pg_am ON pg_catalog.pg_class.relam = pg_catalog.pg_am.oid
 LEFT OUTER JOIN (SELECT idx_attr.indexrelid AS indexrelid, min(idx_attr.indrelid) AS min_1,
   array_agg(idx_attr.element ORDER BY idx_attr.ord) AS elements,
   array_agg(idx_attr.is_expr ORDER BY idx_attr.ord) AS elements_is_expr
  FROM (SELECT idx.indexrelid AS indexrelid, idx.indrelid AS indrelid, idx.ord AS ord,
    CASE WHEN (idx.attnum = 0)
     THEN pg_catalog.pg_get_indexdef(idx.indexrelid, idx.ord + 1, true)
     ELSE CAST(pg_catalog.pg_attribute.attname AS TEXT) END AS element,
    idx.attnum = 0 AS is_expr
   FROM (SELECT pg_catalog.pg_index.indexrelid AS indexrelid,
     pg_catalog.pg_index.indrelid AS indrelid, unnest(pg_catalog.pg_index.indkey) AS attnum,
     generate_subscripts(pg_catalog.pg_index.indkey, 1) AS ord
    FROM pg_catalog.pg_index
    WHERE NOT pg_catalog.pg_index.indisprimary
     AND pg_catalog.pg_index.indrelid IN ({oids})) AS idx
   LEFT OUTER JOIN pg_catalog.pg_attribute
    ON pg_catalog.pg_attribute.attnum = idx.attnum
    AND pg_catalog.pg_attribute.attrelid = idx.indrelid
   WHERE idx.indrelid IN ({oids})) AS idx_attr
  GROUP BY idx_attr.indexrelid) AS idx_cols
  ON pg_catalog.pg_index.indexrelid = idx_cols.indexrelid
 LEFT OUTER JOIN pg_catalog.pg_constraint
  ON pg_catalog.pg_index.indrelid = pg_catalog.pg_constraint.conrelid
  AND pg_catalog.pg_index.indexrelid = pg_catalog.pg_constraint.conindid
  AND pg_catalog.pg_constraint.contype = ANY (ARRAY['p', 'u', 'x'])
WHERE pg_catalog.pg_index.indrelid IN ({oids}) AND NOT pg_catalog.pg_index.indisprimary
ORDER BY pg_catalog.pg_index.indrelid, pg_catalog.pg_class.relname"""

JDBC_TABLES = """SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME,
 CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema'
 WHEN true THEN CASE
 WHEN n.nspname = 'pg_catalog' OR n.nspname = 'information_schema' THEN CASE c.relkind
  WHEN 'r' THEN 'SYSTEM TABLE'
  WHEN 'v' THEN 'SYSTEM VIEW'
  WHEN 'i' THEN 'SYSTEM INDEX'
  ELSE NULL
  END
 ELSE CASE c.relkind
  WHEN 'r' THEN 'TEMPORARY TABLE'
  WHEN 'v' THEN 'TEMPORARY VIEW'
  ELSE NULL
  END
 END
 WHEN false THEN CASE c.relkind
 WHEN 'r' THEN 'TABLE'
 WHEN 'p' THEN 'PARTITIONED TABLE'
 WHEN 'i' THEN 'INDEX'
 WHEN 'S' THEN 'SEQUENCE'
 WHEN 'v' THEN 'VIEW'
 ELSE NULL
 END
 ELSE NULL
 END AS TABLE_TYPE, d.description AS REMARKS,
 '' as TYPE_CAT, '' as TYPE_SCHEM, '' as TYPE_NAME,
 '' AS SELF_REFERENCING_COL_NAME, '' AS REF_GENERATION
 FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c
 LEFT JOIN pg_catalog.pg_description d
  ON (c.oid = d.objoid AND d.objsubid = 0 and d.classoid = 'pg_class'::regclass)
 WHERE c.relnamespace = n.oid AND n.nspname LIKE 'public' AND c.relname LIKE '%'
 AND (false OR ( c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' )
 OR ( c.relkind = 'v' AND n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema' ) )
 ORDER BY TABLE_TYPE,TABLE_SCHEM,TABLE_NAME """

JDBC_COLUMNS = """SELECT * FROM (SELECT n.nspname,c.relname,a.attname,a.atttypid,
 a.attnotnull OR (t.typtype = 'd' AND t.typnotnull) AS attnotnull,a.atttypmod,a.attlen,t.typtypmod,
 row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum,
 nullif(a.attidentity, '') as attidentity,nullif(a.attgenerated, '') as attgenerated,
 pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc,dsc.description,t.typbasetype,t.typtype
 FROM pg_catalog.pg_namespace n
 JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid)
 JOIN pg_catalog.pg_attribute a ON (a.attrelid=c.oid)
 JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid)
 LEFT JOIN pg_catalog.pg_attrdef def ON (a.attrelid=def.adrelid AND a.attnum = def.adnum)
 LEFT JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid)
 LEFT JOIN pg_catalog.pg_class dc ON (dc.oid=dsc.classoid AND dc.relname='pg_class')
 LEFT JOIN pg_catalog.pg_namespace dn ON (dc.relnamespace=dn.oid AND dn.nspname='pg_catalog')
 WHERE c.relkind in ('r','p','v','f','m') and a.attnum > 0 AND NOT a.attisdropped
 AND n.nspname LIKE 'public' AND c.relname LIKE 'u') c WHERE true
 ORDER BY nspname,c.relname,attnum """
