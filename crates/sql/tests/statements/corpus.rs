//! Statements that the fuzzer starts from: those of the logic files, and pieces of which hostile ones are made.

use std::path::{Path, PathBuf};

/// Values at the edges of their types, and things that grow.
pub const PIECES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2147483647",
    "9223372036854775807",
    "-9223372036854775808",
    "1e308",
    "0.1",
    "'nan'::double",
    "null",
    "''",
    "'a'",
    "'%_'",
    "'2019-10-07'",
    "'[a-z]+(b|c)*'",
    "'x,y,z'",
    "true",
    "false",
    "sym",
    "price",
    "size",
    "ts",
    "sym || sym",
    "price / size",
    "size % 0",
    "size * 1000000",
    "make_array(1, 2, 3)",
    "make_array(sym, 'b')",
    "range(0, 1000)",
    "range(0, size)",
    "repeat(sym, 1000)",
    "repeat('ab', 100000)",
    "interval '1' month",
    "interval '1000000' year",
    "timestamp '2019-10-07 13:30:00'",
    "date '1970-01-01'",
    "now()",
    "time '12:00'",
    "x'00ff'",
    "cast(size as decimal(38, 10))",
    "arrow_cast(sym, 'Utf8View')",
    "named_struct('a', 1, 'b', sym)",
    "map(make_array('k'), make_array(1))",
    "(select max(price) from tick)",
    "count(*)",
    "sum(size)",
    "array_agg(sym)",
    "string_agg(sym, ',')",
    "row_number() over (partition by sym order by ts)",
    "case when size > 0 then 1 else sym end",
];

/// Queries around an expression or a query.
pub const FRAMES: &[&str] = &[
    "select {} from tick",
    "select {} from trade",
    "select count(*) from tick where {}",
    "select {}, count(*) from tick group by 1",
    "select sym, max({}) from tick group by sym",
    "select distinct {} from tick",
    "select sum(x) over (partition by sym order by ts) from (select {} as x, sym, ts from tick)",
    "select x from (select {} as x from tick) order by x limit 10",
    "select unnest(x) from (select {} as x from tick)",
    "select count(*) from tick a join tick b on a.sym = b.sym and {}",
    "select x || x from (select {} as x from tick)",
    "select array_agg({}) from tick",
    "select string_agg({}, ',') from tick",
    "select {}",
    "select count(*) from generate_series(0, {})",
    "with recursive r as (select 1 as n union all select n + 1 from r where n < {}) select count(*) from r",
    "explain select {} from tick",
    "select array_transform(make_array(1, 2, 3), v -> {}) from tick",
];

/// The statements of the logic files.
pub fn statements() -> Vec<String> {
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt"), &mut files);
    files.sort();
    files.iter().flat_map(|file| of_file(&std::fs::read_to_string(file).unwrap())).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn of_file(text: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("query") || line.starts_with("statement") {
            let of_block = lines.by_ref().take_while(|line| !line.trim().is_empty() && !line.starts_with("----"));
            statements.push(of_block.collect::<Vec<_>>().join("\n"));
        }
    }
    statements
}
