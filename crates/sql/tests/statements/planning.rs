//! Planning ends with its statement's deadline.

use std::time::Duration;

use splay_sql::Error;
use splay_store::Tier;

use crate::counted::alone;
use crate::market;
use crate::run::{run, session};

#[test]
fn planning_stops_at_the_deadline() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    let ors = |terms: usize, columns: &str| {
        let terms: Vec<String> = (0..terms).map(|n| format!("(sym = 'S{n}' and {columns} > {n})")).collect();
        terms.join(" or ")
    };
    let queries = [
        format!("select count(*) from tick where {}", ors(990, "size")),
        format!("select max(size) as m, sym from tick where {} group by sym", ors(990, "price")),
        format!(
            "select {} from tick",
            (0..990).map(|n| format!("price * {n} + size c{n}")).collect::<Vec<_>>().join(", ")
        ),
    ];
    for text in queries {
        for limit in [50, 1_000] {
            let limit = Duration::from_millis(limit);
            let outcome = run(&session, &text, limit);
            println!("{} within {limit:?}: {:?} after {:?}", &text[..50], outcome.result, outcome.time);
            assert!(matches!(outcome.result, Ok(_) | Err(Error::Cancelled)), "{:?}", outcome.result);
            assert!(outcome.time < limit + limit / 10 + Duration::from_secs(20), "{:?}", outcome.time);
        }
    }
}

#[test]
fn a_type_that_doubles_is_refused() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    let nested = |levels: usize| {
        (0..levels).fold("select size as x from tick".to_owned(), |query, _| {
            format!("select struct(x, x) as x from ({query}) where x is not null")
        })
    };
    assert_eq!(run(&session, &nested(3), Duration::from_secs(20)).result.unwrap(), 200_000);
    for levels in [14, 20] {
        let outcome = run(&session, &nested(levels), Duration::from_secs(20));
        let error = outcome.result.unwrap_err().to_string();
        assert!(error.contains("at most"), "{levels}: {error}");
        assert!(outcome.memory < 64 << 20, "{levels}: {} bytes", outcome.memory);
        // Its error wrote the type, which had 2^60 parts.
        let maps = nested(levels).replace("struct(x, x)", "map(x, x)");
        let outcome = run(&session, &maps, Duration::from_secs(20));
        assert!(outcome.result.is_err() && outcome.memory < 64 << 20, "{levels}: {outcome:?}");
    }
}
