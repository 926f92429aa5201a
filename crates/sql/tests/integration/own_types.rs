//! Numbers of few bits are compared with literals in their own type, and give the rows that they give made wider.

use splay_store::Tier;

use crate::both::both;
use crate::group_keys::database;

const OPS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

/// Columns, and literals at the ends of their types, between their values and beyond them.
const CASES: [(&str, &[&str]); 6] = [
    ("few", &["-32769", "-32768", "-4.5", "-4", "0", "2.0", "3.999", "32767", "32767.5", "32768", "1e300", "-1e300"]),
    ("thousand", &["-1", "-0.5", "0", "500", "500.25", "999", "65535", "65536", "9000000000"]),
    ("mark", &["-20", "0.1", "-0.0", "1e-60", "5.5", "19", "16777217", "3.5e38", "-3.5e38", "cast('NaN' as double)"]),
    ("many", &["-1", "0", "9223372036854775807", "9007199254740992.0", "7.5"]),
    ("far", &["0", "1073741824.5", "-0.5", "1e19", "9007199254740993.0"]),
    ("amount", &["-9000", "-8999.875", "0.0625", "77.5", "77.50001", "100000000000000000"]),
];

#[test]
fn literals_at_the_ends_of_types_keep_the_rows_that_wider_types_keep() {
    for format in [Tier::Mapped, Tier::Small] {
        let (_folder, database) = database(format);
        let both = both(&database, 2);
        for (column, literals) in CASES {
            for literal in literals {
                for op in OPS {
                    for condition in [
                        format!("{column} {op} {literal}"),
                        format!("not ({literal} {op} {column}) or sym is null"),
                        format!("({column} {op} {literal}) is null"),
                    ] {
                        let text = format!("select count(*), sum(thousand), min(ts) from event where {condition}");
                        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
                    }
                }
            }
            let list = literals.join(", ");
            for condition in [
                format!("{column} in ({list})"),
                format!("{column} not in ({list})"),
                format!("{column} in ({list}, null) or few = 1"),
                format!("{column} between {} and {}", literals[0], literals[literals.len() - 1]),
            ] {
                let text = format!("select ts, sym, thousand from event where {condition}");
                assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
            }
        }
    }
}

/// What no value of the type reaches is told by the type, and what no block has by the summaries.
#[test]
fn blocks_are_left_out_by_literals_of_any_type() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for condition in [
        "few > 40000",
        "few < -4.5",
        "few = 2.5",
        "thousand > 999.5",
        "thousand < 0",
        "mark > 19.5",
        "mark in (100, 200.5)",
        "few in (70000, 80000, 1.5)",
        "few > 3 and few < 3.5 and few > 3.25",
    ] {
        let text = format!("select count(*) as n, sum(far) as s from event where {condition}");
        let mut answer = both.tick.sql(&text, splay_sql::Parameters::None).unwrap();
        answer.batches().unwrap();
        assert_eq!(answer.stats().selection.rows.selected, 0, "{text}");
        assert_eq!(both.compare(&text), Ok(true), "{text}");
    }
}

/// Sums with a constant, means beside sums, and quotients by a constant.
#[test]
fn arithmetic_with_constants_gives_the_general_results() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for text in [
        "select sum(few), sum(few + 1), sum(5 - few), sum(few - 7), sum(thousand + 3), avg(mark::double), sum(mark::double), count(few) from event",
        "select sym, sum(few + 2) filter (where thousand > 500), sum(few + 1), count(few), avg(far::double), sum(far::double), count(far) from event group by sym order by 1",
        "select sum(few + 1), avg(many::double), sum(many::double), count(many) from event where thousand < 0",
        "select sym, few, sum(thousand - 1), avg(thousand::double) from (select * from event order by ts limit 500) group by sym, few order by 1, 2",
        "select max(few / 3), min(few % 7), max(few / -1), min(few % -1), max(thousand / 10), min(thousand % 10), max(far / 3), max(far % 3) from event",
        "select max(many / 7), min(many % 1000), min(many / -3), max(many % -3), max(few / 1), max(7 / (few * few + 1)) from event",
        "select max(amount / 3), min(amount % 7), max(amount / 0.25), sum(amount * 2.5), sum(amount - 1), sum(1 - amount), max(amount * amount) from event",
        "select max(amount / (amount * amount + 1)), min(amount % (amount * amount + 1)), sum(amount + few), sum(amount * thousand), avg(amount::double) from event",
    ] {
        assert_eq!(both.compare(text), Ok(true), "{text}: {:?}", both.reason(text));
    }
    // Whatever fails does so in the same words.
    for text in [
        "select sum(few + 9223372036854775807) from event",
        "select sum(thousand + 9223372036854770000) from event group by sym",
        "select max(many / 0) from event",
        "select max(few % 0) from event",
        "select max(amount / 0) from event",
        "select max(amount / (amount - amount)) from event",
    ] {
        let compared = both.compare(text);
        assert!(compared.is_ok(), "{text}: {compared:?}");
    }
}
