//! An io_uring of the kernel, set up as well as the kernel can.

#![allow(unsafe_code, reason = "the kernel reads and writes the memory of requests")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{self, SubmitArgs, Timespec};
use io_uring::{Builder, IoUring, Submitter, cqueue, opcode, squeue};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

/// Number of the timer that wakes whoever waits now and then: no request has it.
const BEAT: u64 = u64::MAX;
/// Number of the watch on the event by which another thread ends a wait.
const WOKEN: u64 = u64::MAX - 1;
/// Period of the beat, in nanoseconds. To set a timer for each wait of a request instead would take
/// some per cent of its processor time.
const BEAT_EVERY: u32 = 50_000_000;

/// Entries of a ring of NVMe commands, at least. A command for which the drive has no room is begun
/// again by another thread of the kernel, and kernels before 6.14 may read its entry anew then
/// (Linux e663da62ba86), though another command may lie there by now: one would be lost, and the
/// other done twice. So an entry is used again only after so many others.
const MOST_LATE: u32 = 4096;

/// A counter of the kernel, raised by any thread to wake the one that waits.
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// It can only fail where the counter is full: then it is raised already.
    pub fn raise(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Counts from zero again.
    pub fn lower(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// Waits until it is raised, at most so long.
    pub fn wait(&self, time: Duration) {
        let time = rustix::event::Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: time.subsec_nanos().into(),
        };
        let mut watched = [PollFd::new(&self.0, PollFlags::IN)];
        // An interrupted wait is only a short one.
        let _ = poll(&mut watched, Some(&time));
    }

    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Its entries are of the usual size, or as large as NVMe commands need.
pub(crate) struct Ring<S = squeue::Entry, C = cqueue::Entry>
where
    S: squeue::EntryMarker,
    C: cqueue::EntryMarker,
{
    inner: IoUring<S, C>,
    is_polled: bool,
    /// The kernel takes registered buffers with commands of a device.
    has_buffers_of_commands: bool,
    /// The timer is under way.
    is_beating: bool,
    /// The counter that wakes, and whether it is watched.
    wakes: Option<Arc<EventFd>>,
    is_watching: bool,
    /// In a place of its own, as the kernel reads it when the entry is sent.
    beat: Box<Timespec>,
}

impl<S: squeue::EntryMarker, C: cqueue::EntryMarker> Ring<S, C> {
    /// A ring with this file as its registered file 0. It belongs to the thread that makes it.
    pub fn new(file: &File, depth: u32, is_polled: bool) -> io::Result<Self> {
        // One entry more for the timer, and one for who wakes.
        let entries = if S::BUILD_FLAGS == 0 { depth + 2 } else { MOST_LATE.max(4 * depth) };
        let (inner, has_buffers_of_commands) = build(entries, is_polled)?;
        inner.submitter().register_files(&[file.as_raw_fd()])?;
        Ok(Self {
            inner,
            is_polled,
            has_buffers_of_commands,
            is_beating: false,
            wakes: None,
            is_watching: false,
            beat: Box::new(Timespec::new().nsec(BEAT_EVERY)),
        })
    }

    /// Gives the part of the ring that registers buffers.
    pub fn submitter(&self) -> Submitter<'_> {
        self.inner.submitter()
    }

    /// Returns true if the kernel takes registered buffers with the commands of this ring.
    pub const fn takes_buffers(&self) -> bool {
        S::BUILD_FLAGS == 0 || self.has_buffers_of_commands
    }

    /// Puts a request into the queue.
    ///
    /// # Safety
    /// Its memory must stay until it is completed, or until the ring is gone and nothing is under
    /// way.
    pub unsafe fn push(&mut self, entry: &S) {
        // SAFETY: as promised by the caller.
        let pushed = unsafe { self.inner.submission().push(entry) };
        assert!(pushed.is_ok(), "the queue has an entry for each slot");
    }

    /// Returns true if requests wait to be sent.
    pub fn has_unsent(&mut self) -> bool {
        !self.inner.submission().is_empty()
    }

    /// Sends what is unsent, and waits until at least one request is completed or the time has
    /// passed; without a time it does not wait. It may come back early. Sending and waiting are one
    /// call of the kernel, which at depth 1 is half of all.
    pub fn enter(&mut self, time: Option<Duration>) -> io::Result<()> {
        if time.is_some() {
            self.watch();
        }
        let Some(time) = time.filter(|_| !self.is_polled && self.inner.completion().is_empty())
        else {
            // A polling ring knows no time limit: the caller asks again.
            return if time.is_none() || self.is_polled || self.has_unsent() {
                without_retries(self.inner.submitter().submit())
            } else {
                Ok(())
            };
        };
        if time < 2 * Duration::from_nanos(BEAT_EVERY.into()) {
            let time = Timespec::from(time);
            return without_retries(
                self.inner.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)),
            );
        }
        self.start_beat();
        without_retries(self.inner.submitter().submit_and_wait(1))
    }

    /// From now on a wait ends when this counter is raised, too. A polling ring sees it when its
    /// caller asks again.
    pub fn wake_by(&mut self, wakes: Arc<EventFd>) {
        self.wakes = Some(wakes);
    }

    /// Watches the counter, if there is one and it is not watched.
    fn watch(&mut self) {
        if let Some(wakes) = self.wakes.as_ref().filter(|_| !self.is_watching && !self.is_polled) {
            let events = libc::POLLIN as u32;
            let entry =
                opcode::PollAdd::new(types::Fd(wakes.as_raw_fd()), events).build().user_data(WOKEN);
            // SAFETY: it names no memory, and the counter stays open as long as the ring.
            self.is_watching = unsafe { self.inner.submission().push(&entry.into()) }.is_ok();
        }
    }

    /// Sets the timer, if it is not under way.
    fn start_beat(&mut self) {
        if !self.is_beating {
            let entry = opcode::Timeout::new(&raw const *self.beat).build().user_data(BEAT);
            // SAFETY: the kernel reads the time when the entry is sent, and not after; it stays
            // where it is as long as the ring lives.
            self.is_beating = unsafe { self.inner.submission().push(&entry.into()) }.is_ok();
        }
    }

    /// Returns true if [`Ring::enter`] may bring completions.
    pub fn has_news(&mut self) -> bool {
        self.is_polled || self.inner.submission().taskrun() || !self.inner.completion().is_empty()
    }

    /// Gives back the file. No request can be pushed any more.
    pub fn let_go(&mut self) {
        // If it fails, the file is closed with the ring.
        let _ = self.inner.submitter().unregister_files();
    }

    /// Hands over the completions: the number given with the request, and the result. Returns true
    /// if somebody woke the one that waits.
    pub fn reap(&mut self, mut each: impl FnMut(u64, i32)) -> bool {
        let Self { inner, is_beating, is_watching, wakes, .. } = self;
        let mut is_woken = false;
        inner.completion().for_each(|entry| match entry.user_data() {
            BEAT => *is_beating = false,
            WOKEN => {
                (*is_watching, is_woken) = (false, true);
                wakes.iter().for_each(|wakes| wakes.lower());
            }
            number => {
                let entry: cqueue::Entry = entry.into();
                each(number, entry.result());
            }
        });
        is_woken
    }
}

/// Takes errors that only ask for another try, or tell that the time has passed, for success.
fn without_retries(entered: io::Result<usize>) -> io::Result<()> {
    match entered {
        Err(error)
            if !matches!(
                error.raw_os_error(),
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// From the newest kernel to the oldest: completions are worked off only when this thread asks
/// (6.1), without interrupting it (5.19), or as they come. With it whether commands of a device
/// take registered buffers: from 6.1 on, too.
fn build<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    depth: u32,
    is_polled: bool,
) -> io::Result<(IoUring<S, C>, bool)> {
    type SetUp<S, C> = fn(&mut Builder<S, C>);
    let ways: [SetUp<S, C>; 3] = [
        |builder| {
            builder
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_taskrun_flag()
                .setup_submit_all();
        },
        |builder| {
            builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
        },
        |_| {},
    ];
    let mut refused = None;
    for (number, set_up) in ways.into_iter().enumerate() {
        let mut builder = IoUring::<S, C>::builder();
        set_up(&mut builder);
        if is_polled {
            builder.setup_iopoll();
        }
        match builder.dontfork().build(depth) {
            Ok(ring) if ring.params().is_feature_ext_arg() => return Ok((ring, number == 0)),
            Ok(_) => {
                return Err(io::Error::other(
                    "io_uring of this kernel cannot wait for a time: Linux 5.11 or newer is needed",
                ));
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused = Some(error),
            Err(error) => return Err(explained(error)),
        }
    }
    if S::BUILD_FLAGS != 0 {
        return Err(io::Error::other(
            "io_uring of this kernel has no room for NVMe commands: Linux 5.19 or newer is needed",
        ));
    }
    Err(refused.expect("one way was tried"))
}

fn explained(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => io::Error::new(
            error.kind(),
            format!(
                "io_uring is not allowed here (see sysctl kernel.io_uring_disabled, or the \
                 container's settings): {error}"
            ),
        ),
        Some(libc::ENOMEM) => io::Error::new(
            error.kind(),
            format!("no memory for an io_uring (see ulimit -l): {error}"),
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait without a timer of its own: it has to come to an end, and not by something that looks
    /// like a request.
    #[test]
    fn the_timer_that_wakes_is_no_completion() {
        let mut ring: Ring = Ring::new(&tempfile::tempfile().unwrap(), 1, false).unwrap();
        for _ in 0..2 {
            ring.enter(Some(Duration::from_secs(3600))).unwrap();
            assert!(ring.is_beating);
            ring.reap(|number, _| panic!("nothing was sent, and {number} came back"));
            assert!(!ring.is_beating, "the timer has to be set again");
        }
    }
}
