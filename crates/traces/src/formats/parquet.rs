//! Flashwright's own store as one format among the others.

use std::sync::Arc;

use registry::{Args, Info, Param, ParamKind};

use crate::error::TraceError;
use crate::formats::{Fit, Format};
use crate::store::{StoreReader, StoreWriter};

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
        let Some(path) = input.plain_file() else {
            return Err(TraceError::Unusable {
                path: input.path().to_owned(),
                reason: "a Parquet file is read from its end".to_owned(),
                right: "a file that is neither compressed nor standard input",
            });
        };
        Ok(Box::new(StoreReader::open_counting(path, skip_bad, Arc::clone(&input.position))?))
    },
    write: Some(|output, args: &Args, origin| {
        Ok(Box::new(StoreWriter::new(output, args.integer("zstd_level") as u32, origin)?) as _)
    }),
};
