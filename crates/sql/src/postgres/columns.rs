//! Columns of the tables of `pg_catalog`, as PostgreSQL 16 names them: those that clients ask for. `i` is a number, `t` a text, `b` true or false,
//! `n` a list of numbers.

/// Tables that have rows.
pub(super) const WITH_ROWS: [(&str, &str); 12] = [
    ("pg_am", "oid:i amname:t amhandler:t amtype:t"),
    (
        "pg_attribute",
        "attrelid:i attname:t atttypid:i attlen:i attnum:i attcacheoff:i atttypmod:i attndims:i attbyval:b attalign:t attstorage:t \
         attcompression:t attnotnull:b atthasdef:b atthasmissing:b attidentity:t attgenerated:t attisdropped:b attislocal:b attinhcount:i \
         attstattarget:i attcollation:i attacl:t attoptions:t attfdwoptions:t",
    ),
    (
        "pg_class",
        "oid:i relname:t relnamespace:i reltype:i reloftype:i relowner:i relam:i relfilenode:i reltablespace:i relpages:i reltuples:i \
         relallvisible:i reltoastrelid:i relhasindex:b relisshared:b relpersistence:t relkind:t relnatts:i relchecks:i relhasrules:b \
         relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident:t relispartition:b relrewrite:i \
         relfrozenxid:i relminmxid:i relacl:t reloptions:t relpartbound:t",
    ),
    (
        "pg_database",
        "oid:i datname:t datdba:i encoding:i datlocprovider:t datistemplate:b datallowconn:b datconnlimit:i datfrozenxid:i dattablespace:i \
         datcollate:t datctype:t daticulocale:t daticurules:t datcollversion:t datacl:t",
    ),
    ("pg_namespace", "oid:i nspname:t nspowner:i nspacl:t"),
    (
        "pg_roles",
        "oid:i rolname:t rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b rolconnlimit:i rolpassword:t \
         rolvaliduntil:t rolbypassrls:b rolconfig:t",
    ),
    (
        "pg_settings",
        "name:t setting:t unit:t category:t short_desc:t extra_desc:t context:t vartype:t source:t min_val:t max_val:t enumvals:t boot_val:t \
         reset_val:t sourcefile:t sourceline:i pending_restart:b",
    ),
    (
        "pg_tables",
        "schemaname:t tablename:t tableowner:t tablespace:t hasindexes:b hasrules:b hastriggers:b rowsecurity:b",
    ),
    ("pg_tablespace", "oid:i spcname:t spcowner:i spcacl:t spcoptions:t"),
    (
        "pg_type",
        "oid:i typname:t typnamespace:i typowner:i typlen:i typbyval:b typtype:t typcategory:t typispreferred:b typisdefined:b typdelim:t \
         typrelid:i typsubscript:t typelem:i typarray:i typinput:t typoutput:t typreceive:t typsend:t typmodin:t typmodout:t typanalyze:t \
         typalign:t typstorage:t typnotnull:b typbasetype:i typtypmod:i typndims:i typcollation:i typdefaultbin:t typdefault:t typacl:t",
    ),
    (
        "pg_user",
        "usename:t usesysid:i usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:t valuntil:t useconfig:t",
    ),
    ("pg_views", "schemaname:t viewname:t viewowner:t definition:t"),
];

/// Tables that never have rows, because SplayDB has nothing of their kind.
pub(super) const EMPTY: [(&str, &str); 54] = [
    ("pg_attrdef", "oid:i adrelid:i adnum:i adbin:t"),
    ("pg_available_extensions", "name:t default_version:t installed_version:t comment:t"),
    (
        "pg_amop",
        "oid:i amopfamily:i amoplefttype:i amoprighttype:i amopstrategy:i amoppurpose:t amopopr:i amopmethod:i amopsortfamily:i",
    ),
    ("pg_amproc", "oid:i amprocfamily:i amproclefttype:i amprocrighttype:i amprocnum:i amproc:t"),
    ("pg_auth_members", "oid:i roleid:i member:i grantor:i admin_option:b inherit_option:b set_option:b"),
    ("pg_cast", "oid:i castsource:i casttarget:i castfunc:i castcontext:t castmethod:t"),
    (
        "pg_collation",
        "oid:i collname:t collnamespace:i collowner:i collprovider:t collisdeterministic:b collencoding:i collcollate:t collctype:t",
    ),
    (
        "pg_constraint",
        "oid:i conname:t connamespace:i contype:t condeferrable:b condeferred:b convalidated:b conrelid:i contypid:i conindid:i conparentid:i \
         confrelid:i confupdtype:t confdeltype:t confmatchtype:t conislocal:b coninhcount:i connoinherit:b conkey:n confkey:n conbin:t",
    ),
    ("pg_conversion", "oid:i conname:t connamespace:i conowner:i"),
    ("pg_cursors", "name:t statement:t is_holdable:b is_binary:b is_scrollable:b"),
    ("pg_db_role_setting", "setdatabase:i setrole:i setconfig:t"),
    ("pg_default_acl", "oid:i defaclrole:i defaclnamespace:i defaclobjtype:t defaclacl:t"),
    ("pg_depend", "classid:i objid:i objsubid:i refclassid:i refobjid:i refobjsubid:i deptype:t"),
    ("pg_description", "objoid:i classoid:i objsubid:i description:t"),
    ("pg_enum", "oid:i enumtypid:i enumsortorder:i enumlabel:t"),
    ("pg_event_trigger", "oid:i evtname:t evtevent:t evtowner:i evtfoid:i evtenabled:t"),
    ("pg_extension", "oid:i extname:t extowner:i extnamespace:i extrelocatable:b extversion:t"),
    ("pg_foreign_data_wrapper", "oid:i fdwname:t fdwowner:i"),
    ("pg_foreign_server", "oid:i srvname:t srvowner:i srvfdw:i"),
    ("pg_foreign_table", "ftrelid:i ftserver:i ftoptions:t"),
    (
        "pg_index",
        "indexrelid:i indrelid:i indnatts:i indnkeyatts:i indisunique:b indnullsnotdistinct:b indisprimary:b indisexclusion:b indimmediate:b \
         indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b indisreplident:b indkey:n indcollation:n indclass:n indoption:n \
         indexprs:t indpred:t",
    ),
    ("pg_indexes", "schemaname:t tablename:t indexname:t tablespace:t indexdef:t"),
    ("pg_inherits", "inhrelid:i inhparent:i inhseqno:i inhdetachpending:b"),
    ("pg_language", "oid:i lanname:t lanowner:i lanispl:b"),
    ("pg_largeobject_metadata", "oid:i lomowner:i lomacl:t"),
    ("pg_locks", "locktype:t database:i relation:i pid:i mode:t granted:b"),
    ("pg_matviews", "schemaname:t matviewname:t matviewowner:t tablespace:t hasindexes:b ispopulated:b definition:t"),
    (
        "pg_opclass",
        "oid:i opcmethod:i opcname:t opcnamespace:i opcowner:i opcfamily:i opcintype:i opcdefault:b opckeytype:i",
    ),
    ("pg_opfamily", "oid:i opfmethod:i opfname:t opfnamespace:i opfowner:i"),
    ("pg_operator", "oid:i oprname:t oprnamespace:i oprowner:i"),
    ("pg_parameter_acl", "oid:i parname:t paracl:t"),
    ("pg_partitioned_table", "partrelid:i partstrat:t partnatts:i partdefid:i partattrs:t"),
    ("pg_policy", "oid:i polname:t polrelid:i polcmd:t polpermissive:b polroles:t polqual:t polwithcheck:t"),
    ("pg_prepared_statements", "name:t statement:t prepare_time:t from_sql:b"),
    (
        "pg_proc",
        "oid:i proname:t pronamespace:i proowner:i prolang:i prokind:t provolatile:t prorettype:i proretset:b pronargs:i proargtypes:t \
         proargnames:t prosrc:t",
    ),
    ("pg_publication", "oid:i pubname:t pubowner:i puballtables:b"),
    ("pg_publication_namespace", "oid:i pnpubid:i pnnspid:i"),
    ("pg_publication_rel", "oid:i prpubid:i prrelid:i prqual:t prattrs:t"),
    ("pg_range", "rngtypid:i rngsubtype:i rngmultitypid:i rngcollation:i rngsubopc:i"),
    ("pg_rewrite", "oid:i rulename:t ev_class:i ev_type:t ev_enabled:t is_instead:b"),
    ("pg_sequence", "seqrelid:i seqtypid:i seqstart:i seqincrement:i seqmax:i seqmin:i seqcache:i seqcycle:b"),
    ("pg_sequences", "schemaname:t sequencename:t sequenceowner:t"),
    ("pg_shdescription", "objoid:i classoid:i description:t"),
    ("pg_stat_activity", "datid:i datname:t pid:i usename:t application_name:t client_addr:t state:t query:t"),
    ("pg_stat_user_tables", "relid:i schemaname:t relname:t seq_scan:i n_live_tup:i n_dead_tup:i"),
    ("pg_statistic_ext", "oid:i stxrelid:i stxname:t stxnamespace:i stxowner:i stxkind:t stxstattarget:i"),
    ("pg_subscription", "oid:i subdbid:i subname:t subowner:i subenabled:b subconninfo:t subslotname:t"),
    ("pg_trigger", "oid:i tgrelid:i tgparentid:i tgname:t tgfoid:i tgtype:i tgenabled:t tgisinternal:b tgconstraint:i"),
    ("pg_ts_config", "oid:i cfgname:t cfgnamespace:i cfgowner:i cfgparser:i"),
    ("pg_ts_config_map", "mapcfg:i maptokentype:i mapseqno:i mapdict:i"),
    ("pg_ts_dict", "oid:i dictname:t dictnamespace:i dictowner:i dicttemplate:i dictinitoption:t"),
    ("pg_ts_parser", "oid:i prsname:t prsnamespace:i prsstart:t prstoken:t prsend:t prsheadline:t prslextype:t"),
    ("pg_ts_template", "oid:i tmplname:t tmplnamespace:i tmplinit:t tmpllexize:t"),
    ("pg_user_mappings", "umid:i srvid:i srvname:t umuser:i usename:t umoptions:t"),
];

/// The columns of a table.
pub(super) fn columns(table: &str) -> Option<&'static str> {
    WITH_ROWS.iter().chain(EMPTY.iter()).find(|(name, _)| *name == table).map(|(_, columns)| *columns)
}

/// The kind of a column's values, by its name, which tells its table.
pub(super) fn kind_of(column: &str) -> Option<&'static str> {
    let all = WITH_ROWS.iter().chain(EMPTY.iter()).flat_map(|(_, columns)| columns.split_whitespace());
    all.filter_map(|column_and_kind| column_and_kind.split_once(':'))
        .find(|(name, _)| *name == column)
        .map(|(_, kind)| kind)
}

/// Whether a table never has rows.
pub(super) fn is_empty(table: &str) -> bool {
    EMPTY.iter().any(|(name, _)| name.eq_ignore_ascii_case(table))
}
