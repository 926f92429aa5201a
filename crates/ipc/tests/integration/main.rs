//! Sound files and streams are read as Arrow reads them; damaged ones give an error or rows, and never end the process.
#![allow(clippy::unwrap_used)]

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    new_null_array,
};
use arrow::datatypes::{DataType, Int64Type};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use splay_ipc::{Error, FileReader, Result, StreamReader, is_file};

const CODECS: [Option<CompressionType>; 3] = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];

fn rows() -> RecordBatch {
    let sides = DictionaryArray::new(
        Int32Array::from_iter_values((0..200).map(|row| row % 2)),
        Arc::new(StringArray::from(vec!["buy", "sell"])) as ArrayRef,
    );
    RecordBatch::try_from_iter([
        ("size", Arc::new(Int64Array::from_iter_values(0..200)) as ArrayRef),
        ("price", Arc::new(Float64Array::from_iter((0..200).map(|row| (row % 3 > 0).then_some(100.25))))),
        ("side", Arc::new(sides)),
        ("venue", Arc::new(StringArray::from_iter_values((0..200).map(|row| format!("venue {row}"))))),
    ])
    .unwrap()
}

fn options(codec: Option<CompressionType>) -> IpcWriteOptions {
    IpcWriteOptions::default().try_with_compression(codec).unwrap()
}

fn file(codec: Option<CompressionType>, batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &rows().schema(), options(codec)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn stream(codec: Option<CompressionType>, batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &rows().schema(), options(codec)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<RecordBatch>> {
    if is_file(bytes) {
        FileReader::try_new(Cursor::new(bytes))?.collect()
    } else {
        StreamReader::try_new(bytes)?.collect()
    }
}

#[test]
fn sound_files_and_streams_are_read_whole() {
    for codec in CODECS {
        for batches in [vec![], vec![rows()], vec![rows(), rows().slice(7, 0), rows().slice(0, 1)]] {
            for bytes in [file(codec, &batches), stream(codec, &batches)] {
                assert_eq!(read(&bytes).unwrap(), batches, "{codec:?}");
            }
        }
    }
    let bytes = file(None, &[rows(), rows().slice(5, 9)]);
    let mut reader = FileReader::try_new(Cursor::new(bytes)).unwrap();
    assert_eq!((reader.num_batches(), reader.schema()), (2, rows().schema()));
    assert_eq!(reader.batch(1).unwrap(), rows().slice(5, 9));
    assert_eq!(reader.batch(0).unwrap(), rows());
    assert!(matches!(reader.batch(2), Err(Error::Damaged(_))));
}

#[test]
fn columns_are_those_of_the_whole_file() {
    let null: ArrayRef = new_null_array(&DataType::Null, 200);
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>((0..200).map(|row| Some((0..row % 4).map(Some))));
    let mut columns: Vec<(&str, ArrayRef)> = vec![("nothing", null), ("list", Arc::new(list))];
    let rows = rows();
    columns.extend(
        rows.schema_ref()
            .fields()
            .iter()
            .zip(rows.columns())
            .map(|(field, column)| (field.name().as_str(), Arc::clone(column))),
    );
    columns
        .push(("firm", Arc::new(BooleanArray::from_iter((0..200).map(|row| (row % 5 > 0).then_some(row % 2 == 0))))));
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    for codec in CODECS {
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &rows.schema(), options(codec)).unwrap();
        [rows.clone(), rows.slice(3, 0), rows.slice(7, 90)].iter().for_each(|batch| writer.write(batch).unwrap());
        let bytes = writer.into_inner().unwrap();
        for columns in [vec![], vec![0], vec![1], vec![2], vec![3, 5], vec![4, 6], vec![6, 2], (0..7).collect()] {
            let reader = FileReader::try_new(Cursor::new(&bytes)).unwrap().with_columns(columns.clone());
            let expected =
                [rows.clone(), rows.slice(3, 0), rows.slice(7, 90)].map(|batch| batch.project(&columns).unwrap());
            assert_eq!(reader.collect::<Result<Vec<_>>>().unwrap(), expected, "{codec:?} {columns:?}");
        }
    }
}

/// Each byte of a file changed: rows or an error, for some columns as for all.
#[test]
fn columns_of_damaged_files_are_an_error_or_rows() {
    for codec in CODECS {
        let sound = file(codec, &[rows().slice(0, 20)]);
        for place in 0..sound.len() {
            for change in [1, 0x80, 0xff] {
                let mut damaged = sound.clone();
                damaged[place] ^= change;
                let read = || {
                    let reader = FileReader::try_new(Cursor::new(&damaged))?.with_columns(vec![1, 3]);
                    reader.map(|batch| batch.map(|batch| batch.num_rows())).sum::<Result<usize>>()
                };
                // Arrow's own reader panics for some schemas, as the crate says.
                let _ = catch_unwind(AssertUnwindSafe(read));
            }
        }
    }
}

/// A stream may end without the mark of its end, as one does that is still written.
#[test]
fn a_stream_without_an_end_is_read_up_to_its_last_message() {
    let bytes = stream(None, &[rows()]);
    assert_eq!(read(&bytes[..bytes.len() - 8]).unwrap(), [rows()]);
    assert!(matches!(read(&bytes[..bytes.len() - 9]), Err(Error::Damaged("it ends within a message"))));
    assert!(matches!(read(&[]), Err(Error::Damaged("it ends before its schema"))));
}

/// Arrow's reader allocated what a buffer claimed to unpack to, and the process ended.
#[test]
fn a_length_that_no_memory_holds_is_refused() {
    let frames =
        [(CompressionType::LZ4_FRAME, [0x04, 0x22, 0x4d, 0x18]), (CompressionType::ZSTD, [0x28, 0xb5, 0x2f, 0xfd])];
    for (codec, magic) in frames {
        for mut bytes in [file(Some(codec), &[rows()]), stream(Some(codec), &[rows()])] {
            let packed = [&1_600_i64.to_le_bytes()[..], &magic].concat();
            let place = bytes.windows(packed.len()).position(|window| window == packed).unwrap();
            bytes[place + 6] |= 0x20;
            let error = read(&bytes).unwrap_err();
            assert!(matches!(error, Error::TooLarge { limit: None, .. }), "{error}");
            assert!(error.to_string().contains("more than there is memory for"), "{error}");
        }
    }
}

/// All of a buffer was unpacked before its length was compared with what it claims.
#[test]
fn lz4_that_unpacks_to_more_than_it_claims_is_refused_before() {
    let zeros: ArrayRef = Arc::new(Int64Array::from_value(0, 1 << 20));
    let batch = RecordBatch::try_from_iter([("size", zeros)]).unwrap();
    let codec = options(Some(CompressionType::LZ4_FRAME));
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), codec).unwrap();
    writer.write(&batch).unwrap();
    let mut bytes = writer.into_inner().unwrap();
    let limited = |bytes: &[u8], bytes_max| StreamReader::with_bytes_max(bytes, bytes_max).unwrap().next().unwrap();
    assert_eq!(limited(&bytes, 9 << 20).unwrap().num_rows(), 1 << 20);
    let claim = (8_i64 << 20).to_le_bytes();
    let place = bytes.windows(8).position(|window| window == claim).unwrap();
    bytes[place..place + 8].copy_from_slice(&800_i64.to_le_bytes());
    let error = limited(&bytes, 1 << 20).unwrap_err();
    assert!(matches!(error, Error::Damaged("a buffer unpacks to another length than it claims")), "{error}");
}

#[test]
fn messages_of_a_stream_unpack_to_what_is_allowed() {
    for codec in CODECS {
        let bytes = stream(codec, &[rows(), rows()]);
        let mut reader = StreamReader::try_new(&bytes[..]).unwrap();
        assert_eq!(reader.by_ref().count(), 2);
        let unpacked = reader.bytes_unpacked();
        // Eight bytes of sizes and prices, four of keys and offsets, and the texts of venues.
        assert!((2 * 200 * 24..2 * 200 * 48).contains(&unpacked), "{unpacked}");
        let limited = |bytes_max| StreamReader::with_bytes_max(&bytes[..], bytes_max).unwrap().collect::<Vec<_>>();
        assert!(limited(unpacked).iter().all(Result::is_ok));
        let last = limited(unpacked - 1).pop().unwrap();
        assert!(matches!(last, Err(Error::TooLarge { limit: Some(_), .. })), "{codec:?}");
    }
}

#[test]
fn damage_never_ends_the_process() {
    std::panic::set_hook(Box::new(|_| {}));
    for codec in CODECS {
        for whole in [file(codec, &[rows()]), stream(codec, &[rows()])] {
            for place in 0..whole.len() {
                for bit in 0..8 {
                    let mut bytes = whole.clone();
                    bytes[place] ^= 1 << bit;
                    // Arrow's reader may panic; the process is still there.
                    let _ = catch_unwind(AssertUnwindSafe(|| read(&bytes).map(drop)));
                }
            }
            for end in 0..whole.len() {
                let _ = catch_unwind(AssertUnwindSafe(|| read(&whole[..end]).map(drop)));
            }
        }
    }
    let _ = std::panic::take_hook();
}
