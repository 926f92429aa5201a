//! Tests of the rights of roles together, and of secrets.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::error::Result;

fn access() -> Access {
    let mut access = Access::default();
    let user = || RoleChange { login: Some(true), ..RoleChange::default() };
    access.create_role("admin", RoleChange { superuser: Some(true), ..user() }).unwrap();
    for name in ["Ann", "bob"] {
        access.create_role(name, user()).unwrap();
    }
    for name in ["desk", "research"] {
        access.create_role(name, RoleChange::default()).unwrap();
    }
    access
}

fn grant(role: &str, table: &str, privilege: Privilege, columns: &[&str]) -> Grant {
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    Grant { role: role.to_owned(), table: Some(table.to_owned()), privilege, columns }
}

fn policy(name: &str, roles: &[&str], condition: &str, restrictive: bool) -> Policy {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    Policy { name: name.to_owned(), table: "trade".to_owned(), restrictive, roles, condition: condition.to_owned() }
}

fn rights(access: &Access, user: &str) -> Rights {
    Rights::of(access, user).unwrap()
}

fn error_text<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn rights_are_those_of_all_roles() {
    let mut access = access();
    access.grant_role("research", "DESK").unwrap();
    access.grant_role("desk", "ann").unwrap();
    access.grant(grant("research", "Trade", Privilege::Select, &["Price"])).unwrap();
    access.grant(grant("desk", "trade", Privilege::Select, &["time"])).unwrap();
    access.grant(grant(PUBLIC, "calendar", Privilege::Select, &[])).unwrap();
    let ann = rights(&access, "ANN");
    let columns = Permission::Columns(["price", "time"].map(str::to_owned).into());
    assert_eq!(ann.permission(Privilege::Select, "TRADE"), columns);
    assert!(ann.sees("trade") && !ann.may(Privilege::Select, "trade") && ann.may(Privilege::Select, "calendar"));
    let bob = rights(&access, "bob");
    assert!(!bob.sees("trade") && bob.sees("Calendar") && !bob.may_create() && !bob.may_monitor());
    assert!(rights(&access, "admin").may(Privilege::Truncate, "anything"));
    access.grant(grant("desk", "trade", Privilege::Select, &[])).unwrap();
    assert!(rights(&access, "ann").may(Privilege::Select, "trade"));
    assert!(!rights(&access, "ann").reads_everything() && rights(&access, "admin").reads_everything());
    access.grant_role(READ_ALL, "ann").unwrap();
    assert!(rights(&access, "ann").reads_everything());
    access.create_policy(policy("own", &["ann"], "true", false)).unwrap();
    assert!(!rights(&access, "ann").reads_everything());
    access.drop_policy("own", "trade");
    access.grant_role(WRITE_ALL, "bob").unwrap();
    let bob = rights(&access, "bob");
    assert!(
        bob.may(Privilege::Insert, "trade")
            && !bob.may(Privilege::Select, "trade")
            && !bob.may(Privilege::Truncate, "trade")
    );
}

#[test]
fn what_is_revoked_is_gone() {
    let mut access = access();
    access.grant(grant("ann", "trade", Privilege::Select, &["a", "b"])).unwrap();
    access.revoke(&grant("ann", "trade", Privilege::Select, &["A"])).unwrap();
    let only_b = Permission::Columns(["b".to_owned()].into());
    assert_eq!(rights(&access, "ann").permission(Privilege::Select, "trade"), only_b);
    // Not the whole table, which a list without columns would be.
    access.revoke(&grant("ann", "trade", Privilege::Select, &["b"])).unwrap();
    assert_eq!(rights(&access, "ann").permission(Privilege::Select, "trade"), Permission::None);
    access.grant(grant("ann", "trade", Privilege::Select, &["a"])).unwrap();
    access.grant(grant("ann", "trade", Privilege::Select, &[])).unwrap();
    access.revoke(&grant("ann", "trade", Privilege::Select, &[])).unwrap();
    assert_eq!(rights(&access, "ann").permission(Privilege::Select, "trade"), Permission::None);
    assert!(access.grants.is_empty());
}

#[test]
fn policies_hide_rows_from_all_whom_none_names() {
    let mut access = access();
    access.grant_role("desk", "ann").unwrap();
    assert_eq!(rights(&access, "bob").rows("trade"), RowCondition::All);
    access.create_policy(policy("a", &["desk"], "sym = 'A' -- one", false)).unwrap();
    assert_eq!(rights(&access, "bob").rows("trade"), RowCondition::Where("false".to_owned()));
    assert_eq!(rights(&access, "ann").rows("Trade"), RowCondition::Where("((sym = 'A' -- one\n))".to_owned()));
    access.create_policy(policy("b", &["ann"], "sym = 'B'", false)).unwrap();
    access.create_policy(policy("late", &[PUBLIC], "time < 1", true)).unwrap();
    let expected = "((sym = 'A' -- one\n) OR (sym = 'B'\n)) AND (time < 1\n)";
    assert_eq!(rights(&access, "ann").rows("trade"), RowCondition::Where(expected.to_owned()));
    // A restrictive one alone shows nothing.
    assert_eq!(rights(&access, "bob").rows("trade"), RowCondition::Where("false".to_owned()));
    assert_eq!(rights(&access, "ann").rows("quote"), RowCondition::All);
    access.alter_role("bob", RoleChange { bypasses_policies: Some(true), ..RoleChange::default() }).unwrap();
    for user in ["admin", "bob"] {
        assert_eq!(rights(&access, user).rows("trade"), RowCondition::All);
    }
    assert!(error_text(access.drop_role("desk")).contains("policy a of table trade"));
    assert!(error_text(access.create_policy(policy("A", &["desk"], "true", false))).contains("already exists"));
    assert!(access.drop_policy("A", "TRADE") && !access.drop_policy("a", "trade"));
}

#[test]
fn those_who_may_the_same_share_a_digest() {
    let mut access = access();
    access.grant_role("desk", "ann").unwrap();
    access.grant_role("desk", "bob").unwrap();
    access.grant(grant("desk", "trade", Privilege::Select, &[])).unwrap();
    assert_eq!(rights(&access, "ann").digest(), rights(&access, "bob").digest());
    let before = rights(&access, "ann").digest();
    access.create_policy(policy("a", &["ann"], "sym = 'A'", false)).unwrap();
    assert_ne!(rights(&access, "ann").digest(), rights(&access, "bob").digest());
    assert_ne!(rights(&access, "bob").digest(), before);
}

#[test]
fn who_a_policy_asks_for_is_part_of_the_rights() {
    let mut access = access();
    access.grant_role("desk", "ann").unwrap();
    access.grant_role("desk", "bob").unwrap();
    access.create_policy(policy("a", &["desk"], "trader = 'current users'", false)).unwrap();
    assert_eq!(rights(&access, "ann").user(), None);
    access.create_policy(policy("b", &["desk"], "trader = Current_User", false)).unwrap();
    assert_eq!(rights(&access, "ANN").user(), Some("Ann"));
    assert_ne!(rights(&access, "ann").digest(), rights(&access, "bob").digest());
}

#[test]
fn roles_that_cant_be_are_refused() {
    let mut access = access();
    for name in ["public", "PG_anything", "pg_read_all_data"] {
        assert!(error_text(access.create_role(name, RoleChange::default())).contains("is reserved"), "{name}");
    }
    assert!(error_text(access.create_role("ANN", RoleChange::default())).contains("already exists"));
    assert!(error_text(access.create_role("a b", RoleChange::default())).contains("only A-Z"));
    access.grant_role("desk", "research").unwrap();
    assert!(error_text(access.grant_role("research", "desk")).contains("is a member of"));
    assert!(error_text(access.grant_role("nobody", "desk")).contains("does not exist"));
    assert!(error_text(access.clone().drop_role("admin")).contains("superuser"));
    let ended = RoleChange { valid_until: Some(Some(i64::MAX)), ..RoleChange::default() };
    assert!(error_text(access.alter_role("admin", ended)).contains("has no VALID UNTIL"));
    // Nor the only user: without one the database would be open to everybody.
    let mut alone = Access::default();
    alone
        .create_role("admin", RoleChange { login: Some(true), superuser: Some(true), ..RoleChange::default() })
        .unwrap();
    assert!(error_text(alone.clone().drop_role("admin")).contains("keep the last one"));
    let no_login = RoleChange { login: Some(false), ..RoleChange::default() };
    assert!(error_text(alone.alter_role("admin", no_login)).contains("keep the last one"));
    let mut empty = Access::default();
    let user = RoleChange { login: Some(true), ..RoleChange::default() };
    assert!(error_text(empty.create_role("ann", user)).contains("the first user"));
}

#[test]
fn secrets_are_right_or_wrong() {
    let mut access = access();
    let secret = access.create_token("feed", "ANN", Some(100)).unwrap();
    assert_eq!(access.user_of_token(&secret.token, 99).unwrap().0.name, "Ann");
    assert!(access.user_of_token(&secret.token, 100).is_none() && access.user_of_token("", 1).is_none());
    assert!(access.user_of_token(&secret.blake3, 1).is_none(), "the digest is no token");
    let other = access.rotate_token("FEED", None).unwrap();
    assert!(access.user_of_token(&secret.token, 1).is_none() && access.user_of_token(&other.token, 1).is_some());
    assert!(error_text(access.create_token("feed", "bob", None)).contains("already exists"));
    assert!(error_text(access.create_token("other", "desk", None)).contains("does not exist"));

    let password = Password::with("open sesame", &[7; 16], 8, 1).unwrap();
    let change = RoleChange { password: Some(Some(password)), valid_until: Some(Some(50)), ..RoleChange::default() };
    access.alter_role("bob", change).unwrap();
    assert_eq!(access.user_of_password("BOB", "open sesame", 49).unwrap().name, "bob");
    for (user, password, now) in
        [("bob", "open sesam", 1), ("bob", "", 1), ("bob", "open sesame", 50), ("ann", "open sesame", 1), ("x", "", 1)]
    {
        assert!(access.user_of_password(user, password, now).is_none(), "{user}");
    }
    // A role that may not log in has no use for a password.
    access.alter_role("bob", RoleChange { login: Some(false), ..RoleChange::default() }).unwrap();
    assert!(access.user_of_password("bob", "open sesame", 1).is_none());
    assert!(access.drop_token("feed") && access.user_of_token(&other.token, 1).is_none());
    assert!(Password::new("").is_err());
    for shown in [format!("{secret:?}"), format!("{access:?}")] {
        assert!(!shown.contains(&secret.token) && !shown.contains("open sesame"), "{shown}");
    }
}

/// The RFC's algorithm, so that hashes that were made elsewhere would be the same.
#[test]
fn hashes_are_argon2ids() {
    let hash = |password: &str| serde_json::to_value(Password::with(password, b"somesalt", 64, 1).unwrap()).unwrap();
    assert_ne!(hash("password")["hash"], hash("passwore")["hash"]);
    assert_eq!(hash("password")["hash"].as_str().unwrap().len(), 64);
    assert_eq!(hash("password"), hash("password"));
}

#[test]
fn a_new_token_fits_its_digest() {
    let (one, other) = (Secret::generate().unwrap(), Secret::generate().unwrap());
    assert_ne!(one.token, other.token);
    assert_eq!(blake3::hash(one.token.as_bytes()).to_hex().as_str(), one.blake3);
    assert!(!format!("{one:?}").contains(&one.token));
}

fn quotas(quotas: &[(Quota, u64)]) -> RoleChange {
    RoleChange { quotas: quotas.iter().map(|(quota, value)| (*quota, Some(*value))).collect(), ..RoleChange::default() }
}

#[test]
fn the_widest_quota_of_all_roles_holds() {
    use Quota::{RowsPerSecondMax, StatementRowsMax, StatementsMax};
    let mut access = access();
    assert!(access.quotas_of("ann").is_empty() && access.quotas_of("nobody").is_empty());
    access.alter_role("desk", quotas(&[(StatementsMax, 4), (StatementRowsMax, 10)])).unwrap();
    access.alter_role("research", quotas(&[(StatementsMax, 8)])).unwrap();
    access.alter_role("ann", quotas(&[(StatementsMax, 2), (RowsPerSecondMax, 7)])).unwrap();
    access.grant_role("desk", "ANN").unwrap();
    let of = |access: &Access, user: &str| -> Vec<(Quota, u64, String)> {
        access.quotas_of(user).into_iter().map(|(quota, allowed)| (quota, allowed.value, allowed.role)).collect()
    };
    let desk = || "desk".to_owned();
    let expected = |statements, role: String| {
        vec![(StatementRowsMax, 10, desk()), (StatementsMax, statements, role), (RowsPerSecondMax, 7, "Ann".to_owned())]
    };
    assert_eq!(of(&access, "ann"), expected(4, desk()));
    access.grant_role("research", "desk").unwrap();
    assert_eq!(of(&access, "ann"), expected(8, "research".to_owned()), "by a role of a role");
    // A role without one says nothing, and a superuser has none.
    access.grant_role(READ_ALL, "ann").unwrap();
    assert_eq!(of(&access, "ann").len(), 3);
    access.alter_role("ann", RoleChange { superuser: Some(true), ..RoleChange::default() }).unwrap();
    assert!(access.quotas_of("ann").is_empty());
    access
        .alter_role("desk", RoleChange { quotas: [(StatementRowsMax, None)].into(), ..RoleChange::default() })
        .unwrap();
    assert_eq!(access.role("desk").unwrap().quotas, [(StatementsMax, 4)].into());
}

#[test]
fn quotas_are_read_as_people_write_them() {
    assert_eq!(Quota::of("STATEMENT_bytes_max").unwrap().value("512M"), Ok(512 << 20));
    assert_eq!(Quota::StatementsMax.value(" 4 "), Ok(4));
    for (quota, text) in [
        (Quota::StatementBytesMax, "1023K"),
        (Quota::StatementsMax, "0"),
        (Quota::StatementsMax, "4M"),
        (Quota::RowsPerSecondMax, "-1"),
        (Quota::StatementRowsMax, ""),
    ] {
        assert!(quota.value(text).unwrap_err().starts_with(quota.as_str()), "{text}");
    }
    assert!(Quota::of("statements").is_none());
    for quota in Quota::ALL {
        assert_eq!(Quota::of(quota.as_str()), Some(quota));
        assert_eq!(serde_json::to_value(quota).unwrap(), quota.as_str());
    }
}

#[test]
fn a_guest_has_his_roles_and_neither_attributes_nor_anybodys_name() {
    let mut access = access();
    access.grant(grant("desk", "trade", Privilege::Select, &[])).unwrap();
    access
        .grant(Grant { role: "desk".to_owned(), table: None, privilege: Privilege::Create, columns: Vec::new() })
        .unwrap();
    let guest = |name: &str, roles: &[&str]| {
        access.with_guest(name, &roles.iter().map(|role| (*role).to_owned()).collect::<Vec<_>>())
    };
    let of_desk = rights(&guest("eve@example.com", &["desk", "none"]).unwrap(), "eve@example.com");
    assert!(of_desk.may(Privilege::Select, "trade") && !of_desk.may_create() && !of_desk.reads_everything());
    let of_admin = rights(&guest("eve", &["admin", MONITOR]).unwrap(), "eve");
    assert!(!of_admin.is_superuser() && of_admin.may_monitor());
    // Names of roles, of users who left among them, and those that stand for a right.
    let long = "x".repeat(257);
    for name in ["admin", "ANN", "desk", READ_ALL, "PG_monitor", PUBLIC, "", "a\0b", &long] {
        assert!(guest(name, &["desk"]).is_none(), "{name:?}");
    }
    assert!(guest("eve", &[]).is_none() && guest("eve", &["none"]).is_none());
}
