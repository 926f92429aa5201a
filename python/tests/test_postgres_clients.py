"""What clients of PostgreSQL ask the catalogue for when they connect and look around, in the forms that they ask in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from test_postgres import Postgres
from test_server import lines

psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection]:
    with Postgres(tmp_path_factory.mktemp("clients") / "db") as server:
        assert server.send("/write", lines(0, 10))[0] == 204
        status, body = server.send("/query", b"create view cheap as select sym, price from trade where price < 5", content_type="text/plain")
        assert status == 200, body
        with psycopg.connect(server.address, autocommit=True) as connection:
            yield connection


DESCRIPTION = "left join pg_catalog.pg_description d on d.objoid = x.oid and d.objsubid = 0"

ASKED = {
    "DBeaver": [
        "select x.oid, x.*, d.description from pg_catalog.pg_namespace x " + DESCRIPTION + " and d.classoid = 'pg_namespace'::regclass order by nspname",
        "select x.oid, x.* from pg_catalog.pg_database x where datallowconn and not datistemplate or x.datname = 'splay'",
        "select x.oid, x.*, d.description, pg_catalog.pg_get_expr(x.relpartbound, x.oid) as part from pg_catalog.pg_class x " + DESCRIPTION,
        "select x.oid, x.*, c.relkind, format_type(nullif(x.typbasetype, 0), x.typtypmod) as base from pg_catalog.pg_type x left join pg_class c on c.oid = x.typrelid",
        "select x.oid, x.*, t.relname from pg_catalog.pg_constraint x join pg_catalog.pg_class t on t.oid = x.conrelid where x.conrelid = 1",
        "select x.oid, x.*, p.pronamespace from pg_catalog.pg_trigger x left join pg_catalog.pg_proc p on p.oid = x.tgfoid where not x.tgisinternal",
        "select x.oid, x.*, p.pronamespace from pg_catalog.pg_foreign_data_wrapper x left join pg_catalog.pg_proc p on p.oid = x.fdwhandler",
        "select x.*, x.inhseqno from pg_catalog.pg_inherits x, pg_catalog.pg_class c where c.oid = x.inhrelid",
        "select * from information_schema.table_privileges where table_schema = 'public' and table_name = 'trade'",
        "select pg_backend_pid(), pg_get_viewdef('cheap'::regclass::oid, true)",
    ],
    "DataGrip": [
        "select n.oid::bigint as id, n.xmin as state, n.nspname from pg_catalog.pg_namespace n order by case when nspname = current_schema() then -1::bigint else n.oid::bigint end",
        "select x.oid as id, x.xmin as state from pg_catalog.pg_class x where x.relnamespace = 2200::oid and pg_catalog.age(x.xmin) <= greatest(pg_catalog.age(1::varchar::xid), -1)",
        "select pg_catalog.pg_is_in_recovery() as recovers, pg_catalog.txid_current()::varchar::bigint as current",
        "select round(extract(epoch from pg_postmaster_start_time() at time zone 'UTC')) as started",
        "select l.transactionid::varchar::bigint as id from pg_catalog.pg_locks l where l.transactionid is not null order by pg_catalog.age(l.transactionid) desc limit 1",
    ],
    "JDBC": ["select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> all ('{a,abs}'::text[])"],
    "Metabase": [
        "select c.relname, s.n_live_tup from pg_class c join pg_namespace n on c.relnamespace = n.oid left join pg_stat_user_tables s on s.relname = c.relname "
        "where n.nspname !~ '^pg_' and c.relkind in ('r', 'p', 'v', 'f', 'm')",
        "select c.column_name, format('%s', c.udt_name), k.column_name is not null, "
        "col_description(cast(cast(format('%I.%I', cast(c.table_schema as text), cast(c.table_name as text)) as regclass) as oid), c.ordinal_position) "
        "from information_schema.columns c left join (select t.table_name, k.column_name from information_schema.table_constraints t join "
        "information_schema.key_column_usage k on t.constraint_name = k.constraint_name where t.constraint_type = 'PRIMARY KEY') k "
        "on c.table_name = k.table_name and c.column_name = k.column_name where c.table_schema !~ '^pg_' union all "
        "select a.attname, format('\"%s\".\"%s\"', n.nspname, a.attname), false, null from pg_class p join pg_attribute a on a.attrelid = p.oid "
        "join pg_namespace n on n.oid = p.relnamespace where p.relkind = 'm' order by 1",
        "select t.relname from pg_constraint c join pg_class t on c.conrelid = t.oid join pg_attribute a on a.attnum = any(c.conkey) where c.contype = 'f'::char",
    ],
    "Power BI": [
        "select character_set_name from INFORMATION_SCHEMA.character_sets",
        "select c.CONSTRAINT_SCHEMA || '_' || c.CONSTRAINT_NAME as NAME, k.COLUMN_NAME, k.ORDINAL_POSITION from INFORMATION_SCHEMA.table_constraints c "
        "join INFORMATION_SCHEMA.key_column_usage k on c.CONSTRAINT_NAME = k.CONSTRAINT_NAME where c.TABLE_NAME = 'trade' order by 1, k.ORDINAL_POSITION",
        "select k.COLUMN_NAME from (select distinct constraint_name, unique_constraint_name from INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS) f "
        "join INFORMATION_SCHEMA.KEY_COLUMN_USAGE k on f.UNIQUE_CONSTRAINT_NAME = k.CONSTRAINT_NAME",
        'select "rows"."sym", sum(cast("rows"."price" as decimal)) as a0 from (select "sym", "price" from "public"."trade") "rows" group by "sym" limit 1000001',
    ],
    "psqlODBC": [
        "select oid, typbasetype from pg_type where typname = 'lo'",
        "select c.relname, a.attname, case t.typtype when 'd' then t.typbasetype else 0 end, pg_get_expr(d.adbin, d.adrelid) from "
        "(((pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace and c.relname like 'trade') join pg_catalog.pg_attribute a "
        "on not a.attisdropped and a.attnum > 0 and a.attrelid = c.oid) join pg_catalog.pg_type t on t.oid = a.atttypid) "
        "left outer join pg_attrdef d on a.atthasdef and d.adrelid = a.attrelid order by attnum",
        "select proname, proargmodes, proallargtypes, attname from ((pg_catalog.pg_namespace n join pg_catalog.pg_proc p on p.pronamespace = n.oid) "
        "join pg_type t on p.prorettype = t.oid) left outer join pg_attribute a on a.attrelid = t.typrelid and attnum > 0 order by nspname, proname",
        "select c.relname, i.indkey, a.amname, d.relhasoids from pg_index i, pg_class c, pg_class d, pg_am a where d.oid = i.indrelid and i.indexrelid = c.oid",
    ],
    "dbt": [
        "select tablename as name, 'table' as type from pg_tables where schemaname ilike 'public' union all select viewname, 'view' from pg_views "
        "union all select matviewname, 'materialized_view' from pg_matviews where schemaname ilike 'public'",
        "select i.relname, array_to_string(array_agg(a.attname), ',') from pg_index x join pg_class i on i.oid = x.indexrelid "
        "join pg_attribute a on a.attnum = any(x.indkey) group by 1 order by 1",
        "select column_name, data_type from \"splay\".INFORMATION_SCHEMA.columns where table_name = 'trade' order by ordinal_position",
    ],
    "Rails": [
        "select typname, typelem, typinput, rngsubtype, t.oid from pg_type as t left join pg_range as r on oid = rngtypid where t.typinput = 'array_in'::regproc",
        "select a.attname from (select indrelid, indkey, generate_subscripts(indkey, 1) i from pg_index where indisprimary) x "
        "join pg_attribute a on a.attrelid = x.indrelid and a.attnum = x.indkey[x.i] order by x.i",
    ],
}


@pytest.mark.parametrize("client", ASKED)
def test_what_clients_ask_is_answered(connection: psycopg.Connection, client: str) -> None:
    for statement in ASKED[client]:
        try:
            connection.cursor().execute(statement)
        except psycopg.Error as error:
            pytest.fail(f"{client} asked {statement}\nand was told {error}")


def test_npgsql_finds_types_and_arrays_of_them(connection: psycopg.Connection) -> None:
    rows = connection.execute("""
        select n.nspname, t.oid, t.typname, t.kind, t.item from (
            select typ.oid, typ.typnamespace, typ.typname, case when proc.proname = 'array_recv' then 'a' else typ.typtype end as kind,
                case when proc.proname = 'array_recv' then typ.typelem when typ.typtype = 'r' then rngsubtype
                     when typ.typtype = 'm' then (select rngtypid from pg_range where rngmultitypid = typ.oid)
                     when typ.typtype = 'd' then typ.typbasetype end as item
            from pg_type as typ left join pg_class as cls on cls.oid = typ.typrelid left join pg_proc as proc on proc.oid = typ.typreceive
            left join pg_range on pg_range.rngtypid = typ.oid
        ) as t join pg_namespace as n on n.oid = typnamespace
        where kind in ('b', 'r', 'm', 'e', 'd') or kind = 'a' order by case when kind in ('b', 'e', 'p') then 0 when kind = 'a' then 5 end""").fetchall()
    assert {("pg_catalog", 20, "int8", "b", None), ("pg_catalog", 1016, "_int8", "a", 20)} <= set(rows)
    assert [kind for *_, kind, _ in rows] == sorted((kind for *_, kind, _ in rows), reverse=True)


def test_r_finds_tables_on_the_search_path(connection: psycopg.Connection) -> None:
    asked = "select table_name from information_schema.tables where table_schema = any(current_schemas(true)) and table_schema <> 'pg_catalog' order by 1"
    assert connection.execute(asked).fetchall() == [("cheap",), ("trade",)]
    assert connection.execute("select current_schemas(false), current_schemas(true)").fetchone() == (["public"], ["pg_catalog", "public"])


def test_columns_that_a_wildcard_repeats_have_their_names(connection: psycopg.Connection) -> None:
    cursor = connection.execute("select a.oid, a.*, a.amname from pg_am a")
    assert [column.name for column in cursor.description] == ["oid", "oid", "amname", "amhandler", "amtype", "amname"]


def test_texts_are_made_of_names_and_literals(connection: psycopg.Connection) -> None:
    row = connection.execute("select format('%I.%L = %s%%', 'My Trades', 'a''b', 5), quote_literal('a''b') from pg_am").fetchone()
    assert row == ("\"My Trades\".'a''b' = 5%", "'a''b'")
    assert connection.execute("select pg_get_viewdef('cheap'), pg_get_viewdef('trade')").fetchone() == ("select sym, price from trade where price < 5", None)
