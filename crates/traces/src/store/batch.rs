//! Requests to Arrow columns and back.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, RecordBatch, StringArray,
    UInt8Array, UInt32Array, UInt64Array,
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, TimeUnit};
use units::{IoOp, IoRequest, PLACEMENT_HANDLES};

use crate::error::Bad;
use crate::fields::operation;
use crate::reader::checked;
use crate::store::{COLUMNS, schema};

static OP_NAMES: LazyLock<ArrayRef> =
    LazyLock::new(|| Arc::new(StringArray::from_iter_values(IoOp::ALL.map(IoOp::name))));

/// The requests as one Arrow batch of [`schema`].
#[must_use]
pub fn to_batch(requests: &[IoRequest]) -> RecordBatch {
    let ops = UInt8Array::from_iter_values(requests.iter().map(|r| r.op as u8));
    let latencies: UInt64Array = requests.iter().map(|r| r.latency_ns).collect();
    let told = |r: &IoRequest| (r.handle > 0).then_some(r.handle);
    let handles: UInt8Array = requests.iter().map(told).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(requests.iter().map(|r| r.time_ns))),
        Arc::new(DictionaryArray::new(ops, Arc::clone(&OP_NAMES))),
        Arc::new(UInt64Array::from_iter_values(requests.iter().map(|r| r.offset))),
        Arc::new(UInt32Array::from_iter_values(requests.iter().map(|r| r.length))),
        Arc::new(UInt32Array::from_iter_values(requests.iter().map(|r| r.stream))),
        Arc::new(latencies),
        Arc::new(handles),
        Arc::new(BooleanArray::from_iter(requests.iter().map(|r| Some(r.is_fua)))),
    ];
    RecordBatch::try_new(schema(), columns)
        .unwrap_or_else(|e| unreachable!("the columns are those of the schema: {e}"))
}

/// The columns of one batch, brought to the types of [`schema`].
pub(super) struct Columns {
    time_ns: UInt64Array,
    ops: Int32Array,
    /// The operation for each key of `ops`; `None` where the text is no operation.
    op_of_key: Vec<(Option<IoOp>, String)>,
    offset: UInt64Array,
    length: UInt64Array,
    stream: Option<UInt64Array>,
    latency_ns: Option<UInt64Array>,
    handle: Option<UInt64Array>,
    fua: Option<BooleanArray>,
    /// True if times are those of a calendar.
    has_dates: bool,
}

/// The reason why a batch cannot be used at all.
pub(super) type BatchError = Box<dyn std::error::Error + Send + Sync>;

/// Says what a column has to be, for people.
fn right_of(name: &str) -> &'static str {
    match name {
        "time_ns" => "whole nanoseconds, a timestamp, a time of day or a duration",
        "op" => "text: read, write, trim or flush",
        "offset" | "length" => "whole bytes from 0",
        "latency_ns" => "whole nanoseconds or a duration",
        "fua" => "true or false",
        _ => "whole numbers from 0",
    }
}

fn cast_to(name: &str, column: &dyn Array, to: &DataType) -> Result<ArrayRef, BatchError> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, to, &options).map_err(|error| {
        let is = column.data_type();
        format!("column `{name}` is {is}; it has to be {}: {error}", right_of(name)).into()
    })
}

/// A column of whole numbers; one of times in nanoseconds.
fn whole_numbers(name: &str, column: &ArrayRef) -> Result<UInt64Array, BatchError> {
    let kind = column.data_type();
    let is_time = name.ends_with("_ns");
    let refused = || -> BatchError {
        format!("column `{name}` is {kind}; it has to be {}", right_of(name)).into()
    };
    let plain = match kind {
        DataType::Timestamp(_, zone) if name == "time_ns" => {
            let ns = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
            cast_to(name, &cast_to(name, column, &ns)?, &DataType::Int64)?
        }
        DataType::Duration(_) if is_time => {
            let ns = DataType::Duration(TimeUnit::Nanosecond);
            cast_to(name, &cast_to(name, column, &ns)?, &DataType::Int64)?
        }
        DataType::Time32(_) | DataType::Time64(_) if name == "time_ns" => {
            let ns = DataType::Time64(TimeUnit::Nanosecond);
            cast_to(name, &cast_to(name, column, &ns)?, &DataType::Int64)?
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let floats = cast_to(name, column, &DataType::Float64)?;
            let floats = floats.as_primitive::<Float64Type>();
            if let Some(value) = floats.iter().flatten().find(|value| value.fract() != 0.0) {
                return Err(format!("{}: {value} is none", refused()).into());
            }
            Arc::new(floats.clone())
        }
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale)
            if *scale <= 0 =>
        {
            Arc::clone(column)
        }
        DataType::Dictionary(_, values) => {
            let values = cast_to(name, column, values)?;
            return whole_numbers(name, &values);
        }
        kind if kind.is_integer() => Arc::clone(column),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Arc::clone(column),
        _ => return Err(refused()),
    };
    Ok(cast_to(name, &plain, &DataType::UInt64)?.as_primitive::<UInt64Type>().clone())
}

/// A column of words, each by its number.
fn words(name: &str, column: &ArrayRef) -> Result<DictionaryArray<Int32Type>, BatchError> {
    let is_text =
        |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let keyed = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let found = match column.data_type() {
        DataType::Dictionary(_, values) if **values == DataType::Utf8 => {
            cast_to(name, column, &keyed)?
        }
        DataType::Dictionary(_, values) if is_text(values) => {
            cast_to(name, &cast_to(name, column, &DataType::Utf8)?, &keyed)?
        }
        kind if is_text(kind) => cast_to(name, &cast_to(name, column, &DataType::Utf8)?, &keyed)?,
        kind => {
            return Err(
                format!("column `{name}` is {kind}; it has to be {}", right_of(name)).into()
            );
        }
    };
    Ok(found.as_dictionary::<Int32Type>().clone())
}

impl Columns {
    /// `columns` says what columns the file has, with their types.
    pub(super) fn of(batch: &RecordBatch, columns: &str) -> Result<Self, BatchError> {
        let needed = |name: &str| -> Result<&ArrayRef, BatchError> {
            let column = batch.column_by_name(name).ok_or_else(|| {
                format!(
                    "no column `{name}`, which has to be {}: the file has {columns}; a trace has {}",
                    right_of(name),
                    COLUMNS.join(", ")
                )
            })?;
            if column.null_count() > 0 {
                return Err(format!(
                    "column `{name}` has {} nulls; it must have none",
                    column.null_count()
                )
                .into());
            }
            Ok(column)
        };
        let numbers = |name: &str| {
            batch.column_by_name(name).map(|column| whole_numbers(name, column)).transpose()
        };
        let time = needed("time_ns")?;
        let ops = words("op", needed("op")?)?;
        let values = ops.values().as_string::<i32>();
        let named = |text: &str| (operation(text.as_bytes()), text.to_owned());
        let op_of_key = values.iter().map(|name| named(name.unwrap_or(""))).collect();
        let fua = batch.column_by_name("fua");
        let fua = fua.map(|column| cast_to("fua", column, &DataType::Boolean)).transpose()?;
        Ok(Self {
            time_ns: whole_numbers("time_ns", time)?,
            ops: ops.keys().clone(),
            op_of_key,
            offset: whole_numbers("offset", needed("offset")?)?,
            length: whole_numbers("length", needed("length")?)?,
            stream: numbers("stream")?,
            latency_ns: numbers("latency_ns")?,
            handle: numbers("handle")?,
            fua: fua.map(|column| column.as_boolean().clone()),
            has_dates: matches!(time.data_type(), DataType::Timestamp(..)),
        })
    }

    /// Returns true if times are those of a calendar.
    pub(super) fn has_dates(&self) -> bool {
        self.has_dates
    }

    pub(super) fn rows(&self) -> usize {
        self.time_ns.len()
    }

    #[inline]
    pub(super) fn request(&self, row: usize) -> Result<IoRequest, Bad> {
        let (op, text) = &self.op_of_key[self.ops.values()[row] as usize];
        let Some(op) = op else {
            return Err(Bad::field("op", text.as_bytes(), "read, write, trim or flush"));
        };
        let value = |column: &Option<UInt64Array>| {
            column.as_ref().filter(|c| c.is_valid(row)).map(|c| c.values()[row])
        };
        let stream = value(&self.stream).unwrap_or(0);
        let Ok(stream) = u32::try_from(stream) else {
            return Err(Bad::new(format!("stream is {stream}"), "a number below 2^32"));
        };
        let length = self.length.values()[row];
        let mut request =
            checked(self.time_ns.values()[row], *op, self.offset.values()[row], length, stream)?;
        request.latency_ns = value(&self.latency_ns);
        if let Some(handle) = value(&self.handle) {
            let fits = u8::try_from(handle).ok().filter(|handle| *handle < PLACEMENT_HANDLES);
            request.handle = fits.ok_or_else(|| {
                Bad::field(
                    "handle",
                    handle.to_string().as_bytes(),
                    "0 to 127, as many placement handles as a namespace can have, or null",
                )
            })?;
        }
        let fua = self.fua.as_ref();
        request.is_fua = *op == IoOp::Write && fua.is_some_and(|c| c.is_valid(row) && c.value(row));
        Ok(request)
    }
}
