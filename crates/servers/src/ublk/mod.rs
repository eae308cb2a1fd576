//! A volume as a block device of the kernel, `/dev/ublkbN`.
//!
//! A thread takes the kernel's requests and hands them to the [`Service`], and never waits for one:
//! the volume's thread leaves their outcomes for it. It was not run on the machine where it was
//! developed ([`devices::ublk`]); the code between the kernel's queue and the service is tested
//! with a queue of its own.

mod requests;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use block::Waker;
use devices::ublk::{Attributes, Descriptor, Device, Queue};

use crate::{Outcome, Service, VolumeError};

pub use devices::ublk::remove_left;

/// Most requests that the kernel has under way.
const MOST_UNDER_WAY: u16 = 128;

/// Checks that the kernel has ublk, and that this process may use it.
///
/// # Errors
/// [`VolumeError::NoUblk`] with one line on what is missing.
pub fn check() -> Result<(), VolumeError> {
    devices::ublk::check().map_err(VolumeError::NoUblk)
}

/// The block device of a volume, as long as it is not [detached](Attached::detach).
pub struct Attached {
    device: Device,
    thread: JoinHandle<()>,
    failure: Arc<Mutex<Option<String>>>,
}

/// Makes a block device of a volume; with `is_read_only` it takes no writes.
///
/// # Errors
/// [`VolumeError::NoUblk`], or [`VolumeError::System`] with the kernel's error.
pub fn attach(service: Arc<Service>, is_read_only: bool) -> Result<Attached, VolumeError> {
    check()?;
    let refused = |source| VolumeError::System { action: "ublk".to_owned(), source };
    let attributes = requests::attributes(&service.shape(), is_read_only);
    let device = Device::add(&attributes, MOST_UNDER_WAY).map_err(refused)?;
    let failure: Arc<Mutex<Option<String>>> = Arc::default();
    let (to_caller, opened) = mpsc::channel();
    let (open, of_thread) = (device.opener(), failure.clone());
    let run = move || run(open, &service, &attributes, &to_caller, &of_thread);
    let thread = thread::Builder::new().name("flashwright-ublk".to_owned()).spawn(run);
    let mut attached = match thread {
        Ok(thread) => Attached { device, thread, failure },
        Err(error) => {
            let _ = device.remove();
            return Err(refused(error));
        }
    };
    let opened = opened.recv().unwrap_or_else(|_| Err(io::Error::other("its thread died")));
    match opened.and_then(|()| attached.device.start()) {
        Ok(()) => Ok(attached),
        Err(error) => {
            // The first error is the one to report.
            let _ = attached.detach();
            Err(refused(error))
        }
    }
}

impl Attached {
    /// Gives the path of the block device.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.device.path()
    }

    /// Gives the reason why it is not served any more, if it is not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes the block device, after all writes to it have ended. Those who have it open get
    /// errors from then on.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn detach(mut self) -> io::Result<()> {
        // The queue of a device that did not stop may never end: it is not waited for then.
        self.device.stop()?;
        let _ = self.thread.join();
        self.device.remove()
    }
}

/// The thread of a block device.
fn run(
    open: impl FnOnce() -> io::Result<Queue>,
    service: &Service,
    attributes: &Attributes,
    to_caller: &Sender<io::Result<()>>,
    failure: &Mutex<Option<String>>,
) {
    let mut queue = match open() {
        Ok(queue) => queue,
        Err(error) => {
            let _ = to_caller.send(Err(error));
            return;
        }
    };
    let _ = to_caller.send(Ok(()));
    if let Err(error) = serve(&mut queue, service, attributes) {
        let reason = format!("the block device is not served any more: {error}");
        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

/// Source of requests: the queue of ublk, or one of a test.
trait Requests {
    /// Waits until requests come, or the waker is called.
    fn wait(&mut self, came: &mut Vec<u16>) -> io::Result<()>;
    /// Returns true if no more requests come.
    fn is_over(&self) -> bool;
    fn descriptor(&self, tag: u16) -> Descriptor;
    fn buffer(&mut self, tag: u16) -> &mut [u8];
    fn complete(&mut self, tag: u16, result: i32);
    fn waker(&self) -> Waker;
}

impl Requests for Queue {
    fn wait(&mut self, came: &mut Vec<u16>) -> io::Result<()> {
        self.wait(came)
    }

    fn is_over(&self) -> bool {
        self.is_over()
    }

    fn descriptor(&self, tag: u16) -> Descriptor {
        self.descriptor(tag)
    }

    fn buffer(&mut self, tag: u16) -> &mut [u8] {
        self.buffer(tag)
    }

    fn complete(&mut self, tag: u16, result: i32) {
        self.complete(tag, result);
    }

    fn waker(&self) -> Waker {
        self.waker()
    }
}

/// Serves requests until no more come.
fn serve(queue: &mut impl Requests, service: &Service, attributes: &Attributes) -> io::Result<()> {
    let ended: Arc<Mutex<Vec<(u16, Outcome)>>> = Arc::default();
    let take = || std::mem::take(&mut *ended.lock().unwrap_or_else(PoisonError::into_inner));
    let waker = queue.waker();
    let mut came = Vec::new();
    while !queue.is_over() {
        queue.wait(&mut came)?;
        for tag in came.drain(..) {
            let descriptor = queue.descriptor(tag);
            match requests::request(descriptor, attributes, queue.buffer(tag)) {
                Ok(request) => {
                    let (ended, waker) = (ended.clone(), waker.clone());
                    let done = move |outcome| {
                        ended.lock().unwrap_or_else(PoisonError::into_inner).push((tag, outcome));
                        waker();
                    };
                    service.submit(request, Box::new(done));
                }
                Err(number) => queue.complete(tag, -number),
            }
        }
        for (tag, outcome) in take() {
            let result = requests::result(queue.descriptor(tag), outcome, queue.buffer(tag));
            queue.complete(tag, result);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
