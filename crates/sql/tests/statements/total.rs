//! All statements together have a limit, too.

use splay_sql::{Error, Parameters, Session, SessionSettings};
use splay_store::Tier;

use crate::counted::alone;
use crate::market;

#[test]
fn the_statement_that_would_pass_the_total_is_refused_and_all_is_given_back() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let settings = SessionSettings {
        memory_bytes: 64 << 20,
        total_memory_bytes: 40 << 20,
        threads: 1,
        ..SessionSettings::default()
    };
    let session = Session::new(database, settings).unwrap();
    let rows = |times: usize| {
        let text = format!("select repeat(sym, {times}) as long from tick limit 1");
        session.sql(&text, Parameters::None).and_then(|mut answer| answer.batches())
    };
    // Each reserves twice its 6 MB for as long as its rows are held.
    let answers: Vec<_> = (0..3).map(|_| rows(2_000_000).unwrap()).collect();
    assert!((36_000_000..40 << 20).contains(&session.memory_reserved()), "{}", session.memory_reserved());
    let refused = rows(2_000_000).unwrap_err();
    assert!(matches!(refused, Error::TotalMemory { .. }), "{refused}");
    assert!(refused.to_string().contains("all statements together is limited to 41943040 bytes"), "{refused}");
    let alone = rows(20_000_000).unwrap_err();
    assert!(matches!(alone, Error::Memory { .. }), "{alone}");
    drop(answers);
    wait_until_free(&session);
    assert_eq!(rows(2_000_000).unwrap()[0].num_rows(), 1);
    wait_until_free(&session);
}

/// A statement that was dropped ends with its step.
fn wait_until_free(session: &Session) {
    while session.memory_reserved() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn an_answer_of_a_tick_plan_counts_until_it_is_dropped() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let settings = SessionSettings { total_memory_bytes: 80 << 20, threads: 1, ..SessionSettings::default() };
    let session = Session::new(database, settings).unwrap();
    let answer = session.sql("select sym, sum(size) from tick group by sym", Parameters::None).unwrap();
    assert!(answer.is_tick_plan());
    assert!((1..1 << 20).contains(&session.memory_reserved()), "{}", session.memory_reserved());
    drop(answer);
    assert_eq!(session.memory_reserved(), 0);
}
