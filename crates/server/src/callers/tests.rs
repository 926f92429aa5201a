//! Tests of the clients that a server admits, and for how long.

#![allow(clippy::unwrap_used)]

use splay_sql::SessionSettings;
use splay_store::storage::fault::FaultStorage;
use splay_store::{Grant, Password, Privilege, RoleChange};

use super::*;

/// Those of a server over a database without users.
fn callers(anonymous: Option<&str>, is_local: bool) -> Callers {
    let database = Database::create_on(Arc::new(FaultStorage::new()), &splay_store::Settings::default()).unwrap();
    let auth = Auth { anonymous: anonymous.map(str::to_owned), ..Auth::default() };
    Callers::new(Tokens::read(&auth).unwrap(), &auth, database, is_local, None, Quotas::default()).unwrap()
}

fn change<T>(callers: &Callers, change: impl FnOnce(&mut Access) -> splay_store::Result<T>) -> T {
    callers.database().change_access(change).unwrap()
}

fn user(superuser: bool) -> RoleChange {
    RoleChange { login: Some(true), superuser: Some(superuser), ..RoleChange::default() }
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn of(callers: &Callers, value: Option<&str>) -> Result<Caller, Code> {
    run(callers.of(value, Role::Read)).map_err(|problem| problem.code)
}

#[test]
fn without_users_this_machine_is_let_in_and_no_other() {
    assert!(of(&callers(None, true), None).is_ok() && of(&callers(None, true), Some("Bearer x")).is_ok());
    let reached = callers(None, false);
    for value in [None, Some("Bearer x"), Some("Basic YW5uOng=")] {
        assert_eq!(of(&reached, value).unwrap_err(), Code::Unauthorized, "{value:?}");
    }
    for name in ["admin", "other"] {
        change(&reached, |access| access.create_role(name, user(true)));
    }
    let token = change(&reached, |access| access.create_token("one", "admin", None)).token;
    let bearer = format!("Bearer {token}");
    assert!(of(&reached, Some(&bearer)).is_ok());
    change(&reached, |access| access.drop_role("admin"));
    assert_eq!(of(&reached, Some(&bearer)).unwrap_err(), Code::Unauthorized);
    assert_eq!(of(&reached, None).unwrap_err(), Code::Unauthorized);
}

#[test]
fn a_caller_is_who_he_is_for_as_long_as_what_he_has_shown_counts() {
    let callers = callers(None, true);
    let anybody = of(&callers, None).unwrap();
    change(&callers, |access| access.create_role("admin", user(true)));
    assert_eq!(callers.still(&anybody).unwrap_err().code, Code::Unauthorized);
    change(&callers, |access| access.create_role("ann", user(false)));
    let token = change(&callers, |access| access.create_token("one", "ann", None)).token;
    let ann = of(&callers, Some(&format!("Bearer {token}"))).unwrap();
    assert!(!ann.rights().unwrap().sees("trade"));
    let (role, table) = ("ann".to_owned(), Some("trade".to_owned()));
    let grant = Grant { role, table, privilege: Privilege::Select, columns: Vec::new() };
    change(&callers, |access| access.grant(grant));
    assert!(callers.still(&ann).unwrap().rights().unwrap().sees("trade"));
    change(&callers, |access| access.rotate_token("one", None));
    assert_eq!(callers.still(&ann).unwrap_err().code, Code::Unauthorized);
}

#[test]
fn a_login_counts_as_long_as_its_password() {
    let callers = callers(None, true);
    let password = |text: &str| RoleChange { password: Some(Some(Password::new(text).unwrap())), ..user(true) };
    change(&callers, |access| access.create_role("admin", password("open sesame")));
    let admin = run(callers.of_password("Admin", "open sesame")).unwrap();
    assert!(run(callers.of_password("Admin", "open sesame")).is_ok(), "known again");
    assert!(run(callers.of_password("Admin", "open sesam")).is_err() && run(callers.of_password("", "")).is_err());
    let bearer = callers.bearer(&admin, "open sesame").unwrap();
    assert_ne!(bearer, "open sesame");
    assert!(of(&callers, Some(&format!("Bearer {bearer}"))).is_ok());
    change(&callers, |access| access.alter_role("admin", password("another")));
    assert!(callers.still(&admin).is_err() && of(&callers, Some(&format!("Bearer {bearer}"))).is_err());
    let shown = format!("{admin:?} {callers:?}");
    assert!(!shown.contains("sesame") && !shown.contains(&bearer), "{shown}");
}

#[test]
fn who_may_the_same_shares_a_session() {
    let callers = callers(None, true);
    let open = Session::new(callers.database().clone(), SessionSettings { threads: 1, ..SessionSettings::default() });
    let open = open.unwrap();
    change(&callers, |access| {
        access.create_role("admin", user(true))?;
        ["ann", "bob"].iter().try_for_each(|name| access.create_role(name, user(false)))
    });
    for name in ["ann", "bob"] {
        let token = change(&callers, |access| access.create_token(name, name, None)).token;
        let caller = of(&callers, Some(&format!("Bearer {token}"))).unwrap();
        let session = run(callers.session(&caller, &open)).unwrap();
        assert_eq!(session.user(), Some(name));
    }
    assert_eq!(callers.0.sessions.lock().unwrap().len(), 1);
}

#[test]
fn who_shows_nothing_may_be_somebody_but_a_superuser() {
    let callers = callers(Some("guest"), false);
    change(&callers, |access| {
        access.create_role("admin", user(true))?;
        access.create_role("guest", RoleChange::default())
    });
    assert!(callers.serve_anybody(false) && !callers.serve_anybody(true));
    assert!(of(&callers, None).unwrap().rights().is_some());
    assert_eq!(of(&callers, Some("Bearer wrong")).unwrap_err(), Code::Unauthorized);
    change(&callers, |access| {
        access.alter_role("guest", RoleChange { superuser: Some(true), ..RoleChange::default() })
    });
    assert_eq!(of(&callers, None).unwrap_err(), Code::Unauthorized);
}
