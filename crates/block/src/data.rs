//! Data of writes and reads: bytes that are shared, not copied.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// The bytes of a command, in one or more pieces; absent where a trace without data is played.
///
/// A layer passes on the kind that it was given: if the data is absent above, it is absent below,
/// and lengths are those of the commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// No bytes: reads and flushes before they are carried out, and everything where a trace
    /// without data is played.
    #[default]
    Absent,
    /// Bytes in one piece.
    Whole(Bytes),
    /// Bytes in several pieces, one after the other.
    Pieces(Vec<Bytes>),
}

impl Data {
    /// This many zeros.
    #[must_use]
    pub fn zeros(length: usize) -> Self {
        Self::Whole(BytesMut::zeroed(length).freeze())
    }

    /// A copy of these bytes.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self::Whole(Bytes::copy_from_slice(bytes))
    }

    /// Returns true if the data is absent.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Number of bytes: 0 if absent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces().iter().map(Bytes::len).sum()
    }

    /// Returns true if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces, in order.
    #[must_use]
    pub fn pieces(&self) -> &[Bytes] {
        match self {
            Self::Absent => &[],
            Self::Whole(bytes) => std::slice::from_ref(bytes),
            Self::Pieces(pieces) => pieces,
        }
    }

    /// A part of the data, which shares its bytes; absent if the data is.
    ///
    /// # Panics
    /// If the range is not within it.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        match self {
            Self::Absent => Self::Absent,
            Self::Whole(bytes) => Self::Whole(bytes.slice(range)),
            Self::Pieces(pieces) => {
                assert!(range.end <= self.len(), "{range:?} is not within {} bytes", self.len());
                let mut start = 0;
                let mut taken = Vec::new();
                for piece in pieces {
                    let (from, to) = (range.start.max(start), range.end.min(start + piece.len()));
                    if from < to {
                        taken.push(piece.slice(from - start..to - start));
                    }
                    start += piece.len();
                }
                Self::Pieces(taken)
            }
        }
    }

    /// Appends `more`. Either both have bytes, or both are absent, or `self` is empty so far.
    pub fn append(&mut self, more: Self) {
        *self = match (std::mem::take(self), more) {
            (Self::Absent, more) => more,
            (own, Self::Absent) => own,
            (Self::Whole(first), Self::Whole(second)) => Self::Pieces(vec![first, second]),
            (Self::Whole(first), Self::Pieces(rest)) => {
                Self::Pieces(std::iter::once(first).chain(rest).collect())
            }
            (Self::Pieces(mut pieces), more) => {
                pieces.extend_from_slice(more.pieces());
                Self::Pieces(pieces)
            }
        };
    }

    /// All bytes in one piece: shared if they already are in one piece, else copied. `None` if
    /// absent.
    #[must_use]
    pub fn joined(&self) -> Option<Bytes> {
        match self {
            Self::Absent => None,
            Self::Whole(bytes) => Some(bytes.clone()),
            Self::Pieces(pieces) => {
                let mut joined = BytesMut::with_capacity(self.len());
                for piece in pieces {
                    joined.extend_from_slice(piece);
                }
                Some(joined.freeze())
            }
        }
    }

    /// A copy with `patch` written over the bytes from `at` on; absent if either is absent.
    ///
    /// # Panics
    /// If the patch is not within it.
    #[must_use]
    pub fn patched(&self, at: usize, patch: &Self) -> Self {
        let (Some(own), Some(over)) = (self.joined(), patch.joined()) else { return Self::Absent };
        let mut bytes = BytesMut::from(own);
        bytes[at..at + over.len()].copy_from_slice(&over);
        Self::Whole(bytes.freeze())
    }

    /// Copies the bytes to `to`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy_to(&self, to: &mut [u8]) {
        assert_eq!(self.len(), to.len(), "as many bytes as there is room for");
        let mut at = 0;
        for piece in self.pieces() {
            to[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_sequence_of_bytes() {
        let mut data = Data::copy_of(b"abc");
        data.append(Data::copy_of(b"defg"));
        data.append(Data::copy_of(b"h"));
        assert_eq!(data.joined().unwrap(), "abcdefgh");
        assert_eq!(data.slice(2..5).joined().unwrap(), "cde");
        assert_eq!(data.slice(3..3).len(), 0);
        assert_eq!(data.patched(2, &Data::copy_of(b"XY")).joined().unwrap(), "abXYefgh");
        assert_eq!(data.slice(7..8).joined().unwrap(), "h");
    }

    #[test]
    fn what_is_absent_stays_so() {
        let mut data = Data::Absent;
        assert!(data.slice(3..9).is_absent() && data.patched(0, &Data::zeros(3)).is_absent());
        data.append(Data::Absent);
        assert!(data.is_absent() && data.joined().is_none());
    }
}
