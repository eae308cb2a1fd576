//! A volume at work: one thread drives it, any number of clients ask.

mod gate;
mod jobs;
mod scrub;
mod straight;
mod work;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use block::{BlockDevice as _, Data, Failure, Waker};
use bytes::Bytes;
use units::{IoOp, Lifetime};

use crate::{Figures, Header, Volume, VolumeError, VolumeMemory};
use gate::{Gate, Room, bytes_of, bytes_of_moved};
pub use scrub::{LayerScrub, ScrubFigures};
use straight::Straight;
use work::{Message, Work};

/// Requests that wait for the thread to take them; who asks more waits, too.
const MOST_WAITING: usize = 1024;

/// What a client asks: any bytes, not only whole sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Brings bytes.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Writes bytes.
    Write {
        /// First byte.
        offset: u64,
        /// What is written.
        data: Bytes,
        /// It is done only when it is durable.
        is_fua: bool,
        /// How long it is expected to live.
        lifetime: Lifetime,
    },
    /// Writes zeros.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// It is done only when it is durable.
        is_fua: bool,
        /// What is below need not keep room for them, if it can do without.
        unmaps: bool,
    },
    /// Tells that bytes are not needed any more. What they hold then is any of what they held, or
    /// zeros. Parts of sectors are left alone.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// It is done only when it is durable.
        is_fua: bool,
    },
    /// Makes durable all that was replied to before.
    Flush,
}

impl Request {
    /// As what it is counted; zeros count as written.
    pub(crate) const fn op(&self) -> IoOp {
        match self {
            Self::Read { .. } => IoOp::Read,
            Self::Write { .. } | Self::Zero { .. } => IoOp::Write,
            Self::Trim { .. } => IoOp::Trim,
            Self::Flush => IoOp::Flush,
        }
    }

    /// First byte, and bytes.
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

/// What a request came to: what was read, or nothing.
pub type Outcome = Result<Data, Failure>;
/// Called with what a request came to, on the volume's thread, or by [`Service::submit`] itself
/// where callers go the straight way.
pub type Done = Box<dyn FnOnce(Outcome) + Send>;

/// A request, and who waits for what comes of it: `done` is called once, also when the request is
/// dropped because the volume is gone.
pub(crate) struct Asked {
    request: Request,
    done: Option<Done>,
    /// Given back with it; none if whoever asks keeps the room.
    _room: Option<Room>,
}

impl Asked {
    /// What was asked.
    pub(crate) const fn request(&self) -> &Request {
        &self.request
    }

    /// Tells what came of it.
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

/// What a volume is to those who address it as a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes that users have: whole sectors.
    pub capacity_bytes: u64,
    /// Bytes of a sector: what a power cut does not tear, and what takes no reading when written.
    pub sector_bytes: u32,
    /// Trims are carried out; otherwise they fail.
    pub has_trim: bool,
    /// Trims of multiples of these bytes make zeros of them; none where they promise nothing.
    pub unmap_bytes: Option<u64>,
}

/// Where a client that waits finds what its request came to.
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

/// A volume that a thread of its own works on. Any thread may ask, through a shared reference.
///
/// Dropped without [`Service::close`] it stops where it is, as if the process had been killed; the
/// device is free again when that returns.
pub struct Service {
    sender: SyncSender<Message>,
    /// The thread waits, or is about to: whoever sends something wakes it.
    is_asleep: Arc<AtomicBool>,
    waker: Option<Waker>,
    header: Header,
    notes: Vec<String>,
    shape: Shape,
    thread: Mutex<Option<JoinHandle<Result<(), VolumeError>>>>,
    straight: Option<Straight>,
    memory: VolumeMemory,
    /// Lets requests in as far as that has room for them.
    gate: Arc<Gate>,
}

impl Service {
    /// Opens a volume on a thread of its own, by `open`, and lets it work.
    ///
    /// # Errors
    /// That of `open`, or that there is no thread.
    pub fn start(
        open: impl FnOnce() -> Result<Volume, VolumeError> + Send + 'static,
    ) -> Result<Self, VolumeError> {
        Self::begin(open, false)
    }

    /// The same for callers on many threads: where no layer is over a device in memory, or over a
    /// file or block device, they read and write it by themselves, the latter through the page
    /// cache, and the volume's thread only opens and closes it. [`Service::submit`] then returns
    /// when all is done.
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
        let straight = shared.map(|bytes| Straight::new(bytes, shape.capacity_bytes));
        Ok(Self { sender, is_asleep, waker, header, notes, shape, thread, straight, memory, gate })
    }

    /// What the volume says of itself.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// What was odd when it was opened.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Bytes that users have.
    #[must_use]
    pub const fn capacity_bytes(&self) -> u64 {
        self.shape.capacity_bytes
    }

    /// The most that the volume takes in memory.
    #[must_use]
    pub const fn memory(&self) -> &VolumeMemory {
        &self.memory
    }

    /// What it is to those who address it as a block device.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Asks, and goes on: `done` gets what came of it. It runs on the volume's thread and must not
    /// wait.
    pub fn submit(&self, request: Request, done: Done) {
        if let Some(straight) = &self.straight {
            return done(straight.call(&request));
        }
        let room = Room::of(&self.gate, bytes_of(&request));
        self.send_request(Asked { request, done: Some(done), _room: Some(room) });
    }

    /// Asks, and waits for what comes of it.
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

    /// The same for who has made room for it.
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
        // Kept until they are copied.
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

    /// What it has done so far; none if its thread is gone.
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

    /// Begins to read all that has checksums, in time that nobody else wants, or at 128 KiB each
    /// 100 ms; how far it is. Nothing begins if no layer keeps checksums, or the volume is of no
    /// use any more. None if its thread is gone.
    #[must_use]
    pub fn scrub(&self) -> Option<ScrubFigures> {
        self.ask_of_scrub(true)
    }

    /// How far that is; none if its thread is gone.
    #[must_use]
    pub fn scrub_figures(&self) -> Option<ScrubFigures> {
        self.ask_of_scrub(false)
    }

    fn ask_of_scrub(&self, begins: bool) -> Option<ScrubFigures> {
        let (sender, receiver) = mpsc::channel();
        self.send(Message::Scrub(begins, sender)).ok()?;
        receiver.recv().ok()
    }

    /// Lets all that was asked come to its end, writes back what is held back, and closes the
    /// volume.
    ///
    /// # Errors
    /// As [`Volume::close`]; also why the volume had become of no use.
    pub fn close(&self) -> Result<(), VolumeError> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(()) };
        if let Some(straight) = &self.straight {
            straight.close();
        }
        let _ = self.send(Message::Close);
        thread.join().unwrap_or_else(|_| panic!("the volume's thread died"))
    }

    /// One that comes too late is dropped, which is an answer to who waits for it.
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
        // The last reference may go with a `Done`, on the volume's own thread.
        if thread.thread().id() != thread::current().id() {
            let _ = thread.join();
        }
    }
}

/// Why what came too late is not done.
const ENDED: &str = "the volume was closed";

/// A request that came too late.
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
