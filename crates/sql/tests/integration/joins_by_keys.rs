//! Joins by equal keys of tables of which one is large: whatever side it is on, and however often a key is there.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow::datatypes::Int32Type;
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec, Tier};

use crate::both::both;
use crate::market::OPENING;

/// More than a side has that is read first.
const LARGE: i64 = (1 << 20) + 5_000;

fn spec(name: &str) -> TableSpec {
    let types = [
        ("ts", ColumnType::Timestamp),
        ("sym", ColumnType::Symbol),
        ("id", ColumnType::Int64),
        ("few", ColumnType::Int64),
        ("note", ColumnType::Text),
        ("price", ColumnType::Float64),
    ];
    let columns = types.into_iter().map(|(name, of)| ColumnSpec::new(name, of)).collect();
    TableSpec::new(name, columns, "ts", Some("sym"))
}

/// Rows of which each has a number of its own, `step` from the one before; every eleventh has none. So many rows have the same time.
fn rows(spec: &TableSpec, count: i64, step: i64, of_time: i64) -> RecordBatch {
    let some = |row: i64, value: i64| (row % 11 != 4).then_some(value);
    let all = || 0..count;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            TimestampNanosecondArray::from_iter_values(all().map(|row| OPENING + (row - row % of_time) * step * 1_000))
                .with_timezone("UTC"),
        ),
        Arc::new(all().map(|row| Some(["A", "B", "C"][(row % 3) as usize])).collect::<DictionaryArray<Int32Type>>()),
        Arc::new(all().map(|row| some(row, row * step)).collect::<Int64Array>()),
        Arc::new(all().map(|row| some(row + 5, row * 7 % 1_000)).collect::<Int64Array>()),
        Arc::new(all().map(|row| some(row + 1, row % 400).map(|note| format!("N{note}"))).collect::<StringArray>()),
        Arc::new(all().map(|row| Some((row % 97) as f64 / 4.0)).collect::<Float64Array>()),
    ];
    RecordBatch::try_new(spec.arrow(), columns).unwrap()
}

fn database() -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    // The last two are two segments of one table, which overlap in time.
    for (name, count, step, of_time) in [
        ("large", LARGE, 1, 1),
        ("small", 900, 1_000, 1),
        ("other", LARGE, 3, 1),
        ("tied", LARGE, 2, 6),
        ("tied", 5_000, 4, 9),
    ] {
        let spec = spec(name);
        let mut load =
            database.load(&spec, LoadOptions { tier: Some(Tier::Mapped), ..LoadOptions::default() }).unwrap();
        load.append(&rows(&spec, count, step, of_time)).unwrap();
        load.commit().unwrap();
    }
    (folder, database)
}

#[test]
fn a_large_side_may_stand_left_or_right() {
    let (_folder, database) = database();
    let both = both(&database, 2);
    for (text, is_tick) in [
        ("select l.ts, s.ts, s.note, l.price from large l join small s on l.id = s.id", true),
        ("select l.ts, s.ts, s.note, l.price from small s join large l on l.id = s.id", true),
        ("select s.id, s.note, l.note, l.ts from small s left join large l on l.id = s.id", true),
        ("select s.id, l.note from small s left join large l on s.id + 1 = l.id", true),
        ("select s.sym, count(*), sum(l.price) from small s join large l on l.few = s.few group by s.sym", true),
        ("select count(*), max(l.id) from large l join small s on l.few = s.few and l.sym = s.sym", true),
        ("select count(*), max(l.id) from small s join large l on l.few = s.few and l.id < s.id", true),
        ("select s.id, count(l.ts) from small s left join large l on l.note = s.note group by s.id", true),
        ("select count(*) from small s join large l on l.few = s.few where l.price < 5 and s.price > 3", true),
        ("select l.id, o.ts from large l join other o on l.id = o.id where l.price = 5 and l.few < 20", true),
        ("select l.id, o.ts from large l join other o on l.id = o.id where o.price = 5 and o.few < 20", true),
        ("select s.id from small s join large l on s.note = l.note order by s.id desc, l.id limit 7", true),
        ("select count(*), sum(l.price + o.price) from large l join other o on l.id = o.id", true),
        ("select count(*), count(s.id) from large l right join small s on l.id = s.id", true),
        ("select count(*), count(l.id) from small s left join large l on l.id = s.id and l.sym = s.sym", true),
        ("select count(*), count(l.id) from small s left join large l on l.id = s.id and l.few < s.few", true),
    ] {
        assert_eq!(both.compare(text), Ok(is_tick), "{text}: {:?}", both.reason(text));
    }
}

#[test]
fn large_tables_are_joined_by_time_along_their_order() {
    let (_folder, database) = database();
    let both = both(&database, 2);
    let keys = "l.sym = t.sym and l.ts = t.ts";
    for (text, is_by_time) in [
        (format!("select count(*), sum(l.price + t.price), sum(t.id - l.id) from large l join tied t on {keys}"), true),
        (format!("select count(*), count(t.sym), sum(t.price) from large l left join tied t on {keys}"), true),
        (
            format!("select l.id, t.id, t.note from large l join tied t on {keys} where l.price < 1 and t.few < 100"),
            true,
        ),
        (
            format!("select l.id, t.id from large l left join tied t on {keys} and l.few = t.few where l.price = 3"),
            true,
        ),
        (format!("select count(*), max(t.id) from large l join tied t on {keys} and l.price = t.price"), true),
        (format!("select count(*), max(t.id) from large l join tied t on {keys} and l.id < t.id"), true),
        (format!("select count(*), sum(t.few) from tied l join tied t on {keys}"), true),
        (format!("select l.id, t.id from small l left join tied t on {keys} order by l.id, t.id"), true),
        (
            format!(
                "select count(*), max(n) from (select *, id + 1 as n from small) l join (select ts, sym as sym, few from tied where few > 9) t on {keys}"
            ),
            true,
        ),
        (format!("select count(*) from (select l.id, t.few from large l join tied t on {keys}) where few = 3"), true),
        (format!("select count(*), sum(l.id) from large l where exists (select 1 from tied t where {keys})"), true),
        (format!("select count(*), sum(l.id) from large l where not exists (select 1 from tied t where {keys})"), true),
        (
            format!(
                "select l.id, l.note from small l where price > 2 and not exists (select t.id from tied t where t.few > 9 and {keys} and t.few = l.few) order by 1"
            ),
            true,
        ),
        ("select count(*), max(t.few) from small l join tied t on l.ts = t.ts".to_owned(), false),
        (
            // Along the order of the left one.
            "select count(*) from large l join tied t on l.sym = t.sym and l.ts = t.ts + interval '1 microsecond'"
                .to_owned(),
            true,
        ),
        (
            "select count(*), max(t.few) from small l left join tied t on l.sym = t.sym and l.ts = t.ts + interval '1 microsecond'"
                .to_owned(),
            false,
        ),
    ] {
        let is_tick_plan = both.compare(&text);
        assert!(is_tick_plan.is_ok(), "{text}: {is_tick_plan:?}");
        let plan = both.tick.sql(&format!("explain {text}"), splay_sql::Parameters::None).unwrap().batches().unwrap();
        let plan = arrow::util::pretty::pretty_format_batches(&plan).unwrap().to_string();
        let is_found = plan.contains("JoinByTime") || plan.contains("AsofJoin");
        assert_eq!(is_found, is_by_time, "{text}: {plan}");
    }
}

/// `IS NOT DISTINCT FROM` is a key, also as the only condition: not a condition on each pair of rows.
#[test]
fn values_that_are_equal_where_both_are_null_are_keys() {
    let (_folder, database) = database();
    let both = both(&database, 2);
    for text in [
        "select count(*), sum(l.id) from tied l join small t on l.id is not distinct from t.id",
        "select count(*), sum(l.id) from tied l, small t where l.few is not distinct from t.few and l.id < 9000",
        "select count(*), sum(t.few) from small l left join tied t on l.note is not distinct from t.note and t.id < 900",
        "select count(*), sum(l.id) from small l left join large t on t.id is not distinct from l.id where t.ts is null",
        "select l.id, t.id from small l right join small t on l.id is not distinct from t.id + 7000 order by 2, 1",
        "select count(*), count(l.id), count(t.id) from small l full join small t on l.id is not distinct from t.id + 1",
        "select id from small l left semi join (select few as f from tied) t on l.few is not distinct from t.f order by 1",
        "select id from small l left anti join (select few as f from small where id < 90) t on l.few is not distinct from t.f order by 1",
        "select l.id, t.price from small l join (values (null, 1.5), (5000, 2.5)) t(id, price) on l.id is not distinct from t.id order by 1, 2",
    ] {
        assert!(both.compare(text).is_ok(), "{text}: {:?}", both.compare(text));
        let plan = both.reason(text).unwrap();
        assert!(!plan.contains("by 0 keys"), "{text}: {plan}");
    }
}

/// Of the small tables, since the pairs of all rows are many.
#[test]
fn joins_that_keep_rows_without_a_partner_and_joins_without_an_equality() {
    let (_folder, database) = database();
    let both = both(&database, 2);
    let few = "(select * from small where id < 90000)";
    for text in [
        // Right joins, with conditions above and below, and with a filter on either side.
        "select a.id, b.id, b.note from FEW a right join small b on a.few = b.few order by 2, 1",
        "select a.id, b.id from FEW a right join small b on a.id = b.id + 7000 and b.price > 3 order by 2, 1",
        "select a.id, b.id from FEW a right join small b on a.id = b.id where a.id is null or b.price < 2 order by 2, 1",
        "select * from FEW a right join small b using (id, sym) order by b.id, b.few",
        // Left joins with more than equalities: of the right, of the left, of both.
        "select a.id, b.id from small a left join small b on a.few = b.few and b.price > 5 order by 1, 2",
        "select a.id, b.id from small a left join small b on a.few = b.few and a.price > 5 order by 1, 2",
        "select a.id, b.id from small a left join small b on a.few = b.few and b.id < a.id - 1000 order by 1, 2",
        "select a.id, b.id from small a left join small b on a.note = b.note and a.sym <> b.sym and b.price < a.price order by 1, 2",
        // Both sides.
        "select a.id, b.id from FEW a full join small b on a.few = b.few order by 1, 2",
        "select a.id, b.few, a.sym, b.sym from FEW a full outer join (select few, sym, id from small where few > 500) b on a.few = b.few and a.sym = b.sym order by 1, 2, 4, b.id",
        "select count(*), count(a.id), count(b.id) from FEW a full join small b on a.few = b.few where a.id is null or b.id > 500000",
        "select coalesce(a.few, b.few) as k, count(*) from (select few from small where few < 500) a full join (select few from small where few > 300) b on a.few = b.few group by 1 order by 1",
        // Those alone that find something, or nothing.
        "select id from small a left semi join (select few as f from small where price < 1) b on a.few = b.f order by 1",
        "select id from small a left anti join (select few as f, sym as s from small where price < 9) b on a.few = b.f and a.sym = b.s order by 1",
        "select few, sym from FEW a intersect select few, sym from small where price > 2 order by 1, 2",
        "select few, note, price from small except select few, note, price from FEW a order by 1, 2, 3",
        "select few from small where price > 20 intersect select few from small where few is null or few < 90 order by 1",
        // No equality: by a range, by none, with a list, of all with all.
        "select a.id, b.id from FEW a join FEW b on a.id < b.id and b.id <= a.id + 3000 order by 1, 2",
        "select a.id, count(b.id) from FEW a left join FEW b on a.price > b.price + 23 group by 1 order by 1",
        "select count(*) from FEW a, FEW b where a.few <> b.few and a.sym = 'A'",
        "select count(*), sum(a.few) from small a, (select max(price) - 1 as most from small) m where a.price > most",
        "select count(*), sum(a.few * b.few) from FEW a cross join FEW b",
        // A query of one row on the right: its values are constants.
        "select a.id, m.most - a.price from small a cross join (select max(price) as most, min(few) as few from large) m order by 1",
        "select count(*), sum(t.few) from (select few, count(*) as n from small group by few) t join (select avg(price) as p from small) m on t.n > m.p - 12",
        "select a.id from small a join (select max(id) as most from small where few > 5000) m on a.id >= m.most",
        "select a.id, v.name from FEW a join (values (0, 100, 'low'), (50, 400, 'mid')) v(least, most, name) on a.few between v.least and v.most order by 1, 2",
        "select a.id, v.name from FEW a left join (values (0, 100, 'low'), (90, 400, 'mid')) v(least, most, name) on a.few >= v.least and a.few < v.most order by 1, 2",
        // Equalities that stand in WHERE.
        "select count(*), sum(b.few) from small a, large b where a.id = b.id and b.price > a.price",
        // Nothing on one side.
        "select count(*), count(b.id) from small a left join (select * from small where few > 5000) b on a.few = b.few and b.id > a.id",
        "select count(*), count(a.id) from (select * from small where few > 5000) a full join small b on a.few = b.few",
        // Filters above queries that join.
        "select n, count(*) from (select a.id, b.few as n, b.price as p from small a join large b on a.id = b.id) where p > 3 and n < 700 group by n order by n",
        "select * from (select a.id as i, b.id as j from small a left join FEW b on a.few = b.few) where j is null and i > 500000 order by 1",
    ] {
        let text = text.replace("FEW", few);
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
    }
}

/// Parquet's writers take no dictionary with null among its values.
#[test]
fn symbols_that_are_not_there_are_keys_without_a_value() {
    let (_folder, database) = database();
    let tick = both(&database, 2).tick;
    for text in [
        "select a.sym from (select sym, max(few) as few from small group by sym) a full join small b on a.few = b.few + 1",
        "select a.sym from (select * from small where id < 0) a right join small b on a.id = b.id",
        "select sym, sum(few) from small group by rollup (sym)",
    ] {
        let mut nulls = 0;
        for batch in tick.sql(text, splay_sql::Parameters::None).unwrap().batches().unwrap() {
            let symbols = batch.column(0).as_dictionary::<Int32Type>();
            assert_eq!(symbols.values().null_count(), 0, "{text}");
            nulls += symbols.null_count();
        }
        assert!(nulls > 0, "{text}");
    }
}

#[test]
fn what_a_join_says_of_keys_narrows_the_reading() {
    let (_folder, database) = database();
    let both = both(&database, 2);
    for text in [
        "select count(*) from large l join (select * from small where id between 5000 and 9000) s on l.id = s.id",
        "select count(*) from (select * from small where id < 20000) s join large l on l.id = s.id",
        "select count(*) from (select * from small where sym = 'B') s join large l on l.sym = s.sym",
        "select count(g.n) from small s left join (select sym, count(*) as n from large group by sym) g on s.sym = g.sym where s.sym = 'B'",
    ] {
        let read = both.rows_read(text);
        assert!(read < LARGE as u64 / 2, "{text}: {read}");
    }
}

#[test]
fn many_relations_are_joined_from_the_smallest() {
    let (_folder, database) = database();
    let both = both(&database, 2);
    for text in [
        // Neighbours in the text have no key in common.
        "select l.sym, count(*), sum(l.price + o.price) from small s, large l, other o where o.id = l.id and l.few = s.few and s.few < 40 group by l.sym",
        "select count(*), sum(o.id) from large l join other o on l.id = o.id join small s on o.id = s.id and s.note = 'N7'",
        "select count(*) from large l, small s, other o
         where l.id = s.id and (s.few = o.few and o.id < 3000 and s.sym = 'A' or s.few = o.few and o.id > 3100000 and s.sym = 'B')",
        "select s.note, l.note, o.note from other o, large l, small s where s.id = l.id and l.id = o.id and s.id is not distinct from o.id",
        "select * from other o join large l on o.id = l.id join small s on s.few + 1 = l.few and s.id > o.id where o.id < 60000",
        "select count(*) from small a, small b, small c where a.few = b.few and b.id < c.id and c.few = 7",
        // A list of values, and groups, on either side.
        "select v.name, count(*) from (values (1, 'one'), (2, 'two'), (700, 'many')) v (few, name) join large l on l.few = v.few group by v.name",
        "select v.name, s.id, o.id from (values (1, 'one'), (2, null), (700, 'many')) v (few, name), large l, small s, other o where v.few = s.few and s.id = l.id and o.few = l.few and o.id < 4000",
        "select v.d, w.few, count(*) from (values (18, date '2024-03-04'), (4, null)) v (few, d), small s, (values (18), (4), (4)) w (few), large l where l.few = v.few and s.id = l.id and w.few = v.few group by v.d, w.few",
        "select g.few, g.n, l.id from (select few, count(*) as n from small group by few) g join large l on g.few = l.id join other o on o.id = l.id",
    ] {
        assert_eq!(both.compare(text), Ok(true), "{text}");
    }
    // The two large tables meet after the small one has chosen some of their rows.
    let read = both.rows_read("select count(*) from large l, other o, small s where l.id = o.id and o.id = s.id");
    assert!(read < LARGE as u64 * 3 / 2, "{read}");
}

/// Of outer joins below a filter that drops the rows that they add, of one or of both sides, and of those that keep them.
#[test]
fn outer_joins_are_inner_ones_where_their_rows_are_dropped() {
    let (_folder, database) = database();
    let both = both(&database, 2);
    for text in [
        "select count(*), sum(l.id) from large l left join small s on l.id = s.id where s.few = 7",
        "select count(*), count(s.id) from large l left join small s on l.id = s.id where s.few = 7 or l.few = 8",
        "select count(*), count(s.id) from large l left join small s on l.id = s.id where coalesce(s.few, 7) = 7 and l.few < 9",
        "select count(*) from large l left join small s on l.id = s.id left join other o on s.id = o.id where o.price > 3",
        "select count(*), count(o.id) from large l left join small s on l.id = s.id left join other o on s.id = o.id where s.price > 3",
        "select count(*), sum(o.id) from large l left join small s on l.id = s.id join other o on s.id = o.id",
        "select count(*), sum(o.id) from large l left join small s on l.id = s.id join other o on s.few is not distinct from o.id where l.few = 3",
        "select a.id, b.id from small a right join small b on a.id = b.id + 1000 where a.price > 3 order by 1, 2",
        "select a.id, b.id from small a full join small b on a.few = b.few where a.price > 3 and b.note < 'N3' order by 1, 2",
        "select a.id, b.id from small a full join small b on a.few = b.few where b.note < 'N3' order by 2, 1",
        "select a.id, c.id from small a left join (small b left join small c on b.id = c.id) on a.few = b.few where c.price > 3 and a.id < 50000 order by 1, 2",
    ] {
        assert_eq!(both.compare(text), Ok(true), "{text}: {:?}", both.reason(text));
    }
    let read = both.rows_read("select count(*) from large l left join small s on l.id = s.id left join other o on s.id = o.id where o.price > 3");
    assert!(read < LARGE as u64 * 3 / 2, "{read}");
}

#[test]
fn queries_for_each_row_read_the_rows_with_its_keys() {
    let (_folder, database) = database();
    let both = both(&database, 2);
    for text in [
        "select count(*), sum(s.id) from small s where s.note = 'N3' and s.price < (select max(l.price) from large l where l.id = s.id)",
        "select count(*) from small s where s.id < 20000 and exists (select 1 from large l where l.id = s.id and l.price > 3)",
        "select count(*) from small s where s.id < 20000 and not exists (select 1 from large l where l.id = s.id and l.price < s.price)",
        "select s.id, (select count(*) from large l where l.few = s.few) as n from small s where s.few in (3, 4, 5)",
        "select count(*) from small s, other o where s.id = o.id and s.few = 7 and o.price <= (select avg(l.price) from large l where l.few = s.few)",
        "select count(*) from small s left join other o on s.id = o.id where s.few = 7 and s.price <= (select avg(l.price) from large l where l.sym = s.sym and l.few = s.few)",
        // Conditions on the keys, of one type and of two.
        "select count(*), sum(s.id) from small s where s.id between 5000 and 9000 and exists (select 1 from large l where l.id = s.id and l.price > 3)",
        "select count(*), sum(s.few) from small s where s.few > 990 and not exists (select 1 from large l where cast(l.few as int) = s.few and l.price > 23)",
        "select count(*) from small s where (s.id < 9000 or s.id > 890000) and s.price < (select max(l.price) from large l where l.few = s.few and l.id = s.id)",
        "select count(*) from small s where s.note in ('N3', 'N7') and s.sym <> 'A' and exists (select 1 from large l where l.note = s.note and l.sym = s.sym)",
        "select count(*) from small s, other o where s.id = o.id and o.id not between 30000 and 800000 and exists (select 1 from large l where l.id = o.id and l.few = s.few)",
        // Keys that are null, and keys that no row has.
        "select count(*) from small s where s.id is null and not exists (select 1 from large l where l.id = s.id)",
        "select count(*) from small s where s.few = -1 and s.price < (select max(l.price) from large l where l.id = s.id)",
        "select count(*) from small s where s.note = 'N3' and (select count(*) from large l where l.id = s.id + 1) = 0",
    ] {
        assert_eq!(both.compare(text), Ok(true), "{text}");
    }
    let read = both.rows_read("select count(*) from small s where s.id < 20000 and s.price < (select max(l.price) from large l where l.id = s.id)");
    assert!(read < LARGE as u64 / 2, "{read}");
}

#[test]
fn groups_that_a_statement_reads_twice_are_made_once() {
    let (_folder, database) = database();
    let both = both(&database, 2);
    for text in [
        "with g as (select few, sum(price) as total from large group by few) select a.few, a.total from g a where a.total = (select max(total) from g)",
        "with g as (select few, sym, count(*) as n from large group by few, sym) select a.few, a.n, b.n from g a join g b on a.few = b.few and a.sym = 'A' and b.sym = 'B'",
        "with d as (select distinct few, sym from large) select count(*) from d a, d b where a.few = b.few + 1 and a.sym = b.sym",
        "select count(*), sum(k) from (select distinct few + 1 as k from large union all select distinct few + 1 as k from large) u",
    ] {
        assert_eq!(both.compare(text), Ok(true), "{text}");
    }
    let text = "with g as (select few, sum(price) as total from large group by few) select few from g where total = (select max(total) from g)";
    assert_eq!(both.rows_read(text), LARGE as u64);
}

#[test]
fn groups_that_rows_are_joined_with_are_those_of_their_keys() {
    let (_folder, database) = database();
    let both = both(&database, 2);
    let narrowed = [
        "select s.id, g.n, g.most from small s join (select id, count(*) as n, max(price) as most from large group by id) g on s.id = g.id where s.id < 20000",
        "select s.id, g.n from small s left join (select id as k, count(*) as n from large where price > 3 group by id) g on s.id = g.k where s.id < 20000",
        "select s.id, g.n from small s join (select id, few, count(*) as n from large group by id, few having count(*) < 3) g on s.id = g.id and s.few = g.few + 6 \
         where s.id < 30000",
        "select s.id, g.n, g.most from (select id, count(*) as n, max(price) as most from large group by id) g join small s on g.id = s.id where s.id < 20000",
        "select g.id, g.n, count(*) from (select id, few, count(*) as n from large group by id, few) g join small s on g.id = s.id and s.few < g.few + 9 where s.id < 20000 group by 1, 2",
        "select s.note, sum(g.n) from small s join (select distinct id, 1 as n from large) g on s.id = g.id where s.id < 20000 group by s.note",
    ];
    let others = [
        // Most groups are wanted, keys are null, nobody has a key, and the key isn't the groups'.
        "select count(*), sum(g.n) from other s join (select few, sum(id) as n from large group by few) g on s.few = g.few",
        "select s.id, g.n from small s left join (select id, count(*) as n from large group by id) g on s.id = g.id where s.id is null",
        "select count(*) from small s join (select id, count(*) as n from large group by id) g on s.id = g.id where s.few = -1",
        "select s.id, g.n from small s left join (select id, count(*) as n from large group by id) g on s.id = g.n where s.id < 3000",
        "select s.price, count(*), sum(g.n) from small s join (select price, count(*) as n from large group by price) g on s.price = g.price group by 1",
        "select s.note, count(*), sum(g.n) from small s join (select note, count(*) as n from large group by note) g on s.note = g.note where s.few < 90 group by 1",
        "select s.sym, s.few, g.n from small s join (select sym, few, count(*) as n from large group by grouping sets ((sym, few), (sym))) g \
         on s.sym = g.sym and s.few = g.few where s.id < 20000",
        "select s.id, g.n from small s join (select id, count(*) as n from large group by id limit 5000000) g on s.id = g.id where s.id < 20000",
        "select s.id, g.n from small s left join (select id, row_number() over (order by id) as n from (select distinct id from large where id < 9000)) g \
         on s.id = g.id where s.id < 20000",
    ];
    for text in narrowed.into_iter().chain(others) {
        assert_eq!(both.compare(text), Ok(true), "{text}: {:?}", both.reason(text));
    }
    for text in narrowed {
        let read = both.rows_read(text);
        assert!(read < LARGE as u64 / 2, "{text}: {read}");
    }
}

#[test]
fn groups_joined_with_groups_are_made_of_rows_with_their_keys() {
    let (_folder, database) = database();
    let both = both(&database, 2);
    let (of_large, of_small) = (
        "(select {key}, count(*) as n, max(price) as most from large group by {key})",
        "(select {key}, count(*) as n from small where few < 90 group by {key})",
    );
    // No row has a note of the last kind; the keys of a text, a number, a float and a symbol.
    for (key, condition) in
        [("note", "true"), ("id", "true"), ("price", "true"), ("sym", "b.n > 3"), ("note", "b.n < 0")]
    {
        let (large, small) = (of_large.replace("{key}", key), of_small.replace("{key}", key));
        let text = format!(
            "select a.{key}, a.n, a.most, b.n from {large} a join {small} b on a.{key} = b.{key} where {condition}"
        );
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
    }
    let (large, small) = (of_large.replace("{key}", "note"), of_small.replace("{key}", "note"));
    for text in [
        format!("select a.note, a.n, b.n from {large} a join {small} b on a.note = b.note"),
        format!(
            "select a.note, a.n, b.n from (select * from {large} g where n > 3) a join {small} b on a.note = b.note"
        ),
    ] {
        assert_eq!(both.compare(&text), Ok(true), "{text}");
        let plan = both.reason(&text).unwrap();
        let of_large = plan.split("To look up in").last().unwrap_or(&plan).to_owned();
        assert!(of_large.contains("filter=evaluated"), "{plan}");
    }
    // A limit takes groups whose rows are needed, and an outer join keeps groups without a match.
    for text in [
        format!(
            "select a.note, b.n from (select * from {large} g order by note limit 5) a join {small} b on a.note = b.note"
        ),
        format!("select a.note, a.n, b.n from {large} a left join {small} b on a.note = b.note"),
    ] {
        assert_eq!(both.compare(&text), Ok(true), "{text}");
    }
}
