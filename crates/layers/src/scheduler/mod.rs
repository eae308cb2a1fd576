//! The flash-oriented scheduler (SCHEDULER chapters 6 and 7): writes are deferred while an I/O
//! management window is open, and written out in a batch when it closes; reads pass, and see what
//! is deferred.
//!
//! # What is durable when
//! It is a volatile write cache that honours FLUSH and FUA exactly.
//!
//! - A write is acknowledged when it is in memory. Until the next FLUSH is replied to, a power cut
//!   may take it.
//! - A FLUSH closes the window. It is replied to when everything that was acknowledged before it
//!   came has been written below, and a flush below that was sent after that has been replied to.
//! - A write with FUA is sent below with FUA at once, past what is deferred. When it is replied to,
//!   older deferred writes of its sectors are void: they are neither written nor read any more. If
//!   it fails, they stay as they were.
//! - A trim is sent below at once. When it is replied to, older deferred writes of its sectors are
//!   dropped, unless a FLUSH waits that may cover them.
//! - A write of the batch or a flush below that fails poisons the layer: what was acknowledged may
//!   be lost. Commands from then on fail, except reads: what is held is read from memory. If it was
//!   a flush, and not what is below is poisoned, what is below may be older than what was
//!   acknowledged: then reads fail, too.
//! - Nothing of it is on the device: it is formatted and recovered by doing nothing.
//!
//! Converting and aligning (section 6.3.1) are done by `log_volume` below: [`expand`].

mod batch;
mod counts;
mod cuts;
mod estimate;
mod held;
mod layer;
mod methods;
mod records;
#[cfg(test)]
mod tests;

use registry::{Info, Param, ParamKind};

use crate::memory::{Memory, SMALL_BYTES, Sized};
use crate::{Addresses, LayerError, Limits, Store};
use crate::{Entry, Making, Opened};

pub use methods::{Expansion, expand};

/// In the registry.
pub static ENTRY: Entry = Entry {
    info: INFO,
    counters: counts::COUNTERS,
    addresses: Addresses::Kept,
    aside: None,
    format: |making, below| open(making, below).map(|_| ()),
    open,
    salvage: None,
    limits: |_, below| Ok(below),
    // Nothing of it is below.
    resize: |_, resizing| Ok(resizing.above),
    memory,
    structures: |_, _| Ok(Vec::new()),
    settled: None,
};

const INFO: Info = Info {
    name: "scheduler",
    aliases: &["sched"],
    summary: "defers writes until a checkpoint ends, merges them, and writes them out in a batch; \
              converts them to sequential ones",
    source: "SCHEDULER 6.3, 7.2.3, 7.2.4",
    params: &[
        Param {
            name: "methods",
            kind: ParamKind::Text,
            default: "defer,coalesce",
            help: "any of defer, coalesce, convert, align, or a name of SCHEDULER table 7.2 (drt, \
                   dfr, dfr_cls, ... dfr_cls_cnv_aln)",
        },
        Param {
            name: "window",
            kind: ParamKind::Choice(&["checkpoint_end", "checkpoint_begin", "flush"]),
            default: "checkpoint_end",
            help: "what closes the window, beside FLUSH and the limits: a checkpoint's end, its \
                   beginning, or nothing",
        },
        Param {
            name: "order",
            kind: ParamKind::Choice(&["ascending", "arrival"]),
            default: "ascending",
            help: "order of coalesced writes: by address, or at the place of the first write of \
                   what was merged (as in SCHEDULER 7.3)",
        },
        Param {
            name: "join",
            kind: ParamKind::Choice(&["yes", "no"]),
            default: "yes",
            help: "whether coalesced writes that lie side by side become one command; no: only \
                   overlapping ones are merged (as SCHEDULER 7.3 measured)",
        },
        Param {
            name: "buffer",
            kind: ParamKind::Text,
            default: "64Mi",
            help: "most bytes held in memory (theta_n), which close the window; off: as many as \
                   there are writes",
        },
        Param {
            name: "flush_time",
            kind: ParamKind::Text,
            default: "off",
            help: "longest time of writing out a window (theta_t), such as 250ms or 3 (seconds), \
                   as estimated: each write for itself; off: any",
        },
        Param {
            name: "age",
            kind: ParamKind::Text,
            default: "off",
            help: "longest time that a write stays in memory before its window is closed, such as \
                   30s; off: as long as nothing closes it",
        },
        Param {
            name: "write_time",
            kind: ParamKind::Text,
            default: "auto",
            help: "time of one write for that estimate, such as 8ms; auto: by the device's \
                   equations, sequential ones where writes are converted",
        },
        Param {
            name: "depth",
            kind: ParamKind::Integer { min: 1, max: 1024 },
            default: "1",
            help: "writes of a batch that are outstanding together; 1 is one by one, as in \
                   SCHEDULER 7.3",
        },
        Param {
            name: "log",
            kind: ParamKind::Text,
            default: "log_volume",
            help: "the log that converted writes go to, with its parameters: \
                   log=log_volume(segment=4Mi)",
        },
    ],
};

/// Beside its bytes, each sector may be a write of its own: a record, an entry of the index, and a
/// place in the window and in the batch, in lists that are twice as long while they grow.
const BYTES_PER_SECTOR: u64 = 320;

fn memory(making: &Making<'_>, below: Limits) -> Result<Sized, LayerError> {
    let Some(buffer_bytes) = methods::settings(making)?.buffer_bytes else {
        let reason =
            "buffer=off holds as many bytes as there are writes, and nothing bounds its memory: give \
             buffer=..."
                .to_owned();
        return Err(LayerError::Refused { layer: INFO.name, reason });
    };
    // The write that fills it is taken whole.
    let held = buffer_bytes + u64::from(below.most_bytes);
    let of_sectors = held / u64::from(below.sector_bytes) * BYTES_PER_SECTOR;
    let memory =
        Memory { table_bytes: SMALL_BYTES, held_bytes: held + of_sectors, opening_bytes: 0 };
    Ok(Sized { memory, above: below })
}

fn open(making: &Making<'_>, below: &mut Store<'_>) -> Opened {
    let limits = below.limits();
    if !limits.sector_bytes.is_power_of_two() {
        let reason = format!("sectors of {} bytes are not a power of two", limits.sector_bytes);
        return Err(LayerError::Refused { layer: INFO.name, reason });
    }
    Ok(Box::new(layer::Scheduler::new(methods::settings(making)?, limits)))
}
