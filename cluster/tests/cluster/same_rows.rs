//! One process and a cluster of three executors give the same rows.

use arrow::record_batch::RecordBatch;
use splay_sql::{Parameters, Session, SessionSettings};

use crate::market;
use crate::processes::Cluster;
use crate::rows::difference;
use crate::statements::{Cut, STATEMENTS};

/// The way in which the cluster cuts a statement, with its plan.
fn cut_of(cluster: &Cluster, text: &str) -> (Cut, String) {
    let plan = cluster.ask(&format!("explain {text}")).unwrap();
    let column = arrow::compute::cast(plan[0].column(1), &arrow::datatypes::DataType::Utf8).unwrap();
    let text = arrow::util::display::array_value_to_string(&column, 0).unwrap();
    let cut = match text.lines().next().unwrap_or_default() {
        line if line.starts_with("the statement in ") => Cut::Statement,
        line if line.starts_with("a part in ") => Cut::Part,
        _ => Cut::No,
    };
    (cut, text)
}

#[test]
fn a_cluster_gives_the_rows_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = market::create(&path);
    let settings = SessionSettings { threads: 2, ..SessionSettings::default() };
    let session = Session::new(database, settings).unwrap();
    let cluster = Cluster::start(&path);
    let mut wrong = Vec::new();
    for (expected_cut, text) in STATEMENTS {
        let (text, is_ordered) = text.strip_prefix('!').map_or((*text, false), |text| (text, true));
        let expected = match session.sql(text, Parameters::None).and_then(|mut answer| answer.batches()) {
            Ok(expected) => expected,
            Err(error) => {
                wrong.push(format!("{text}\n  is no statement: {error}"));
                continue;
            }
        };
        let cluster_rows = match cluster.ask(text) {
            Ok(cluster_rows) => cluster_rows,
            Err(error) => {
                wrong.push(format!("{text}\n  failed: {error}"));
                continue;
            }
        };
        if let Some(difference) = difference(&expected, &cluster_rows, is_ordered) {
            wrong.push(format!("{text}\n  differs: {difference}"));
        }
        let names = |batches: &[arrow::record_batch::RecordBatch]| {
            batches
                .first()
                .map(|batch| batch.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>())
        };
        if let (Some(one), Some(other)) = (names(&expected), names(&cluster_rows))
            && one != other
        {
            wrong.push(format!("{text}\n  names {one:?} are {other:?}"));
        }
        let (cut, plan) = cut_of(&cluster, text);
        if cut != *expected_cut {
            wrong.push(format!("{text}\n  is cut as {cut:?}, not {expected_cut:?}:\n{plan}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), STATEMENTS.len(), wrong.join("\n"));
}

/// `splay-cluster sql` printed no header for them.
#[test]
fn answers_without_rows_have_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    market::create(&path);
    let cluster = Cluster::start(&path);
    for text in
        ["select sym, size from trade where size > 100000", "select sym, sector from instrument where sym = '-'"]
    {
        let batches = cluster.ask(text).unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 0, "{text}");
        assert!(!batches.is_empty() && batches.iter().all(|batch| batch.num_columns() == 2), "{text}");
    }
}

#[test]
fn a_statement_that_is_wrong_gets_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    market::create(&path);
    let cluster = Cluster::start(&path);
    let error = cluster.ask("select nothing from trade group by sym").unwrap_err().to_string();
    assert!(error.contains("nothing"), "{error}");
    let error = cluster.ask("select sym, sum(size / (size - size)) s from trade group by sym").unwrap_err().to_string();
    assert!(error.to_lowercase().contains("zero"), "{error}");
    let error = cluster.ask("delete from trade where size > 0").unwrap_err().to_string();
    assert!(error.contains("not allowed"), "{error}");
}
