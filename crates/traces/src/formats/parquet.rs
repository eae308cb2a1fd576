//! Flashwright's own store as one format among the others.

use std::sync::Arc;

use registry::{Args, Info, Param, ParamKind};

use crate::error::TraceError;
use crate::formats::{Fit, Format};
use crate::input::Input;
use crate::store::{StoreReader, StoreWriter, parquet_bytes, parquet_file};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "parquet",
        aliases: &["flashwright"],
        summary: "the canonical store: Parquet with time_ns, op, offset, length, stream, \
                  latency_ns, handle, fua; pandas, polars and DuckDB read it",
        source: "",
        params: &[Param {
            name: "zstd_level",
            kind: ParamKind::Integer { min: 1, max: 22 },
            default: "1",
            help: "when writing: how hard to compress",
        }],
    },
    endings: &[".parquet"],
    fit: |head| if head.bytes.starts_with(b"PAR1") { Fit::Certain } else { Fit::No },
    read: |input, _, skip_bad| {
        let position = Arc::clone(&input.position);
        if let Some(path) = input.plain_file() {
            let builder = parquet_file(path)?;
            return Ok(Box::new(StoreReader::over(builder, path, skip_bad, position)?));
        }
        // It is read from its end: what is packed, or comes through a pipe, is unpacked first.
        let path = input.path().to_owned();
        let builder = parquet_bytes(&path, unpacked(input)?)?;
        Ok(Box::new(StoreReader::over(builder, &path, skip_bad, position)?))
    },
    write: Some(|output, args: &Args, origin| {
        Ok(Box::new(StoreWriter::new(output, args.integer("zstd_level") as u32, origin)?) as _)
    }),
};

/// The most memory that a packed file takes.
const MOST_BYTES: usize = 1 << 30;

fn unpacked(input: Input) -> Result<Vec<u8>, TraceError> {
    let path = input.path().to_owned();
    let (mut bytes, mut all) = (input.into_bytes(), Vec::new());
    loop {
        let ready = bytes.ready(1)?;
        if ready.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(ready);
        let count = ready.len();
        bytes.consume(count);
        if all.len() > MOST_BYTES {
            return Err(TraceError::Unusable {
                path,
                reason: "a Parquet file of more than 1 GiB that is packed once more".to_owned(),
                right: "the file as it is: it is compressed anyhow",
            });
        }
    }
}
