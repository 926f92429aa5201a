//! The statements that recreate tables and views.
//!
//! - They contain only the options without which the statement would create a different table.
//! - Running the text creates the same table: dropped columns, and earlier names of others, are no part of it.

use splay_store::{ColumnSpec, Reference, TableSpec, TierRule, View};

use crate::statements::as_name;
use crate::table_spec::spec;

/// Options with their values.
type Options = Vec<(&'static str, String)>;

/// `CREATE TABLE` of a table, as far as its columns are shown; `None` if none is.
pub(crate) fn of_table(table: &TableSpec, is_shown: &dyn Fn(&str) -> bool) -> Option<String> {
    let shown = table.shown_columns().iter().filter(|column| is_shown(&column.name));
    let columns: Vec<ColumnSpec> =
        shown.map(|column| ColumnSpec::new(&column.name, column.column_type.clone())).collect();
    if columns.is_empty() {
        return None;
    }
    let reference = shown_reference(table, is_shown);
    let options = options(table, &columns, &reference, is_shown);
    let mut lines: Vec<String> =
        columns.iter().map(|column| format!("    {} {}", as_name(&column.name), column.column_type)).collect();
    if !reference.key.is_empty() {
        lines.push(format!("    PRIMARY KEY ({})", names(&reference.key)));
    }
    let effective = reference.effective.map(|column| format!(" EFFECTIVE FROM {}", as_name(&column)));
    let (name, lines, effective) = (as_name(&table.name), lines.join(",\n"), effective.unwrap_or_default());
    Some(format!("CREATE TABLE {name} (\n{lines}\n){effective}{}", clauses(options)))
}

/// The text of `CREATE VIEW`, or of `CREATE MATERIALIZED VIEW` with the table that stores its rows.
pub(crate) fn of_view(view: &View, rows: Option<&TableSpec>) -> String {
    let columns = if view.columns.is_empty() { String::new() } else { format!(" ({})", names(&view.columns)) };
    let (name, query) = (as_name(&view.name), &view.query);
    if view.materialized.is_none() {
        return format!("CREATE VIEW {name}{columns} AS\n{query}");
    }
    let mut options = rows.map(options_of_rows).unwrap_or_default();
    if view.is_query_rewrite(rows) {
        options.push(("query_rewrite", "true".to_owned()));
    }
    format!("CREATE MATERIALIZED VIEW {name}{columns}{} AS\n{query}", clauses(options))
}

/// The options of the table that keeps the rows of a materialized view. Its time and its dates are those of the query and of its table.
fn options_of_rows(rows: &TableSpec) -> Options {
    let mut options = options(rows, &rows.columns, &Reference::default(), &|_| true);
    options.retain(|(name, _)| !["time", "time_zone", "day_start", "partition"].contains(name));
    // Without a word the first rows would decide.
    options.push(("partition", rows.partition.to_string()));
    options
}

/// What makes it a reference table, of columns that are shown.
fn shown_reference(table: &TableSpec, is_shown: &dyn Fn(&str) -> bool) -> Reference {
    let Some(reference) = &table.reference else { return Reference::default() };
    let has_key = reference.key.iter().all(|column| is_shown(column));
    Reference {
        key: reference.key.iter().filter(|_| has_key).cloned().collect(),
        effective: reference.effective.clone().filter(|column| is_shown(column)),
    }
}

/// By what a table differs from the one that its columns and key make.
fn options(
    table: &TableSpec,
    columns: &[ColumnSpec],
    reference: &Reference,
    is_shown: &dyn Fn(&str) -> bool,
) -> Options {
    let made = |options: &Options| {
        let options: Vec<_> = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        spec(&table.name, columns.to_vec(), reference.clone(), &options).ok()
    };
    let mut options = Options::new();
    let Some(plain) = made(&options) else { return options };
    let has_dates = table.reference.is_none() && is_shown(&table.time);
    if table.reference.is_some() && plain.reference.is_none() {
        options.push(("time", String::new()));
    } else if has_dates && !plain.time.eq_ignore_ascii_case(&table.time) {
        options.push(("time", table.time.clone()));
    }
    let Some(plain) = made(&options) else { return options };
    let lower = |symbol: Option<&str>| symbol.map(str::to_lowercase);
    let symbol = table.symbol.as_deref().filter(|symbol| is_shown(symbol));
    if lower(symbol) != lower(plain.symbol.as_deref()) {
        options.push(("symbol", symbol.unwrap_or_default().to_owned()));
    }
    if has_dates {
        let of_dates = |spec: &TableSpec| {
            [
                ("time_zone", spec.time_zone.clone()),
                ("day_start", spec.day_start.to_string()),
                ("partition", spec.partition.to_string()),
            ]
        };
        let pairs = of_dates(table).into_iter().zip(of_dates(&plain));
        options.extend(pairs.filter(|(own, plain)| own != plain).map(|(own, _)| own));
        options.extend(table.retention.days.map(|days| ("retain_days", days.to_string())));
        options.extend(table.retention.bytes.map(|bytes| ("retain_bytes", bytes.to_string())));
    }
    if !table.tiers.is_empty() {
        let rules: Vec<String> = table.tiers.iter().map(tier_text).collect();
        options.push(("tier", rules.join(", ")));
    }
    options.extend(table.publish.map(|form| ("publish", form.to_string())));
    options
}

fn tier_text(rule: &TierRule) -> String {
    let tier = rule.tier.name();
    if rule.after == 0 { tier.to_owned() } else { format!("{tier} after {}", rule.after) }
}

/// The clauses that give options.
fn clauses(options: Options) -> String {
    let (partition, others): (Vec<_>, Vec<_>) = options.into_iter().partition(|(name, _)| *name == "partition");
    let mut text: String = partition.iter().map(|(_, period)| format!(" PARTITION BY {period}")).collect();
    if !others.is_empty() {
        let others: Vec<String> =
            others.iter().map(|(name, value)| format!("{name} = {}", value_text(value))).collect();
        text += &format!(" WITH ({})", others.join(", "));
    }
    text
}

/// The value of an option as it is written.
fn value_text(value: &str) -> String {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    if value == "true" || is_number { value.to_owned() } else { format!("'{}'", value.replace('\'', "''")) }
}

fn names(names: &[String]) -> String {
    names.iter().map(|name| as_name(name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::change::Statement;

    /// The table that a statement makes.
    fn made(text: &str) -> TableSpec {
        match Statement::of(text).unwrap().unwrap() {
            Statement::Create { table, columns, key, effective, options, query: None, .. } => {
                let columns = columns.into_iter().map(|(name, of)| ColumnSpec::new(name, of)).collect();
                spec(&table, columns, Reference { key, effective }, &options).unwrap()
            }
            other => panic!("no CREATE TABLE: {other:?}"),
        }
    }

    fn text(table: &TableSpec) -> String {
        of_table(table, &|_| true).unwrap()
    }

    #[test]
    fn statements_make_the_same_table_again() {
        let columns = "create table t (time timestamp, sym symbol, venue symbol, price double";
        for statement in [
            "create table t (time timestamp)",
            "create table t (a bool, b int8, c smallint, d int, e bigint, f utinyint, g usmallint, h uinteger, i ubigint, j real, k double, \
             l numeric(9, 2), m date, n time, o timestamp, p symbol, q text, r levels(10))",
            &format!("{columns}) with (time = 'time', symbol = 'sym')"),
            &format!("{columns}) with (symbol = '')"),
            &format!("{columns}) with (symbol = 'venue')"),
            &format!("{columns}, arrived timestamp) with (time = 'arrived')"),
            &format!("{columns}) partition by month with (time_zone = 'America/Chicago', day_start = '17:00')"),
            &format!("{columns}) with (partition = 'all')"),
            &format!("{columns}) with (retain_days = 30, retain_bytes = '2G', tier = 'small after 90, fast')"),
            "create table t (sym symbol primary key) with (tier = 'fast')",
            "create table t (name text, size bigint)",
            "create table t (sym symbol primary key, name text)",
            "create table t (venue symbol, sym symbol, day date, primary key (SYM, day)) effective from day",
            "create table t (sym symbol, since timestamp, primary key (sym, since)) effective from since with (symbol = '')",
            "create table t (a int, at timestamp) with (time = '')",
            "create table \"my.T\" (\"a b\" timestamp, \"select\" symbol, \"primary\" int, \"it's\" text, \"Größe\" float8, \"1st\" date)",
        ] {
            let table = made(statement);
            assert_eq!(made(&text(&table)), table, "{statement}: {}", text(&table));
        }
    }

    #[test]
    fn options_that_cannot_be_are_refused_with_the_reason() {
        for (options, reason) in [
            (
                "ttl = 30",
                "ttl is no option of a table; there are time, symbol, time_zone, day_start, partition, retain_days, retain_bytes, tier, publish, key and effective",
            ),
            ("retain_days = 0", "retain_days is a whole number of days above 0, not \"0\""),
            ("retain_days = 'a week'", "retain_days is a whole number"),
            (
                "retain_bytes = '2X'",
                "retain_bytes is a size above 0 such as '512M' or '2G', or a number of bytes, not \"2X\"",
            ),
            ("tier = 'huge'", "is not a tier; there are mapped, fast, small, dense, object"),
            ("tier = 'fast, small from 90'", "'fast, small after 90'"),
            ("tier = 'small after a year'", "'fast, small after 90'"),
            ("tier = 'small after year'", "a number of days"),
        ] {
            let text = format!("create table t (time timestamp) with ({options})");
            let Some(Statement::Create { columns, options, .. }) = Statement::of(&text).unwrap() else {
                panic!("{text}")
            };
            let columns = columns.into_iter().map(|(name, of)| ColumnSpec::new(name, of)).collect();
            let refused = spec("t", columns, Reference::default(), &options).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn only_what_differs_is_said() {
        let plain = made("create table Trade (time timestamp, Sym symbol, \"order\" text) with (symbol = 'sym')");
        assert_eq!(text(&plain), "CREATE TABLE Trade (\n    time timestamp,\n    Sym symbol,\n    \"order\" text\n)");
        let other = made("create table t (at timestamp, a symbol, b symbol) with (symbol = 'b', partition = 'year')");
        let columns = "at timestamp,\n    a symbol,\n    b symbol";
        assert_eq!(text(&other), format!("CREATE TABLE t (\n    {columns}\n) PARTITION BY year WITH (symbol = 'b')"));
    }

    #[test]
    fn columns_that_are_not_shown_are_named_nowhere() {
        let trade = made(
            "create table trade (time timestamp, sym symbol, secret text) partition by month with (time_zone = 'Asia/Tokyo')",
        );
        let split = made(
            "create table split (sym symbol, secret date, ratio double, primary key (sym, secret)) effective from secret",
        );
        for (table, hidden) in
            [(&trade, "secret"), (&trade, "time"), (&trade, "sym"), (&split, "secret"), (&split, "sym")]
        {
            let shown = of_table(table, &|column| column != hidden).unwrap();
            assert!(!shown.contains(hidden) && shown.contains("CREATE TABLE"), "{shown}");
            made(&shown);
        }
        let without_time = of_table(&trade, &|column| column != "time").unwrap();
        assert!(!without_time.contains("Tokyo") && !without_time.contains("month"), "{without_time}");
        assert_eq!(of_table(&trade, &|_| false), None);
    }

    #[test]
    fn views_are_created_by_what_created_them() {
        for statement in [
            "create view v as select 1 as a -- one",
            "create view \"View\" (a, \"from\") as with x as (select 1) select 'it''s', \"B\" from x",
        ] {
            let Some(Statement::CreateView { view, .. }) = Statement::of(statement).unwrap() else {
                panic!("{statement}")
            };
            let again = Statement::of(&of_view(&view, None)).unwrap().unwrap();
            assert_eq!(again, Statement::CreateView { view, replaces: false, if_absent: false }, "{statement}");
        }
        let mut view = View::new("bars", vec!["at".to_owned(), "n".to_owned()], "select date, size from trade");
        (view.materialized, view.query_rewrite) = (Some("trade".to_owned()), true);
        let rows = made("create table t (at timestamp, n bigint, sym symbol) partition by month with (symbol = '')");
        assert_eq!(
            of_view(&view, Some(&rows)),
            "CREATE MATERIALIZED VIEW bars (at, n) PARTITION BY month WITH (symbol = '', query_rewrite = true) AS\n\
             select date, size from trade"
        );
    }
}
