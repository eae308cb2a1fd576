//! Lines of Alibaba's format, compressed by a thread of their own.

use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::error::TraceError;
use crate::writer::Output;

/// Bytes that are handed over at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Longest line: five numbers of at most 20 digits, and what is between.
const LONGEST_LINE: usize = 128;

/// A file of lines.
pub(super) struct Lines {
    chunk: Vec<u8>,
    send: SyncSender<Vec<u8>>,
    used: Receiver<Vec<u8>>,
    writer: JoinHandle<Result<(), TraceError>>,
}

impl Lines {
    pub(super) fn create(path: &Path) -> Result<Self, TraceError> {
        let output = Output::create(path)?;
        let (send, chunks) = sync_channel(2);
        let (give_back, used) = sync_channel(4);
        let writer = thread::spawn(move || {
            let mut output = output;
            for mut chunk in chunks {
                // An empty one ends the file; without it, it is not to be there.
                if Vec::is_empty(&chunk) {
                    return output.commit();
                }
                output.write_all(&chunk).map_err(|source| output.failed(source))?;
                chunk.clear();
                drop(give_back.try_send(chunk));
            }
            Ok(())
        });
        Ok(Self { chunk: Vec::with_capacity(CHUNK_BYTES), send, used, writer })
    }

    #[inline]
    pub(super) fn line(
        &mut self,
        volume: u32,
        is_write: bool,
        offset: u64,
        length: u64,
        at_us: u64,
    ) -> Result<(), TraceError> {
        if self.chunk.len() + LONGEST_LINE > CHUNK_BYTES {
            self.hand_over()?;
        }
        let out = &mut self.chunk;
        number(out, u64::from(volume));
        out.extend_from_slice(if is_write { b",W," } else { b",R," });
        number(out, offset);
        out.push(b',');
        number(out, length);
        out.push(b',');
        number(out, at_us);
        out.push(b'\n');
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), TraceError> {
        let next = self.used.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK_BYTES));
        let full = std::mem::replace(&mut self.chunk, next);
        // The writer has failed if it does not take it, and says why in the end.
        self.send.send(full).map_err(|_| TraceError::Cancelled(units::Cancelled))
    }

    /// Ends the file and gives it its name; `None` where a line could not be handed over.
    pub(super) fn finish(mut self, is_whole: bool) -> Result<(), TraceError> {
        if is_whole && (self.chunk.is_empty() || self.hand_over().is_ok()) {
            drop(self.send.send(Vec::new()));
        }
        drop(self.send);
        self.writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Appends a number in decimal.
#[inline]
fn number(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
