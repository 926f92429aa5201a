//! Shape of lines: names, escapes, timestamps, line ends, limits, and how the stream goes on behind a bad line.

use splay_store::{ColumnSpec, ColumnType, TableSpec};

use super::super::Precision;
use super::*;

#[test]
fn a_line_of_questdb_becomes_a_row() {
    let batch = table("trades,symbol=BTC-USD,side=buy price=39269.98,amount=0.011 1646762637710419000\n");
    assert_eq!(batch.table, "trades");
    assert_eq!(names(&batch.rows), ["time", "symbol", "side", "price", "amount"]);
    assert_eq!(column(&batch.rows, "time"), ["1646762637710419000"]);
    assert_eq!(column(&batch.rows, "symbol"), ["BTC-USD"]);
    assert_eq!(column(&batch.rows, "price"), ["39269.98"]);
    assert_eq!(column(&batch.rows, "amount"), ["0.011"]);
    assert_eq!(batch.spec.time, "time");
    assert_eq!(batch.spec.symbol.as_deref(), Some("symbol"));
}

#[test]
fn lines_of_several_tables_are_kept_apart_in_order() {
    let (batches, errors) = decode(b"b x=1\na x=1i\nb x=2\nB x=3\n");
    assert_eq!(errors, []);
    let tables: Vec<(&str, u64)> = batches.iter().map(|batch| (batch.table.as_str(), batch.lines)).collect();
    assert_eq!(tables, [("b", 3), ("a", 1)]);
}

#[test]
fn columns_that_a_line_lacks_are_null() {
    let batch = table("t,s=x a=1 1\nt b=2i 2\nt,s=y a=3,b=4i,c=\"z\" 3\n");
    assert_eq!(column(&batch.rows, "s"), ["x", "-", "y"]);
    assert_eq!(column(&batch.rows, "a"), ["1.0", "-", "3.0"]);
    assert_eq!(column(&batch.rows, "b"), ["-", "2", "4"]);
    assert_eq!(column(&batch.rows, "c"), ["-", "-", "z"]);
}

#[test]
fn names_and_tags_are_unescaped() {
    let batch = table("a\\ b\\,c,t\\=1=v\\ 1\\,\\=x f\\ \\\\x=1 1\n");
    assert!(batch.table.starts_with("a_b_c."), "{}", batch.table);
    assert_eq!(names(&batch.rows), ["time", "t=1", "f \\x"]);
    assert_eq!(column(&batch.rows, "t=1"), ["v 1,=x"]);
    // A backslash before anything else is itself.
    assert_eq!(column(&table("t,p=C:\\dir a=1").rows, "p"), ["C:\\dir"]);
    // What QuestDB's clients do to line feeds.
    assert_eq!(column(&table("t,p=a\\\nb a=1").rows, "p"), ["a\nb"]);
}

#[test]
fn quoted_text_holds_escapes_and_line_feeds() {
    let batch = table("t a=\"x, y=1 \\\"q\\\" \\\\ \\n\nz\\\n\",b=1 5\n");
    assert_eq!(column(&batch.rows, "a"), ["x, y=1 \"q\" \\ \\n\nz\n"]);
    assert_eq!(column(&batch.rows, "time"), ["5"]);
    assert_eq!(column(&table("t a=\"\",b=\"grün\"").rows, "b"), ["grün"]);
}

#[test]
fn timestamps_have_the_unit_of_the_settings_or_of_their_suffix() {
    for (precision, text, time) in [
        ("ns", "5", "5"),
        ("us", "5", "5000"),
        ("ms", "5", "5000000"),
        ("s", "-5", "-5000000000"),
        ("s", "5n", "5"),
        ("s", "5t", "5000"),
    ] {
        let settings = LineSettings { precision: precision.parse().unwrap(), ..LineSettings::default() };
        let (batches, _) = decode_with(settings, format!("t a=1 {text}").as_bytes());
        assert_eq!(column(&batches[0].rows, "time"), [time], "{precision} {text}");
    }
    assert!("d".parse::<Precision>().is_err());
    assert_eq!(column(&table("t a=1\nt a=2 \r\n").rows, "time"), [NOW.to_string(), NOW.to_string()]);
    assert_eq!(reason(b"t a=1 9223372036854775807t"), "\"9223372036854775807\" is out of range");
    assert_eq!(reason(b"t a=1 9223372036854775808"), "\"9223372036854775808\" is out of range");
    assert_eq!(column(&table("t a=1 -9223372036854775808").rows, "time"), ["-9223372036854775808"]);
    assert_eq!(reason(b"t a=1 1.5"), "expected a timestamp of digits");
    assert_eq!(reason(b"t a=1 5 6"), "expected the line's end behind the timestamp");
}

#[test]
fn a_field_of_the_time_columns_name_is_the_rows_time() {
    let settings = LineSettings { time_column: "timestamp".to_owned(), ..LineSettings::default() };
    let bytes =
        b"c,s=a timestamp=7i,open=1 9\nc,s=a timestamp=7t,timestamp=8i,open=1 9\nc,s=a timestamp=1.5,open=1 9\n";
    let (batches, errors) = decode_with(settings, bytes);
    assert_eq!(column(&batches[0].rows, "timestamp"), ["7", "7000"]);
    assert_eq!(names(&batches[0].rows), ["timestamp", "s", "open"]);
    assert_eq!(errors[0].reason.to_string(), "column \"timestamp\" holds timestamps, not a float");
}

#[test]
fn empty_lines_comments_and_carriage_returns_are_passed_over() {
    let batch = table("\n  \n# a comment, a=1\n\r\nt a=1 1\r\n  t a=2 2   \r\n#");
    assert_eq!(column(&batch.rows, "a"), ["1.0", "2.0"]);
}

#[test]
fn a_row_needs_a_tag_or_a_field() {
    assert_eq!(column(&table("t,s=x 5\nt,s=y  6n\nt,s=z\n").rows, "s"), ["x", "y", "z"]);
    assert_eq!(column(&table("t,s=x 5\nt,s=y 5=6\n").rows, "5"), ["-", "6.0"]);
    assert_eq!(reason(b"t "), "expected a tag or a field");
    assert_eq!(reason(b"t"), "expected a comma or a space behind the table's name");
    assert_eq!(reason(b",a=b c=1"), "expected the table's name");
    assert_eq!(reason(b"t 5"), "expected `=` behind a name");
    assert_eq!(reason(b"t, a=1"), "expected `=` behind a name");
    assert_eq!(reason(b"t a=1,"), "expected `=` behind a name");
    assert_eq!(reason(b"t =1"), "expected a field's name");
    assert_eq!(reason(b"t,=1 a=1"), "expected a tag's name");
}

#[test]
fn the_first_of_equal_names_wins() {
    let batch = table("t,s=a,S=b x=1,X=2,s=\"c\" 1\nt,s=a,S=b x=3,X=4 2\n");
    assert_eq!(names(&batch.rows), ["time", "s", "x"]);
    assert_eq!(column(&batch.rows, "s"), ["a", "a"]);
    assert_eq!(column(&batch.rows, "x"), ["1.0", "3.0"]);
}

#[test]
fn the_symbol_column_is_the_tag_of_that_name_or_the_first() {
    let symbol = |text| table(text).spec.symbol;
    assert_eq!(symbol("t,side=buy,Symbol=X a=1").as_deref(), Some("Symbol"));
    assert_eq!(symbol("t,host=h,region=r a=1").as_deref(), Some("host"));
    assert_eq!(symbol("t a=1"), None);
}

#[test]
fn names_that_no_column_can_have_are_refused() {
    assert!(reason(b"t a\"b=1").contains("double quotes"));
    assert!(reason(b"t a\tb=1").contains("control characters"));
    assert!(reason(format!("t {}=1", "x".repeat(129)).as_bytes()).contains("128 bytes"));
    assert_eq!(reason(b"t \xff=1"), "text is not UTF-8");
    assert_eq!(reason(b"\xff a=1"), "text is not UTF-8");
    assert_eq!(reason(b"t,s=\xff a=1"), "text is not UTF-8");
    assert_eq!(reason(b"t a=\"\xff\""), "text is not UTF-8");
}

#[test]
fn a_bad_line_leaves_nothing_and_the_stream_goes_on() {
    let (batches, errors) = decode(b"t a=1 1\nt,new=x a=2,b=oops 2\nt a=3,c=\"x\",a=1,b=bad 3\nt a=4 4\n");
    assert_eq!(names(&batches[0].rows), ["time", "a"]);
    assert_eq!(column(&batches[0].rows, "a"), ["1.0", "4.0"]);
    assert_eq!((errors[0].line, errors[0].offset), (2, 22));
    assert_eq!(errors[0].reason.to_string(), "\"oops\" is not a value; text goes into double quotes");
    assert_eq!(errors[0].sample, b"t,new=x a=2,b=oops 2");
    assert_eq!(errors[1].line, 3);
    assert_eq!(
        errors[0].to_string(),
        "line 2, byte 22: \"oops\" is not a value; text goes into double quotes: t,new=x a=2,b=oops 2"
    );
}

#[test]
fn a_quote_left_open_costs_its_own_line() {
    let (batches, errors) = decode(b"t a=\"open 1\nt a=\"b\" 2\nt a=\"c\" 3\n");
    assert_eq!(column(&batches[0].rows, "a"), ["b", "c"]);
    assert_eq!(errors.len(), 1);
    let (batches, errors) = decode(b"t b=1 1\nt a=\"open 1\nt b=2 2\nt b=3 3");
    assert_eq!(column(&batches[0].rows, "b"), ["1.0", "2.0", "3.0"]);
    assert_eq!(errors[0].reason.to_string(), "a quote is opened and never closed");
}

#[test]
fn quotes_within_quotes_are_text_where_they_cannot_be_the_end() {
    // Cryptofeed's BookInflux: JSON between quotes, nothing escaped.
    let batch = table(
        "book-COINBASE,symbol=BTC-USD delta=False,bid=\"{\"39000.1\":1.5,\"39000\":2}\",ask=\"{\"39001\":1}\",timestamp=1.5,\
         receipt_timestamp=2.5 1646762637710419\n",
    );
    assert_eq!(column(&batch.rows, "bid"), ["{\"39000.1\":1.5,\"39000\":2}"]);
    assert_eq!(column(&batch.rows, "ask"), ["{\"39001\":1}"]);
    assert_eq!(column(&batch.rows, "timestamp"), ["1.5"]);
    assert_eq!(column(&batch.rows, "delta"), ["false"]);
    assert_eq!(reason(b"t a=\"x\"y"), "expected a comma, a space or the line's end behind the quote");
}

#[test]
fn longer_lines_and_more_columns_than_allowed_are_refused() {
    let settings = LineSettings { line_bytes_max: 16, columns_max: 3, ..LineSettings::default() };
    let (batches, errors) =
        decode_with(settings, b"t a=123456789 1\nt a=1234567890 1\nt a=2,b=3 2\nt c=3 3\nt b=4 4\n");
    assert_eq!(column(&batches[0].rows, "time"), ["1", "2", "4"]);
    assert_eq!(errors[0].reason.to_string(), "longer than 16 bytes");
    assert_eq!(errors[1].reason.to_string(), "more than 3 columns");
}

#[test]
fn a_full_batch_is_taken_and_nothing_is_lost() {
    let text: String = (0..100).map(|i| format!("t{} a{}=1,s=\"xxxxxxxxxx\" {i}\n", i % 7, i % 5)).collect();
    let limits = [(3, 1024, 1 << 20), (1000, 2, 1 << 20), (1000, 1024, 1), (1000, 1024, 300)];
    for (rows_max, tables_max, batch_bytes_max) in limits {
        for chunk in [1, 7, 64, 10_000] {
            let settings = LineSettings { rows_max, tables_max, batch_bytes_max, ..LineSettings::default() };
            let mut decoder = LineDecoder::new(settings);
            let mut times = Vec::new();
            let mut take = |decoder: &mut LineDecoder| {
                let batches = decoder.take();
                assert!(batches.iter().map(|batch| batch.lines).sum::<u64>() <= rows_max as u64);
                assert!(batches.len() <= tables_max);
                times.extend(batches.iter().flat_map(|batch| column(&batch.rows, "time")));
            };
            for piece in text.as_bytes().chunks(chunk) {
                let mut used = 0;
                loop {
                    used += decoder.push(&piece[used..], NOW);
                    if !decoder.is_full() {
                        break;
                    }
                    take(&mut decoder);
                }
                assert_eq!(used, piece.len());
            }
            while !decoder.finish(NOW) {
                take(&mut decoder);
            }
            take(&mut decoder);
            times.sort_by_key(|time| time.parse::<i64>().unwrap());
            assert_eq!(times, (0..100).map(|i| i.to_string()).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_table_that_exists_gives_its_names_and_types() {
    let lookup = |name: &str| {
        let columns = vec![
            ColumnSpec::new("Sym", ColumnType::Symbol),
            ColumnSpec::new("ts", ColumnType::Timestamp),
            ColumnSpec::new("Price", ColumnType::Float64),
            ColumnSpec::new("id", ColumnType::Text),
            ColumnSpec::new("day", ColumnType::Date),
        ];
        (name == "trade").then(|| TableSpec::new("Trade", columns, "ts", Some("Sym")))
    };
    let mut decoder = LineDecoder::with_lookup(LineSettings::default(), Box::new(lookup));
    for round in 0..3 {
        let bytes = b"trade sym=\"IBM\",price=1i,id=12i,new=true 5\ntrade,sym=A price=\"x\" 6\nother a=1 7\n";
        assert_eq!(decoder.push(bytes, NOW), bytes.len());
        let batches = decoder.take();
        check(&batches[0]);
        assert_eq!(batches[0].table, "Trade");
        assert_eq!(names(&batches[0].rows), ["ts", "Sym", "Price", "id", "new"], "{round}");
        assert_eq!(column(&batches[0].rows, "Price"), ["1.0"]);
        assert_eq!(column(&batches[0].rows, "id"), ["12"]);
        assert_eq!(batches[0].spec.columns.len(), 6);
        assert_eq!(batches[0].spec.columns[5], ColumnSpec::new("new", ColumnType::Bool));
        assert_eq!(batches[1].spec.time, "time");
        assert_eq!(decoder.take_errors().len(), 1);
    }
}

#[test]
fn errors_beyond_the_limit_are_counted_only() {
    let mut decoder = LineDecoder::new(LineSettings { errors_max: 2, ..LineSettings::default() });
    let _ = decoder.push(b"x\n".repeat(10).as_slice(), NOW);
    assert_eq!(decoder.take_errors().len(), 2);
    assert_eq!(decoder.refused(), 10);
}

#[test]
fn fields_may_come_in_any_order_and_number() {
    let mut text = String::new();
    for row in 0..200usize {
        let fields: Vec<String> = (0..8)
            .map(|i| (i * 5 + row * 3) % 11)
            .filter(|i| (row + i) % 3 != 0)
            .map(|i| format!("{}{i}={row}", if row % 2 == 0 { "c" } else { "C" }))
            .collect();
        text.push_str(&format!("t {} {row}\n", fields.join(",")));
    }
    let batch = table(&text);
    for row in 0..200 {
        for i in 0..11 {
            let sent = (0..8).any(|j| (j * 5 + row * 3) % 11 == i) && (row + i) % 3 != 0;
            let name = batch.spec.columns[batch.spec.position(&format!("c{i}")).unwrap()].name.clone();
            let expected = if sent { format!("{row}.0") } else { "-".to_owned() };
            assert_eq!(column(&batch.rows, &name)[row], expected, "{row} {i}");
        }
    }
}
