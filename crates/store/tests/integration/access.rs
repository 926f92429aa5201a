//! Users and roles: what a crash, a failed operation and damage leave of them.

use std::sync::Arc;

use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{Access, Database, Error, Grant, LoadOptions, Privilege, Quota, RoleChange, Settings, View};

use rand::Rng;

use crate::model::{self, load, rng};

fn open(storage: &FaultStorage) -> Database {
    model::open(storage).unwrap()
}

fn superuser() -> RoleChange {
    RoleChange { login: Some(true), superuser: Some(true), ..RoleChange::default() }
}

fn grant(role: &str, table: &str) -> Grant {
    let table = Some(table.to_owned());
    Grant { role: role.to_owned(), table, privilege: Privilege::Select, columns: Vec::new() }
}

/// A database with a user and a role.
fn database() -> FaultStorage {
    let storage = FaultStorage::new();
    Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    open(&storage)
        .change_access(|access| {
            access.create_role("admin", superuser())?;
            access.create_role("desk", RoleChange::default())
        })
        .unwrap();
    storage
}

fn quota(quota: Quota, value: Option<u64>) -> RoleChange {
    RoleChange { quotas: [(quota, value)].into(), ..RoleChange::default() }
}

type Change = fn(&mut Access) -> Result<(), Error>;

const CHANGES: [Change; 4] = [
    |access| access.create_role("ann", RoleChange { login: Some(true), ..RoleChange::default() }),
    |access| access.grant(grant("desk", "trade")),
    |access| access.drop_role("DESK").map(drop),
    |access| access.alter_role("desk", quota(Quota::StatementsMax, Some(4))),
];

#[test]
fn a_power_cut_leaves_the_old_roles_or_the_new_ones() {
    for (number, change) in CHANGES.into_iter().enumerate() {
        let base = database();
        let whole = base.copy();
        let before = whole.operations();
        open(&whole).change_access(change).unwrap();
        let (total, new) = (whole.operations() - before, open(&whole).access().unwrap());
        let old = open(&base).access().unwrap();
        assert!(total >= 4 && new != old, "it syncs what it writes");
        for n in 0..=total {
            let storage = base.copy();
            storage.stop_after(Some(n));
            let done = open(&storage).change_access(change).is_ok();
            for seed in 0..64 {
                let mut random = rng(seed);
                let image = storage.crash(&mut |bound| random.random_range(0..bound));
                let database = open(&image);
                let recovered = database.access().unwrap();
                let what = format!("change {number}, power cut after {n} of {total} operations, seed {seed}");
                assert!(recovered == new || (!done && recovered == old), "{what}: {recovered:?}");
                database.change_access(|access| access.create_role("next", RoleChange::default())).unwrap();
                assert!(database.access().unwrap().role("Next").is_some(), "{what}");
            }
        }
    }
}

#[test]
fn an_operation_that_fails_is_told() {
    for change in CHANGES {
        let base = database();
        let whole = base.copy();
        let before = whole.operations();
        open(&whole).change_access(change).unwrap();
        for n in 0..whole.operations() - before {
            let storage = base.copy();
            storage.fail_at(Some(n));
            let message = open(&storage).change_access(change).unwrap_err().to_string();
            storage.fail_at(None);
            assert!(message.contains("injected fault"), "{message}");
            assert!(open(&storage).access().unwrap().has_users());
        }
    }
}

#[test]
fn damage_lets_nobody_in() {
    let storage = database();
    let database = open(&storage);
    let token = database.change_access(|access| access.create_token("feed", "admin", None)).unwrap();
    let whole = database.access().unwrap();
    let bytes = storage.read("access.json").unwrap();
    assert!(!String::from_utf8(bytes.clone()).unwrap().contains(&token.token));
    for (at, bit) in (0..bytes.len()).map(|at| (at, 1u8 << (at % 8))) {
        let damaged = storage.copy();
        damaged.damage("access.json", |bytes| bytes[at] ^= bit).unwrap();
        match open(&damaged).access() {
            Ok(access) => assert_eq!(access, whole, "byte {at}"),
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. } | Error::FormatVersion { .. }), "byte {at}: {error}");
            }
        }
    }
    for length in 0..bytes.len() {
        let damaged = storage.copy();
        damaged.damage("access.json", |bytes| bytes.truncate(length)).unwrap();
        let database = open(&damaged);
        assert!(database.access().unwrap_err().is_damage(), "{length} bytes");
        assert!(database.change_access(|access| access.create_role("x", superuser())).is_err(), "{length} bytes");
    }
    // What this process has read before is read again.
    storage.damage("access.json", |bytes| bytes.clear()).unwrap();
    assert!(database.access().is_err());
}

#[test]
fn quotas_are_kept_and_need_no_newer_file_once_they_are_gone() {
    let storage = database();
    let version = || {
        let file: serde_json::Value = serde_json::from_slice(&storage.read("access.json").unwrap()).unwrap();
        file["version"].as_u64().unwrap()
    };
    assert_eq!(version(), 1);
    let change = |value| {
        open(&storage)
            .change_access(|access| access.alter_role("desk", quota(Quota::StatementBytesMax, value)))
            .unwrap();
    };
    change(Some(1 << 40));
    assert_eq!(version(), 2);
    let quotas = open(&storage).access().unwrap().role("desk").unwrap().quotas.clone();
    assert_eq!(quotas, [(Quota::StatementBytesMax, 1 << 40)].into());
    let small =
        open(&storage).change_access(|access| access.alter_role("desk", quota(Quota::StatementBytesMax, Some(1))));
    assert!(small.unwrap_err().to_string().contains("too small"));
    change(None);
    assert_eq!(version(), 1);
    assert!(open(&storage).access().unwrap().role("desk").unwrap().quotas.is_empty());
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let storage = database();
    let database = open(&storage);
    let before = database.access().unwrap();
    let refused = database.change_access(|access| {
        access.create_role("ann", RoleChange { login: Some(true), ..RoleChange::default() })?;
        access.drop_role("admin")
    });
    assert!(matches!(refused, Err(Error::Refused { .. })));
    assert_eq!(database.access().unwrap(), before);
}

#[test]
fn what_grants_name_keeps_its_name() {
    let storage = database();
    let database = open(&storage);
    load(&database, &model::rows(1, 10, 0..1, 4), LoadOptions::default()).unwrap();
    let view = View::new("bars", Vec::new(), "select 1");
    database.create_view(view, false).unwrap();
    database
        .change_access(|access| {
            access.grant(grant("desk", "Trade"))?;
            access.grant(grant("desk", "BARS"))
        })
        .unwrap();
    let message = |error: Error| error.to_string();
    let table = database.table("trade").unwrap();
    assert!(message(table.rename("trades", |_| false).unwrap_err()).contains("grants or policies name"));
    assert!(
        message(database.rename_view("bars", "candles", |_| false).unwrap_err()).contains("grants or policies name")
    );
    database.change_access(|access| access.revoke(&grant("desk", "trade"))).unwrap();
    table.rename("trades", |_| false).unwrap();
}
