//! A volume at work: one thread drives it, and any number of clients send requests.

mod gate;
mod jobs;
mod scrub;
mod straight;
mod work;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use block::{BlockDevice as _, Data, Extent, Failure, Waker};
use bytes::Bytes;
use units::{IoOp, Lifetime};

use crate::{Figures, Header, Shape, Volume, VolumeError, VolumeMemory};
use gate::{Gate, Room, bytes_of, bytes_of_moved};
pub use scrub::{LayerScrub, ScrubFigures};
use straight::Straight;
use work::{Message, Work};

/// Most requests that wait for the thread to take them; further clients wait, too.
const MOST_WAITING: usize = 1024;

/// Request of a client: of any bytes, not only whole sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads bytes.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
    },
    /// Writes bytes.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes to be written.
        data: Bytes,
        /// True if it is done only when it is durable.
        is_fua: bool,
        /// Hint of their expected lifetime.
        lifetime: Lifetime,
    },
    /// Writes zeros.
    Zero {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// True if it is done only when it is durable.
        is_fua: bool,
        /// True if layers below need not keep room for them.
        unmaps: bool,
    },
    /// Trims bytes that are not needed any more. Each of them then has any of its earlier values,
    /// or is zero. Parts of sectors are left alone.
    Trim {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// True if it is done only when it is durable.
        is_fua: bool,
    },
    /// Makes durable all that was replied to before.
    Flush,
}

impl Request {
    /// Gives the kind as which it is counted; zeros count as written.
    pub(crate) const fn op(&self) -> IoOp {
        match self {
            Self::Read { .. } => IoOp::Read,
            Self::Write { .. } | Self::Zero { .. } => IoOp::Write,
            Self::Trim { .. } => IoOp::Trim,
            Self::Flush => IoOp::Flush,
        }
    }

    /// Gives the first byte, and the number of bytes.
    pub(crate) fn range(&self) -> (u64, u64) {
        match self {
            Self::Read { offset, length } => (*offset, u64::from(*length)),
            Self::Write { offset, data, .. } => (*offset, data.len() as u64),
            Self::Zero { offset, length, .. } | Self::Trim { offset, length, .. } => {
                (*offset, *length)
            }
            Self::Flush => (0, 0),
        }
    }
}

/// Outcome of a request: data of a read, or nothing.
pub type Outcome = Result<Data, Failure>;
/// Function that is called with the outcome of a request, on the volume's thread, or by
/// [`Service::submit`] itself if there is direct access to the device.
pub type Done = Box<dyn FnOnce(Outcome) + Send>;

/// A request, and the one who waits for its outcome: `done` is called once, also when the request
/// is dropped because the volume is gone.
pub(crate) struct Asked {
    request: Request,
    done: Option<Done>,
    /// Room that is given back with it; none if the client keeps the room.
    _room: Option<Room>,
}

impl Asked {
    /// Gives the request.
    pub(crate) const fn request(&self) -> &Request {
        &self.request
    }

    /// Tells the outcome.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: Outcome) {
        if let Some(done) = self.done.take() {
            done(outcome);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.done.is_some() {
            self.tell(Err(ended(&self.request)));
        }
    }
}

/// Place where a waiting client finds the outcome of its request.
#[derive(Debug, Default)]
struct Ticket {
    outcome: Mutex<Option<Outcome>>,
    is_there: Condvar,
}

impl Ticket {
    fn put(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.is_there.notify_one();
    }

    fn wait(&self) -> Outcome {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = outcome.take() {
                return outcome;
            }
            outcome = self.is_there.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A volume that a thread of its own works on. Any thread may send requests, through a shared
/// reference.
///
/// Dropped without [`Service::close`] it stops at once, as if the process had been killed; the
/// device is free again when that returns.
pub struct Service {
    sender: SyncSender<Message>,
    /// True if the thread waits, or is about to: a sender has to wake it.
    is_asleep: Arc<AtomicBool>,
    waker: Option<Waker>,
    header: Header,
    notes: Vec<String>,
    shape: Shape,
    thread: Mutex<Option<JoinHandle<Result<(), VolumeError>>>>,
    straight: Option<Straight>,
    memory: VolumeMemory,
    /// Gate that limits the memory of requests.
    gate: Arc<Gate>,
}

impl Service {
    /// Opens a volume on a thread of its own, by `open`, and lets it work.
    ///
    /// # Errors
    /// The error of `open`, or that there is no thread.
    pub fn start(
        open: impl FnOnce() -> Result<Volume, VolumeError> + Send + 'static,
    ) -> Result<Self, VolumeError> {
        Self::begin(open, false)
    }

    /// Does the same for callers on many threads: without layers over a device in memory, or over a
    /// file or block device, they read and write it directly, the latter through the page cache,
    /// and the volume's thread only opens and closes it. [`Service::submit`] then returns when all
    /// is done.
    ///
    /// # Errors
    /// As [`Service::start`].
    pub fn start_straight(
        open: impl FnOnce() -> Result<Volume, VolumeError> + Send + 'static,
    ) -> Result<Self, VolumeError> {
        Self::begin(open, true)
    }

    fn begin(
        open: impl FnOnce() -> Result<Volume, VolumeError> + Send + 'static,
        is_straight: bool,
    ) -> Result<Self, VolumeError> {
        let (sender, receiver) = mpsc::sync_channel(MOST_WAITING);
        let (to_caller, opened) = mpsc::channel();
        let is_asleep = Arc::new(AtomicBool::new(false));
        let of_thread = is_asleep.clone();
        let run = move || {
            let mut volume = match open() {
                Ok(volume) => volume,
                Err(error) => {
                    let _ = to_caller.send(Err(error));
                    return Ok(());
                }
            };
            let waker = volume.driver.device_waker();
            let about = (volume.header().clone(), volume.notes().to_vec(), volume.shape());
            let memory = volume.memory().clone();
            let gate = Arc::new(Gate::new(memory.request_bytes));
            let can_be_woken = waker.is_some();
            let shared = if is_straight { volume.driver.shared() } else { None };
            let _ = to_caller.send(Ok((waker, about, shared, memory, gate.clone())));
            Work::new(volume, receiver, of_thread, can_be_woken, gate).run()
        };
        let failed = |source| VolumeError::System { action: "starting a thread".into(), source };
        let thread = thread::Builder::new()
            .name("flashwright-volume".to_owned())
            .spawn(run)
            .map_err(failed)?;
        let (waker, (header, notes, shape), shared, memory, gate) =
            opened.recv().unwrap_or_else(|_| panic!("the volume's thread died while it opened"))?;
        let thread = Mutex::new(Some(thread));
        let straight = shared.map(|bytes| Straight::new(bytes, shape));
        Ok(Self { sender, is_asleep, waker, header, notes, shape, thread, straight, memory, gate })
    }

    /// Gives the header of the volume.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Gives the notes on damage of its opening.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Gives the bytes that users have.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.shape.capacity_bytes
    }

    /// Gives the most memory that the volume takes.
    #[must_use]
    pub const fn memory(&self) -> &VolumeMemory {
        &self.memory
    }

    /// Gives its shape as a block device.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Sends a request, and returns: `done` gets the outcome. It runs on the volume's thread and
    /// must not wait.
    pub fn submit(&self, request: Request, done: Done) {
        if let Some(straight) = &self.straight {
            return done(straight.call(&request));
        }
        let room = Room::of(&self.gate, bytes_of(&request));
        self.send_request(Asked { request, done: Some(done), _room: Some(room) });
    }

    /// Sends a request, and waits for its outcome.
    ///
    /// # Errors
    /// [`Failure`] of the request.
    pub fn call(&self, request: Request) -> Outcome {
        if let Some(straight) = &self.straight {
            return straight.call(&request);
        }
        let _room = Room::of(&self.gate, bytes_of(&request));
        self.call_inside(request)
    }

    /// Does the same for a caller that has made room for it.
    fn call_inside(&self, request: Request) -> Outcome {
        let ticket = Arc::new(Ticket::default());
        let other = ticket.clone();
        let done: Done = Box::new(move |outcome| other.put(outcome));
        self.send_request(Asked { request, done: Some(done), _room: None });
        ticket.wait()
    }

    /// Reads bytes from an offset on, and waits for them.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        if let Some(straight) = &self.straight {
            return straight.read(offset, bytes);
        }
        let request = Request::Read { offset, length: bytes.len() as u32 };
        // The room is kept until the bytes are copied.
        let _room = Room::of(&self.gate, bytes_of(&request));
        self.call_inside(request).map(|data| data.copy_to(bytes))
    }

    /// Writes bytes without a hint, and waits until they are written; with FUA until they are
    /// durable.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn write_at(&self, offset: u64, bytes: &[u8], is_fua: bool) -> Result<(), Failure> {
        if let Some(straight) = &self.straight {
            return straight.write(offset, bytes, is_fua);
        }
        // The copy takes room, too.
        let _room = Room::of(&self.gate, bytes_of_moved(bytes.len() as u64));
        let data = Bytes::copy_from_slice(bytes);
        let request = Request::Write { offset, data, is_fua, lifetime: Lifetime::NotSet };
        self.call_inside(request).map(|_| ())
    }

    /// Gives its metrics so far; none if its thread is gone.
    #[must_use]
    pub fn figures(&self) -> Option<Figures> {
        let (sender, receiver) = mpsc::channel();
        self.send(Message::Figures(sender)).ok()?;
        let mut figures = receiver.recv().ok()?;
        if let Some(straight) = &self.straight {
            straight.add_to(&mut figures);
        }
        Some(figures)
    }

    /// Gives the holes among these bytes, in their order; only of the first bytes, if the list
    /// would be long. None if its thread is gone.
    #[must_use]
    pub fn extents(&self, offset: u64, length: u64) -> Option<Vec<Extent>> {
        let (sender, receiver) = mpsc::channel();
        self.send(Message::Extents(offset, length, sender)).ok()?;
        receiver.recv().ok()
    }

    /// Begins to read all that has checksums, in idle time, or else at 128 KiB each 100 ms; gives
    /// the progress. Nothing begins if no layer keeps checksums, or the volume has become unusable.
    /// None if its thread is gone.
    #[must_use]
    pub fn scrub(&self) -> Option<ScrubFigures> {
        self.ask_of_scrub(true)
    }

    /// Gives the progress of that; none if its thread is gone.
    #[must_use]
    pub fn scrub_figures(&self) -> Option<ScrubFigures> {
        self.ask_of_scrub(false)
    }

    fn ask_of_scrub(&self, begins: bool) -> Option<ScrubFigures> {
        let (sender, receiver) = mpsc::channel();
        self.send(Message::Scrub(begins, sender)).ok()?;
        receiver.recv().ok()
    }

    /// Lets all requests end, writes back what is held back, and closes the volume.
    ///
    /// # Errors
    /// As [`Volume::close`]; also the failure that made the volume unusable.
    pub fn close(&self) -> Result<(), VolumeError> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(()) };
        if let Some(straight) = &self.straight {
            straight.close();
        }
        let _ = self.send(Message::Close);
        thread.join().unwrap_or_else(|_| panic!("the volume's thread died"))
    }

    /// Sends a request. One that comes too late is dropped, which tells the client so.
    fn send_request(&self, asked: Asked) {
        let _ = self.send(Message::Request(asked));
    }

    fn send(&self, message: Message) -> Result<(), Message> {
        self.sender.send(message).map_err(|error| error.0)?;
        if self.is_asleep.swap(false, Ordering::SeqCst)
            && let Some(waker) = &self.waker
        {
            waker();
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        if let Some(straight) = &self.straight {
            straight.close();
        }
        let _ = self.send(Message::Stop);
        // The last reference may be dropped with a `Done`, on the volume's own thread.
        if thread.thread().id() != thread::current().id() {
            let _ = thread.join();
        }
    }
}

/// Reason why a request that came too late fails.
const ENDED: &str = "the volume was closed";

/// Gives the failure of a request that came too late.
fn ended(request: &Request) -> Failure {
    let (offset, length) = request.range();
    Failure::Io {
        op: request.op(),
        offset,
        length: length.min(u64::from(u32::MAX)) as u32,
        reason: ENDED.into(),
    }
}

#[cfg(test)]
mod tests;
