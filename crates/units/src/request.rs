//! A request on its way from a database to the flash.

/// Nanoseconds: a time since the start of a trace, or a duration.
pub type Nanos = u64;

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IoOp {
    /// Reads `length` bytes at `offset`.
    Read = 0,
    /// Writes `length` bytes at `offset`.
    Write = 1,
    /// Marks the data in the range as no longer needed (TRIM, DISCARD, UNMAP).
    Trim = 2,
    /// Makes all writes acknowledged before it durable. Has no range: offset and length are 0.
    Flush = 3,
}

impl IoOp {
    /// All operations, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Trim, Self::Flush];

    /// The name in tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Flush => "flush",
        }
    }

    /// The operation with this number, if there is one.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Read),
            1 => Some(Self::Write),
            2 => Some(Self::Trim),
            3 => Some(Self::Flush),
            _ => None,
        }
    }
}

/// A request: the record that every trace format is read into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IoRequest {
    /// Time of issue since the trace's start. Traces without times count requests from 0.
    pub time_ns: Nanos,
    /// The operation.
    pub op: IoOp,
    /// First byte.
    pub offset: u64,
    /// Length in bytes. 0 only for [`IoOp::Flush`].
    pub length: u32,
    /// Sender: process, queue, disk or volume, whichever the format tells; 0 if it tells none.
    pub stream: u32,
    /// Time from issue to completion, if known.
    pub latency_ns: Option<Nanos>,
    /// Placement handle of a write (NVMe FDP), below [`PLACEMENT_HANDLES`]; 0 if none is given.
    pub handle: u8,
    /// True if a write is done only when it is durable (FUA). `false` for all other operations, and
    /// where the trace does not tell.
    pub is_fua: bool,
}

impl IoRequest {
    /// A flush at the trace's start, used to fill a buffer of requests before it is read into.
    pub const NOTHING: Self = Self {
        time_ns: 0,
        op: IoOp::Flush,
        offset: 0,
        length: 0,
        stream: 0,
        latency_ns: None,
        handle: 0,
        is_fua: false,
    };
}

/// Placement handles that a namespace has at most (NVMe base specification 2.1, 8.1.10: FDP).
pub const PLACEMENT_HANDLES: u8 = 128;

// Requests are copied when played: handle and FUA take no more space than the padding did.
const _: () = assert!(size_of::<IoRequest>() == 48);
