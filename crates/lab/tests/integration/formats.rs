//! The comparison of file formats.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::{Field, Int32Type, Schema};
use splay_lab::Error;
use splay_lab::formats::{
    Columns, FormatResult, Settings, Statement, Table, TableLocation, Target, compare, files, seed_statements, to_batch,
};

fn trades() -> Table {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("Time", Arc::new(TimestampNanosecondArray::from_iter_values(0..5_000).with_timezone("UTC"))),
        ("Symbol", Arc::new((0..5_000).map(|n| ["IBM", "AIG", "GE"][n % 3]).collect::<DictionaryArray<Int32Type>>())),
        ("Exchange", Arc::new((0..5_000).map(|n| ["N", "P"][n % 2]).collect::<DictionaryArray<Int32Type>>())),
        ("Trade_Price", Arc::new(Float64Array::from_iter_values((0..5_000).map(|n| f64::from(n % 977) / 100.0)))),
        ("Trade_Volume", Arc::new(Int64Array::from_iter_values((0..5_000).map(|n| n % 13 * 100)))),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch =
        RecordBatch::try_new(Arc::clone(&schema), columns.into_iter().map(|(_, values)| values).collect()).unwrap();
    Table { name: "trade".to_owned(), schema, batches: vec![batch.slice(0, 3_000), batch.slice(3_000, 2_000)] }
}

fn targets() -> Vec<Box<dyn Target>> {
    files().into_iter().map(|format| Box::new(format) as Box<dyn Target>).collect()
}

fn compared(
    targets: &[Box<dyn Target>],
    statements: &[Statement],
    answer: impl Fn(&TableLocation) -> Vec<RecordBatch>,
) -> (Result<Vec<FormatResult>, Error>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { folder: folder.path().to_path_buf(), times: 1 };
    let mut texts = Vec::new();
    let mut runner = |place: &TableLocation, text: &str| {
        texts.push(text.to_owned());
        Ok((Duration::from_millis(3), answer(place)))
    };
    let comparison = compare(targets, &[trades()], statements, &settings, &mut runner, &mut |_, _| {});
    (comparison, texts)
}

#[test]
fn every_format_gives_the_rows_back() {
    let statement = Statement { name: "all".to_owned(), text: "select * from {trade}".to_owned() };
    let (comparison, texts) = compared(&targets(), &[statement], |_| trades().batches);
    let comparison = comparison.unwrap();
    assert_eq!(comparison.len(), 10);
    for result in &comparison {
        assert!(result.is_exact, "{result:?}");
        assert!(result.statements[0].time.unwrap() >= 3.0);
    }
    let bytes = |name: &str| comparison.iter().find(|result| result.format == name).unwrap().bytes.unwrap();
    assert!(bytes("parquet brotli 9") < bytes("csv gzip 6") && bytes("csv gzip 6") < bytes("csv"));
    assert!(bytes("feather zstd") < bytes("feather lz4") && bytes("feather lz4") < bytes("feather"));
    assert!(texts.iter().all(|text| text.starts_with("select * from '/") && text.contains("trade.")), "{texts:?}");
    let table = to_batch(&comparison).unwrap();
    assert_eq!((table.num_rows(), table.num_columns()), (10, 8));
}

#[test]
fn formats_that_answer_otherwise_are_found() {
    let statement = Statement { name: "all".to_owned(), text: "select * from {trade}".to_owned() };
    let answer = |place: &TableLocation| match place {
        TableLocation::Files(paths) if paths[0].extension().is_some_and(|extension| extension == "parquet") => {
            trades().batches[..1].to_vec()
        }
        _ => trades().batches,
    };
    let (comparison, _) = compared(&targets(), &[statement], answer);
    assert!(
        matches!(&comparison, Err(Error::Statement { reason }) if reason.contains("parquet snappy, all")),
        "{comparison:?}"
    );
}

#[test]
fn a_statement_that_one_format_cant_run_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { folder: folder.path().to_path_buf(), times: 1 };
    let statements = [Statement { name: "all".to_owned(), text: "select * from {trade}".to_owned() }];
    let mut runner = |place: &TableLocation, _: &str| match place {
        TableLocation::Files(paths) if paths[0].extension().is_some_and(|extension| extension == "csv") => {
            Err("a type".to_owned())
        }
        _ => Ok((Duration::from_millis(3), trades().batches)),
    };
    let comparison = compare(&targets(), &[trades()], &statements, &settings, &mut runner, &mut |_, _| {}).unwrap();
    let csv = comparison.iter().find(|result| result.format == "csv").unwrap();
    assert_eq!(csv.statements[0].time, None);
    assert!(csv.reason.as_ref().unwrap().contains("csv, all: a type"), "{:?}", csv.reason);
    assert!(
        comparison.iter().filter(|result| result.format != "csv").all(|result| result.statements[0].time.is_some())
    );

    let mut failing = |_: &TableLocation, _: &str| Err("no such column".to_owned());
    let failed = compare(&targets(), &[trades()], &statements, &settings, &mut failing, &mut |_, _| {});
    assert!(matches!(&failed, Err(Error::Statement { reason }) if reason.contains("no such column")), "{failed:?}");
}

#[test]
fn a_target_that_cant_hold_the_tables_is_told() {
    struct Never;
    impl Target for Never {
        fn name(&self) -> String {
            "never".to_owned()
        }
        fn write(&self, _: &[Table], _: &std::path::Path) -> splay_lab::Result<TableLocation> {
            let (scheme, column, data_type) = ("never".to_owned(), String::new(), String::new());
            Err(Error::Unsupported { scheme, column, data_type, reason: "no time".to_owned() })
        }
        fn read(&self, _: &[Table], _: &TableLocation) -> splay_lab::Result<Vec<Table>> {
            Ok(Vec::new())
        }
    }
    let (comparison, _) = compared(&[Box::new(Never), Box::new(files()[0])], &[], |_| Vec::new());
    let comparison = comparison.unwrap();
    assert_eq!((comparison[0].bytes, comparison[0].reason.as_deref()), (None, Some("no time")));
    assert!(comparison[1].bytes.is_some());
    assert_eq!(to_batch(&comparison).unwrap().num_rows(), 2);
}

#[test]
fn statements_are_made_of_the_columns_that_are_there() {
    let trade = ("trade".to_owned(), Columns::of(&trades().schema));
    let (made, missing) = seed_statements(std::slice::from_ref(&trade), "O'B");
    assert_eq!(made.len(), 3);
    let all = "\"Time\", \"Symbol\", \"Exchange\", \"Trade_Price\", \"Trade_Volume\"";
    assert_eq!(made[0].text, format!("select {all} from {{trade}} where \"Symbol\" = 'O''B'"));
    assert!(made[2].text.contains("group by \"Symbol\", \"Exchange\""));
    assert_eq!(missing, ["spread and range: no table has a symbol, a bid and an offer"]);

    let field = |name: &&str| Field::new(*name, arrow::datatypes::DataType::Utf8, true);
    let names = ["sym", "ex", "Bid_Price", "offer price", "bidSize", "Offer_Size"];
    let quote = ("quote".to_owned(), Columns::of(&Schema::new(names.iter().map(field).collect::<Vec<_>>())));
    let (made, missing) = seed_statements(&[trade, quote], "IBM");
    assert_eq!((made.len(), missing.len()), (4, 0));
    assert!(made[3].text.contains("avg(\"offer price\" - \"Bid_Price\")"), "{}", made[3].text);
    assert_eq!(seed_statements(&[], "IBM").1.len(), 4);
}
