//! Executors that die, that see other commits, and callers without the token.

use std::path::Path;

use splay_cluster::token::Token;
use splay_store::Database;

use crate::market;
use crate::processes::{Cluster, Server, ask, ask_each};
use crate::rows::count;

/// Far more rows than all queues between an executor and its client hold.
const MANY_ROWS: &str = "select t.sym, t.ts, t.price, q.bid, q.ask, q.ts as qts from trade t join quote q on t.sym = q.sym and t.venue = q.venue where t.size > 200";

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

#[test]
fn an_executor_that_is_killed_ends_the_statement_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    market::create(&path);
    let mut cluster = Cluster::start(&path);
    let whole = count(&cluster.ask("select sym, venue, count(*) from trade group by sym, venue").unwrap());
    for victim in 0..2 {
        let (mut batches, url) = (0, cluster.scheduler.url.clone());
        let executors = &mut cluster.executors;
        let answer = ask_each(&url, MANY_ROWS, &Token::default(), |_| {
            batches += 1;
            if batches == 1 {
                executors[victim].kill();
            }
        });
        assert!(
            answer.is_err(),
            "an answer that lacks the rows of an executor came as a whole one, with {batches} batches"
        );
        // The next statement goes without it.
        let rows = count(&cluster.ask("select sym, venue, count(*) from trade group by sym, venue").unwrap());
        assert_eq!(rows, whole);
    }
    cluster.executors[2].kill();
    let error = cluster.ask("select sym, count(*) from trade group by sym").unwrap_err().to_string();
    assert!(error.contains("no executor answers"), "{error}");
}

#[test]
fn executors_that_have_another_commit_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let (path, behind, apart) = (folder.path().join("db"), folder.path().join("behind"), folder.path().join("apart"));
    let database = market::create(&path);
    copy(&path, &behind);
    copy(&path, &apart);
    let (spec, rows) = market::trades(30_000);
    market::load(&database, &spec, &rows.slice(0, 1000), None);
    market::load(&Database::open(&apart).unwrap(), &spec, &rows.slice(1000, 1000), None);
    let statement = "select sym, count(*) from trade group by sym";
    let cluster = Cluster::over(&path, vec![Server::executor(&path), Server::executor(&behind)]);
    let error = cluster.ask(statement).unwrap_err().to_string();
    assert!(error.contains("commit"), "{error}");
    // The table that didn't change is read.
    assert!(cluster.ask("select sym, count(*) from quote group by sym").is_ok());
    let cluster = Cluster::over(&path, vec![Server::executor(&path), Server::executor(&apart)]);
    let error = cluster.ask(statement).unwrap_err().to_string();
    assert!(error.contains("another one here"), "{error}");
}

#[test]
fn all_slices_are_of_one_commit_while_rows_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = market::create(&path);
    let cluster = Cluster::start(&path);
    let (spec, rows) = market::trades(30_000);
    let writer = std::thread::spawn(move || {
        for number in 0..6 {
            market::load(&database, &spec, &rows.slice(number * 500, 500), None);
        }
    });
    let mut answers = 0;
    while !writer.is_finished() || answers == 0 {
        // A commit whose files are gone already is an error.
        let Ok(batches) = cluster.ask("select count(*) as n from trade where seq >= 0") else { continue };
        let counted = batches[0].column(0).as_any().downcast_ref::<arrow::array::Int64Array>().unwrap().value(0);
        assert!(counted >= 30_000 && (counted - 30_000) % 500 == 0, "{counted} rows are those of no commit");
        answers += 1;
    }
    writer.join().unwrap();
}

#[test]
fn callers_need_the_token_of_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    market::create(&path);
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let (own, other) = (file("own", "0123456789abcdef"), file("other", "fedcba9876543210"));
    let server = |arguments: &[&str], token: &Path| {
        let mut all = arguments.to_vec();
        all.extend(["--token-file", token.to_str().unwrap()]);
        Server::start(&all)
    };
    let database = path.to_str().unwrap();
    let executor = server(&["executor", database], &own);
    let scheduler = server(&["scheduler", database, "--executors", &executor.url], &own);
    let statement = "select sym, count(*) from trade group by sym";
    let query = |url: &str, token: Option<&Path>| ask(url, statement, &Token::read(token).unwrap());
    assert!(query(&scheduler.url, Some(&own)).is_ok());
    for token in [None, Some(other.as_path())] {
        let error = query(&scheduler.url, token).unwrap_err().to_string();
        assert!(error.contains("token"), "{error}");
    }
    // A scheduler with another token than its executor.
    let stranger = server(&["scheduler", database, "--executors", &executor.url], &other);
    let error = query(&stranger.url, Some(&other)).unwrap_err().to_string();
    assert!(error.contains("token"), "{error}");
}
