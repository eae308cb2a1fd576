//! The queue of a ublk device: requests of the kernel, and their ends.

#![allow(unsafe_code, reason = "the kernel reads and writes the memory of requests")]

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use block::Waker;
use io_uring::{opcode, types};
use memmap2::{MmapOptions, MmapRaw};

use super::abi::{self, Added, DESCRIPTOR_BYTES, Descriptor, Fetch, Numbering};
use crate::ring::{EventFd, Ring};

/// Longest wait. Nothing is checked after it: whoever wants something wakes the queue.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Number of looks for a device node that has just been made, and the time between them.
const TRIES: u32 = 100;
const TRY_EVERY: Duration = Duration::from_millis(20);

/// The one queue of a device. It belongs to the thread that opens it.
pub struct Queue {
    ring: Ring,
    /// The kernel writes to it whenever a tag gets a request.
    descriptors: MmapRaw,
    /// The bytes of each tag's request: the kernel's until the request comes, and ours from then
    /// until it is completed.
    buffers: ManuallyDrop<MmapRaw>,
    buffer_bytes: usize,
    numbering: Numbering,
    /// True for each tag that has a request that is not completed.
    is_ours: Vec<bool>,
    /// Tags that still get requests.
    alive: usize,
    /// The first error of the kernel's that is none of a request.
    failure: Option<i32>,
    wakes: Arc<EventFd>,
    _file: File,
}

impl Queue {
    /// Opens the queue of a device that was made, and asks for a request for each tag.
    pub(super) fn open(added: Added, numbering: Numbering) -> io::Result<Self> {
        let file = open_patiently(&PathBuf::from(format!("/dev/ublkc{}", added.number)))?;
        let depth = added.depth as usize;
        let page = page_bytes();
        let length = (depth * DESCRIPTOR_BYTES).next_multiple_of(page);
        let descriptors = MmapOptions::new().len(length).populate().map_raw_read_only(&file)?;
        let buffer_bytes = (added.most_bytes as usize).next_multiple_of(page);
        let buffers = MmapOptions::new().len(depth * buffer_bytes).no_reserve_swap().map_anon()?;
        let mut ring = Ring::new(&file, u32::from(added.depth), false)?;
        let wakes = Arc::new(EventFd::new()?);
        ring.wake_by(wakes.clone());
        let mut queue = Self {
            ring,
            descriptors,
            buffers: ManuallyDrop::new(buffers.into()),
            buffer_bytes,
            numbering,
            is_ours: vec![false; depth],
            alive: depth,
            failure: None,
            wakes,
            _file: file,
        };
        for tag in 0..added.depth {
            queue.push(Fetch::First, tag, 0);
        }
        queue.ring.enter(None)?;
        Ok(queue)
    }

    fn push(&mut self, what: Fetch, tag: u16, result: i32) {
        self.is_ours[tag as usize] = false;
        let address = self.address(tag) as u64;
        let command = abi::fetch(tag, result, address);
        let entry = opcode::UringCmd16::new(types::Fixed(0), self.numbering.fetch(what))
            .cmd(command)
            .build()
            .user_data(u64::from(tag));
        // SAFETY: the buffer is the kernel's until the command ends, and is unmapped only when the
        // kernel has ended all.
        unsafe { self.ring.push(&entry) };
    }

    fn address(&self, tag: u16) -> *mut u8 {
        // SAFETY: each tag has a place within the mapping.
        unsafe { self.buffers.as_mut_ptr().add(tag as usize * self.buffer_bytes) }
    }

    /// Waits until requests come, or somebody wakes it: their tags are put into `came`. What was
    /// completed is told to the kernel first.
    ///
    /// # Errors
    /// The error of the kernel: the queue is of no use any more.
    pub fn wait(&mut self, came: &mut Vec<u16>) -> io::Result<()> {
        self.ring.enter(Some(LONGEST_WAIT))?;
        let Self { ring, is_ours, alive, failure, .. } = self;
        ring.reap(|tag, result| match result {
            0 => {
                is_ours[tag as usize] = true;
                came.push(tag as u16);
            }
            abi::ABORTED => *alive -= 1,
            other => {
                *alive -= 1;
                *failure = failure.or(Some(other));
            }
        });
        match failure.take() {
            Some(result) => Err(io::Error::from_raw_os_error(-result)),
            None => Ok(()),
        }
    }

    /// Returns true if the device was stopped: no request comes any more.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.alive == 0
    }

    /// Gives the request of a tag.
    ///
    /// # Panics
    /// If it has none.
    #[must_use]
    pub fn descriptor(&self, tag: u16) -> Descriptor {
        assert!(self.is_ours[tag as usize], "tag {tag} has no request");
        let at = tag as usize * DESCRIPTOR_BYTES;
        // SAFETY: it lies within the mapping, and the kernel leaves it alone until the request is
        // completed.
        let bytes = unsafe {
            self.descriptors.as_ptr().add(at).cast::<[u8; DESCRIPTOR_BYTES]>().read_volatile()
        };
        Descriptor::decode(&bytes)
    }

    /// The bytes of a tag's request: what is written, or a place for what is read.
    ///
    /// # Panics
    /// If it has none.
    pub fn buffer(&mut self, tag: u16) -> &mut [u8] {
        assert!(self.is_ours[tag as usize], "tag {tag} has no request");
        // SAFETY: the kernel leaves it alone until the request is completed, which borrows all of
        // the queue.
        unsafe { std::slice::from_raw_parts_mut(self.address(tag), self.buffer_bytes) }
    }

    /// Ends the request of a tag: bytes that were read or written, or a negative error number. The
    /// kernel is told by the next [`Queue::wait`].
    ///
    /// # Panics
    /// If it has none.
    pub fn complete(&mut self, tag: u16, result: i32) {
        assert!(self.is_ours[tag as usize], "tag {tag} has no request");
        self.push(Fetch::CommitAndNext, tag, result);
    }

    /// Gives a waker, which ends a [`Queue::wait`] early, or the next one, from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        let wakes = self.wakes.clone();
        Arc::new(move || wakes.raise())
    }
}

impl Drop for Queue {
    /// The kernel waits for the file when the device is deleted, and a ring goes some time after
    /// it was closed.
    fn drop(&mut self) {
        self.ring.let_go();
        if self.is_over() {
            // SAFETY: it is not used again. Otherwise the kernel may still fill it, and it is left.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
    }
}

fn page_bytes() -> usize {
    // SAFETY: it only tells a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// The kernel makes the node at once, and udev gives it its rights a moment later.
fn open_patiently(path: &Path) -> io::Result<File> {
    let mut tries = 0;
    loop {
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error)
                if tries < TRIES
                    && matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                    ) =>
            {
                tries += 1;
                std::thread::sleep(TRY_EVERY);
            }
            Err(error) => {
                let reason = format!("opening {}: {error}", path.display());
                return Err(io::Error::new(error.kind(), reason));
            }
            Ok(file) => return Ok(file),
        }
    }
}
