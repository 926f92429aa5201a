//! Tests of the parser of statements about users and roles, and of its refusals.

#![allow(clippy::unwrap_used)]

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;

use super::*;

fn read(text: &str) -> Result<Option<AccessStatement>> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize().unwrap();
    AccessStatement::of(&mut TokenReader::of(&tokens))
}

fn of(text: &str) -> AccessStatement {
    read(text).unwrap().unwrap()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn roles_are_taken_apart() {
    let AccessStatement::CreateRole { name, options } =
        of("CREATE USER Ann WITH SUPERUSER ENCRYPTED PASSWORD 'it''s' VALID UNTIL '1970-01-01 00:00' IN ROLE a, b;")
    else {
        panic!("a role")
    };
    assert_eq!((name.as_str(), options.password), ("Ann", Some(Some("it's".to_owned()))));
    assert_eq!((options.login, options.superuser, options.valid_until), (Some(true), Some(true), Some(Some(0))));
    assert_eq!((options.in_roles, options.bypasses_policies), (names(&["a", "b"]), None));
    let no_login = RoleOptions { login: Some(false), ..RoleOptions::default() };
    assert_eq!(of("create role desk"), AccessStatement::CreateRole { name: "desk".to_owned(), options: no_login });
    let options = RoleOptions {
        login: Some(false),
        bypasses_policies: Some(true),
        valid_until: Some(None),
        password: Some(None),
        ..RoleOptions::default()
    };
    assert_eq!(
        of("alter user ann nologin bypassrls password null valid until 'infinity'"),
        AccessStatement::AlterRole { name: "ann".to_owned(), options }
    );
    assert_eq!(
        of("drop role if exists a, \"b\""),
        AccessStatement::DropRoles { names: names(&["a", "b"]), if_exists: true }
    );
}

#[test]
fn rights_are_taken_apart() {
    let granting = |privileges, tables: Option<&[&str]>, roles: &[&str]| GrantClause {
        privileges,
        tables: tables.map(names),
        roles: names(roles),
    };
    let select = vec![(Privilege::Select, names(&["time", "price"])), (Privilege::Insert, Vec::new())];
    assert_eq!(
        of("GRANT SELECT (time, price), insert ON TABLE trade, quote TO desk, public"),
        AccessStatement::Grant(granting(select, Some(&["trade", "quote"]), &["desk", "public"]))
    );
    assert_eq!(
        of("revoke all privileges on trade from desk cascade"),
        AccessStatement::Revoke(granting(Vec::new(), Some(&["trade"]), &["desk"]))
    );
    assert_eq!(
        of("grant create on database splay to ann"),
        AccessStatement::Grant(granting(vec![(Privilege::Create, Vec::new())], None, &["ann"]))
    );
    assert_eq!(
        of("grant desk, pg_read_all_data to ann"),
        AccessStatement::GrantRoles { roles: names(&["desk", "pg_read_all_data"]), to: names(&["ann"]) }
    );
    assert_eq!(
        of("revoke desk from ann"),
        AccessStatement::RevokeRoles { roles: names(&["desk"]), from: names(&["ann"]) }
    );
}

#[test]
fn policies_and_tokens_are_taken_apart() {
    let policy = Policy {
        name: "own".to_owned(),
        table: "trade".to_owned(),
        restrictive: true,
        roles: names(&["desk"]),
        condition: "sym IN ('A', ')') AND (size > 1)".to_owned(),
    };
    assert_eq!(
        of("create policy own on trade as restrictive for select to desk using (sym IN ('A', ')') AND (size > 1))"),
        AccessStatement::CreatePolicy(policy)
    );
    assert!(matches!(of("create policy p on t using (true)"),
        AccessStatement::CreatePolicy(Policy { roles, restrictive: false, .. }) if roles == [PUBLIC]));
    assert!(matches!(of("drop policy if exists p on t"), AccessStatement::DropPolicy { if_exists: true, .. }));
    assert!(matches!(
        of("create token feed for ann valid until '1970-01-02'"),
        AccessStatement::CreateToken { expires: Some(86_400_000_000_000), .. }
    ));
    assert!(matches!(of("alter token feed rotate"), AccessStatement::RotateToken { expires: None, .. }));
    assert!(matches!(of("drop token feed"), AccessStatement::DropToken { if_exists: false, .. }));
    assert_eq!(read("create table t (a int)").unwrap(), None);
}

#[test]
fn what_is_not_supported_is_named() {
    for (text, part) in [
        ("create user", "expected a role"),
        ("create user ann createdb", "CREATEDB is no option"),
        ("create user ann password sesame", "text in single quotes"),
        ("create user ann password 'SCRAM-SHA-256$4096:x'", "the password itself"),
        ("create user ann password 'md50123456789abcdef0123456789abcdef'", "the password itself"),
        ("create user ann valid until 'soon'", "no time"),
        ("alter role ann in role b", "no IN ROLE"),
        ("grant select on trade", "needs TO"),
        ("grant look on trade to ann", "LOOK is no right"),
        ("grant delete (a) on trade to ann", "whole tables"),
        ("grant all (a) on trade to ann", "ALL of some columns"),
        ("grant create on trade to ann", "ON DATABASE"),
        ("grant select on database x to ann", "CREATE"),
        ("grant select on all tables in schema public to ann", "pg_read_all_data"),
        ("grant usage on schema public to ann", "USAGE is no right"),
        ("grant select on trade to ann with grant option", "only superusers"),
        ("revoke grant option for select on trade from ann", "only superusers"),
        ("create policy p on t for delete using (true)", "FOR ALL or FOR SELECT"),
        ("create policy p on t using (true) with check (true)", "WITH CHECK"),
        ("create policy p on t", "needs USING"),
        ("create policy p on t using (true", "not closed"),
        ("alter policy p on t using (true)", "drop the policy"),
        ("create token feed", "FOR and a user"),
        ("drop role ann cascade", "cascade is not expected"),
    ] {
        let message = read(text).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn no_message_shows_a_password() {
    for text in [
        "create user ann password 'sesame' 'sesame'",
        "create user ann password 'sesame' sesame",
        "create user ann password sesame",
        "create user ann password \"sesame\"",
        "create user ann password 'SCRAM-SHA-256$sesame'",
    ] {
        let error = read(text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
    }
    assert!(!format!("{:?}", of("create user ann password 'sesame'")).contains("sesame"));
}

#[test]
fn quotas_are_taken_apart() {
    let quotas = |text: &str| match of(text) {
        AccessStatement::CreateRole { options, .. } | AccessStatement::AlterRole { options, .. } => options.quotas,
        other => panic!("{other:?}"),
    };
    let set = quotas("create role desk set (Statement_Bytes_Max = '512M', statements_max = 4) nologin");
    assert_eq!(set, [(Quota::StatementBytesMax, Some(512 << 20)), (Quota::StatementsMax, Some(4))].into());
    let changed = quotas("alter role desk set (rows_per_second_max = 50000) reset (statements_max)");
    assert_eq!(changed, [(Quota::RowsPerSecondMax, Some(50_000)), (Quota::StatementsMax, None)].into());
    assert_eq!(quotas("alter user ann reset all"), Quota::ALL.map(|quota| (quota, None)).into());
    assert!(quotas("alter user ann nologin").is_empty());
    for (text, value) in [("'low'", 1), ("'Normal'", 2), ("high", 3)] {
        let set = quotas(&format!("alter role desk set (statement_priority = {text})"));
        assert_eq!(set, [(Quota::StatementPriority, Some(value))].into());
        assert!(text.to_lowercase().contains(&Quota::StatementPriority.text(value)));
    }
    for (text, part) in [
        ("create role desk set (memory = 1)", "memory is no quota of a role; there are statement_bytes_max"),
        ("alter role desk set (statements_max = 0)", "statements_max is a whole number above 0, not \"0\""),
        ("alter role desk set (statements_max = 4, statements_max = 5)", "given twice"),
        ("alter role desk set (statements_max = 4) reset (statements_max)", "given twice"),
        ("alter role desk set (statement_bytes_max = '1K')", "a size of 1M or more"),
        ("alter role desk set (statement_priority = 2)", "statement_priority is 'low', 'normal' or 'high', not \"2\""),
        ("alter role desk set statements_max = 4", "( behind SET"),
        ("alter role desk reset statements_max", "( behind RESET"),
        ("create role desk reset (statements_max)", "RESET is of ALTER ROLE"),
    ] {
        let message = read(text).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
}
