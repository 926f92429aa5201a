//! Users, roles and rights in SQL: what statements change, and what sessions of somebody don't tell him.

use std::sync::Arc;

use splay_sql::{IntoFiles, Parameters, Session, SessionSettings, Stop};
use splay_store::{Database, Rights};

/// A database with tables, views and users, and the session of who has its folder.
struct Desk {
    _folder: tempfile::TempDir,
    owner: Session,
}

const SET_UP: [&str; 14] = [
    "create table trade (time timestamp, sym symbol, price double, size bigint, account text) with (symbol = 'sym')",
    "create table quote (time timestamp, sym symbol, bid double) with (symbol = 'sym')",
    "create table instrument (sym text primary key, name text)",
    "insert into trade values
        ('2024-03-04 09:30:00', 'AAPL', 10, 0, 'house'), ('2024-03-04 09:31:00', 'AAPL', 11, 2, 'house'),
        ('2024-03-05 09:30:00', 'IBM', 20, 3, 'client'), ('2024-03-05 09:31:00', 'MSFT', 30, 4, 'client')",
    "insert into quote values ('2024-03-04 09:30:00', 'AAPL', 9.5)",
    "insert into instrument values ('AAPL', 'Apple')",
    "create view prices as select time, sym, price from trade",
    "create view accounts as select distinct account from trade",
    "create materialized view bars as select sym, time_bucket('1 minute', time) as bar, sum(size) as size from trade group by sym, bar",
    "create user admin superuser password 'open sesame'",
    "create user ann",
    "create user bob",
    "create role desk",
    "grant desk to ann",
];

impl Desk {
    fn new() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::create(folder.path().join("db")).unwrap();
        let settings = SessionSettings { threads: 2, ..SessionSettings::default() };
        let desk = Desk { _folder: folder, owner: Session::new(database, settings).unwrap() };
        SET_UP.iter().for_each(|statement| drop(desk.run(statement)));
        desk
    }

    /// A statement of who has the folder, which has to work.
    fn run(&self, statement: &str) -> String {
        answer(&self.owner, statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    fn of(&self, user: &str) -> Session {
        session_of(&self.owner, user)
    }

    fn database(&self) -> &Database {
        self.owner.database()
    }
}

fn session_of(session: &Session, user: &str) -> Session {
    let rights = Rights::of(&session.database().access().unwrap(), user).unwrap();
    session.for_rights(Arc::new(rights)).unwrap().as_user(user, true)
}

/// The rows of a statement, values parted by `|` and rows by `;`.
fn answer(session: &Session, statement: &str) -> Result<String, splay_sql::Error> {
    let insert = IntoFiles(session.database());
    let mut answer = session.change(statement, Parameters::None, Stop::NEVER, &insert)?;
    let batches = answer.batches()?;
    let options = arrow::util::display::FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> =
            columns.map(|column| arrow::util::display::ArrayFormatter::try_new(column, &options).unwrap()).collect();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")),
        );
    }
    Ok(rows.join(";"))
}

fn error_text(session: &Session, statement: &str) -> String {
    answer(session, statement).map_or_else(|error| error.to_string(), |rows| panic!("{statement} gave {rows}"))
}

fn gives(session: &Session, statement: &str, expected: &str) {
    let actual = answer(session, statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    assert_eq!(actual, expected, "{statement}");
}

#[test]
fn roles_come_and_go_by_statements() {
    let desk = Desk::new();
    gives(&desk.owner, "create user eve with password 'x' valid until '2030-01-01' in role desk", "CREATE ROLE|0|null");
    let eve = "eve|true|false|false|true|2030-01-01T00:00:00Z|desk";
    assert!(desk.run("show users").contains(eve), "{}", desk.run("show users"));
    assert!(!desk.run("show users").contains("desk|false") && desk.run("show roles").contains("desk|false"));
    gives(&desk.owner, "alter user eve nologin", "ALTER ROLE|0|null");
    assert!(!desk.run("show users").contains("eve") && desk.run("show roles").contains("eve|false"));
    gives(&desk.owner, "revoke desk from eve", "REVOKE ROLE|0|null");
    gives(&desk.owner, "drop user eve", "DROP ROLE|0|null");
    assert!(error_text(&desk.owner, "drop user eve").contains("role \"eve\" does not exist"));
    gives(&desk.owner, "drop user if exists eve", "DROP ROLE|0|null");
    assert!(error_text(&desk.owner, "create role public").contains("reserved"));
    assert!(error_text(&desk.owner, "create user ANN").contains("already exists"));
    assert!(error_text(&desk.owner, "drop user admin").contains("superuser"));
    // Whole or not at all: the role that it is to have isn't there.
    assert!(error_text(&desk.owner, "create user eve in role nobody").contains("does not exist"));
    assert!(!desk.run("show roles").contains("eve"));
}

#[test]
fn the_first_user_is_a_superuser() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let session = Session::new(database, SessionSettings::default()).unwrap();
    assert!(error_text(&session, "create user ann").contains("make the first user with SUPERUSER"));
    gives(&session, "create user ann superuser", "CREATE ROLE|0|null");
}

#[test]
fn rights_are_given_and_taken_by_statements() {
    let desk = Desk::new();
    gives(&desk.owner, "grant select (time, price), insert on trade to desk", "GRANT|0|null");
    gives(&desk.owner, "grant create on database splay to desk", "GRANT|0|null");
    let all = desk.run("show grants for ann");
    assert_eq!(all, "desk|null|CREATE|null;desk|trade|SELECT|time, price;desk|trade|INSERT|null");
    assert_eq!(desk.run("show grants for bob"), "");
    gives(&desk.owner, "revoke select (price), insert on trade from desk", "REVOKE|0|null");
    assert_eq!(desk.run("show grants for ann"), "desk|null|CREATE|null;desk|trade|SELECT|time");
    gives(&desk.owner, "revoke all on trade from desk", "REVOKE|0|null");
    gives(&desk.owner, "revoke create on database splay from desk", "REVOKE|0|null");
    assert_eq!(desk.run("show grants"), "");
    gives(&desk.owner, "grant all on trade, prices, bars to desk", "GRANT|0|null");
    let all = desk.run("show grants");
    assert!(all.contains("desk|trade|TRUNCATE|null") && all.contains("desk|bars|MAINTAIN|null"), "{all}");
    assert!(!all.contains("prices|INSERT") && all.contains("prices|SELECT"), "{all}");
}

#[test]
fn what_can_not_be_granted_is_refused() {
    let desk = Desk::new();
    for (statement, part) in [
        ("grant select on nothing to ann", "no table \"nothing\""),
        ("grant select (nothing) on trade to ann", "no column \"nothing\""),
        ("grant select (price) on prices to ann", "is a view"),
        ("grant insert on prices to ann", "there is no INSERT for"),
        ("grant select on trade to nobody", "role \"nobody\" does not exist"),
        ("grant maintain on prices to ann", "there is no MAINTAIN for"),
        ("create policy p on prices to ann using (true)", "policies are of tables"),
        ("create policy p on trade to ann using (nothing = 1)", "nothing"),
        ("create policy p on trade to ann using (price > (select avg(price) from trade))", "a query"),
        ("create policy p on trade to ann using (random() < 0.5)", "random"),
        ("create policy p on trade to ann using (price < pi() * random())", "random"),
        ("create policy p on trade to ann using (time < (select max(time) from quote))", "a query"),
        ("create policy p on trade to nobody using (true)", "does not exist"),
        ("create policy p on trade to ann using (sum(price) > 1)", "aggregate"),
        ("create token t for desk", "user \"desk\" does not exist"),
        ("alter table trade enable row level security", "no switch"),
        ("create user x replication", "REPLICATION is no option"),
    ] {
        let message = error_text(&desk.owner, statement);
        assert!(message.to_lowercase().contains(&part.to_lowercase()), "{statement}: {message}");
    }
}

#[test]
fn tokens_are_shown_once() {
    let desk = Desk::new();
    for (text, expected) in [
        ("-- a feed\nCREATE  Token feed for ann", true),
        ("alter token feed rotate", true),
        ("drop token feed", false),
        ("create table token (a int)", false),
    ] {
        assert_eq!(splay_sql::gives_token(text), expected, "{text}");
    }
    let made = desk.run("create token feed for ann valid until '2030-01-01'");
    let token = made.strip_prefix("CREATE TOKEN|feed|").unwrap();
    assert_eq!(token.len(), 64);
    let access = desk.database().access().unwrap();
    assert_eq!(access.user_of_token(token, 1).unwrap().0.name, "ann");
    assert_eq!(desk.run("show tokens"), "feed|ann|2030-01-01T00:00:00Z");
    let other = desk.run("alter token feed rotate");
    let other = other.strip_prefix("ALTER TOKEN|feed|").unwrap();
    let access = desk.database().access().unwrap();
    assert!(access.user_of_token(token, 1).is_none() && access.user_of_token(other, 1).is_some());
    gives(&desk.owner, "drop token feed", "DROP TOKEN|0|null");
    assert!(error_text(&desk.owner, "drop token feed").contains("does not exist"));
}

#[test]
fn only_superusers_change_users_and_everybody_his_password() {
    let desk = Desk::new();
    let (ann, admin) = (desk.of("ann"), desk.of("admin"));
    for statement in [
        "create user eve",
        "alter user bob password 'y'",
        "alter user ann superuser",
        "alter user ann set (statements_max = 100)",
        "alter user ann password 'y' reset all",
        "alter user ann password 'y' superuser",
        "drop user bob",
        "grant select on trade to ann",
        "grant pg_read_all_data to ann",
        "create token mine for ann",
        "create policy p on trade using (true)",
    ] {
        assert!(error_text(&ann, statement).contains("permission denied"), "{statement}");
        assert!(error_text(&desk.owner.without_users(), statement).contains("permission denied"), "{statement}");
    }
    gives(&ann, "alter user ann password 'open sesame'", "ALTER ROLE|0|null");
    assert!(desk.database().access().unwrap().user_of_password("ann", "open sesame", 1).is_some());
    // A token ends, and a password doesn't.
    assert!(error_text(&ann.as_user("ann", false), "alter user ann password 'y'").contains("by a token"));
    gives(&admin, "create user eve", "CREATE ROLE|0|null");
    let roles = "select rolname from pg_catalog.pg_roles where rolcanlogin order by 1";
    gives(&admin.for_postgres().unwrap(), roles, "admin;ann;bob;eve;splay");
    gives(&ann.for_postgres().unwrap(), roles, "splay");
    // Of the lists others see what is about themselves.
    desk.run("grant select on quote to desk");
    desk.run("grant select on trade to bob");
    assert_eq!(answer(&ann, "show grants").unwrap(), "desk|quote|SELECT|null");
    assert!(!answer(&ann, "show users").unwrap().contains("bob"));
    assert!(error_text(&ann, "show policies").contains("permission denied"));
}

/// Whoever may create could tell others over PostgreSQL's wire who the roles are.
#[test]
fn names_of_postgresqls_catalogue_are_the_catalogues() {
    let desk = Desk::new();
    desk.run("grant create on database splay to ann");
    let ann = desk.of("ann");
    for statement in [
        "create view pg_roles as select 'evil' as rolname, true as rolcanlogin",
        "create table pg_class (time timestamp, relname text)",
        "create view pg_mine as select 1 as a",
    ] {
        answer(&ann, statement).unwrap();
    }
    let admin = desk.of("admin");
    gives(&admin, "select rolname from pg_roles", "evil");
    let postgres = admin.for_postgres().unwrap();
    for roles in ["pg_roles", "PG_ROLES", "pg_catalog.pg_roles", "(select * from pg_roles)"] {
        let statement = format!("select rolname from {roles} r where rolcanlogin order by 1");
        gives(&postgres, &statement, "admin;ann;bob;splay");
    }
    gives(&postgres, "select count(*) from pg_class where relname = 'trade'", "1");
    // Names that the catalogue doesn't have are the database's.
    gives(&postgres, "select a from pg_mine", "1");
}

/// A view broke the statements of others who read a column of its name.
#[test]
fn views_named_as_columns_leave_others_alone() {
    let desk = Desk::new();
    desk.run("grant create on database splay to ann");
    for statement in [
        "create table c1 (time timestamp, x double)",
        "create view c2 as select * from c1",
        "create view bid as select * from c2",
    ] {
        // What she makes are rights of hers.
        answer(&desk.of("ann"), statement).unwrap();
    }
    // What it reads is gone, as only the store may do it.
    assert!(desk.owner.database().drop_view("c2", |_| false).unwrap());
    for session in [&desk.owner, &desk.of("admin"), &desk.of("admin").for_postgres().unwrap()] {
        gives(session, "select max(bid) from quote", "9.5");
        gives(
            session,
            "select sym, bid from quote where bid in (1, bid) group by sym, bid order by (bid), bid",
            "AAPL|9.5",
        );
        assert!(error_text(session, "select * from quote, bid").contains("c2"));
    }
}

/// Names of capture's tables can't be taken by others, who would get the rows that somebody else sends.
#[test]
fn names_of_quarantines_are_reserved() {
    let desk = Desk::new();
    desk.run("grant create on database splay to ann");
    for session in [&desk.of("ann"), &desk.of("admin"), &desk.owner] {
        for statement in [
            "create table trade_quarantine (time timestamp, sym symbol)",
            "create table \"Trade_Quarantine\" as select * from quote",
            "create view quote_quarantine as select 1 as a",
        ] {
            // Ann reads no quote.
            let message = error_text(session, statement);
            assert!(message.contains("reserved") || message.contains("no table"), "{statement}: {message}");
        }
    }
    for statement in [
        "create materialized view m_quarantine as select sym, time_bucket('1 minute', time) as bar, sum(size) as size from trade group by sym, bar",
        "create table if not exists trade_quarantine (time timestamp, sym symbol)",
        "alter table quote rename to quote_quarantine",
        "alter view prices rename to quote_quarantine",
    ] {
        let message = error_text(&desk.owner, statement);
        assert!(message.contains("_quarantine are reserved"), "{statement}: {message}");
    }
    assert!(!answer(&desk.owner, "show tables").unwrap().contains("uarantine"));
}

/// Tables without a right aren't there, in whichever way one asks for them.
#[test]
fn what_one_may_not_see_is_not_there() {
    let desk = Desk::new();
    desk.run("grant select on quote to desk");
    desk.run("grant select on prices to desk");
    let ann = desk.of("ann");
    gives(&ann, "select count(*) from quote", "1");
    for statement in [
        "select * from trade",
        "select count(*) from trade",
        "select 1 from TRADE where false",
        "select 1 from splay.public.trade",
        "select * from trade at commit 1",
        "select * from \"trade@commit 1\"",
        "explain select * from trade",
        "explain analyze select * from trade",
        "select * from quote q asof join trade t match_condition (q.time >= t.time) on q.sym = t.sym",
        "select (select max(price) from trade)",
        "select * from (select * from quote union all select time, sym, price from trade)",
        "with t as (select * from trade) select * from t",
        "summarize trade",
        "select * from accounts",
        "select * from bars",
        "select * from \"bars.rows\"",
        // A view is read with the rights of who reads it.
        "select * from prices",
        "insert into trade select * from quote",
        "insert into quote select time, sym, price from trade",
        "update trade set price = 1",
        "delete from trade",
        "truncate trade",
        "drop table trade",
        "alter table trade rename to other",
        "drop view accounts",
        "refresh materialized view bars",
    ] {
        let message = error_text(&ann, statement);
        let is_named = message.contains("no table") || message.contains("permission denied to INSERT in table quote");
        assert!(
            is_named && !message.contains("\"trade\", ") && !message.contains("accounts,"),
            "{statement}: {message}"
        );
        assert!(!message.contains("instrument"), "{statement}: {message}");
    }
    gives(
        &ann,
        "select table_name from information_schema.tables where table_schema = 'public' order by 1",
        "prices;quote",
    );
    gives(&ann, "select distinct table_name from information_schema.columns where table_schema = 'public'", "quote");
    let shown = answer(&ann, "show tables").unwrap();
    assert!(shown.contains("quote") && !shown.contains("trade") && !shown.contains("bars"), "{shown}");
    let postgres = ann.for_postgres().unwrap();
    gives(&postgres, "select relname from pg_catalog.pg_class order by 1", "quote");
    gives(&postgres, "select count(*) from pg_catalog.pg_views where definition is not null", "0");
    // Once the table of the view may be read, the view may.
    desk.run("grant select (time, sym, price) on trade to desk");
    gives(&desk.of("ann"), "select max(price) from prices", "30.0");
}

#[test]
fn columns_without_a_right_are_no_columns() {
    let desk = Desk::new();
    desk.run("grant select (time, sym, price) on trade to desk");
    let ann = desk.of("ann");
    gives(&ann, "select * from trade where sym = 'IBM'", "2024-03-05T09:30:00Z|IBM|20.0|2024-03-05");
    gives(&ann, "select sym, max(price) as p from trade group by sym order by sym", "AAPL|11.0;IBM|20.0;MSFT|30.0");
    gives(&ann, "select count(*) from trade where price > 10", "3");
    gives(&ann, "select last(price) from trade", "30.0");
    gives(
        &ann,
        "select column_name from information_schema.columns where table_name = 'trade' order by ordinal_position",
        "time;sym;price;date",
    );
    gives(
        &ann.for_postgres().unwrap(),
        "select attname from pg_catalog.pg_attribute order by attnum",
        "time;sym;price",
    );
    gives(
        &ann.for_postgres().unwrap(),
        "select column_name, data_type, udt_name, numeric_precision, ordinal_position from information_schema.columns
         where table_name = 'trade' order by ordinal_position",
        "time|timestamp with time zone|timestamptz|null|1;sym|text|text|null|2;price|double precision|float8|53|3;date|date|date|null|4",
    );
    for statement in [
        "select account from trade",
        "select 1 from trade where account = 'house'",
        "select 1 from trade order by account",
        "select count(account) from trade",
        "select t.account from trade t",
        "select 1 from trade a join trade b using (account)",
        "select sum(size) over (order by time) from trade",
        "select 1 from trade group by size",
        "select * from trade at commit 1",
    ] {
        let message = error_text(&ann, statement);
        assert!(!message.contains("house"), "{statement}: {message}");
    }
    // Without the time there is no date, which says the same.
    desk.run("revoke select on trade from desk");
    desk.run("grant select (price) on trade to desk");
    let ann = desk.of("ann");
    gives(&ann, "select * from trade order by price limit 1", "10.0");
    assert!(error_text(&ann, "select date from trade").contains("date"));
    let explained = answer(&ann, "explain select price from trade").unwrap();
    assert!(explained.contains("none, because of a table with columns or rows that"), "{explained}");
}

#[test]
fn statements_that_create_tables_show_what_may_be_read() {
    let desk = Desk::new();
    desk.run("grant select (time, price) on trade to desk");
    desk.run("grant insert on quote to desk");
    desk.run("grant select on prices to desk");
    let ann = desk.of("ann");
    let trade = answer(&ann, "show create table trade").unwrap();
    assert_eq!(trade, "trade|CREATE TABLE trade (\n    time timestamp,\n    price float64\n)");
    assert!(answer(&desk.owner, "show create table trade").unwrap().contains("account text"));
    for unknown in
        ["table quote", "table instrument", "table accounts", "view bars", "table \"bars.rows\"", "table nothing"]
    {
        let message = error_text(&ann, &format!("show create {unknown}"));
        assert!(
            message.contains("no table") && !message.contains("instrument,") && !message.contains("accounts,"),
            "{message}"
        );
    }
    desk.run("grant select on trade to desk");
    let message = error_text(&desk.of("ann"), "show create view prices");
    assert!(message.contains("to see the query of view prices") && !message.contains("select"), "{message}");
    gives(&desk.of("ann"), "select table_name, definition is null from information_schema.views", "prices|true");
}

/// A table that is a calendar is read as a whole: who sees a part of it, or nothing, can't use it.
#[test]
fn calendars_are_tables_with_rights() {
    let desk = Desk::new();
    desk.run("create table vienna (date date primary key, open timestamp, close timestamp, kind text)");
    desk.run("insert into vienna values ('2024-03-04', '2024-03-04T09:00:00Z', '2024-03-04T09:31:00Z', null), ('2024-03-05', null, null, null)");
    desk.run("grant select on trade to desk");
    let inside = "select count(*) from trade where in_session(time, 'vienna')";
    let statements = [inside, "select count(*) from trading_days('vienna')"];
    gives(&desk.owner, inside, "1");
    for statement in statements {
        let message = error_text(&desk.of("ann"), statement);
        assert!(message.contains("there is no calendar \"vienna\""), "{message}");
    }
    assert!(!error_text(&desk.of("ann"), "select is_trading_day('2024-03-04', 'viena')").contains("vienna"));
    for (part, whole) in [
        ("grant select (date, open, close) on vienna to desk", "grant select on vienna to desk"),
        ("create policy p on vienna to desk using (kind is null)", "drop policy p on vienna"),
    ] {
        desk.run(part);
        for statement in statements {
            let message = error_text(&desk.of("ann"), statement);
            assert!(message.contains("vienna, of which you may not see all"), "{message}");
        }
        desk.run(whole);
        for statement in statements {
            gives(&desk.of("ann"), statement, "1");
        }
    }
    // What a condition was planned with is kept, and wouldn't follow the table.
    let message = error_text(&desk.owner, "create policy p on trade to ann using (in_session(time, 'vienna'))");
    assert!(message.contains("the calendar vienna, which is a table,"), "{message}");
    desk.run("create policy p on trade to ann using (in_session(time, 'NYSE'))");
}

/// Rows that a policy hides, and everything that could tell of them.
#[test]
fn hidden_rows_leave_no_trace() {
    let desk = Desk::new();
    desk.run("grant select on trade to desk");
    desk.run("create policy own on trade to desk using (account = 'house' and sym = 'AAPL' and size > 0)");
    let ann = desk.of("ann");
    gives(&ann, "select * from trade", "2024-03-04T09:31:00Z|AAPL|11.0|2|house|2024-03-04");
    gives(&ann, "select count(*) from trade", "1");
    gives(
        &ann,
        "select min(time), max(time), min(price), max(date) from trade",
        "2024-03-04T09:31:00Z|2024-03-04T09:31:00Z|11.0|2024-03-04",
    );
    gives(&ann, "select sym, count(*) from trade group by sym", "AAPL|1");
    gives(&ann, "select first(price), last(price) from trade", "11.0|11.0");
    gives(&ann, "select distinct sym from trade", "AAPL");
    gives(&ann, "select price from trade where sym = 'IBM'", "");
    gives(&ann, "select price from trade where date = '2024-03-05'", "");
    gives(&ann, "select price from trade order by time limit 1", "11.0");
    gives(&ann, "select count(*) from trade where price > 0 or true", "1");
    gives(&ann, "select row_number() over (order by time) from trade", "1");
    desk.run("grant select on quote to desk");
    gives(&desk.of("ann"), "select t.price from quote q left join trade t on q.sym = t.sym", "11.0");
    let asof = "select t.price from quote q asof join trade t match_condition (q.time <= t.time) on q.sym = t.sym";
    gives(&desk.of("ann"), asof, "11.0");
    let summary = answer(&ann, "summarize trade").unwrap();
    assert!(summary.contains("11") && !summary.contains("IBM") && !summary.contains("client"), "{summary}");
    gives(&ann, "select sum(price) from (select * from trade union all select * from trade)", "22.0");
    // The division would fail on a hidden row, whose size is 0, and the cast on a hidden account.
    gives(&ann, "select price from trade where 10 / size = 5", "11.0");
    gives(&ann, "select price from trade where 10 / size > 0 and account = 'house'", "11.0");
    gives(&ann, "select price from trade where case when sym = 'IBM' then 1 / (size - size) = 1 else true end", "11.0");
    gives(&ann, "select count(*) from trade where cast(replace(account, 'house', '1') as bigint) = 1", "1");
    gives(&ann, "select max(10 / size) from trade", "5");
    // Neither plans nor costs count them, and the condition isn't shown.
    for statement in [
        "explain select * from trade where price > 1",
        "explain analyze select sum(price) from trade",
        "explain verbose select * from trade order by sym, time",
    ] {
        let message = answer(&ann, statement).unwrap();
        assert!(message.contains("rows that policies show"), "{message}");
        for hidden in ["4/4", "1/4", "house", "rows_scanned", "(4)"] {
            assert!(!message.contains(hidden), "{hidden}: {message}");
        }
    }
    let mut read = ann.sql("select * from trade", Parameters::None).unwrap();
    read.batches().unwrap();
    let stats = read.stats();
    assert_eq!((stats.rows_returned, stats.rows_scanned, stats.bytes_scanned), (1, 0, 0));
    assert_eq!(stats.selection.rows.total, 0);
    // The past may have had other rows and columns.
    assert!(error_text(&ann, "select * from trade at commit 1").contains("permission denied for the past"));
    // Whoever no policy names sees none, and who bypasses them all.
    desk.run("grant select on trade to bob");
    gives(&desk.of("bob"), "select count(*) from trade", "0");
    gives(&desk.of("bob"), "select max(price) from trade", "null");
    gives(&desk.of("admin"), "select count(*) from trade", "4");
    desk.run("alter user bob bypassrls");
    gives(&desk.of("bob"), "select count(*) from trade", "4");
}

/// Neither does a condition that fails on some rows tell of them: these stay hidden.
#[test]
fn a_row_on_which_a_policy_fails_is_hidden() {
    let desk = Desk::new();
    desk.run("create table code (time timestamp, sym symbol, code text, amt bigint) with (symbol = 'sym')");
    desk.run(
        "insert into code select arrow_cast(1709544600000000000 + value * 1000000000, 'Timestamp(ns)'),
            case value % 3 when 0 then 'A' when 1 then 'B' else 'C' end,
            case when value % 7 = 3 then 'secret' else cast(value as text) end, value % 5
         from generate_series(1, 20000) s(value)",
    );
    desk.run("grant select (time, sym) on code to desk");
    let visible = "value % 7 <> 3 and value % 5 <> 0 and value > 100";
    let expected = desk.run(&format!("select count(*) from generate_series(1, 20000) s(value) where {visible}"));
    desk.run("create policy p on code to desk using (cast(code as bigint) > 100 and 1 / amt >= 0)");
    let ann = desk.of("ann");
    gives(&ann, "select count(*) from code", &expected);
    for sym in ["A", "B", "NOPE"] {
        answer(&ann, &format!("select count(*) from code where sym = '{sym}'")).unwrap();
    }
    desk.run("drop policy p on code");
    desk.run("create policy p on code to desk using (1 / (amt - amt) = 0)");
    gives(&desk.of("ann"), "select count(*) from code", "0");
}

/// Errors of the store name tables and values; those who may not know them get them without.
#[test]
fn errors_tell_nothing_that_may_not_be_known() {
    let desk = Desk::new();
    desk.run("create table old (time timestamp, x bigint)");
    desk.run("grant insert on old to desk");
    desk.run("drop table old");
    desk.run("create table pair (a text, k bigint, v bigint, primary key (a, k))");
    desk.run("insert into pair values ('A', 777, 1), ('B', 777, 2)");
    desk.run("grant select (a), update (a) on pair to desk");
    let ann = desk.of("ann");
    for statement in ["insert into old values ('2024-01-01', 1)", "select * from old"] {
        let message = error_text(&ann, statement);
        assert!(message.contains("no table \"old\"; this database has pair"), "{message}");
        assert!(!message.contains("trade") && !message.contains("instrument"), "{message}");
    }
    for statement in ["update pair set a = 'A' where a = 'B'", "update pair set a = 'C'"] {
        let message = error_text(&ann, statement);
        assert!(message.contains("key (…)=(…)") && !message.contains("777") && !message.contains("k)"), "{message}");
    }
    // Rows are found by their time, which has a right of its own.
    desk.run("grant select (sym), update (size), delete on trade to desk");
    for statement in ["update trade set size = 1 where sym = 'IBM'", "delete from trade where sym = 'IBM'"] {
        assert!(
            error_text(&desk.of("ann"), statement).contains("permission denied to SELECT column time"),
            "{statement}"
        );
    }
    desk.run("revoke select (sym), update (size), delete on trade from desk");
    // Which commits there are isn't told either.
    desk.run("grant insert on trade to desk");
    assert!(
        error_text(&desk.of("ann"), "select * from trade at commit 999").contains("permission denied for the past")
    );
    // Who reads the key gets it told.
    desk.run("grant select on pair to desk");
    assert!(error_text(&desk.of("ann"), "update pair set a = 'A' where a = 'B'").contains("(A, 777)"));
}

#[test]
fn policies_are_put_together() {
    let desk = Desk::new();
    desk.run("grant select on trade to desk");
    desk.run("create policy a on trade to desk using (sym = 'AAPL') ");
    desk.run("create policy b on trade to ann using (sym = 'IBM' -- and nothing else\n)");
    gives(&desk.of("ann"), "select distinct sym from trade order by sym", "AAPL;IBM");
    desk.run("create policy late on trade as restrictive to public using (date >= '2024-03-05')");
    gives(&desk.of("ann"), "select distinct sym from trade order by sym", "IBM");
    desk.run("drop policy b on trade");
    gives(&desk.of("ann"), "select count(*) from trade", "0");
    assert!(desk.run("show policies").contains("trade|late|RESTRICTIVE|public|date >= '2024-03-05'"));
    desk.run("drop policy late on trade");
    desk.run("drop policy a on trade");
    gives(&desk.of("ann"), "select count(*) from trade", "4");
    // A condition that asks who reads.
    desk.run("create user client");
    desk.run("grant desk to client");
    desk.run("create policy mine on trade to desk using (account = current_user)");
    gives(&desk.of("client"), "select count(*) from trade", "2");
    gives(&desk.of("ann"), "select count(*) from trade", "0");
    desk.run("drop policy mine on trade");
    // A condition over columns that the reader may not see.
    desk.run("revoke select on trade from desk");
    desk.run("grant select (price) on trade to desk");
    desk.run("create policy own on trade to desk using (account = 'client')");
    gives(&desk.of("ann"), "select * from trade order by price", "20.0;30.0");
    gives(&desk.of("ann"), "select count(*) from trade where price > 25", "1");
}

/// A policy may follow from the time at which a statement begins, for users who see rows after a delay.
#[test]
fn rows_may_be_shown_after_a_delay() {
    let desk = Desk::new();
    desk.run("grant select on quote to desk");
    desk.run("create policy delayed on quote to desk using (time < now() - interval '15 minutes' or sym = 'FREE')");
    desk.run(
        "insert into quote values (now() - interval '14 minutes', 'IBM', 1), (now() - interval '16 minutes', 'IBM', 2),
            (now(), 'FREE', 3), (now() + interval '1 hour', 'IBM', 4)",
    );
    let ann = desk.of("ann");
    gives(&ann, "select bid from quote order by bid", "2.0;3.0;9.5");
    gives(&ann, "select count(*) from quote where time >= now() - interval '15 minutes' and sym = 'IBM'", "0");
    // Of each statement, not of the session.
    desk.run("create table clock (time timestamp, n bigint)");
    desk.run("grant select on clock to desk");
    desk.run("create policy soon on clock to desk using (time < current_timestamp)");
    desk.run("insert into clock values (now() + interval '400 milliseconds', 1)");
    let shown = |session: &Session| answer(session, "select count(*) from clock").unwrap();
    let session = &desk.of("ann");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while shown(session) == "0" && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(shown(session), "1");
    // A day in the zone of the table's dates is a date.
    desk.run("create policy days on clock as restrictive to desk using (date < current_date - 1)");
    gives(&desk.of("ann"), "select count(*) from clock", "0");
}

/// Rows of materialized views are kept of all rows of their table: who doesn't see these reads the query.
#[test]
fn materialized_views_do_not_show_what_their_tables_hide() {
    let desk = Desk::new();
    desk.run("refresh materialized view bars");
    desk.run("alter materialized view bars set (query_rewrite = true)");
    desk.run("grant select on bars to desk");
    desk.run("grant select on trade to desk");
    desk.run("create policy own on trade to desk using (sym = 'IBM')");
    let ann = desk.of("ann");
    gives(&ann, "select sum(size) from bars", "3");
    gives(&ann, "select sym, sum(size) from trade group by sym", "IBM|3");
    gives(&desk.owner, "select sum(size) from bars", "9");
    assert!(error_text(&ann, "select * from \"bars.rows\"").contains("no table"));
    assert!(error_text(&ann, "refresh materialized view bars").contains("permission denied"));
    desk.run("grant maintain on bars to desk");
    desk.run("insert into trade values ('2024-03-06 09:30:00', 'IBM', 20, 5, 'client'), ('2024-03-06 09:31:00', 'AAPL', 20, 6, 'client')");
    // Whoever refreshes it keeps the rows of all, and isn't told how many.
    gives(&desk.of("ann"), "refresh materialized view bars", "REFRESH MATERIALIZED VIEW|0|null");
    gives(&desk.owner, "select sum(size) from bars", "20");
    gives(&desk.of("ann"), "select sum(size) from bars", "8");
}

#[test]
fn joined_tables_show_a_change_what_may_be_read_of_them() {
    let desk = Desk::new();
    desk.run("grant select, update, delete on quote to desk");
    let joined = "(select sym, max(price) as price from trade group by sym) t where t.sym = quote.sym";
    let statements = [
        format!("update quote set bid = t.price from {joined}"),
        format!("delete from quote using {joined} and t.price > 0"),
    ];
    for statement in &statements {
        assert!(error_text(&desk.of("ann"), statement).contains("no table"), "{statement}");
    }
    desk.run("grant select (time, sym) on trade to desk");
    for statement in &statements {
        assert!(error_text(&desk.of("ann"), statement).contains("price"), "{statement}");
    }
    // Rows that a policy hides match nothing.
    desk.run("grant select on trade to desk");
    desk.run("create policy own on trade to desk using (sym = 'IBM')");
    for (statement, tag) in statements.iter().zip(["UPDATE", "DELETE"]) {
        gives(&desk.of("ann"), statement, &format!("{tag}|0|null"));
    }
    desk.run("drop policy own on trade");
    gives(&desk.owner, &statements[1].replace("using", "as q using").replace("quote.sym", "q.sym"), "DELETE|1|3");
}

#[test]
fn changes_need_their_right() {
    let desk = Desk::new();
    desk.run("grant select on quote to desk");
    let denied = |statement: &str| {
        let message = error_text(&desk.of("ann"), statement);
        assert!(message.contains("permission denied"), "{statement}: {message}");
    };
    let insert = "insert into quote (time, sym, bid) values ('2024-03-05 09:30:00', 'IBM', 19)";
    for statement in [insert, "update quote set bid = 1", "delete from quote where bid < 5", "truncate quote"] {
        denied(statement);
    }
    desk.run("grant insert (time, sym) on quote to desk");
    denied(insert);
    desk.run("grant insert, update (bid), delete on quote to desk");
    assert!(answer(&desk.of("ann"), insert).unwrap().starts_with("INSERT|1|"));
    denied("update quote set sym = 'X'");
    denied("truncate quote");
    denied("alter table quote rename to q");
    denied("drop table quote");
    denied("create table mine (time timestamp, x double)");
    denied("create view mine as select 1 as x");
    assert!(answer(&desk.of("ann"), "update quote set bid = 1 where sym = 'IBM'").unwrap().starts_with("UPDATE|1|"));
    assert!(answer(&desk.of("ann"), "delete from quote where bid = 1").unwrap().starts_with("DELETE|1|"));
    desk.run("grant insert, update, select on instrument to desk");
    let upsert =
        "insert into instrument values ('AAPL', 'Apple Inc.') on conflict (sym) do update set name = excluded.name";
    assert!(answer(&desk.of("ann"), upsert).is_ok());
    desk.run("revoke update on instrument from desk");
    denied(upsert);
    // A table of which rows are hidden: numbers of rows and conflicts would tell of them.
    desk.run("create policy own on instrument to desk using (sym = 'IBM')");
    denied("insert into instrument values ('AAPL', 'Apple')");
}

#[test]
fn what_somebody_makes_is_his() {
    let desk = Desk::new();
    desk.run("grant create on database splay to ann");
    desk.run("grant select on quote to ann");
    assert!(
        answer(&desk.of("ann"), "create table mine as select time, bid from quote")
            .unwrap()
            .starts_with("CREATE TABLE|1|")
    );
    gives(&desk.of("ann"), "select count(*) from mine", "1");
    gives(&desk.of("ann"), "create view best as select max(bid) as bid from quote", "CREATE VIEW|0|null");
    gives(&desk.of("ann"), "select bid from best", "9.5");
    assert!(error_text(&desk.of("bob"), "select * from mine").contains("no table"));
    // What is there already isn't, however it is asked for.
    for statement in
        ["create table if not exists trade (time timestamp)", "create view if not exists accounts as select 1 as x"]
    {
        let _ = answer(&desk.of("ann"), statement);
    }
    for statement in ["create table trade (time timestamp)", "create or replace view accounts as select 1 as x"] {
        error_text(&desk.of("ann"), statement);
    }
    assert!(
        !desk.run("show grants for ann").contains("trade") && !desk.run("show grants for ann").contains("accounts")
    );
    // A view over what its maker may not see can't be made, and one of another maker shows only what its reader sees.
    assert!(error_text(&desk.of("ann"), "create view leak as select * from trade").contains("no table"));
    assert!(error_text(&desk.of("ann"), "create materialized view m as select * from quote").contains("superusers"));
}

#[test]
fn columns_that_grants_name_keep_their_names() {
    let desk = Desk::new();
    desk.run("grant select (price) on trade to desk");
    desk.run("create policy own on trade to desk using (account = 'house')");
    for statement in ["alter table trade rename column price to other", "alter table trade drop column account"] {
        assert!(error_text(&desk.owner, statement).contains("grants or policies name"), "{statement}");
    }
    desk.run("alter table quote rename column bid to price");
}

/// Somebody's session goes by the rights that it was made for; the next one by those that there are then.
#[test]
fn a_change_of_rights_is_seen_by_the_next_session() {
    let desk = Desk::new();
    desk.run("grant select on quote to desk");
    let before = desk.of("ann");
    gives(&before, "select count(*) from quote", "1");
    desk.run("revoke select on quote from desk");
    assert!(error_text(&desk.of("ann"), "select count(*) from quote").contains("no table"));
    desk.run("grant pg_read_all_data to ann");
    gives(&desk.of("ann"), "select count(*) from trade", "4");
    gives(&desk.of("ann"), "select sum(size) from bars", "9");
    assert!(error_text(&desk.of("ann"), "delete from trade").contains("permission denied"));
    assert!(error_text(&desk.of("ann"), "create user eve").contains("permission denied"));
    // Reading everything ends with the first policy, of whichever table.
    desk.run("create policy own on trade to desk using (sym = 'IBM')");
    gives(&desk.of("ann"), "select count(*) from trade", "1");
    gives(&desk.of("ann"), "select sum(size) from bars", "3");
    assert!(error_text(&desk.of("ann"), "select * from \"bars.rows\"").contains("no table"));
}
