//! Writing the parts of a store: at once, or by threads beside.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::Scope;

use units::Cancelled;

use super::buffers::Block;
use crate::error::TraceError;
use crate::reader::Facts;
use crate::store::StoreWriter;
use crate::volumes::{failed, part_name, window_folder};
use crate::writer::{Origin, Output, TraceWriter};

/// A part is written once and read often, but encoding it is most of the time of a split.
const ZSTD_LEVEL: u32 = 1;

/// What is written of a volume: a part for each window that its requests lie in.
pub(super) struct Task {
    pub(super) volume: u32,
    /// Windows and the numbers of their parts.
    pub(super) parts: Vec<(u64, u64)>,
    pub(super) blocks: Vec<Block>,
    pub(super) format: String,
    pub(super) start_ns: Option<u64>,
}

/// A task that is done, and its blocks for use again.
type Done = (Vec<Block>, Result<(), TraceError>);

/// Where parts are written to.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) store: &'a Path,
    pub(super) window_ns: u64,
}

impl Place<'_> {
    fn write(self, task: &Task) -> Result<(), TraceError> {
        task.parts.iter().try_for_each(|(window, number)| self.write_part(task, *window, *number))
    }

    fn write_part(self, task: &Task, window: u64, number: u64) -> Result<(), TraceError> {
        let folder = window_folder(self.store, task.volume, window);
        fs::create_dir_all(&folder).map_err(failed(&folder, "create"))?;
        let origin =
            Origin { sources: Vec::new(), format: task.format.clone(), streams_are_volumes: true };
        let output = Output::create(&folder.join(part_name(number)))?.flushed_later();
        let mut writer = StoreWriter::new(output, ZSTD_LEVEL, &origin)?;
        let from = window * self.window_ns;
        let until = from.saturating_add(self.window_ns);
        let mut requests = Vec::new();
        for block in &task.blocks {
            let all = block.requests(task.volume);
            requests.extend(all.filter(|one| one.time_ns >= from && one.time_ns < until));
            writer.write(&requests)?;
            requests.clear();
        }
        let facts = Facts { start_ns: task.start_ns, ..Facts::default() };
        Box::new(writer).finish(&facts).map(drop)
    }
}

/// Threads that do tasks.
struct Threads {
    send: Sender<Task>,
    tasks: Arc<Mutex<Receiver<Task>>>,
    done: Receiver<Done>,
}

impl Threads {
    /// Takes back a task that no thread has begun.
    fn next(&self) -> Option<Task> {
        match self.tasks.try_lock() {
            Ok(tasks) => tasks.try_recv().ok(),
            Err(TryLockError::Poisoned(tasks)) => tasks.into_inner().try_recv().ok(),
            // A thread waits for one: there is none.
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Takes tasks: does them itself, or has threads that do.
pub(super) struct Writers<'a> {
    place: Place<'a>,
    threads: Option<Threads>,
    /// Tasks that threads have.
    waiting: usize,
    done: Vec<Block>,
}

impl<'a> Writers<'a> {
    /// Does tasks at once.
    pub(super) fn none(place: Place<'a>) -> Self {
        Self { place, threads: None, waiting: 0, done: Vec::new() }
    }

    /// Has threads that do tasks until it is dropped.
    pub(super) fn start<'scope>(
        place: Place<'a>,
        scope: &'scope Scope<'scope, '_>,
        count: u64,
    ) -> Self
    where
        'a: 'scope,
    {
        let (send, tasks) = channel::<Task>();
        let (say, done) = channel();
        let tasks = Arc::new(Mutex::new(tasks));
        let threads = Threads { send, tasks: Arc::clone(&tasks), done };
        for _ in 0..count {
            let (tasks, say) = (Arc::clone(&tasks), say.clone());
            scope.spawn(move || {
                let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
                while let Ok(task) = next() {
                    let written = place.write(&task);
                    if say.send((task.blocks, written)).is_err() {
                        break;
                    }
                }
            });
        }
        Self { place, threads: Some(threads), waiting: 0, done: Vec::new() }
    }

    /// Takes a task.
    pub(super) fn take(&mut self, task: Task) -> Result<(), TraceError> {
        match &self.threads {
            None => {
                self.place.write(&task)?;
                self.done.extend(task.blocks);
            }
            Some(threads) => {
                // If no thread takes it, all have panicked: that is what is said in the end.
                threads.send.send(task).map_err(|_| TraceError::Cancelled(Cancelled))?;
                self.waiting += 1;
            }
        }
        Ok(())
    }

    /// Blocks of tasks that are done since it was asked last; if there are none, does a task that
    /// no thread has begun, or waits for one.
    pub(super) fn blocks(&mut self) -> Result<Vec<Block>, TraceError> {
        while let Some(threads) = self.threads.as_ref().filter(|_| self.waiting > 0) {
            let next = match threads.done.try_recv() {
                Ok(done) => done,
                Err(_) if !self.done.is_empty() => break,
                Err(_) => match threads.next() {
                    Some(task) => {
                        let written = self.place.write(&task);
                        (task.blocks, written)
                    }
                    None => threads.done.recv().map_err(|_| TraceError::Cancelled(Cancelled))?,
                },
            };
            let (blocks, written) = next;
            self.waiting -= 1;
            self.done.extend(blocks);
            written?;
        }
        Ok(std::mem::take(&mut self.done))
    }

    /// Waits until all tasks are done; gives their blocks.
    pub(super) fn finish(&mut self) -> Result<Vec<Block>, TraceError> {
        let mut blocks = self.blocks()?;
        while self.waiting > 0 {
            blocks.extend(self.blocks()?);
        }
        Ok(blocks)
    }
}
