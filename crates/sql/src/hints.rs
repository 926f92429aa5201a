//! Hints in errors about statements, functions and forms of other systems: what to write in SplayDB instead.

use std::collections::BTreeSet;

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use splay_store::nearest_name;

use crate::error::Error;

/// Statements of other systems, by their first word. `.` and `\` begin commands of shells.
const STATEMENTS: [(&[&str], &str); 20] = [
    (&["aj", "aj0", "ajf"], "write FROM trade ASOF JOIN quote USING (sym, time)"),
    (&["wj", "wj1"], "write FROM trade WINDOW JOIN quote … BETWEEN … AND …"),
    (&["lj", "ij", "ej", "pj"], "write FROM a LEFT JOIN b USING (key), or JOIN"),
    (&["uj"], "write SELECT * FROM a UNION ALL BY NAME SELECT * FROM b"),
    (&["exec"], "write SELECT"),
    (&["meta"], "write DESCRIBE and the name of the table"),
    (&["count"], "write SELECT count(*) FROM and the name of the table"),
    (&["tables"], "write SHOW TABLES"),
    (
        &[".", "\\"],
        "commands with a dot or a backslash are for shells: \\help lists those of splay shell; SHOW TABLES lists the tables",
    ),
    (&["attach", "detach", "use"], "a session has one database; SHOW TABLES lists its tables"),
    (&["show databases", "show schemas", "show catalogs"], "a session has one database; SHOW TABLES lists its tables"),
    (&["show views"], "SHOW TABLES lists views, too"),
    (&["install", "load"], "there are no extensions; a file is read by FROM 'file.csv'"),
    (
        &["vacuum", "optimize", "analyze", "reindex", "cluster"],
        "splay maintain keeps tables in shape, splay compact one table",
    ),
    (&["pragma"], "SHOW TABLES lists tables, DESCRIBE the columns of one"),
    (&["merge"], "write INSERT … ON CONFLICT … DO UPDATE, or UPDATE … FROM"),
    (&["replace"], "write INSERT … ON CONFLICT … DO UPDATE"),
    (&["lock", "unlock"], "each statement that changes rows is a transaction of its own"),
    (&["kill"], "a statement ends with the connection that sent it"),
    (&["listen", "unlisten"], "rows that come in are sent to subscribers"),
];

/// Forms of other systems that the parser can't read, up to the token at which it stops: words, `'` for a text, `#` for a number, `_` for a name and
/// `` ` `` for a name in backticks.
const FORMS: [(&[&str], &str); 6] = [
    (
        &["in", "'"],
        "IN takes a list in brackets, as in sym IN ('A', 'B'); for the rows of a day write date = '2024-03-04'",
    ),
    (&["in", "`"], BACKTICKS),
    (&["=", "`"], BACKTICKS),
    (&["xbar", "_"], "xbar is a function: xbar(5, price)"),
    (&["within", "_"], "write BETWEEN … AND …"),
    (&["by"], "groups are named at the end: SELECT sym, last(price) FROM trade GROUP BY sym"),
];

const BACKTICKS: &str = "a text is in single quotes: 'IBM'";

/// Functions of other systems in lower case, and what to write instead. `name*` stands for every name that begins with
/// `name`.
const FUNCTIONS: [(&[&str], &str); 35] = [
    // Times.
    (
        &["dateadd", "date_add", "timestampadd", "timestamp_add", "adddate", "adddays", "addhours"],
        "write time + INTERVAL '1 day'",
    ),
    (&["to_str", "tostring", "formatdatetime", "time_format"], "write strftime(time, format), or CAST(x AS text)"),
    (
        &["timestamp_floor*", "timestamp_ceil*", "tostartof*", "timeslot", "date_floor", "time_slice"],
        "write time_bucket(INTERVAL '1 minute', time)",
    ),
    (
        &["to_timezone", "totimezone", "convert_tz", "convert_timezone", "to_utc"],
        "write time AT TIME ZONE 'America/New_York'",
    ),
    (&["systimestamp*", "sysdate", "getdate", "now64", "clock_timestamp", "statement_timestamp"], "write now()"),
    (&["todatetime*", "parsedatetime*"], "write CAST(x AS timestamp), or strptime(text, format)"),
    (&["tounixtimestamp*"], "write epoch_ns(time), epoch_ms(time) or epoch(time)"),
    (
        &["toyear", "tomonth", "todayofmonth", "todayofweek", "tohour", "tominute", "tosecond"],
        "write extract(hour FROM time), or hour(time)",
    ),
    (&["toyyyymm*"], "write strftime(time, '%Y%m%d')"),
    (&["toint*", "touint*", "tofloat*", "todecimal*"], "write CAST(x AS bigint), CAST(x AS double)"),
    // Joins and windows.
    (&["aj", "aj0", "ajf", "asof"], "write FROM trade ASOF JOIN quote USING (sym, time)"),
    (&["wj", "wj1"], "write FROM trade WINDOW JOIN quote … BETWEEN … AND …"),
    (&["fby"], "write a window function: max(price) OVER (PARTITION BY sym)"),
    (
        &["runningdifference*", "runningaccumulate"],
        "write deltas(x) OVER (PARTITION BY sym ORDER BY time), or sums(x) OVER",
    ),
    (&["neighbor", "laginframe"], "write lag(x) OVER (PARTITION BY sym ORDER BY time)"),
    (&["leadinframe"], "write lead(x) OVER (PARTITION BY sym ORDER BY time)"),
    (
        &["moving_avg", "moving_average", "rolling_mean", "sma"],
        "write mavg(x, n) OVER (PARTITION BY sym ORDER BY time)",
    ),
    (&["exponentialmovingaverage", "ewma", "ewm"], "write ema(x, alpha) OVER (PARTITION BY sym ORDER BY time)"),
    // Aggregates.
    (
        &["candlestick_agg", "candlestick", "ohlc", "ohlcv"],
        "write first(price), max(price), min(price), last(price), sum(size), vwap(price, size)",
    ),
    (&["time_weight", "time_weighted_average"], "write twap(price, time)"),
    (
        &["uniq", "uniqexact", "uniqcombined*", "uniqhll12", "count_distinct"],
        "write count(DISTINCT x), or approx_distinct(x)",
    ),
    (
        &["quantileexact*", "quantiletiming*", "quantiledeterministic"],
        "write quantile_disc(x, p), or quantile_cont(x, p)",
    ),
    (&["quantiletdigest*", "approx_percentile", "percentile_agg", "tdigest"], "write approx_percentile_cont(x, p)"),
    (&["grouparray*", "groupuniqarray*", "array_concat_agg"], "write array_agg(x), or array_agg(DISTINCT x)"),
    (
        &["sumif", "avgif", "minif", "maxif", "anyif", "uniqif", "sum_if", "avg_if"],
        "write sum(x) FILTER (WHERE condition)",
    ),
    (&["anylast", "last_not_null"], "write last(x)"),
    // Values.
    (&["multiif", "iff", "iif"], "write if(condition, x, y), or CASE WHEN … THEN … ELSE … END"),
    (&["isnull", "isnotnull"], "write x IS NULL, or x IS NOT NULL"),
    (&["til", "long_sequence", "numbers"], "write FROM range(10), or generate_series(1, 10)"),
    (&["ungroup", "arrayjoin"], "write unnest(list)"),
    (&["xexp"], "write power(x, y)"),
    (&["rnd_*", "rand32", "rand64"], "write random()"),
    // Tables.
    (
        &[
            "read_csv*",
            "read_parquet",
            "read_json*",
            "read_ndjson*",
            "parquet_scan",
            "scan_csv",
            "scan_parquet",
            "file",
        ],
        "a file is named in single quotes: FROM 'file.csv'",
    ),
    (
        &["tables", "all_tables", "table_columns", "pragma_table_info"],
        "write SHOW TABLES, or DESCRIBE and the name of a table",
    ),
    (
        &["create_hypertable", "add_retention_policy", "add_compression_policy"],
        "a table with a time is partitioned by its dates",
    ),
];

/// Keywords that are looked for where the parser meets another word.
const KEYWORDS: [&str; 32] = [
    "ALTER",
    "ASOF",
    "BETWEEN",
    "CREATE",
    "DELETE",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "FROM",
    "GROUP",
    "HAVING",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "JOIN",
    "LEFT",
    "LIMIT",
    "OFFSET",
    "ORDER",
    "PARTITION",
    "QUALIFY",
    "SELECT",
    "SHOW",
    "UNION",
    "UPDATE",
    "USING",
    "VALUES",
    "WHERE",
];

/// Ends of names of files.
const FILE_ENDINGS: [&str; 12] =
    ["csv", "tsv", "psv", "txt", "json", "jsonl", "ndjson", "parquet", "arrow", "feather", "gz", "zst"];

/// Names of the caller of a statement.
const ROLES: [&str; 3] = ["current_user", "session_user", "current_role"];

/// The hint for a statement of another system, by its first words.
pub(crate) fn of_statement(words: &str) -> Option<&'static str> {
    let is_listed = |(names, _): &&(&[&str], &str)| names.iter().any(|name| name.eq_ignore_ascii_case(words));
    STATEMENTS.iter().find(is_listed).map(|(_, hint)| *hint)
}

/// An error about a statement with a hint, if the statement, as it was parsed, has words of another system or a function that isn't there.
pub(crate) fn with_hints(error: Error, text: &str, state: &SessionState) -> Error {
    let Error::Statement { message } = &error else { return error };
    let name_of = |before: &str, behind: &str| message.strip_prefix(before)?.split_once(behind).map(|(name, _)| name);
    if let Some(name) = name_of("Invalid function '", "'") {
        if state.window_functions().contains_key(name) {
            let message = format!("{name} is a window function: write {name}(…) OVER (PARTITION BY sym ORDER BY time)");
            return Error::Statement { message };
        }
        let hint = of_function(name).map(str::to_owned).or_else(|| nearest_function(name, state));
        return error.with_hint(hint);
    }
    if let Some(name) = name_of("table function '", "' not found") {
        let hint = of_function(name).map(str::to_owned);
        return error.with_hint(hint);
    }
    if let Some((before, ending)) = name_of("table 'splay.", "' not found").and_then(|name| name.rsplit_once('.')) {
        let is_file = !before.starts_with("public") && FILE_ENDINGS.contains(&ending);
        let hint = is_file.then(|| format!("a file is named in single quotes: FROM '{before}.{ending}'"));
        return error.with_hint(hint);
    }
    if let Some(name) = name_of("No field named ", ".").filter(|name| ROLES.contains(name)) {
        let hint = format!("{name} is read over PostgreSQL's wire protocol and in policies");
        return error.with_hint(Some(hint));
    }
    if !message.starts_with("sql parser error") {
        return error;
    }
    let hint = of_syntax(text, message).map(str::to_owned).or_else(|| nearest_keyword(text, message));
    error.with_hint(hint)
}

fn of_function(name: &str) -> Option<&'static str> {
    let is_meant = |listed: &&str| match listed.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *listed,
    };
    let found = FUNCTIONS.iter().find(|(names, _)| names.iter().any(&is_meant));
    found.map(|(_, hint)| *hint)
}

/// The function whose name is nearest, if at most a third of the letters differ.
fn nearest_function(name: &str, state: &SessionState) -> Option<String> {
    let scalar = state.scalar_functions().keys();
    let names = scalar.chain(state.aggregate_functions().keys()).chain(state.window_functions().keys());
    let names: BTreeSet<&String> = names.filter(|name| !name.starts_with("__")).collect();
    nearest_name(name, names).map(|nearest| format!("Did you mean '{nearest}'?"))
}

/// The keyword that the word at which the parser stopped, or the one before it, may have been meant for.
fn nearest_keyword(text: &str, message: &str) -> Option<String> {
    let tokens = tokens_of(text)?;
    let stop = stop_of(&tokens, message)?;
    let words = [Some(stop), stop.checked_sub(1)].into_iter().flatten().filter_map(|at| match &tokens[at].token {
        Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::NoKeyword => Some(&word.value),
        _ => None,
    });
    let nearest = words.into_iter().find_map(|word| nearest_name(word, KEYWORDS));
    nearest.map(|keyword| format!("Did you mean {keyword}?"))
}

/// The tokens of a text without white space; `None` if it can't be parted into tokens.
fn tokens_of(text: &str) -> Option<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize_with_location().ok()?;
    Some(tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect())
}

/// The token at which the parser stopped.
fn stop_of(tokens: &[TokenWithSpan], message: &str) -> Option<usize> {
    let (line, column) = place(message)?;
    tokens.iter().position(|token| (token.span.start.line, token.span.start.column) == (line, column))
}

/// A hint for text that the parser can't read, by the first word and by the words up to where it stopped.
fn of_syntax(text: &str, message: &str) -> Option<&'static str> {
    let Some(tokens) = tokens_of(text) else { return message.contains('`').then_some(BACKTICKS) };
    if let Some(hint) = tokens.first().and_then(|first| of_statement(&first.token.to_string())) {
        return Some(hint);
    }
    let stop = stop_of(&tokens, message)?;
    let is_form = |(form, _): &&(&[&str], &str)| {
        let Some(start) = (stop + 1).checked_sub(form.len()) else { return false };
        tokens[start..=stop].iter().zip(*form).all(|(token, part)| is_part(&token.token, part))
    };
    FORMS.iter().find(is_form).map(|(_, hint)| *hint)
}

/// Whether a token is a part of a form.
fn is_part(token: &Token, part: &str) -> bool {
    match (token, part) {
        (Token::SingleQuotedString(_), "'") | (Token::Number(..), "#") => true,
        (Token::Word(word), "`") => word.quote_style == Some('`'),
        (Token::Word(_), "_") => true,
        (token, part) => token.to_string().eq_ignore_ascii_case(part),
    }
}

/// Line and column that a message of the parser ends with: `at Line: 1, Column: 8`.
fn place(message: &str) -> Option<(u64, u64)> {
    let (line, column) = message.rsplit_once("at Line: ")?.1.split_once(", Column: ")?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn hints_know_where_the_parser_stopped() {
        let at = |text: &str, column: usize| {
            of_syntax(text, &format!("sql parser error: Expected: (, found: x at Line: 1, Column: {column}"))
        };
        assert!(at("select * from t where time in '2024'", 31).unwrap().contains("date = "));
        assert_eq!(at("select 1 in '2024' x y", 20), None);
        assert!(at("select last price by sym from t", 19).unwrap().contains("GROUP BY"));
        assert!(at("meta t", 1).unwrap().contains("DESCRIBE"));
        assert_eq!(at("select * from t where sym in `A`", 30), Some(BACKTICKS));
        let unclosed = "sql parser error: Expected close delimiter '`' before EOF. at Line: 1, Column: 33";
        assert_eq!(of_syntax("select * from t where sym in `A", unclosed), Some(BACKTICKS));
    }

    #[test]
    fn words_that_are_nearly_keywords_are_told() {
        let at = |text: &str, column: usize| {
            nearest_keyword(text, &format!("sql parser error: Expected: x, found: y at Line: 1, Column: {column}"))
        };
        assert_eq!(at("selct 1", 1).as_deref(), Some("Did you mean SELECT?"));
        assert_eq!(at("select * form t", 10).as_deref(), Some("Did you mean FROM?"));
        assert_eq!(at("select * form t", 15).as_deref(), Some("Did you mean FROM?"), "the word before");
        assert_eq!(at("select x from t gruop by x", 23).as_deref(), Some("Did you mean GROUP?"));
        assert_eq!(at("select \"selct\" y z", 18), None, "a name in quotes");
        assert_eq!(at("trade", 1), None);
        assert_eq!(nearest_keyword("selct", "sql parser error: no place"), None);
    }

    #[test]
    fn functions_of_other_systems_are_found_by_name_and_beginning() {
        assert!(of_function("timestamp_floor_utc").unwrap().contains("time_bucket"));
        assert!(of_function("tostartofminute").unwrap().contains("time_bucket"));
        assert!(of_function("read_csv_auto").unwrap().contains("FROM 'file.csv'"));
        assert_eq!(of_function("l2price"), None);
    }
}
