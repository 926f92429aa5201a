//! Advice: what it predicts is what compaction gives, and its rules are those that the goal asks for.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::Int32Type;
use rand::Rng;
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    Advice, AdviseSettings, ColumnSpec, ColumnType, CompactOptions, Database, Goal, LoadOptions, Period, Reference,
    Settings, Table, TableSpec, Tier, TierRule,
};

use crate::model::{DAY, go_on, rng};

fn database() -> Database {
    Database::create_on(Arc::new(FaultStorage::new()), &Settings::default()).unwrap()
}

fn spec() -> TableSpec {
    let columns = vec![
        ColumnSpec::new("time", ColumnType::Timestamp),
        ColumnSpec::new("sym", ColumnType::Symbol),
        ColumnSpec::new("price", ColumnType::Float64),
        ColumnSpec::new("noise", ColumnType::Float64),
        ColumnSpec::new("size", ColumnType::Int64),
        ColumnSpec::new("seq", ColumnType::Int64),
    ];
    TableSpec::new("trade", columns, "time", Some("sym"))
}

/// Trades of some days: prices that walk, noise of all bits, few sizes, numbers that rise.
fn trades(days: std::ops::Range<i64>, of_day: usize, symbols: usize) -> RecordBatch {
    let mut rng = rng(5);
    let rows = of_day * usize::try_from(days.end - days.start).unwrap();
    let names: Vec<String> = (0..symbols).map(|number| format!("SYM{number}")).collect();
    let time = |row: usize| {
        let (day, at) = (row / of_day, row % of_day);
        (days.start + day as i64) * DAY + at as i64 * 20_000_000
    };
    let mut prices = vec![10_000; symbols];
    let walked: Vec<f64> = (0..rows)
        .map(|row| {
            let price = &mut prices[row % symbols];
            *price += rng.random_range(-3..4);
            f64::from(*price) / 100.0
        })
        .collect();
    let symbol: DictionaryArray<Int32Type> = (0..rows).map(|row| Some(names[row % symbols].as_str())).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from_iter_values((0..rows).map(time)).with_timezone("UTC")),
        Arc::new(symbol),
        Arc::new(Float64Array::from(walked)),
        Arc::new(Float64Array::from_iter_values((0..rows).map(|_| rng.random::<f64>() - 0.5))),
        Arc::new(Int64Array::from_iter_values((0..rows).map(|_| rng.random_range(1_i64..8) * 100))),
        Arc::new(Int64Array::from_iter_values(0..rows as i64)),
    ];
    RecordBatch::try_new(spec().arrow(), columns).unwrap()
}

fn loaded(spec: &TableSpec, rows: &RecordBatch, tier: Tier) -> Table {
    let database = database();
    let mut load = database.load(spec, LoadOptions { tier: Some(tier), ..LoadOptions::default() }).unwrap();
    load.append(rows).unwrap();
    load.commit().unwrap();
    database.table(&spec.name).unwrap()
}

/// Settings that no clock decides.
fn settings(goal: Goal) -> AdviseSettings {
    AdviseSettings { goal, budget: Duration::from_secs(3_600), ..AdviseSettings::default() }
}

fn bytes_of(advice: &Advice, tier: Tier) -> u64 {
    advice.tiers.iter().find(|advice| advice.tier == tier).unwrap().bytes
}

fn moved(table: &Table, tier: Tier) -> u64 {
    table.compact(&CompactOptions { tier: Some(tier), ..CompactOptions::default() }, &mut go_on).unwrap();
    table.stored().unwrap().bytes()
}

fn rules(advice: &Advice) -> Vec<(u32, Tier)> {
    advice.rules.iter().map(|rule| (rule.after, rule.tier)).collect()
}

#[test]
fn segments_that_are_measured_whole_are_predicted_to_the_byte() {
    let table = loaded(&spec(), &trades(0..3, 5_000, 7), Tier::Mapped);
    let advice = table.advise(&settings(Goal::Size)).unwrap();
    assert_eq!((advice.rows, advice.rows_sampled, advice.segments_sampled), (15_000, 15_000, 3));
    assert_eq!(advice.bytes, bytes_of(&advice, Tier::Mapped));
    for tier in [Tier::Small, Tier::Dense, Tier::Fast, Tier::Mapped] {
        let (predicted, measured) = (bytes_of(&advice, tier), moved(&table, tier));
        // Sections of an index begin at multiples of some bytes.
        assert!(predicted.abs_diff(measured) <= 3 * 64, "{tier:?}: {predicted} told, {measured} found");
    }
    for (column, now) in
        advice.columns.iter().zip(table.stored().unwrap().partitions()[0].segments[0].storage(&spec()).unwrap())
    {
        assert_eq!(column.column, now.column);
        assert!((column.now - now.bytes as f64 / 5_000.0).abs() < 0.01, "{}", column.column);
    }
}

/// A table that grows night by night has a partition for each date, as its first night had.
#[test]
fn nights_of_few_rows_are_advised_longer_partitions() {
    let database = database();
    let mut said = Vec::new();
    for night in 0..40 {
        let mut load = database.load(&spec(), LoadOptions::default()).unwrap();
        load.append(&trades(night..night + 1, 100, 50)).unwrap();
        load.commit().unwrap();
        let advice = database.table("trade").unwrap().advise(&settings(Goal::Balanced)).unwrap();
        said.push(advice.reasons.iter().any(|reason| reason.contains("partitions of a year")));
    }
    // From 32 dates on, as for a new table.
    assert_eq!(said, (1..=40).map(|dates| dates >= 32).collect::<Vec<_>>());
    let table = database.table("trade").unwrap();
    let advice = table.advise(&settings(Goal::Balanced)).unwrap();
    let reason = advice.reasons.last().unwrap();
    assert!(
        reason.starts_with("a date has 100 rows of 50 symbols: ")
            && reason.ends_with("(ALTER TABLE trade PARTITION BY YEAR)")
    );
    let before = table.stored().unwrap().bytes();
    table.set_partition(Period::Year, LoadOptions::default()).unwrap();
    assert!(table.stored().unwrap().bytes() < before / 2);
    let advice = table.advise(&settings(Goal::Balanced)).unwrap();
    assert!(!advice.reasons.iter().any(|reason| reason.contains("partitions of a")), "{:?}", advice.reasons);
}

#[test]
fn a_huge_partition_is_predicted_from_runs_of_its_rows() {
    let rows = 150_000;
    let table = loaded(&spec(), &trades(0..1, rows, 40), Tier::Mapped);
    for rows_max in [20_000, 50_000] {
        let advice = table.advise(&AdviseSettings { rows_max, ..settings(Goal::Size) }).unwrap();
        assert!(advice.rows_sampled <= rows_max as u64, "{}", advice.rows_sampled);
        assert_eq!((advice.rows, advice.segments_sampled), (rows as u64, 1));
        for tier in [Tier::Small, Tier::Fast] {
            let (predicted, measured) = (bytes_of(&advice, tier) as f64, moved(&table, tier) as f64);
            assert!((predicted / measured - 1.0).abs() < 0.05, "{tier:?}: {predicted} told, {measured} found");
        }
        moved(&table, Tier::Mapped);
    }
}

#[test]
fn the_same_rows_give_the_same_sizes_and_some_segments_stand_for_all() {
    let table = loaded(&spec(), &trades(0..30, 2_000, 5), Tier::Mapped);
    let few = AdviseSettings { segments_max: 4, ..settings(Goal::Balanced) };
    let (one, other) = (table.advise(&few).unwrap(), table.advise(&few).unwrap());
    let sizes = |advice: &Advice| advice.tiers.iter().map(|tier| tier.bytes).collect::<Vec<_>>();
    assert_eq!(sizes(&one), sizes(&other));
    assert_eq!((one.segments_sampled, one.segments, one.rows_sampled), (4, 30, 8_000));
    // However short the time, one segment is measured.
    let none = AdviseSettings { budget: Duration::ZERO, ..few };
    let hasty = table.advise(&none).unwrap();
    assert_eq!((hasty.segments_sampled, hasty.rows), (1, 60_000));
    for tier in [Tier::Small, Tier::Fast] {
        let measured = moved(&table, tier) as f64;
        for advice in [&one, &hasty] {
            let predicted = bytes_of(advice, tier) as f64;
            assert!((predicted / measured - 1.0).abs() < 0.03, "{tier:?}: {predicted} told, {measured} found");
        }
    }
}

#[test]
fn columns_say_what_makes_them_small() {
    let table = loaded(&spec(), &trades(0..1, 50_000, 7), Tier::Fast);
    let advice = table.advise(&settings(Goal::Size)).unwrap();
    let column = |name: &str| advice.columns.iter().find(|column| column.column == name).unwrap();
    let price = column("price");
    assert_eq!(price.column_type, "float64");
    assert!(price.reason.starts_with("decimals of 2 digits, kept as whole numbers, bit for bit; "), "{}", price.reason);
    assert!(price.tiers[1].encoding.contains("whole numbers / 10^2"), "{}", price.tiers[1].encoding);
    assert!((price.now - price.tiers[1].bytes).abs() < 1e-9, "it is in that tier already");
    assert!((price.tiers[0].bytes - 8.0).abs() < 0.01 && price.tiers[2].bytes < 2.0);
    let noise = column("noise");
    assert!(noise.reason.starts_with("floats as they are, for "), "{}", noise.reason);
    assert!(noise.tiers[2].bytes > 6.0, "{}", noise.tiers[2].bytes);
    assert!(column("seq").reason.contains("neighbours differ little"), "{}", column("seq").reason);
    assert!(column("size").reason.contains("few values that differ"), "{}", column("size").reason);
    assert!(column("time").reason.contains("all on whole milliseconds"), "{}", column("time").reason);
    for column in &advice.columns {
        for tier in &column.tiers {
            assert!(tier.gb_per_second.is_some_and(|speed| speed > 0.0), "{}", column.column);
        }
    }
    assert!(advice.tiers.iter().all(|tier| tier.read_seconds.is_some_and(|seconds| seconds > 0.0)));
    // What a whole table takes is what its parts take.
    for (at, tier) in advice.tiers.iter().enumerate() {
        let columns: f64 = advice.columns.iter().map(|column| column.tiers[at].bytes).sum();
        let all = (columns + advice.beside.tiers[at] + advice.index.tiers[at]) * advice.rows as f64;
        assert!((all - tier.bytes as f64).abs() < 2.0, "{:?}: {all} and {}", tier.tier, tier.bytes);
    }
}

#[test]
fn an_empty_table_gets_no_advice_and_one_row_does() {
    let empty = loaded(&spec(), &trades(0..1, 1, 1).slice(0, 0), Tier::Mapped);
    let advice = empty.advise(&settings(Goal::Balanced)).unwrap();
    assert_eq!((advice.rows, advice.segments_sampled, advice.rules.len(), advice.columns.len()), (0, 0, 0, 0));
    assert_eq!(advice.reasons, ["it has no rows in files, so that nothing can be measured"]);
    let error = empty.apply(&advice).unwrap_err();
    assert!(error.to_string().contains("it has no rows in files"), "{error}");

    let one = loaded(&spec(), &trades(0..1, 1, 1), Tier::Mapped);
    for goal in [Goal::Size, Goal::Speed, Goal::Balanced] {
        let advice = one.advise(&settings(goal)).unwrap();
        assert_eq!((advice.rows, advice.rows_sampled), (1, 1));
        assert!(advice.tiers.iter().all(|tier| tier.read_seconds.is_none()), "one row tells no speed");
        one.apply(&advice).unwrap();
        let predicted = advice.bytes_advised;
        let due = one.stored().unwrap().due_moves();
        for (date, _) in due {
            one.compact(&CompactOptions { date: Some(date), ..CompactOptions::default() }, &mut go_on).unwrap();
        }
        assert!(one.stored().unwrap().bytes().abs_diff(predicted) <= 64);
    }
}

#[test]
fn goals_give_rules_by_age_that_replace_those_there_are() {
    let table = loaded(&spec(), &trades(0..31, 500, 3), Tier::Mapped);
    table.set_tier(Tier::Small, 3).unwrap();
    let size = table.advise(&settings(Goal::Size)).unwrap();
    // The fastest of those that are as small as the smallest.
    let chosen = rules(&size)[0].1;
    assert_eq!(rules(&size), [(0, chosen)]);
    let least = Tier::LOCAL.map(|tier| bytes_of(&size, tier)).into_iter().min().unwrap();
    assert!(chosen != Tier::Mapped && size.bytes_advised as f64 <= 1.02 * least as f64, "{chosen:?}");
    assert_eq!(size.bytes_advised, bytes_of(&size, chosen));
    let speed = table.advise(&settings(Goal::Speed)).unwrap();
    assert_eq!(rules(&speed), [(0, Tier::Mapped)]);
    table.apply(&speed).unwrap();
    assert_eq!(table.stored().unwrap().spec().tiers, [TierRule { after: 0, tier: Tier::Mapped }]);

    let balanced = table.advise(&settings(Goal::Balanced)).unwrap();
    let age_rules = rules(&balanced);
    assert_eq!(age_rules[0], (0, Tier::Mapped));
    // Which of both tiers is worth it is measured; that old dates leave the mapped one isn't.
    assert!(age_rules[1].0 == 7 && age_rules[1].1 != Tier::Mapped, "{age_rules:?}");
    let (least, most) = (size.bytes_advised, speed.bytes_advised);
    assert!((least..most).contains(&balanced.bytes_advised), "{least} {} {most}", balanced.bytes_advised);
    table.apply(&balanced).unwrap();
    assert_eq!(table.stored().unwrap().spec().tiers, balanced.rules);
    assert!(!table.stored().unwrap().due_moves().is_empty());
}

#[test]
fn mapped_dates_go_as_far_as_memory_does() {
    let table = loaded(&spec(), &trades(0..20, 1_000, 3), Tier::Mapped);
    let of_date = table.stored().unwrap().bytes() / 20;
    let with = |goal, dates: u64| {
        let settings = AdviseSettings { memory_bytes: Some(of_date * dates), ..settings(goal) };
        rules(&table.advise(&settings).unwrap())
    };
    assert_eq!(with(Goal::Speed, 1_000), [(0, Tier::Mapped)]);
    // Half of what is enough for eleven dates is enough for five.
    assert_eq!(with(Goal::Speed, 11), [(0, Tier::Mapped), (5, Tier::Fast)]);
    assert_eq!(with(Goal::Speed, 1), [(0, Tier::Fast)]);
    assert_eq!(with(Goal::Balanced, 1_000)[1].0, 7);
    assert_eq!(with(Goal::Balanced, 14)[1].0, 3);
    assert_ne!(with(Goal::Balanced, 1)[0], (0, Tier::Mapped));
}

#[test]
fn random_bits_stay_mapped_and_ties_go_to_the_faster_tier() {
    let mut rng = rng(9);
    let columns = vec![ColumnSpec::new("time", ColumnType::Timestamp), ColumnSpec::new("bits", ColumnType::Int64)];
    let noise = |rng: &mut rand_chacha::ChaCha8Rng| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..20_000).map(|_| rng.random::<i64>())))
    };
    let mut wide = columns;
    let mut arrays: Vec<ArrayRef> =
        vec![Arc::new(TimestampNanosecondArray::from_iter_values(0..20_000).with_timezone("UTC")), noise(&mut rng)];
    for number in 0..20 {
        wide.push(ColumnSpec::new(format!("bits{number}"), ColumnType::Int64));
        arrays.push(noise(&mut rng));
    }
    let spec = TableSpec::new("noise", wide, "time", None);
    let rows = RecordBatch::try_new(spec.arrow(), arrays).unwrap();
    let table = loaded(&spec, &rows, Tier::Mapped);
    let size = table.advise(&settings(Goal::Size)).unwrap();
    // The time alone packs, a twentieth of all.
    assert_eq!(rules(&size), [(0, Tier::Fast)], "zstd finds nothing, and the faster tier is as small");
    let balanced = table.advise(&settings(Goal::Balanced)).unwrap();
    assert_eq!(rules(&balanced), [(0, Tier::Mapped)]);
    let memory = AdviseSettings { memory_bytes: Some(10), ..settings(Goal::Speed) };
    assert_eq!(rules(&table.advise(&memory).unwrap()), [(0, Tier::Mapped)]);
    let bits = &size.columns[1];
    assert!(bits.reason.contains("no encoding makes it smaller"), "{}", bits.reason);
}

#[test]
fn tables_of_one_partition_have_no_ages() {
    let mut columns = vec![ColumnSpec::new("sym", ColumnType::Symbol), ColumnSpec::new("lot", ColumnType::Int64)];
    let reference =
        TableSpec::of_reference("lots", columns.clone(), Reference { key: vec!["sym".to_owned()], effective: None });
    let names: Vec<String> = (0..9_000).map(|number| format!("S{number:05}")).collect();
    let symbols: ArrayRef =
        Arc::new(names.iter().map(|name| Some(name.as_str())).collect::<DictionaryArray<Int32Type>>());
    let lots: ArrayRef = Arc::new(Int64Array::from_iter_values((0..9_000).map(|row| row % 3 * 100)));
    let times = Arc::new(TimestampNanosecondArray::from(vec![0; 9_000]).with_timezone("UTC"));
    let rows =
        RecordBatch::try_new(reference.arrow(), vec![Arc::clone(&symbols), Arc::clone(&lots), times as ArrayRef])
            .unwrap();
    let table = loaded(&reference, &rows, Tier::Mapped);
    let advice = table.advise(&settings(Goal::Balanced)).unwrap();
    assert_eq!(rules(&advice), [(0, Tier::Mapped)]);
    assert!(advice.reasons.iter().any(|reason| reason.contains("all rows are in one partition")));
    assert_eq!(advice.columns.iter().map(|column| column.column.as_str()).collect::<Vec<_>>(), ["sym", "lot"]);
    let size = table.advise(&AdviseSettings { rows_max: 8_192, ..settings(Goal::Size) }).unwrap();
    assert_eq!(size.rows_sampled, 8_192);
    let (predicted, measured) = (bytes_of(&size, Tier::Small) as f64, moved(&table, Tier::Small) as f64);
    assert!((predicted / measured - 1.0).abs() < 0.1, "{predicted} told, {measured} found");

    columns.insert(0, ColumnSpec::new("time", ColumnType::Timestamp));
    let mut whole = TableSpec::new("whole", columns, "time", Some("sym"));
    whole.partition = Period::All;
    let times =
        Arc::new(TimestampNanosecondArray::from_iter_values((0..9_000).map(|row| row * DAY)).with_timezone("UTC"));
    let rows = RecordBatch::try_new(whole.arrow(), vec![times as ArrayRef, symbols, lots]).unwrap();
    let table = loaded(&whole, &rows, Tier::Mapped);
    assert_eq!(rules_of(&table, None), [(0, Tier::Mapped)]);
    assert_ne!(rules_of(&table, Some(1_000)), [(0, Tier::Mapped)], "it is larger than memory");
}

fn rules_of(table: &Table, memory_bytes: Option<u64>) -> Vec<(u32, Tier)> {
    rules(&table.advise(&AdviseSettings { memory_bytes, ..settings(Goal::Balanced) }).unwrap())
}

#[test]
fn nan_is_named_and_texts_and_nulls_are_measured() {
    let columns = vec![
        ColumnSpec::new("time", ColumnType::Timestamp),
        ColumnSpec::new("value", ColumnType::Float64),
        ColumnSpec::new("zero", ColumnType::Float64),
        ColumnSpec::new("note", ColumnType::Text),
        ColumnSpec::new("flag", ColumnType::Bool),
        ColumnSpec::new("levels", ColumnType::Levels { size: 3 }),
        ColumnSpec::new("nothing", ColumnType::Int64),
    ];
    let spec = TableSpec::new("odd", columns, "time", None);
    let rows = 10_000_usize;
    let item = Arc::new(arrow::datatypes::Field::new("item", arrow::datatypes::DataType::Float64, true));
    let items: ArrayRef = Arc::new(Float64Array::from_iter_values((0..rows * 3).map(|item| item as f64 / 4.0)));
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from_iter_values((0..rows as i64).map(|row| row * 7)).with_timezone("UTC")),
        Arc::new(
            (0..rows)
                .map(|row| (row % 3 > 0).then_some(if row == 77 { f64::NAN } else { 1.5 }))
                .collect::<Float64Array>(),
        ),
        Arc::new(Float64Array::from_iter_values((0..rows).map(|row| if row % 2 == 0 { 0.5 } else { -0.0 }))),
        Arc::new(
            (0..rows).map(|row| (row % 5 > 0).then(|| format!("note {row}"))).collect::<arrow::array::StringArray>(),
        ),
        Arc::new((0..rows).map(|row| Some(row % 7 == 0)).collect::<arrow::array::BooleanArray>()),
        Arc::new(arrow::array::FixedSizeListArray::new(item, 3, items, None)),
        arrow::array::new_null_array(&arrow::datatypes::DataType::Int64, rows),
    ];
    let table = loaded(&spec, &RecordBatch::try_new(spec.arrow(), arrays).unwrap(), Tier::Mapped);
    let advice = table.advise(&settings(Goal::Size)).unwrap();
    let reason = |name: &str| &advice.columns.iter().find(|column| column.column == name).unwrap().reason;
    assert!(reason("zero").contains("negative zero"), "{}", reason("zero"));
    assert_eq!(reason("nothing"), "null in all rows of the samples");
    assert!(reason("value").contains("NaN"), "{}", reason("value"));
    for tier in [Tier::Small, Tier::Fast] {
        assert!(bytes_of(&advice, tier).abs_diff(moved(&table, tier)) <= 64);
    }
    let note = advice.columns.iter().find(|column| column.column == "note").unwrap();
    assert!(note.tiers[0].bytes > 10.0 && note.tiers.iter().all(|tier| tier.gb_per_second.is_some()));
}
