//! Statements as large as they may be are answered or refused, and larger ones are refused by the name of the limit: none ends the
//! process, which a statement of 121 KB did.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use splay_sql::{Error, Parameters, Session};
use splay_store::Tier;

use crate::market;

/// What becomes of a statement. On this thread, whose stack is one of a test: 2 MiB.
fn run(session: &Session, text: &str) -> Result<Option<i64>, Error> {
    let batches = session.sql(text, Parameters::None)?.batches()?;
    let first = batches.first().filter(|batch| batch.num_rows() > 0).map(|batch| batch.column(0));
    Ok(first.and_then(|column| column.as_primitive_opt::<Int64Type>()).map(|column| column.value(0)))
}

fn chain(term: &str, operator: &str, terms: usize) -> String {
    vec![term; terms].join(operator)
}

/// Chains of each kind of operator, so many terms long.
fn chains(terms: usize) -> Vec<String> {
    let postfix = |operand: &str, operator: &str| format!("select {operand}{}", operator.repeat(terms));
    vec![
        format!("select count(*) from trade where {}", chain("Trade_Volume > 0", " and ", terms)),
        format!("select count(*) from trade where {}", chain("Trade_Price <> Trade_Volume", " or ", terms)),
        format!("select {}", chain("1", "+", terms)),
        format!("select count({}) from trade", chain("Trade_Price", " - ", terms)),
        format!("select {}", chain("'a'", "||", terms)),
        postfix("make_array(1)", "[1]"),
        postfix("1", "::bigint"),
        postfix("1", " is null"),
        postfix("true", " is not true"),
        // Keywords are columns where an operand is due, and begin nothing.
        format!("select {}", chain("limit", "+", terms)),
        format!("select ({})", chain("end", "+", terms)),
        format!("select {}", chain("union", "*", terms)),
    ]
}

#[test]
fn chains_up_to_the_limit_are_answered_or_refused() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    let without_tick_plans = market::session_without_tick_plans(&database);
    // Names of nested operators cost the square of their number: some chains are as long as they may be, and all a third of that.
    for text in chains(980).into_iter().step_by(3) {
        // What counts is that it comes back.
        let _ = run(&session, &text);
    }
    for text in chains(330) {
        let _ = run(&session, &text);
        let _ = run(&without_tick_plans, &text);
        let _ = session.describe(&text);
    }
    assert_eq!(run(&session, &chains(980)[0]).unwrap(), Some(8));
    let wide: Vec<String> = (0..900).map(|n| format!("Trade_Price + {n} as c{n}")).collect();
    assert!(run(&session, &format!("select {} from trade", wide.join(", "))).is_ok());
    let cases: Vec<String> = (0..900).map(|n| format!("when Trade_Volume = {n} then {n}")).collect();
    assert!(run(&session, &format!("select count(case {} else 0 end) from trade", cases.join(" "))).is_ok());
    assert_eq!(run(&session, &chains(980)[2]).unwrap(), Some(980));
}

#[test]
fn longer_chains_are_refused_by_name() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    for terms in [2_100, 8_125, 100_000] {
        for text in chains(terms) {
            let error = run(&session, &text).unwrap_err();
            let message = error.to_string();
            assert!(
                matches!(error, Error::Statement { .. }) && message.contains("at most"),
                "{}: {message}",
                &text[..60]
            );
            let error = session.describe(&text).unwrap_err().to_string();
            assert!(error.contains("at most"), "{}: {error}", &text[..60]);
        }
    }
}

#[test]
fn lists_of_literals_run_and_computed_ones_are_bounded() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    let numbers: Vec<String> = (0..65_536).map(|number| number.to_string()).collect();
    let text = format!("select count(*) from trade where Trade_Volume in ({})", numbers.join(","));
    assert_eq!(run(&session, &text).unwrap(), Some(8));
    let computed = |items: usize| {
        let items: Vec<String> = (0..items).map(|item| format!("Trade_Volume + {item}")).collect();
        format!("select count(*) from trade where Trade_Volume in ({})", items.join(","))
    };
    assert_eq!(run(&session, &computed(1_000)).unwrap(), Some(8));
    for items in [1_001, 20_000] {
        let error = run(&session, &computed(items)).unwrap_err().to_string();
        assert!(error.contains("at most"), "{items}: {error}");
    }
}

#[test]
fn queries_within_one_statement_are_bounded() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    assert_eq!(run(&session, &chain("select 7 as n", " union all ", 100)).unwrap(), Some(7));
    for text in [
        chain("select 1", " union all ", 10_000),
        chain("select 1", " except ", 10_000),
        format!("select count(*) from {}", chain("trade", ", ", 2_000)),
        format!("select 1 from trade {}", "cross join trade ".repeat(2_000)),
    ] {
        let error = run(&session, &text).unwrap_err().to_string();
        assert!(error.contains("at most"), "{}: {error}", &text[..60]);
    }
}

/// Each of these doubles the one before: a few lines made a plan of a billion nodes.
#[test]
fn a_plan_that_doubles_itself_is_refused() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    let doubled = |times: usize| {
        let step = |n: usize| format!("t{n} as (select * from t{} union all select * from t{})", n - 1, n - 1);
        let steps: Vec<String> = (1..=times).map(step).collect();
        format!("with t0 as (select 1 as n), {} select count(*) from t{times}", steps.join(", "))
    };
    assert_eq!(run(&session, &doubled(4)).unwrap(), Some(16));
    let error = run(&session, &doubled(30)).unwrap_err().to_string();
    assert!(error.contains("at most"), "{error}");
}

#[test]
fn a_text_of_megabytes_is_refused() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    let error = run(&session, &format!("select '{}'", "a".repeat(5 << 20))).unwrap_err().to_string();
    assert!(error.contains("bytes of text"), "{error}");
}
