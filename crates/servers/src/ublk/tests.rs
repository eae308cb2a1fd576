//! Tests with requests as of the kernel, over a queue of their own, against plain bytes.

use std::sync::Condvar;
use std::time::Duration;

use devices::ublk::{FUA, NO_UNMAP, SECTOR};
use layers::Facts;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::{Creating, Request, Volume};

const TAGS: usize = 8;
const BUFFER: usize = 16 << 10;
const PATIENCE: Duration = Duration::from_secs(60);

/// State that the kernel and the test share.
#[derive(Default)]
struct State {
    /// Requests that the queue has not taken.
    asked: Vec<(u16, Descriptor, Vec<u8>)>,
    /// Result and bytes of each tag's request.
    ended: Vec<Option<(i32, Vec<u8>)>>,
    is_woken: bool,
    is_over: bool,
    waits: u32,
    is_waiting: bool,
}

#[derive(Clone, Default)]
struct Kernel(Arc<(Mutex<State>, Condvar)>);

impl Kernel {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
        changed
    }

    fn until<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut state = self.0.0.lock().unwrap();
        loop {
            if let Some(found) = look(&mut state) {
                return found;
            }
            let (again, waited) = self.0.1.wait_timeout(state, PATIENCE).unwrap();
            assert!(!waited.timed_out(), "nothing came");
            state = again;
        }
    }

    fn ask(&self, tag: u16, op_flags: u32, range: (u64, u32), bytes: &[u8]) {
        let (first_sector, sectors) = range;
        let descriptor = Descriptor { op_flags, sectors, first_sector };
        self.change(|state| {
            state.ended.resize(TAGS, None);
            state.ended[tag as usize] = None;
            state.asked.push((tag, descriptor, bytes.to_vec()));
        });
    }

    fn end(&self, tag: u16) -> (i32, Vec<u8>) {
        self.until(|state| state.ended[tag as usize].take())
    }

    fn do_now(&self, op_flags: u32, range: (u64, u32), bytes: &[u8]) -> (i32, Vec<u8>) {
        self.ask(0, op_flags, range, bytes);
        self.end(0)
    }
}

struct Fake {
    kernel: Kernel,
    descriptors: Vec<Option<Descriptor>>,
    buffers: Vec<Vec<u8>>,
}

impl Requests for Fake {
    fn wait(&mut self, came: &mut Vec<u16>) -> io::Result<()> {
        self.kernel.change(|state| (state.waits, state.is_waiting) = (state.waits + 1, true));
        let taken = self.kernel.until(|state| {
            let is_news = !state.asked.is_empty() || state.is_woken || state.is_over;
            state.is_woken &= !is_news;
            state.is_waiting = !is_news;
            is_news.then(|| std::mem::take(&mut state.asked))
        });
        for (tag, descriptor, bytes) in taken {
            self.buffers[tag as usize][..bytes.len()].copy_from_slice(&bytes);
            let before = self.descriptors[tag as usize].replace(descriptor);
            assert_eq!(before, None, "tag {tag} had a request");
            came.push(tag);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.kernel.change(|state| state.is_over)
    }

    fn descriptor(&self, tag: u16) -> Descriptor {
        self.descriptors[tag as usize].expect("it has a request")
    }

    fn buffer(&mut self, tag: u16) -> &mut [u8] {
        &mut self.buffers[tag as usize]
    }

    fn complete(&mut self, tag: u16, result: i32) {
        let descriptor = self.descriptors[tag as usize].take().expect("it has a request");
        let length = (descriptor.sectors as usize * 512).min(BUFFER);
        let bytes = self.buffers[tag as usize][..length].to_vec();
        self.kernel.change(|state| state.ended[tag as usize] = Some((result, bytes)));
    }

    fn waker(&self) -> Waker {
        let kernel = self.kernel.clone();
        Arc::new(move || kernel.change(|state| state.is_woken = true))
    }
}

struct Served {
    kernel: Kernel,
    service: Arc<Service>,
    thread: Option<JoinHandle<()>>,
}

fn served(stack: &str, is_read_only: bool) -> Served {
    let creating = Creating {
        device: "memory(bytes=8Mi)".to_owned(),
        stack: stack.to_owned(),
        facts: Facts::default(),
        seed: 3,
        destroys: false,
        staging: None,
    };
    let service = Arc::new(Service::start(move || Volume::create(&creating)).unwrap());
    let kernel = Kernel::default();
    let mut queue = Fake {
        kernel: kernel.clone(),
        descriptors: vec![None; TAGS],
        buffers: vec![vec![0; BUFFER]; TAGS],
    };
    let attributes = requests::attributes(&service.shape(), is_read_only);
    let of_thread = service.clone();
    let run = move || serve(&mut queue, &of_thread, &attributes).unwrap();
    Served { kernel, service, thread: Some(thread::spawn(run)) }
}

impl Served {
    fn stop(mut self) {
        self.kernel.change(|state| state.is_over = true);
        self.thread.take().expect("it is served").join().unwrap();
        self.service.close().unwrap();
    }
}

/// Writes, zeros, trims and reads on the first 256 KiB, with all tags at once where they do not
/// overlap.
#[test]
fn what_the_kernel_reads_is_what_it_wrote() {
    const SECTORS: u64 = 512;
    for (stack, is_whole_trim) in [
        ("direct", false),
        ("log_volume(segment=64Ki)", true),
        ("stable_buffer(size=256Ki)", false),
    ] {
        let served = served(stack, false);
        let mut rng = Pcg64Mcg::seed_from_u64(11);
        let mut plain = vec![0_u8; (SECTORS * SECTOR) as usize];
        let zero = served.kernel.do_now(5, (0, SECTORS as u32), &[]);
        assert_eq!(zero.0, 0);
        for _ in 0..400 {
            let part = SECTORS / TAGS as u64;
            let mut expected = Vec::new();
            for tag in 0..TAGS as u64 {
                let sectors = rng.random_range(1..=16_u64);
                let first = tag * part + rng.random_range(0..=part - sectors);
                let at = (first * SECTOR) as usize..((first + sectors) * SECTOR) as usize;
                let (op, mut bytes) = (rng.random_range(0..5), Vec::new());
                let op_flags = match op {
                    0 | 1 => {
                        bytes = (0..sectors * SECTOR).map(|_| rng.random()).collect();
                        plain[at.clone()].copy_from_slice(&bytes);
                        1 | if op == 0 { FUA } else { 0 }
                    }
                    2 => {
                        plain[at.clone()].fill(0);
                        5 | if rng.random() { NO_UNMAP } else { 0 }
                    }
                    3 if is_whole_trim => 2,
                    _ => 0,
                };
                served.kernel.ask(tag as u16, op_flags, (first, sectors as u32), &bytes);
                expected.push((op_flags & 0xff, plain[at].to_vec()));
            }
            for (tag, (op, bytes)) in expected.into_iter().enumerate() {
                let (result, read) = served.kernel.end(tag as u16);
                match op {
                    0 => assert!(read == bytes && result as usize == bytes.len(), "{stack}"),
                    1 => assert_eq!(result as usize, bytes.len(), "{stack}"),
                    _ => assert_eq!(result, 0, "{stack}"),
                }
            }
        }
        served.stop();
    }
}

#[test]
fn what_cannot_be_done_is_told_and_the_rest_goes_on() {
    let served = served("direct", false);
    let kernel = &served.kernel;
    let end = (served.service.capacity_bytes() / SECTOR) as u32;
    assert_eq!(kernel.do_now(0, (u64::from(end), 1), &[]).0, -libc::EINVAL);
    assert_eq!(kernel.do_now(13, (0, 1), &[]).0, -libc::EOPNOTSUPP);
    assert_eq!(kernel.do_now(1, (u64::from(end) - 1, 1), &[9; 512]).0, 512);
    assert_eq!(kernel.do_now(0, (u64::from(end) - 1, 1), &[]), (512, vec![9; 512]));
    // The volume is closed below it.
    served.service.close().unwrap();
    assert_eq!(kernel.do_now(0, (0, 1), &[]).0, -libc::EIO);
    assert_eq!(kernel.do_now(2, (0, 0), &[]).0, -libc::EIO);
    served.stop();
}

#[test]
fn a_device_for_reading_refuses_writes_alone() {
    let served = served("direct", true);
    assert_eq!(served.kernel.do_now(1, (0, 1), &[9; 512]).0, -libc::EROFS);
    assert_eq!(served.kernel.do_now(0, (0, 1), &[]).0, 512);
    assert_eq!(served.kernel.do_now(2, (0, 0), &[]).0, 0);
    served.stop();
}

/// The volume's thread is held up, and the queue's thread still takes requests.
#[test]
fn the_queue_never_waits_for_the_volume() {
    let served = served("direct", false);
    let (go, held) = mpsc::channel::<()>();
    let hold = move |_| held.recv().unwrap();
    served.service.submit(Request::Flush, Box::new(hold));
    for tag in 0..TAGS as u16 {
        served.kernel.until(|state| state.is_waiting.then_some(()));
        let before = served.kernel.change(|state| state.waits);
        served.kernel.ask(tag, 1, (u64::from(tag), 1), &[tag as u8; 512]);
        // It comes back for more.
        served.kernel.until(|state| (state.waits > before).then_some(()));
    }
    assert!(served.kernel.change(|state| state.ended.iter().all(Option::is_none)));
    go.send(()).unwrap();
    for tag in 0..TAGS as u16 {
        assert_eq!(served.kernel.end(tag).0, 512);
    }
    served.stop();
}
