//! Rows written as lines and read back over any cuts, and bytes that are no lines.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A value and what it looks like in the column.
#[derive(Debug, Clone)]
enum Sent {
    Float(f64),
    Binary(f64),
    Int(i64),
    UInt(u64),
    Bool(bool),
    Text(String),
    Micros(i32),
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |v| v.is_finite()).prop_map(Sent::Float),
        (0u32..1_000_000, 0i32..6).prop_map(|(v, e)| Sent::Float(f64::from(v) / 10f64.powi(e))),
        any::<f64>().prop_filter("a NaN's sign isn't shown", |v| !v.is_nan()).prop_map(Sent::Binary),
        any::<i64>().prop_map(Sent::Int),
        any::<u64>().prop_map(Sent::UInt),
        any::<bool>().prop_map(Sent::Bool),
        "[ -~\n\r\t\"\\\\é]{0,12}".prop_map(Sent::Text),
        any::<i32>().prop_map(Sent::Micros),
    ]
}

impl Sent {
    /// Fields are named after their type, so that no line conflicts.
    fn name(&self) -> &'static str {
        match self {
            Sent::Float(_) | Sent::Binary(_) => "f",
            Sent::Int(_) => "i",
            Sent::UInt(_) => "u",
            Sent::Bool(_) => "b",
            Sent::Text(_) => "x",
            Sent::Micros(_) => "m",
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Sent::Float(value) => bytes.extend(value.to_string().into_bytes()),
            Sent::Binary(value) => bytes.extend([&b"=\x10"[..], &value.to_le_bytes()].concat()),
            Sent::Int(value) => bytes.extend(format!("{value}i").into_bytes()),
            Sent::UInt(value) => bytes.extend(format!("{value}u").into_bytes()),
            Sent::Bool(value) => bytes.extend(value.to_string().into_bytes()),
            Sent::Text(value) => {
                bytes.push(b'"');
                bytes.extend(value.replace('\\', "\\\\").replace('"', "\\\"").into_bytes());
                bytes.push(b'"');
            }
            Sent::Micros(value) => bytes.extend(format!("{value}t").into_bytes()),
        }
    }

    fn shown(&self) -> String {
        let float = |value: f64| {
            let array = arrow::array::Float64Array::from(vec![value]);
            arrow::util::display::array_value_to_string(&array, 0).unwrap()
        };
        match self {
            Sent::Float(value) | Sent::Binary(value) => float(*value),
            Sent::Int(value) => value.to_string(),
            Sent::UInt(value) => value.to_string(),
            Sent::Bool(value) => value.to_string(),
            Sent::Text(value) => value.clone(),
            Sent::Micros(value) => (i64::from(*value) * 1000).to_string(),
        }
    }
}

type Row = (u8, Option<String>, Vec<Sent>, i64);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let tag = proptest::option::of("[ -~é]{1,6}");
    vec((0u8..3, tag, vec(sent(), 1..6), any::<i64>()), 1..20)
}

fn write(rows: &[Row]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (table, tag, fields, time) in rows {
        bytes.extend(format!("t{table}").into_bytes());
        if let Some(tag) = tag {
            let tag = tag.replace('\\', "\\\\").replace(' ', "\\ ").replace(',', "\\,").replace('=', "\\=");
            bytes.extend(format!(",s={tag}").into_bytes());
        }
        for (i, field) in fields.iter().enumerate() {
            bytes.extend(format!("{}{}=", if i == 0 { ' ' } else { ',' }, field.name()).into_bytes());
            field.write(&mut bytes);
        }
        bytes.extend(format!(" {time}\n").into_bytes());
    }
    bytes
}

/// Feeds the bytes in pieces of the given sizes, again and again.
fn decode_cut(bytes: &[u8], cuts: &[usize]) -> (Vec<LineRows>, Vec<LineError>) {
    let mut decoder = LineDecoder::new(LineSettings::default());
    let mut at = 0;
    for cut in cuts.iter().cycle() {
        let end = (at + cut).min(bytes.len());
        assert_eq!(decoder.push(&bytes[at..end], NOW), end - at);
        at = end;
        if at == bytes.len() {
            break;
        }
    }
    assert!(decoder.finish(NOW));
    (decoder.take(), decoder.take_errors())
}

/// Errors without their samples, which hold what had come of the line.
fn faults(errors: &[LineError]) -> Vec<(u64, u64, String)> {
    errors.iter().map(|error| (error.line, error.offset, error.reason.to_string())).collect()
}

fn same(actual: &[LineRows], expected: &[LineRows]) {
    assert_eq!(actual.len(), expected.len());
    for (actual, expected) in actual.iter().zip(expected) {
        assert_eq!((&actual.table, &actual.spec), (&expected.table, &expected.spec));
        for name in names(&actual.rows) {
            assert_eq!(column(&actual.rows, &name), column(&expected.rows, &name));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn rows_come_back_over_any_cuts(rows in rows(), cuts in vec(1usize..40, 1..8)) {
        let bytes = write(&rows);
        let (batches, errors) = decode_cut(&bytes, &cuts);
        prop_assert_eq!(&errors, &[]);
        batches.iter().for_each(check);
        for batch in &batches {
            let table_rows: Vec<&Row> = rows.iter().filter(|row| format!("t{}", row.0) == batch.table).collect();
            let times: Vec<String> = table_rows.iter().map(|row| row.3.to_string()).collect();
            prop_assert_eq!(column(&batch.rows, "time"), times);
            for name in names(&batch.rows).into_iter().filter(|name| name != "time" && name != "s") {
                let first = |row: &&Row| row.2.iter().find(|field| field.name() == name).map_or("-".to_owned(), Sent::shown);
                prop_assert_eq!(column(&batch.rows, &name), table_rows.iter().map(first).collect::<Vec<_>>(), "{}", name);
            }
            if names(&batch.rows).contains(&"s".to_owned()) {
                let tags: Vec<String> = table_rows.iter().map(|row| row.1.clone().unwrap_or("-".to_owned())).collect();
                prop_assert_eq!(column(&batch.rows, "s"), tags);
            }
        }
        prop_assert_eq!(batches.iter().map(|batch| batch.lines).sum::<u64>(), rows.len() as u64);
    }

    #[test]
    fn flipped_bytes_give_the_same_over_any_cuts(
        rows in rows(),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cuts in vec(1usize..40, 1..8),
    ) {
        let mut bytes = write(&rows);
        for (index, byte) in flips {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        let (whole, whole_errors) = decode_cut(&bytes, &[bytes.len()]);
        let (cut, cut_errors) = decode_cut(&bytes, &cuts);
        whole.iter().for_each(check);
        whole.iter().chain(&cut).for_each(check);
        same(&whole, &cut);
        prop_assert_eq!(faults(&whole_errors), faults(&cut_errors));
    }

    #[test]
    fn bytes_of_the_protocol_in_any_order_do_no_harm(
        words in vec(prop_oneof![
            Just("t"), Just(","), Just(" "), Just("="), Just("\""), Just("\\"), Just("\n"), Just("\r"), Just("a"), Just("1"),
            Just("-"), Just("."), Just("i"), Just("\u{e}"), Just("\u{10}"), Just("\u{a}"), Just("#"), Just("t a=1\n"), Just("\0"),
        ], 0..80),
        cuts in vec(1usize..9, 1..4),
    ) {
        let bytes: Vec<u8> = words.concat().into_bytes();
        let settings = LineSettings { line_bytes_max: 64, columns_max: 4, ..LineSettings::default() };
        let whole = decode_with(settings, &bytes);
        let _ = decode_cut(&bytes, &cuts);
        whole.0.iter().for_each(check);
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 1..400), cuts in vec(1usize..60, 1..8)) {
        let (whole, whole_errors) = decode(&bytes);
        let (cut, cut_errors) = decode_cut(&bytes, &cuts);
        whole.iter().chain(&cut).for_each(check);
        same(&whole, &cut);
        prop_assert_eq!(faults(&whole_errors), faults(&cut_errors));
    }
}

#[test]
fn every_truncation_and_every_flip_of_one_byte_is_survived() {
    let line = b"tr-A,symbol=B\\ C,side=buy p=39.98,q==\x10\x00\x0a\x00\x22\x00\x00\xf0\x3f,x=\"a\\\"b\nc\",i=5i,v==\x0e\x0a\x01\x01\x00\x00\x00aaaaaaaa 17t\n";
    let good = b"t a=1 1\n";
    for end in 0..line.len() {
        decode(&line[..end]);
        for byte in [0, b'\n', b'"', b'\\', b'=', b',', b' ', b'i', 0xff] {
            let mut bytes = [good, &line[..], good].concat();
            bytes[good.len() + end] = byte;
            let (batches, _) = decode(&bytes);
            assert_eq!(batches[0].table, "t");
            decode_cut(&bytes, &[1]);
        }
    }
}

#[test]
fn an_endless_line_takes_no_more_memory_than_its_limit() {
    let starts: [&[u8]; 6] = [b"", b"t a=\"", b"t,s=", b"#", b"t v==\x0e\x0a\x01\x00\x10\x00\x00", b"t a=\\"];
    for start in starts {
        let mut decoder = LineDecoder::new(LineSettings { line_bytes_max: 1000, ..LineSettings::default() });
        assert_eq!(decoder.push(start, NOW), start.len());
        for _ in 0..1000 {
            let piece = [b'x'; 333];
            assert_eq!(decoder.push(&piece, NOW), piece.len());
            assert!(decoder.carry_bytes() < 3000, "{start:?} {}", decoder.carry_bytes());
        }
        let _ = decoder.push(b"\nt a=1 1\n", NOW);
        assert!(decoder.finish(NOW));
        assert_eq!(decoder.take()[0].lines, 1);
        assert_eq!(decoder.refused(), 1);
    }
}

#[test]
fn wide_tables_and_new_columns_stay_within_the_batchs_bytes() {
    let mut bytes = vec![];
    for round in 0..40 {
        bytes.extend(b"t a=1\n".repeat(500));
        let fields: Vec<String> = (0..400).map(|i| format!("c{round}_{i}=1")).collect();
        bytes.extend(format!("t {}\n", fields.join(",")).into_bytes());
    }
    let batch_bytes_max = 1 << 20;
    let mut decoder = LineDecoder::new(LineSettings { batch_bytes_max, ..LineSettings::default() });
    let (mut used, mut lines) = (0, 0);
    loop {
        used += decoder.push(&bytes[used..], NOW);
        for batch in decoder.take() {
            lines += batch.lines;
            assert!(batch.rows.get_array_memory_size() < 4 * batch_bytes_max);
        }
        if used == bytes.len() {
            break;
        }
    }
    assert_eq!(lines, 40 * 501);
}

/// All that a decoder takes of a stream, batch by batch.
fn batches(settings: LineSettings, bytes: &[u8]) -> Vec<LineRows> {
    let mut decoder = LineDecoder::new(settings);
    let (mut used, mut batches) = (0, Vec::new());
    loop {
        used += decoder.push(&bytes[used..], NOW);
        let is_full = decoder.is_full();
        batches.extend(decoder.take());
        if !is_full {
            return batches;
        }
    }
}

/// Each line names another column of the table: 2.2 MB of them were 2.4 GB of columns.
#[test]
fn rows_that_name_few_of_many_columns_take_about_what_they_hold() {
    let lines: Vec<String> = (0..20_000).map(|i| format!("t c{}=1i {i}\n", i % 4000)).collect();
    let bytes = lines.concat();
    let batches = batches(LineSettings::default(), bytes.as_bytes());
    batches.iter().for_each(check);
    assert_eq!(batches.iter().map(|batch| batch.lines).sum::<u64>(), 20_000);
    let memory_bytes: usize = batches.iter().map(|batch| batch.rows.get_array_memory_size()).sum();
    assert!(memory_bytes < 100 * bytes.len(), "{memory_bytes} bytes of columns for {} of lines", bytes.len());
    // Each batch has the columns of its own rows alone.
    assert!(batches.iter().all(|batch| batch.rows.num_columns() as u64 <= batch.lines + 1));
}

/// A batch of rows of one column became hundreds of columns of nulls in its table, and was refused for its length.
#[test]
fn rows_of_a_wide_table_count_with_all_its_columns() {
    let wide = || {
        let mut columns = vec![splay_store::ColumnSpec::new("time", splay_store::ColumnType::Timestamp)];
        let column = |i| splay_store::ColumnSpec::new(format!("c{i}"), splay_store::ColumnType::Float64);
        columns.extend((0..1000).map(column));
        splay_store::TableSpec::new("t", columns, "time", None)
    };
    let settings = LineSettings { stored_bytes_max: 1 << 20, ..LineSettings::default() };
    let mut decoder = LineDecoder::with_lookup(settings, Box::new(move |_| Some(wide())));
    let bytes = b"t c7=1 1\n".repeat(500);
    let (mut used, mut lines) = (0, Vec::new());
    loop {
        used += decoder.push(&bytes[used..], NOW);
        let is_full = decoder.is_full();
        for batch in decoder.take() {
            assert_eq!(batch.stored_bytes, batch.rows.num_rows() * 1001 * 9);
            lines.push(batch.lines);
        }
        if !is_full {
            break;
        }
    }
    assert_eq!(lines, [117, 117, 117, 117, 32]);
}

/// A column that a refused line was the first to name stayed in the batch, as nulls.
#[test]
fn refused_lines_leave_no_columns_behind() {
    let (batches, errors) = decode(b"t a=1 1\nt a=1,b=2,a= bad\nt a=2 2\n");
    assert_eq!((names(&batches[0].rows), errors.len()), (vec!["time".to_owned(), "a".to_owned()], 1));
}

#[test]
fn refused_lines_leave_no_texts_behind() {
    let mut decoder = LineDecoder::new(LineSettings { batch_bytes_max: 1 << 16, ..LineSettings::default() });
    let good = b"t,s=a x=1 1\n";
    assert_eq!(decoder.push(good, NOW), good.len());
    for i in 0..1000 {
        let line = format!("t,s={}{i} x=\"{}\" 2\n", "s".repeat(1000), "x".repeat(1000));
        assert_eq!(decoder.push(line.as_bytes(), NOW), line.len());
    }
    assert_eq!(decoder.push(b"t,s=b x=2 3\nt,s=a x=3 4\n", NOW), 24);
    assert_eq!(decoder.refused(), 1000);
    let batch = decoder.take().remove(0);
    check(&batch);
    assert_eq!(column(&batch.rows, "s"), ["a", "b", "a"]);
    assert_eq!(batch.rows.column(1).as_dictionary::<Int32Type>().values().len(), 2);
}

/// A refused line brought a text that went with it; the next line, cut behind a text that was known, then took another along.
#[test]
fn a_line_cut_after_a_refused_one_takes_no_text_of_other_rows() {
    let lines: [&[u8]; 5] = [b"t,a=x 1\n", b"t,a=y 2\n", b"t,a=z bad 3\n", b"t,a=x ", b"3\n"];
    let mut decoder = LineDecoder::new(LineSettings::default());
    for piece in lines {
        assert_eq!(decoder.push(piece, NOW), piece.len());
    }
    let batch = decoder.take().remove(0);
    check(&batch);
    assert_eq!(column(&batch.rows, "a"), ["x", "y", "x"]);
}
