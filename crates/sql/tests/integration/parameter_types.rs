//! Parameters whose values decide what an operator means, with tick plans and without: one shape of a statement, several types and values.

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, IntervalMonthDayNano};
use splay_sql::{Parameters, ScalarValue, Session};
use splay_store::Tier;

use crate::market;

const HOUR_NS: i64 = 3_600_000_000_000;

fn count(session: &Session, statement: &str, value: &ScalarValue) -> i64 {
    let answer = session.sql(statement, Parameters::Positional(vec![value.clone()]));
    let batches = answer.and_then(|mut answer| answer.batches()).unwrap_or_else(|error| panic!("{statement}: {error}"));
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// How many of the 8 trades pass a condition with a value.
fn trades(session: &Session, condition: &str, value: &ScalarValue) -> i64 {
    count(session, &format!("select count(*) from trade where {condition}"), value)
}

fn hours(hours: i64) -> ScalarValue {
    ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 0, hours * HOUR_NS)))
}

#[test]
fn parameters_beside_times_are_intervals_or_texts_of_them() {
    let (_folder, database) = market::database(Tier::Mapped);
    let text = |text: &str| ScalarValue::from(text);
    for session in [market::session(&database, 2, 8192), market::session_without_tick_plans(&database)] {
        for (condition, value, expected) in [
            ("time + $1 = time + interval '1 hour'", hours(1), 8),
            ("time + $1 = time + interval '1 hour'", hours(2), 0),
            ("time + $1 = time + interval '1 hour'", text("1 hour"), 8),
            ("time + $1 = time + interval '1 hour'", text("2 hours"), 0),
            ("time + $1 = time + interval '1 hour'", ScalarValue::DurationNanosecond(Some(HOUR_NS)), 8),
            ("$1 + time = time + interval '1 hour'", text("1 hour"), 8),
            ("time - $1 = time - interval '1 hour'", text("1 hour"), 8),
            ("time - $1 = time - interval '1 hour'", hours(1), 8),
            ("time - $1 = time - timestamp '2019-10-07 00:00:00'", text("2019-10-07 00:00"), 8),
            ("time - $1 = time - timestamp '2019-10-07 00:00:00'", text("2019-10-07 00:01"), 0),
            ("date + $1 = date + 1 and arrow_typeof(date + $1) = 'Date32'", ScalarValue::Int64(Some(1)), 8),
            ("date + $1 = date + interval '1 hour'", text("1 hour"), 8),
            ("date + $1 = date + interval '1 hour'", text("2 hours"), 0),
            ("date + $1 = date + interval '1 hour'", hours(1), 8),
            ("date + $1 = date + 1 and arrow_typeof(date + $1) = 'Timestamp(ns)'", text("1 day"), 8),
            ("time::time + $1 = time::time + interval '1 hour'", text("1 hour"), 8),
            ("(time + $1) is null", ScalarValue::Null, 8),
        ] {
            assert_eq!(trades(&session, condition, &value), expected, "{condition} with {value}");
        }
        assert_eq!(count(&session, "select count(time + $1) from trade", &text("1 day")), 8);
        let statement = "select time + $1 from trade limit 1";
        assert!(session.sql(statement, Parameters::Positional(vec![text("1 hour")])).is_ok());
        let refused = session.sql(statement, Parameters::Positional(vec![text("an hour")]));
        assert!(refused.and_then(|mut answer| answer.batches()).is_err());
    }
}

#[test]
fn the_zone_of_at_time_zone_may_be_a_parameter() {
    let (_folder, database) = market::database(Tier::Mapped);
    for session in [market::session(&database, 2, 8192), market::session_without_tick_plans(&database)] {
        for (zone, expected) in [("Asia/Tokyo", 8), ("UTC", 0)] {
            let zone = ScalarValue::from(zone);
            for condition in [
                "extract(hour from time at time zone $1) = extract(hour from time at time zone 'Asia/Tokyo')",
                "arrow_typeof(time at time zone $1) like '%Asia/Tokyo%'",
                "extract(hour from timezone($1, time)) = extract(hour from time at time zone 'Asia/Tokyo')",
            ] {
                assert_eq!(trades(&session, condition, &zone), expected, "{condition} in {zone}");
            }
        }
        let refused = session.sql("select time at time zone $1 from trade", Parameters::Positional(vec![hours(1)]));
        let error = refused.and_then(|mut answer| answer.batches()).unwrap_err().to_string();
        assert!(error.contains("takes the name of a zone"), "{error}");
    }
}

#[test]
fn a_null_offset_and_a_default_of_another_type_may_be_parameters() {
    let (_folder, database) = market::database(Tier::Mapped);
    for session in [market::session(&database, 2, 8192), market::session_without_tick_plans(&database)] {
        let statement = "select count(x) from (select lag(n, $1) over (order by n) as x from (values (1), (2)) v(n)) t";
        assert_eq!(count(&session, statement, &ScalarValue::Null), 0);
        assert_eq!(count(&session, statement, &ScalarValue::Int64(Some(1))), 1);
        let statement = "select count(*) from (select lag(n, 1, $1) over (order by n) as x from (values (1), (2)) v(n)) t where x = 1.5";
        assert_eq!(count(&session, statement, &ScalarValue::Float64(Some(1.5))), 1);
    }
}

#[test]
fn a_column_of_values_has_the_common_type_of_its_parameters() {
    let (_folder, database) = market::database(Tier::Mapped);
    for session in [market::session(&database, 2, 8192), market::session_without_tick_plans(&database)] {
        for (values, value, condition) in [
            ("(1.25::decimal(10, 2)), (2.5), ($1)", ScalarValue::from(2.567), "x = 2.567"),
            ("($1), (1.25::decimal(10, 2))", ScalarValue::from(2.567), "x = 2.567"),
            ("(1), ($1)", ScalarValue::from(2.5), "x = 2.5"),
            ("(1), ($1)", ScalarValue::from(2_i64), "x = 2 and arrow_typeof(x) = 'Int64'"),
            ("(1), ($1)", ScalarValue::from("2"), "x = 2 and arrow_typeof(x) = 'Int64'"),
            ("($1)", ScalarValue::from("a"), "x = 'a'"),
            ("(1), ($1)", ScalarValue::Null, "x is null"),
            ("(1), ($1::bigint)", ScalarValue::from(2.5), "x = 2"),
        ] {
            let statement = format!("select count(*) from (select * from (values {values}) v(x)) t where {condition}");
            assert_eq!(count(&session, &statement, &value), 1, "{statement} with {value}");
        }
    }
}
