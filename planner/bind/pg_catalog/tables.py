"""The tables of pg_catalog by name. They have PostgreSQL's columns, but for some about its
storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runnel.catalog import Snapshot
from runnel.planner.bind.pg_catalog import others, relations
from runnel.planner.bind.pg_catalog.objects import PG_CATALOG, Objects
from runnel.planner.bind.tables import information_schema
from runnel.planner.bind.tables.information_schema import Row, SchemaDefinition
from runnel.sqltypes import BIGINT, BOOLEAN, INTEGER, REAL, TIMESTAMP_TZ, VARCHAR, array

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

Rows = Callable[[Objects, "StatementBinder"], list[Row]]

_TYPES = {
    **dict.fromkeys(
        (
            "oid relnamespace reltype reloftype relowner relam relfilenode reltablespace "
            "reltoastrelid relrewrite attrelid atttypid attcollation adrelid indexrelid indrelid "
            "connamespace conrelid contypid conindid conparentid confrelid objoid classoid classid "
            "objid refclassid refobjid seqrelid seqtypid seqstart seqincrement seqmax seqmin "
            "seqcache start_value min_value max_value increment_by cache_size last_value nspowner "
            "typnamespace typowner typrelid typelem typarray typbasetype typcollation pronamespace "
            "proowner prolang prorettype usesysid datdba collnamespace collowner lanowner spcowner "
            "datid usesysid relid n_live_tup inhrelid inhparent tgrelid tgfoid tgparentid ev_class "
            "polrelid stxrelid stxnamespace prpubid prrelid pnpubid pnnspid extowner extnamespace "
            "enumtypid ftrelid ftserver srvowner srvfdw partrelid roleid member grantor pubowner "
            "evtfoid evtowner setdatabase setrole database relation castsource casttarget castfunc "
            "rngtypid rngsubtype"
        ).split(),
        BIGINT,
    ),
    **dict.fromkeys(
        (
            "relpages relallvisible relnatts relchecks attlen attnum attcacheoff atttypmod "
            "attndims attinhcount attstattarget adnum indnatts indnkeyatts coninhcount objsubid "
            "refobjsubid typlen typtypmod typndims pronargs rolconnlimit encoding datconnlimit "
            "collencoding pid inhseqno stxstattarget partnatts"
        ).split(),
        INTEGER,
    ),
    **dict.fromkeys(
        (
            "hasindexes hasrules hastriggers rowsecurity relhasindex relisshared relhasrules "
            "relhastriggers relhassubclass relrowsecurity relforcerowsecurity relispopulated "
            "relispartition attbyval attnotnull atthasdef atthasmissing attisdropped attislocal "
            "indisunique indnullsnotdistinct indisprimary indisexclusion indimmediate "
            "indisclustered indisvalid indcheckxmin indisready indislive indisreplident "
            "condeferrable condeferred convalidated conislocal connoinherit seqcycle cycle "
            "typbyval typispreferred typisdefined typnotnull proretset rolsuper rolinherit "
            "rolcreaterole rolcreatedb rolcanlogin rolreplication rolbypassrls usecreatedb "
            "usesuper userepl usebypassrls datistemplate datallowconn pending_restart "
            "collisdeterministic lanispl lanpltrusted ispopulated inhdetachpending tgisinternal "
            "is_instead polpermissive puballtables pubinsert pubupdate pubdelete pubtruncate "
            "pubviaroot admin_option extrelocatable granted"
        ).split(),
        BOOLEAN,
    ),
    **dict.fromkeys(("conkey", "confkey", "prattrs", "polroles", "partattrs"), array(INTEGER)),
    **dict.fromkeys(("indkey", "indcollation", "indclass", "indoption"), array(INTEGER)),
    **dict.fromkeys(("relacl", "reloptions", "stxkind", "nspacl", "attacl"), array(VARCHAR)),
    **dict.fromkeys(("datacl", "typacl", "spcacl", "extcondition"), array(VARCHAR)),
    **dict.fromkeys(("rolvaliduntil", "valuntil"), TIMESTAMP_TZ),
    **dict.fromkeys(("reltuples", "enumsortorder"), REAL),
}
"""The types of the columns that are not VARCHAR."""

_TABLES: dict[str, tuple[str, Rows]] = {
    "pg_tables": (
        "schemaname tablename tableowner tablespace hasindexes hasrules hastriggers rowsecurity",
        relations.listed_tables,
    ),
    "pg_views": ("schemaname viewname viewowner definition", relations.listed_views),
    "pg_matviews": (
        "schemaname matviewname matviewowner tablespace hasindexes ispopulated definition",
        relations.maintained_views,
    ),
    "pg_indexes": (
        "schemaname tablename indexname tablespace indexdef",
        relations.listed_indexes,
    ),
    "pg_class": (
        "oid relname relnamespace reltype reloftype relowner relam relfilenode reltablespace "
        "relpages reltuples relallvisible reltoastrelid relhasindex relisshared relpersistence "
        "relkind relnatts relchecks relhasrules relhastriggers relhassubclass relrowsecurity "
        "relforcerowsecurity relispopulated relreplident relispartition relrewrite relacl "
        "reloptions relpartbound",
        relations.classes,
    ),
    "pg_attribute": (
        "attrelid attname atttypid attlen attnum attcacheoff atttypmod attndims attbyval attalign "
        "attstorage attcompression attnotnull atthasdef atthasmissing attidentity attgenerated "
        "attisdropped attislocal attinhcount attstattarget attcollation attacl attoptions "
        "attfdwoptions",
        relations.attributes,
    ),
    "pg_attrdef": ("oid adrelid adnum adbin", relations.defaults),
    "pg_index": (
        "indexrelid indrelid indnatts indnkeyatts indisunique indnullsnotdistinct indisprimary "
        "indisexclusion indimmediate indisclustered indisvalid indcheckxmin indisready indislive "
        "indisreplident indkey indcollation indclass indoption indexprs indpred",
        relations.indexes,
    ),
    "pg_constraint": (
        "oid conname connamespace contype condeferrable condeferred convalidated conrelid "
        "contypid conindid conparentid confrelid confupdtype confdeltype confmatchtype conislocal "
        "coninhcount connoinherit conkey confkey conbin",
        relations.constraints,
    ),
    "pg_description": ("objoid classoid objsubid description", relations.descriptions),
    "pg_sequence": (
        "seqrelid seqtypid seqstart seqincrement seqmax seqmin seqcache seqcycle",
        relations.sequences,
    ),
    "pg_sequences": (
        "schemaname sequencename sequenceowner data_type start_value min_value max_value "
        "increment_by cycle cache_size last_value",
        relations.listed_sequences,
    ),
    "pg_depend": (
        "classid objid objsubid refclassid refobjid refobjsubid deptype",
        relations.dependencies,
    ),
    "pg_stat_user_tables": ("relid schemaname relname n_live_tup", relations.statistics),
    "pg_namespace": ("oid nspname nspowner nspacl", others.namespaces),
    "pg_type": (
        "oid typname typnamespace typowner typlen typbyval typtype typcategory typispreferred "
        "typisdefined typdelim typrelid typelem typarray typnotnull typbasetype typtypmod "
        "typndims typcollation typdefault",
        others.types,
    ),
    "pg_roles": (
        "oid rolname rolsuper rolinherit rolcreaterole rolcreatedb rolcanlogin rolreplication "
        "rolconnlimit rolpassword rolvaliduntil rolbypassrls rolconfig",
        others.roles,
    ),
    "pg_user": (
        "usename usesysid usecreatedb usesuper userepl usebypassrls passwd valuntil useconfig",
        others.users,
    ),
    "pg_database": (
        "oid datname datdba encoding datlocprovider datistemplate datallowconn datconnlimit "
        "datcollate datctype daticulocale daticurules datacl",
        others.databases,
    ),
    "pg_am": ("oid amname amhandler amtype", others.methods),
    "pg_collation": (
        "oid collname collnamespace collowner collprovider collisdeterministic collencoding "
        "collcollate collctype colliculocale collicurules collversion",
        others.collations,
    ),
    "pg_language": ("oid lanname lanowner lanispl lanpltrusted", others.languages),
    "pg_tablespace": ("oid spcname spcowner spcacl spcoptions", others.tablespaces),
    "pg_stat_activity": (
        "datid datname pid usesysid usename application_name state query",
        others.activity,
    ),
}

_EMPTY = {
    "pg_auth_members": "roleid member grantor admin_option",
    "pg_db_role_setting": "setdatabase setrole setconfig",
    "pg_enum": "oid enumtypid enumsortorder enumlabel",
    "pg_event_trigger": "oid evtname evtevent evtowner evtfoid evtenabled evttags",
    "pg_extension": (
        "oid extname extowner extnamespace extrelocatable extversion extconfig extcondition"
    ),
    "pg_foreign_server": "oid srvname srvowner srvfdw srvtype srvversion srvacl srvoptions",
    "pg_foreign_table": "ftrelid ftserver ftoptions",
    "pg_inherits": "inhrelid inhparent inhseqno inhdetachpending",
    "pg_locks": "locktype database relation pid mode granted",
    "pg_partitioned_table": "partrelid partstrat partnatts partattrs",
    "pg_policy": "oid polname polrelid polcmd polpermissive polroles polqual polwithcheck",
    "pg_publication": (
        "oid pubname pubowner puballtables pubinsert pubupdate pubdelete pubtruncate pubviaroot"
    ),
    "pg_publication_namespace": "oid pnpubid pnnspid",
    "pg_publication_rel": "oid prpubid prrelid prqual prattrs",
    "pg_range": "rngtypid rngsubtype",
    "pg_rewrite": "oid rulename ev_class ev_type ev_enabled is_instead",
    "pg_shdescription": "objoid classoid description",
    "pg_statistic_ext": "oid stxrelid stxname stxnamespace stxstattarget stxkind",
    "pg_trigger": "oid tgrelid tgparentid tgname tgfoid tgtype tgenabled tgisinternal",
}
"""The tables about what Runnel does not have, such as triggers: they have no rows."""


def _definition(columns: str, rows: Rows) -> SchemaDefinition:
    return SchemaDefinition(
        columns, lambda binder: rows(objects_of(binder.snapshot), binder), _TYPES
    )


def _of_session(columns: str, source: str, derived: Any) -> SchemaDefinition:
    return SchemaDefinition(columns, None, _TYPES, source=source, derived=derived)


TABLES: dict[str, SchemaDefinition] = {
    **{name: _definition(*found) for name, found in _TABLES.items()},
    **{name: _definition(columns, others.nothing) for name, columns in _EMPTY.items()},
    "pg_proc": _of_session(
        "oid proname pronamespace proowner prolang prokind proretset provolatile pronargs "
        "prorettype prosrc proarguments proresult",
        "routines",
        others.functions,
    ),
    "pg_settings": _of_session(
        "name setting unit category short_desc extra_desc context vartype source min_val max_val "
        "enumvals boot_val reset_val sourcefile sourceline pending_restart",
        "parameters",
        others.settings,
    ),
}
"""The tables, which may be qualified with pg_catalog."""


def objects_of(snapshot: Snapshot) -> Objects:
    """The numbered objects of a snapshot of the catalog."""
    system = [(PG_CATALOG, name) for name in TABLES]
    system += [(information_schema.NAME, name) for name in information_schema.TABLES]
    return Objects(snapshot, system)
