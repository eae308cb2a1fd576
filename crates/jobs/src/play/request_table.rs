//! The table of the requests of a run on a simulated drive.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow_array::{
    ArrayRef, DictionaryArray, RecordBatch, StringArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ssd::drive::measure::{Delay, MeasuredRequest, RequestSink};
use traces::TraceError;
use traces::store::TableWriter;
use units::IoOp;

/// Rows encoded at once.
const BATCH_ROWS: usize = 16 << 10;

static OP_NAMES: LazyLock<ArrayRef> =
    LazyLock::new(|| Arc::new(StringArray::from_iter_values(IoOp::ALL.map(IoOp::name))));

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let op = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8));
    let columns = [
        ("submitted_ns", DataType::UInt64),
        ("completed_ns", DataType::UInt64),
        ("op", op),
        ("offset", DataType::UInt64),
        ("length", DataType::UInt32),
        ("flow", DataType::UInt32),
        ("latency_ns", DataType::UInt64),
    ];
    let delays = Delay::ALL.map(|delay| (format!("{}_ns", delay.name()), DataType::UInt64));
    let columns = columns.map(|(name, kind)| (name.to_owned(), kind)).into_iter().chain(delays);
    let fields = columns.map(|(name, kind)| Field::new(name, kind, false));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
});

/// Writes requests to a Parquet file as they end.
pub(super) struct RequestTable {
    writer: TableWriter,
    waiting: Vec<MeasuredRequest>,
    failed: Option<TraceError>,
}

impl RequestTable {
    pub(super) fn new(path: &Path) -> Result<Self, TraceError> {
        let writer =
            TableWriter::new(path, Arc::clone(&SCHEMA), &["submitted_ns", "completed_ns"])?;
        Ok(Self { writer, waiting: Vec::with_capacity(BATCH_ROWS), failed: None })
    }

    /// Writes what is left, and gives the file its name.
    pub(super) fn finish(mut self) -> Result<(), TraceError> {
        self.write_waiting();
        match self.failed {
            Some(error) => Err(error),
            None => self.writer.finish().map(drop),
        }
    }

    /// Once something has failed, nothing more is written: what came after it would have a hole
    /// before it.
    fn write_waiting(&mut self) {
        if self.failed.is_none() {
            self.failed = self.writer.write(&batch(&self.waiting)).err();
        }
        self.waiting.clear();
    }
}

impl RequestSink for RequestTable {
    #[inline]
    fn add(&mut self, request: &MeasuredRequest) {
        self.waiting.push(*request);
        if self.waiting.len() == BATCH_ROWS {
            self.write_waiting();
        }
    }

    fn check(&mut self) -> Result<(), String> {
        self.failed.as_ref().map_or(Ok(()), |error| Err(error.to_string()))
    }
}

fn batch(requests: &[MeasuredRequest]) -> RecordBatch {
    let long = |of: &dyn Fn(&MeasuredRequest) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(requests.iter().map(of)))
    };
    let short = |of: &dyn Fn(&MeasuredRequest) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(requests.iter().map(of)))
    };
    let ops = UInt8Array::from_iter_values(requests.iter().map(|request| request.op as u8));
    let mut columns: Vec<ArrayRef> = vec![
        long(&|request| request.submitted),
        long(&|request| request.submitted + request.latency),
        Arc::new(DictionaryArray::new(ops, Arc::clone(&OP_NAMES))),
        long(&|request| request.offset),
        short(&|request| request.length),
        short(&|request| request.flow),
        long(&|request| request.latency),
    ];
    columns.extend(Delay::ALL.map(|delay| long(&move |request| request.delays[delay])));
    RecordBatch::try_new(Arc::clone(&SCHEMA), columns)
        .unwrap_or_else(|e| unreachable!("the columns are those of the schema: {e}"))
}
