//! Requests to Arrow columns and back.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, RecordBatch, StringArray, UInt8Array,
    UInt32Array, UInt64Array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{UInt8Type, UInt32Type, UInt64Type};
use units::{IoOp, IoRequest, PLACEMENT_HANDLES};

use crate::error::Bad;
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
    ops: UInt8Array,
    /// The operation for each key of `ops`; `None` where the text is no operation.
    op_of_key: Vec<(Option<IoOp>, String)>,
    offset: UInt64Array,
    length: UInt32Array,
    stream: Option<UInt32Array>,
    latency_ns: Option<UInt64Array>,
    handle: Option<UInt8Array>,
    fua: Option<BooleanArray>,
}

/// Why a batch cannot be used at all.
pub(super) type BatchError = Box<dyn std::error::Error + Send + Sync>;

impl Columns {
    pub(super) fn of(batch: &RecordBatch) -> Result<Self, BatchError> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let column = |name: &str| -> Result<Option<ArrayRef>, BatchError> {
            let Some(column) = batch.column_by_name(name) else { return Ok(None) };
            let schema = schema();
            let wanted = schema.field_with_name(name)?.data_type();
            if column.data_type() == wanted {
                return Ok(Some(Arc::clone(column)));
            }
            let cast = cast_with_options(column, wanted, &options);
            cast.map(Some).map_err(|e| format!("column `{name}` is not {wanted}: {e}").into())
        };
        let needed = |name: &str| -> Result<ArrayRef, BatchError> {
            let column = column(name)?.ok_or_else(|| {
                let found: Vec<&str> =
                    batch.schema_ref().fields().iter().map(|f| f.name().as_str()).collect();
                let found = if found.is_empty() {
                    "none of a trace's columns".to_owned()
                } else {
                    found.join(", ")
                };
                format!(
                    "no column `{name}`: the file has {found}; a trace has {}",
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
        let ops = needed("op")?;
        let ops = ops.as_dictionary::<UInt8Type>();
        let names = ops.values().as_string::<i32>();
        let named =
            |text: &str| (IoOp::ALL.into_iter().find(|op| op.name() == text), text.to_owned());
        let op_of_key = names.iter().map(|name| named(name.unwrap_or(""))).collect();
        Ok(Self {
            time_ns: needed("time_ns")?.as_primitive::<UInt64Type>().clone(),
            ops: ops.keys().clone(),
            op_of_key,
            offset: needed("offset")?.as_primitive::<UInt64Type>().clone(),
            length: needed("length")?.as_primitive::<UInt32Type>().clone(),
            stream: column("stream")?.map(|c| c.as_primitive::<UInt32Type>().clone()),
            latency_ns: column("latency_ns")?.map(|c| c.as_primitive::<UInt64Type>().clone()),
            handle: column("handle")?.map(|c| c.as_primitive::<UInt8Type>().clone()),
            fua: column("fua")?.map(|c| c.as_boolean().clone()),
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.time_ns.len()
    }

    #[inline]
    pub(super) fn request(&self, row: usize) -> Result<IoRequest, Bad> {
        let (op, text) = &self.op_of_key[usize::from(self.ops.values()[row])];
        let Some(op) = op else {
            return Err(Bad::field("op", text.as_bytes(), "read, write, trim or flush"));
        };
        let stream =
            self.stream.as_ref().map_or(0, |c| if c.is_null(row) { 0 } else { c.values()[row] });
        let length = u64::from(self.length.values()[row]);
        let mut request =
            checked(self.time_ns.values()[row], *op, self.offset.values()[row], length, stream)?;
        request.latency_ns =
            self.latency_ns.as_ref().and_then(|c| c.is_valid(row).then(|| c.values()[row]));
        if let Some(handles) = self.handle.as_ref().filter(|c| c.is_valid(row)) {
            request.handle = handles.values()[row];
            if request.handle >= PLACEMENT_HANDLES {
                return Err(Bad::field(
                    "handle",
                    request.handle.to_string().as_bytes(),
                    "0 to 127, as many placement handles as a namespace can have, or null",
                ));
            }
        }
        let fua = self.fua.as_ref();
        request.is_fua = *op == IoOp::Write && fua.is_some_and(|c| c.is_valid(row) && c.value(row));
        Ok(request)
    }
}
