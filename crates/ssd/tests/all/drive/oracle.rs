//! The judges: a plain model of a disk with concurrent requests, and of servers that do one thing
//! at a time.

use std::collections::BTreeMap;

use ssd::drive::device::{Drive, Found};
use ssd::drive::media::{Carried, Content, FlashOp, NOTHING};
use ssd::drive::profile::Profile;
use ssd::drive::schemes::Scheme;
use ssd::drive::time::{Picos, Rate, picos_of_micros};
use units::IoOp;

use super::player::{Ask, Played, Span};

/// Returns true if a request changes a sector of a page: a write that covers it, or a trim of the
/// whole page.
fn changes(ask: &Ask, page: u32, sector: u32, page_bytes: u32, sector_bytes: u32) -> bool {
    let start = u64::from(page) * u64::from(page_bytes);
    let end = ask.offset + u64::from(ask.length);
    match ask.op {
        IoOp::Write => {
            let byte = start + u64::from(sector) * u64::from(sector_bytes);
            ask.offset <= byte && byte < end
        }
        IoOp::Trim => ask.offset <= start && start + u64::from(page_bytes) <= end,
        IoOp::Read | IoOp::Flush => false,
    }
}

/// Checks that every read found, in each sector, data that a disk may hold: that of a write that
/// began before the read ended, and that was not replaced by another change which began after it
/// had ended and ended before the read began. (Herlihy & Wing, TOPLAS 1990, for one sector.)
pub fn check_reads(played: &Played) {
    let (page_bytes, sector_bytes) = (played.layout.page_bytes, played.contents.sector_bytes());
    let mut changing: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (handle, ask) in
        played.asks.iter().enumerate().filter(|(_, ask)| matches!(ask.op, IoOp::Write | IoOp::Trim))
    {
        ask.touches(page_bytes).for_each(|page| changing.entry(page).or_default().push(handle));
    }
    let none = Vec::new();
    let found: BTreeMap<(u32, u32), &Found> =
        played.found.iter().map(|found| ((found.handle, found.lpn.0), found)).collect();
    assert_eq!(found.len(), played.found.len(), "no read finds a page twice");
    for (handle, ask) in played.asks.iter().enumerate().filter(|(_, ask)| ask.op == IoOp::Read) {
        if played.spans[handle].end == u64::MAX {
            continue;
        }
        for page in ask.touches(page_bytes) {
            let found = found
                .get(&(handle as u32, page))
                .unwrap_or_else(|| panic!("read {handle} did not find page {page}"));
            assert!(
                played.contents.page_of(found.content).is_none_or(|lpn| lpn.0 == page),
                "read {handle} of page {page} found {found:?}"
            );
            let start = u64::from(page) * u64::from(page_bytes);
            for sector in 0..page_bytes / sector_bytes {
                let byte = start + u64::from(sector * sector_bytes);
                if byte >= ask.offset && byte < ask.offset + u64::from(ask.length) {
                    let changes = changing.get(&page).unwrap_or(&none).iter().copied();
                    let changes: Vec<usize> = changes
                        .filter(|&by| {
                            changes_sector(played, by, page, sector, page_bytes, sector_bytes)
                        })
                        .collect();
                    check_sector(
                        played,
                        handle,
                        page,
                        sector,
                        played.writer(found, sector),
                        &changes,
                    );
                }
            }
        }
    }
}

fn changes_sector(
    played: &Played,
    by: usize,
    page: u32,
    sector: u32,
    page_bytes: u32,
    sector_bytes: u32,
) -> bool {
    changes(&played.asks[by], page, sector, page_bytes, sector_bytes)
}

fn check_sector(
    played: &Played,
    read: usize,
    page: u32,
    sector: u32,
    writer: Option<usize>,
    changing: &[usize],
) {
    let spans = &played.spans;
    let Span { start, end } = spans[read];
    let is_replaced =
        |ended: u64| changing.iter().any(|&by| spans[by].start > ended && spans[by].end < start);
    let may_be = match writer {
        Some(writer) => {
            changing.contains(&writer)
                && spans[writer].start < end
                && !is_replaced(spans[writer].end)
        }
        None => {
            let trims = changing
                .iter()
                .filter(|&&by| played.asks[by].op == IoOp::Trim && spans[by].start < end);
            !is_replaced(0) || trims.into_iter().any(|&trim| !is_replaced(spans[trim].end))
        }
    };
    if !may_be {
        let history: Vec<String> = changing
            .iter()
            .map(|&by| format!("{by} {:?} {:?}", played.asks[by].op, spans[by]))
            .collect();
        panic!(
            "read {read} ({:?}) found the data of {writer:?} in sector {sector} of page {page}, \
             which was changed by:\n{}",
            spans[read],
            history.join("\n")
        );
    }
}

/// Checks that at the end of a FLUSH, all data that was acknowledged before it began is on flash,
/// or the data that replaced it; at the end of a FUA write, its own data.
///
/// A page with a newer version that this request does not promise is left out: the FTL counts the
/// old version as dead from the moment at which the new one is placed, so the old one may be erased
/// a little before the new one is programmed.
pub fn check_durable<S: Scheme>(handle: usize, asks: &[Ask], spans: &[Span], drive: &Drive<S>) {
    let layout = drive.media().layout();
    let contents = drive.contents().unwrap();
    let (page_bytes, sector_bytes) = (layout.page_bytes, contents.sector_bytes());
    let mut on_flash: BTreeMap<u32, Vec<Content>> = BTreeMap::new();
    for &content in
        drive.media().witness().unwrap().contents().iter().filter(|&&content| content != NOTHING)
    {
        if let Some(page) = contents.page_of(content) {
            on_flash.entry(page.0).or_default().push(content);
        }
    }
    // Trims, and writes that ended after this request began, or are under way: in the drive's
    // buffer or on their way to flash.
    let mut changing: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let may_change = |by: &usize| {
        asks[*by].op == IoOp::Trim
            || (asks[*by].op == IoOp::Write && spans[*by].end > spans[handle].start)
    };
    for by in (0..asks.len()).filter(may_change) {
        asks[by].touches(page_bytes).for_each(|page| changing.entry(page).or_default().push(by));
    }
    let is_changed = |page: u32, write: usize| {
        changing.get(&page).is_some_and(|all| {
            all.iter().any(|&by| by != write && spans[by].end > spans[write].start)
        })
    };
    let is_covered = |write: usize| match asks[handle].op {
        IoOp::Flush => asks[write].op == IoOp::Write && spans[write].end < spans[handle].start,
        _ => write == handle,
    };
    for write in (0..asks.len()).filter(|&write| is_covered(write)) {
        let ask = asks[write];
        for page in ask.touches(page_bytes).filter(|&page| !is_changed(page, write)) {
            let start = u64::from(page) * u64::from(page_bytes);
            let sector = (ask.offset.saturating_sub(start) / u64::from(sector_bytes)) as u32;
            let is_as_new = |&content: &Content| {
                let writer = contents.writer(content, sector).map(|(handle, _)| handle as usize);
                writer
                    .is_some_and(|writer| writer == write || spans[writer].end > spans[write].start)
            };
            let is_durable = on_flash.get(&page).is_some_and(|all| all.iter().any(is_as_new));
            assert!(
                is_durable,
                "request {handle} ({:?}) is done, but page {page} of write {write} is not on flash",
                asks[handle]
            );
        }
    }
}

/// Most commands of one server that are checked: the check takes time in proportion to their
/// square.
const MOST_COMMANDS: usize = 700;

/// Checks that the work of commands fits into the time that they had, for parts that do one thing
/// at a time: for each interval from the start of one command to the end of another, the commands
/// within it needed no more than its length. Parts are planes, dies unless they work on several
/// planes at once, and channels.
pub fn check_servers(profile: &Profile, played: &Played) {
    let layout = &played.layout;
    let times = Times::new(profile);
    let plane_of = |carried: &Carried| layout.plane_of(layout.block_of(carried.command.page));
    let mut planes: BTreeMap<u32, Vec<(Picos, Picos, Picos)>> = BTreeMap::new();
    let (mut dies, mut channels) = (planes.clone(), planes.clone());
    for carried in &played.commands {
        let plane = plane_of(carried);
        let die = layout.die_of_plane(plane);
        let (issued, done) = (carried.issued_at, carried.done_at);
        let array = times.array(carried, layout);
        let bus = times.bus(carried);
        planes.entry(plane).or_default().push((issued, done, array));
        channels.entry(layout.channel_of_die(die)).or_default().push((issued, done, bus));
        if !profile.media.multi_plane {
            let whole = if profile.media.cache_mode { array } else { array + bus };
            dies.entry(die).or_default().push((issued, done, whole));
        }
    }
    let name = |kind: &'static str, number: u32| format!("{kind} {number}");
    planes
        .into_iter()
        .for_each(|(number, commands)| check_server(&name("plane", number), commands));
    dies.into_iter().for_each(|(number, commands)| check_server(&name("die", number), commands));
    channels
        .into_iter()
        .for_each(|(number, commands)| check_server(&name("channel", number), commands));
}

/// Checks one of them. Each command has the time at which it was given, the time at which it was
/// done, and the time that it needed.
pub fn check_server(name: &str, mut commands: Vec<(Picos, Picos, Picos)>) {
    commands.truncate(MOST_COMMANDS);
    commands.sort_by_key(|&(_, done, _)| done);
    let mut starts: Vec<Picos> = commands.iter().map(|&(issued, ..)| issued).collect();
    starts.sort_unstable();
    starts.dedup();
    for start in starts {
        let mut needed = 0;
        for &(issued, done, time) in &commands {
            if issued >= start {
                needed += time;
                assert!(
                    needed <= done - start,
                    "{name} did {needed} ps of work between {start} and {done} ps"
                );
            }
        }
    }
}

/// Times as the profile's keys define them, computed independently of the simulator.
pub struct Times {
    read: Vec<Picos>,
    program: Vec<Picos>,
    erase: Picos,
    command: Picos,
    channel: Rate,
    per_read: u32,
    per_program: u32,
}

impl Times {
    pub fn new(profile: &Profile) -> Self {
        let m = &profile.media;
        let all = |micros: &[f64]| micros.iter().map(|&us| picos_of_micros(us)).collect();
        Self {
            read: all(&m.read_us),
            program: all(&m.program_us),
            erase: picos_of_micros(m.erase_us),
            command: picos_of_micros(m.command_us),
            per_read: m.pages_per_read,
            per_program: m.pages_per_program,
            channel: Rate::of_bytes_per_second(
                m.channel_mt_per_second * 1e6 * f64::from(m.channel_bits) / 8.0,
            ),
        }
    }

    /// Time on the array; the least share of it where pages are read or programmed together.
    pub fn array(&self, carried: &Carried, layout: &ssd::drive::media::Layout) -> Picos {
        let of = |times: &[Picos], page, together: u32| {
            let place = layout.split(page).1 / together;
            times[place as usize % times.len()] / Picos::from(together)
        };
        let read = |page| of(&self.read, page, self.per_read);
        let program = |page| of(&self.program, page, self.per_program);
        let command = &carried.command;
        match command.op {
            FlashOp::Read => read(command.page),
            FlashOp::Program => program(command.page),
            FlashOp::Erase => self.erase,
            FlashOp::CopyBack => read(command.from) + program(command.page),
        }
    }

    /// Time on the channel, with the least share of the command's own time.
    pub fn bus(&self, carried: &Carried) -> Picos {
        let data = match carried.command.op {
            FlashOp::Read | FlashOp::Program => self.channel.time_of(carried.command.bytes),
            FlashOp::Erase | FlashOp::CopyBack => 0,
        };
        let together = match carried.command.op {
            FlashOp::Read => self.per_read,
            FlashOp::Program => self.per_program,
            FlashOp::Erase | FlashOp::CopyBack => 1,
        };
        self.command / Picos::from(together) + data
    }
}
