//! An io_uring of the kernel, set up as well as the kernel can.

#![allow(unsafe_code, reason = "the kernel reads and writes the memory of requests")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{Builder, IoUring, squeue};

pub(crate) struct Ring {
    inner: IoUring,
    is_polled: bool,
}

impl Ring {
    /// A ring with this file as its registered file 0. It belongs to the thread that makes it.
    pub fn new(file: &File, depth: u32, is_polled: bool) -> io::Result<Self> {
        let inner = build(depth, is_polled)?;
        inner.submitter().register_files(&[file.as_raw_fd()])?;
        Ok(Self { inner, is_polled })
    }

    pub fn io(&self) -> &IoUring {
        &self.inner
    }

    /// Puts a request into the queue.
    ///
    /// # Safety
    /// Its memory must stay until it is completed, or until the ring is gone and nothing is under way.
    pub unsafe fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: as promised by the caller.
        let pushed = unsafe { self.inner.submission().push(entry) };
        assert!(pushed.is_ok(), "the queue has an entry for each slot");
    }

    /// Whether requests wait to be sent.
    pub fn has_unsent(&mut self) -> bool {
        !self.inner.submission().is_empty()
    }

    /// Sends what is unsent, and waits until at least one request is completed or the time has passed; without a time it does not wait. It
    /// may come back early.
    pub fn enter(&mut self, time: Option<Duration>) -> io::Result<()> {
        if time.is_none() || self.is_polled || self.has_unsent() {
            without_retries(self.inner.submitter().submit())?;
        }
        match time {
            // A polling ring knows no time limit: the caller asks again.
            Some(time) if !self.is_polled && self.inner.completion().is_empty() => {
                let time = Timespec::from(time);
                without_retries(self.inner.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)))
            }
            _ => Ok(()),
        }
    }

    /// Whether [`Ring::enter`] may bring completions.
    pub fn has_news(&mut self) -> bool {
        self.is_polled || self.inner.submission().taskrun() || !self.inner.completion().is_empty()
    }

    /// Gives back the file. No request can be pushed any more.
    pub fn let_go(&mut self) {
        // If it fails, the file is closed with the ring.
        let _ = self.inner.submitter().unregister_files();
    }

    /// Hands over what is completed: the number given with the request, and the result.
    pub fn reap(&mut self, mut each: impl FnMut(u64, i32)) {
        self.inner.completion().for_each(|entry| each(entry.user_data(), entry.result()));
    }
}

/// What only asks to be tried again, or tells that the time has passed, is no error.
fn without_retries(entered: io::Result<usize>) -> io::Result<()> {
    match entered {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)) => Err(error),
        _ => Ok(()),
    }
}

/// From the newest kernel to the oldest: completions are worked off only when this thread asks (6.1), without interrupting it (5.19), or as
/// they come.
fn build(depth: u32, is_polled: bool) -> io::Result<IoUring> {
    type SetUp = fn(&mut Builder);
    let ways: [SetUp; 3] = [
        |builder| {
            builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
        },
        |builder| {
            builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
        },
        |_| {},
    ];
    let mut refused = None;
    for set_up in ways {
        let mut builder = IoUring::builder();
        set_up(&mut builder);
        if is_polled {
            builder.setup_iopoll();
        }
        match builder.dontfork().build(depth) {
            Ok(ring) if ring.params().is_feature_ext_arg() => return Ok(ring),
            Ok(_) => return Err(io::Error::other("io_uring of this kernel cannot wait for a time: Linux 5.11 or newer is needed")),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused = Some(error),
            Err(error) => return Err(explained(error)),
        }
    }
    Err(refused.expect("one way was tried"))
}

fn explained(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => io::Error::new(
            error.kind(),
            format!("io_uring is not allowed here (see sysctl kernel.io_uring_disabled, or the container's settings): {error}"),
        ),
        Some(libc::ENOMEM) => io::Error::new(error.kind(), format!("no memory for an io_uring (see ulimit -l): {error}")),
        _ => error,
    }
}
