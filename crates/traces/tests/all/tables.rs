//! Parquet tables as other tools write them: types of any kind that have one meaning, and no other.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DurationMillisecondArray, Float64Array,
    Int64Array, LargeStringArray, RecordBatch, StringArray, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use arrow_cast::cast;
use arrow_schema::DataType;

use crate::common::read_all;
use traces::{OpenOptions, open};
use units::{IoOp, IoRequest};

type Columns = Vec<(&'static str, ArrayRef)>;

fn numbers(values: [i64; 2]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn base() -> Columns {
    vec![
        ("time_ns", numbers([1000, 3000])),
        ("op", Arc::new(StringArray::from(vec!["write", "read"]))),
        ("offset", numbers([4096, 0])),
        ("length", numbers([512, 1024])),
    ]
}

fn with(name: &'static str, column: ArrayRef) -> Columns {
    let mut columns = base();
    match columns.iter_mut().find(|(other, _)| *other == name) {
        Some(found) => found.1 = column,
        None => columns.push((name, column)),
    }
    columns
}

fn read(columns: Columns) -> Result<Vec<IoRequest>, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let mut trace = open(&path, &OpenOptions::default()).map_err(|error| error.to_string())?;
    read_all(&mut trace, 10).map_err(|error| error.to_string())
}

#[test]
fn times_of_any_unit_and_zone_are_times() {
    const START: i64 = 1_795_780_800;
    let seconds = [START, START + 2];
    let times = |scale: i64| seconds.iter().map(|s| s * scale).collect::<Vec<i64>>();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampSecondArray::from(times(1))),
        Arc::new(TimestampMillisecondArray::from(times(1000))),
        Arc::new(TimestampMicrosecondArray::from(times(1_000_000))),
        Arc::new(TimestampMicrosecondArray::from(times(1_000_000)).with_timezone("+02:00")),
        Arc::new(TimestampNanosecondArray::from(times(1_000_000_000)).with_timezone("UTC")),
        Arc::new(DurationMillisecondArray::from(vec![500, 2500])),
        Arc::new(Time64MicrosecondArray::from(vec![500_000, 2_500_000])),
        numbers([0, 2_000_000_000]),
    ];
    for column in columns {
        let kind = column.data_type().clone();
        let found = read(with("time_ns", column)).unwrap();
        assert_eq!(found[1].time_ns, 2_000_000_000, "{kind}");
    }
    let latency = Arc::new(DurationMillisecondArray::from(vec![Some(5), None]));
    let found = read(with("latency_ns", latency)).unwrap();
    assert_eq!([found[0].latency_ns, found[1].latency_ns], [Some(5_000_000), None]);
}

#[test]
fn words_of_any_kind_and_case_are_operations() {
    let words = ["W", "r"];
    let plain = StringArray::from(words.to_vec());
    let wide = DataType::Dictionary(Box::new(DataType::Int64), Box::new(DataType::Utf8));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(LargeStringArray::from(words.to_vec())),
        Arc::new(StringViewArray::from(words.to_vec())),
        cast(&plain, &wide).unwrap(),
        Arc::new(plain),
        Arc::new(StringArray::from(vec!["WRITE", "Read"])),
    ];
    for column in columns {
        let kind = column.data_type().clone();
        let found = read(with("op", column)).unwrap();
        assert_eq!([found[0].op, found[1].op], [IoOp::Write, IoOp::Read], "{kind}");
    }
}

#[test]
fn whole_numbers_of_any_type_are_taken() {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Float64Array::from(vec![4096.0, 0.0])),
        Arc::new(Decimal128Array::from(vec![4096, 0]).with_precision_and_scale(38, 0).unwrap()),
        Arc::new(StringArray::from(vec!["4096", "0"])),
    ];
    for column in columns {
        let kind = column.data_type().clone();
        assert_eq!(read(with("offset", column)).unwrap()[0].offset, 4096, "{kind}");
    }
}

#[test]
fn columns_of_a_wrong_type_are_named_with_what_they_have_to_be() {
    let decimal = Decimal128Array::from(vec![409_650, 0]).with_precision_and_scale(10, 2).unwrap();
    for (name, column, words) in [
        (
            "time_ns",
            Arc::new(Date32Array::from(vec![1, 2])) as ArrayRef,
            "column `time_ns` is Date32; it has to be whole nanoseconds, a timestamp",
        ),
        ("offset", Arc::new(Float64Array::from(vec![0.5, 1.0])), "column `offset` is Float64"),
        ("offset", Arc::new(Float64Array::from(vec![f64::NAN, 1.0])), "column `offset` is"),
        ("offset", Arc::new(decimal), "column `offset` is Decimal128(10, 2)"),
        ("offset", numbers([-1, 0]), "column `offset` is Int64; it has to be whole bytes from 0"),
        ("op", numbers([0, 1]), "column `op` is Int64; it has to be text: read, write"),
        ("op", Arc::new(BooleanArray::from(vec![true, false])), "column `op` is Boolean"),
        ("length", Arc::new(StringArray::from(vec!["4k", "1"])), "column `length` is Utf8"),
        (
            "length",
            Arc::new(TimestampMicrosecondArray::from(vec![1, 2])),
            "column `length` is Timestamp",
        ),
    ] {
        let error = read(with(name, column)).unwrap_err();
        assert!(error.contains(words), "{words}: {error}");
    }
    let mut renamed = base();
    renamed[0].0 = "ts";
    renamed[2].0 = "lba";
    let error = read(renamed).unwrap_err();
    assert!(
        error.contains("no column `time_ns`") && error.contains("ts (Int64), op (Utf8), lba"),
        "{error}"
    );
}

#[test]
fn a_packed_table_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet.zst");
    let batch = RecordBatch::try_from_iter(base()).unwrap();
    let mut plain = Vec::new();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(&mut plain, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    std::fs::write(&path, zstd::encode_all(&plain[..], 1).unwrap()).unwrap();
    let mut trace = open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(read_all(&mut trace, 10).unwrap().len(), 2);
}
