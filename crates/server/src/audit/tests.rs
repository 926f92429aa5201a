//! Tests of the audit records, and of operations that are refused because theirs can't be written.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use splay_store::audit::{AuditFilter, read, verify};
use splay_store::storage::fault::FaultStorage;

use super::*;

fn auditor(storage: &FaultStorage, log: AuditLevel, when_full: WhenFull) -> Auditor {
    Auditor::on(Arc::new(storage.clone()), &Audit { log, when_full, ..Audit::default() }).unwrap()
}

fn peer(auditor: &Auditor) -> Arc<Peer> {
    Peer::new(auditor.clone(), "http", "127.0.0.1:5000".parse().unwrap())
}

fn ann(peer: &Arc<Peer>) -> Actor {
    Actor::new(Arc::from("ann"), "user", Arc::clone(peer))
}

/// The records of a log that is closed then, but for those about itself.
fn records(storage: &FaultStorage, auditor: &Auditor) -> Vec<Value> {
    auditor.close();
    let verification = verify(storage, None, None).unwrap();
    assert!(verification.is_sound(), "{verification:?}");
    let mut records = Vec::new();
    let others = read::<splay_store::Error>(storage, &AuditFilter::default(), &mut |_, record| {
        if record["kind"] != "file" {
            records.push(record.clone());
        }
        Ok(())
    });
    assert_eq!(others.unwrap(), 0);
    records
}

fn shown(records: &[Value]) -> Vec<String> {
    let texts = |record: &Value| {
        let text = |name: &str| record[name].as_str().unwrap_or("-").to_owned();
        format!("{} {} {} {} {}", text("kind"), text("user"), text("object"), text("outcome"), text("statement"))
    };
    records.iter().map(texts).collect()
}

#[test]
fn what_changes_something_is_told_before_and_behind() {
    let storage = FaultStorage::new();
    let auditor = auditor(&storage, AuditLevel::Changes, WhenFull::Refuse);
    let ann = ann(&peer(&auditor));
    let query = ann.begin_here(Action::statement("select 1", false)).unwrap();
    let change = ann.begin_here(Action::statement("delete from trade", true)).unwrap();
    // As a power cut would leave it.
    let crashed = storage.crash(&mut |_| 0);
    change.end("ok", Some(3));
    query.end("ok", Some(1));
    ann.begin_here(Action::statement("select 2", false)).unwrap().end("forbidden", Some(0));
    drop(ann.begin_here(Action::statement("create user bob password 'sesame'", true)).unwrap());
    let records = records(&storage, &auditor);
    assert_eq!(
        shown(&records),
        [
            "change ann trade begun delete from trade",
            "change ann trade ok -",
            "statement ann - forbidden select 2",
            "users ann bob begun create user bob PASSWORD …",
            "users ann bob left -",
        ]
    );
    assert_eq!((&records[1]["of"], &records[1]["rows"]), (&records[0]["n"], &3.into()));
    assert_eq!(
        (&records[0]["wire"], &records[0]["from"], &records[0]["role"]),
        (&"http".into(), &"127.0.0.1:5000".into(), &"user".into())
    );
    let mut durable = 0;
    read::<splay_store::Error>(
        &crashed,
        &AuditFilter { kind: Some("change".to_owned()), ..AuditFilter::default() },
        &mut |_, _| {
            durable += 1;
            Ok(())
        },
    )
    .unwrap();
    assert_eq!(durable, 1, "before it began");
}

#[test]
fn statements_that_read_are_told_if_that_is_asked_for() {
    let storage = FaultStorage::new();
    let auditor = auditor(&storage, AuditLevel::Statements, WhenFull::Refuse);
    let ann = ann(&peer(&auditor)).over("websocket");
    let long = format!("select '{}'", "x".repeat(1 << 20));
    ann.begin_here(Action::statement(&long, false)).unwrap().end("ok", Some(1));
    ann.begin_here(Action::subscription("trade, quote")).unwrap().end("closed", Some(7));
    let records = records(&storage, &auditor);
    let text = records[0]["statement"].as_str().unwrap();
    assert!(text.len() < 17 << 10 && text.ends_with('…'), "{} bytes", text.len());
    let subscribed = ["subscribe ann trade, quote begun -", "subscribe ann trade, quote closed -"];
    assert_eq!(shown(&records[1..]), subscribed);
    assert_eq!((&records[2]["rows"], &records[2]["wire"]), (&7.into(), &"websocket".into()));
}

#[test]
fn without_a_record_nothing_is_changed_unless_that_is_asked_for() {
    for (when_full, is_done) in [(WhenFull::Refuse, false), (WhenFull::GoOn, true)] {
        let storage = FaultStorage::new();
        let auditor = auditor(&storage, AuditLevel::Statements, when_full);
        let ann = ann(&peer(&auditor));
        storage.capacity(Some(storage.used()));
        let refused = |action| match ann.begin_here(action) {
            Ok(begun) => {
                begun.end("ok", None);
                None
            }
            Err(problem) => Some(problem.code),
        };
        let code = (!is_done).then_some(Code::Full);
        assert_eq!(auditor.outage(), None);
        assert_eq!(refused(Action::statement("delete from trade", true)), code);
        assert_eq!(refused(Action::statement("select 1", false)), code, "{when_full:?}");
        assert_eq!(auditor.outage(), (!is_done).then_some((AuditLevel::Statements, false)), "as /ready says");
        let lost = auditor.status().unwrap().lost;
        assert!(lost >= 1, "{lost}");
        storage.capacity(None);
        // The retry succeeds: there is room again.
        assert_eq!(refused(Action::statement("select 2", false)), None);
        assert_eq!(auditor.outage(), None);
        let shown = shown(&records(&storage, &auditor));
        assert!(shown.iter().any(|record| record.starts_with("lost")), "{shown:?}");
        // Nothing tells of what wasn't done.
        assert!(is_done || !shown.iter().any(|record| record.contains("trade")), "{shown:?}");
    }
}

#[test]
fn a_connection_signs_in_once_and_guesses_are_counted() {
    let storage = FaultStorage::new();
    let auditor = auditor(&storage, AuditLevel::Changes, WhenFull::Refuse);
    let one = peer(&auditor);
    (0..3).for_each(|_| ann(&one).note_sign_in());
    ann(&peer(&auditor)).note_sign_in();
    let event = |time: i64| AuditEvent { outcome: "unauthorized", ..AuditEvent::new("sign_in", time) };
    (0..100).for_each(|at| auditor.note_refusal(event(at)));
    auditor.note_refusal(event(2_000_000_000));
    ann(&one).note_denied("permission denied");
    let records = records(&storage, &auditor);
    let shown = shown(&records);
    assert_eq!(shown[..2], ["sign_in ann - ok -", "sign_in ann - ok -"]);
    assert_eq!(shown.len(), 2 + 20 + 1 + 1 + 1);
    assert_eq!(records[22]["messages"], 80);
    assert_eq!(shown[24], "denied ann - forbidden -");
}

#[test]
fn rows_of_a_connection_are_counted() {
    use crate::ingest::{Ack, AckClass, Append, IngestError};
    let storage = FaultStorage::new();
    let auditor = auditor(&storage, AuditLevel::Changes, WhenFull::Refuse);
    let peer = peer(&auditor);
    let ann = ann(&peer);
    let rows = |count: usize| {
        let column: arrow::array::ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![1; count]));
        arrow::array::RecordBatch::try_from_iter([("x", column)]).unwrap()
    };
    let ack =
        |duplicate| Ack { sequence: 1, class: AckClass::Disk, rows: 1, duplicate, quarantined: 0, duplicate_rows: 0 };
    for (count, acked) in [(5, Ok(ack(false))), (7, Ok(ack(true))), (9, Err(IngestError::Closed)), (2, Ok(ack(false)))]
    {
        let counts = ann.rows(&[Append::new("trade", rows(count)), Append::new("quote", rows(1))]).unwrap();
        counts.counting(Box::new(|_| ()))(acked);
    }
    ann.rows(&[Append::new("trade", rows(1))]).unwrap().refused();
    drop((ann, peer));
    let records = records(&storage, &auditor);
    assert_eq!(shown(&records)[..2], ["rows ann trade begun -", "rows ann quote begun -"]);
    let of = |table: &str| records[2..].iter().find(|record| record["object"] == table).unwrap();
    let trade = of("trade");
    assert_eq!((&trade["messages"], &trade["refused"], &trade["rows"]), (&5.into(), &2.into(), &7.into()));
    assert_eq!(trade["of"], records[0]["n"]);
    assert_eq!((&of("quote")["messages"], &of("quote")["rows"]), (&4.into(), &2.into()));
    assert_eq!(records.len(), 4);
}

#[test]
fn without_a_log_nothing_is_kept() {
    let auditor = Auditor::default();
    let ann = ann(&peer(&auditor));
    ann.note_sign_in();
    ann.begin_here(Action::statement("delete from trade", true)).unwrap().end("ok", None);
    assert!(auditor.status().is_none());
    auditor.close();
}
