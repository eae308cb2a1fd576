//! Features of policies beyond streams: reports of each death and place, own choice of victims, and
//! erase blocks closed early. A policy that uses all of them is run in the counting FTL, by steps
//! over flash, and in the timed drive.

#![allow(clippy::unwrap_used, reason = "helpers of tests that fail the test")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ftl::PageMapped;
use placement::{
    Block, BuildError, Death, Device, Features, Place, Placement, Previous, Survivors, build_victim,
};
use registry::Spec;
use ssd::drive::device::{Drive, Submission};
use ssd::drive::media::Media;
use ssd::drive::schemes::Scheme;
use ssd::drive::schemes::page_mapped::{INFO, PageMappedScheme, SchemeSettings};
use units::{EraseBlockId, Geometry, IoOp, Lpn, StreamId};

use crate::drive::SplitMix;

/// Record of the policy's calls.
#[derive(Debug, Default)]
struct Heard {
    deaths: Vec<Death>,
    victims: u64,
    /// Number of valid pages of its victims.
    moved: u64,
    closed: BTreeMap<u32, usize>,
    /// Last place of each page, with the stream.
    places: BTreeMap<u32, (EraseBlockId, StreamId)>,
}

/// Pages that died young go to one stream, others to a second; the second is closed every so often.
/// The victim is the erase block with the fewest valid pages among those with a recent death, else
/// among all.
struct Watcher {
    heard: Arc<Mutex<Heard>>,
    /// Clock of each page's last death.
    died_at: Vec<u64>,
    last_death: Vec<u64>,
    closings: u32,
}

impl Watcher {
    fn new(geometry: Geometry, heard: &Arc<Mutex<Heard>>) -> Self {
        let (pages, blocks) = (geometry.logical_pages as usize, geometry.erase_blocks as usize);
        Self {
            heard: heard.clone(),
            died_at: vec![0; pages],
            last_death: vec![0; blocks],
            closings: 0,
        }
    }
}

impl Placement for Watcher {
    #[inline]
    fn features(&self) -> Features {
        Features {
            watches_deaths: true,
            watches_places: true,
            closes_early: true,
            chooses_victims: true,
            ..Features::NONE
        }
    }

    fn streams(&self) -> usize {
        2
    }

    fn host_stream(&mut self, lpn: Lpn, _previous: Option<Previous>, device: &Device) -> StreamId {
        StreamId(u32::from(device.clock - self.died_at[lpn.index()] > 200))
    }

    fn relocation_streams(
        &mut self,
        _survivors: Survivors<'_>,
        _device: &Device,
        to: &mut [StreamId],
    ) {
        to.fill(StreamId(1));
    }

    fn page_died(&mut self, death: Death, device: &Device) {
        self.died_at[death.lpn.index()] = device.clock;
        self.last_death[death.block.index()] = device.clock;
        let mut heard = self.heard.lock().unwrap();
        heard.deaths.push(death);
        let place = heard.places.remove(&death.lpn.0);
        assert_eq!(place, Some((death.block, death.stream)), "it dies where it was put");
    }

    fn page_placed(&mut self, place: Place, device: &Device) {
        let Place { lpn, block, stream, from } = place;
        assert_eq!(u32::from(device.block(block).stream), stream.0);
        let mut heard = self.heard.lock().unwrap();
        assert!(!heard.closed.contains_key(&block.0), "it is closed after its last page");
        let last = heard.places.insert(lpn.0, (block, stream)).map(|(block, _)| block);
        assert_eq!(last, from, "the host's last version died, a relocated one was there");
    }

    fn stream_to_close(&mut self, _device: &Device) -> Option<StreamId> {
        self.closings += 1;
        self.closings.is_multiple_of(16).then_some(StreamId(1))
    }

    fn block_closed(&mut self, block: EraseBlockId, domain: usize, _device: &Device) {
        assert_eq!(
            self.heard.lock().unwrap().closed.insert(block.0, domain),
            None,
            "it was not closed yet"
        );
    }

    fn choose_victim(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        let mut heard = self.heard.lock().unwrap();
        let of_domain = |(block, of): (&u32, &usize)| (*of == domain).then_some(*block);
        let rank = |block: &u32| {
            let Block { valid, .. } = device.blocks[*block as usize];
            (valid, device.clock - self.last_death[*block as usize] > 1000, *block)
        };
        let victim = heard.closed.iter().filter_map(of_domain).min_by_key(rank)?;
        heard.closed.remove(&victim);
        heard.victims += 1;
        heard.moved += u64::from(device.blocks[victim as usize].valid);
        Some(EraseBlockId(victim))
    }

    fn victim_removed(&mut self, block: EraseBlockId, _domain: usize, _device: &Device) {
        assert!(self.heard.lock().unwrap().closed.remove(&block.0).is_some(), "it was closed");
    }
}

/// Three of four pages are of the first tenth.
fn skewed(dice: &mut SplitMix, pages: u32) -> u32 {
    let among = if dice.below(4) > 0 { pages / 10 } else { pages };
    dice.below(among)
}

fn geometry() -> Geometry {
    Geometry::with_over_provisioning(4096, 16, 4000, 0.3).unwrap()
}

fn own(geometry: Geometry, policy: &impl Placement, domains: usize) -> placement::AnyVictim {
    let context = placement::Context::new(geometry, 1);
    assert!(policy.streams() > 0);
    build_victim(&Spec::parse("own").unwrap(), &context, domains).unwrap()
}

#[test]
fn every_death_is_heard_once_and_the_policy_chooses_and_closes() {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let policy = Watcher::new(geometry(), &heard);
    let victims = own(geometry(), &policy, 1);
    let mut ftl = PageMapped::new(geometry(), "watcher", policy, victims).unwrap();
    let mut dice = SplitMix(7);
    let mut expected = Vec::new();
    for number in 0..60_000_u32 {
        let lpn = Lpn(if number < 4000 { number } else { skewed(&mut dice, 4000) });
        let before = ftl.lookup(lpn);
        let is_trimmed = number >= 4000 && dice.below(50) == 0;
        if is_trimmed {
            ftl.trim(lpn);
        } else {
            ftl.write(lpn, 0);
        }
        expected.extend(before.map(|_| (lpn, is_trimmed)));
        if number % 5000 == 0 {
            ftl.audit().unwrap();
        }
    }
    ftl.audit().unwrap();
    let heard = heard.lock().unwrap();
    assert_eq!(
        heard.deaths.iter().map(|death| (death.lpn, death.is_trimmed)).collect::<Vec<_>>(),
        expected
    );
    let counters = ftl.counters();
    assert_eq!(
        (heard.victims, heard.moved, counters.rescues),
        (counters.erases, counters.relocated_pages, 0)
    );
    assert!(heard.victims > 1000 && counters.unused_pages > 0, "{counters:?}");
    for lpn in 0..4000 {
        let lies = ftl.lookup(Lpn(lpn)).map(|ppn| EraseBlockId(ppn.0 / 16));
        assert_eq!(lies, heard.places.get(&lpn).map(|(block, _)| *block), "logical page {lpn}");
    }
}

/// The reported place of a death is where the page lay.
#[test]
fn a_death_names_the_place_and_the_stream() {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let policy = Watcher::new(geometry(), &heard);
    let victims = own(geometry(), &policy, 1);
    let mut ftl = PageMapped::new(geometry(), "watcher", policy, victims).unwrap();
    (0..100).for_each(|lpn| ftl.write(Lpn(lpn), 0));
    let at = ftl.lookup(Lpn(37)).unwrap().0;
    ftl.trim(Lpn(37));
    let stream = StreamId(u32::from(ftl.device().blocks[at as usize / 16].stream));
    let expected = Death {
        lpn: Lpn(37),
        block: EraseBlockId(at / 16),
        offset: at % 16,
        stream,
        is_trimmed: true,
    };
    assert_eq!(heard.lock().unwrap().deaths, [expected]);
}

#[test]
fn an_erase_block_that_is_closed_early_is_a_victim_like_others() {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let policy = Watcher::new(geometry(), &heard);
    let victims = own(geometry(), &policy, 1);
    let mut ftl = PageMapped::new(geometry(), "watcher", policy, victims).unwrap();
    (0..5).for_each(|lpn| ftl.write(Lpn(lpn), 0));
    let stream = StreamId(u32::from(ftl.device().blocks[0].stream));
    ftl.close(stream, 0);
    assert_eq!((ftl.counters().unused_pages, heard.lock().unwrap().closed.len()), (11, 1));
    ftl.close(stream, 0);
    assert_eq!(ftl.counters().unused_pages, 11, "there is nothing left to close");
    ftl.write(Lpn(5), 0);
    assert_ne!(ftl.lookup(Lpn(5)).unwrap().0 / 16, ftl.lookup(Lpn(0)).unwrap().0 / 16);
    ftl.audit().unwrap();
}

#[test]
fn the_own_choice_is_refused_where_the_policy_has_none() {
    let context = placement::Context {
        geometry: geometry(),
        seed: 1,
        page_weights: None,
        future: None,
        most_streams: usize::MAX,
    };
    let victims = build_victim(&Spec::parse("own").unwrap(), &context, 1).unwrap();
    let refused =
        PageMapped::new(geometry(), "none", placement::policies::none::NoPlacement, victims)
            .unwrap_err();
    assert_eq!(refused, BuildError::NoOwnVictims("none".to_owned()));
    assert!(refused.to_string().contains("take another victim policy"), "{refused}");
}

/// A drive with two planes per channel, each of which wrote 3000 skewed pages; and the number of
/// writes of each page.
fn written_drive<P: Placement>(
    policy: impl FnOnce(Geometry) -> P,
    victim: &str,
    channels: &str,
) -> (Drive<PageMappedScheme<P>>, Vec<u32>) {
    let profile = crate::drive::profile(&[
        ("media.planes_per_die", "2"),
        ("media.channels", channels),
        ("media.erase_blocks_per_plane", "64"),
    ]);
    let layout = profile.layout();
    let geometry = layout.geometry(profile.logical_pages());
    let context = placement::Context::new(geometry, 1);
    let planes = layout.planes() as usize;
    let victims = build_victim(&Spec::parse(victim).unwrap(), &context, planes).unwrap();
    let settings = SchemeSettings {
        args: &INFO.accept(&Spec::parse("page_mapped").unwrap()).unwrap(),
        layout: &layout,
        logical_pages: geometry.logical_pages,
        cleaning: &profile.cleaning,
        wear_levelling: &profile.wear_levelling,
        fdp: &profile.fdp,
        copy_back: false,
        power_loss_protected: false,
        endurance: Vec::new(),
    };
    let scheme = PageMappedScheme::new(settings, "tested", policy(geometry), victims).unwrap();
    let mut drive = Drive::new(&profile, scheme, Media::new(&profile.media));
    let (mut dice, mut done) = (SplitMix(3), Vec::new());
    let mut written = vec![0_u32; geometry.logical_pages as usize];
    let writes = 3000 * layout.planes();
    for number in 0..writes {
        let pages = geometry.logical_pages;
        let lpn = if number < pages { number } else { skewed(&mut dice, pages) };
        written[lpn as usize] += 1;
        let at = drive.now();
        let submission = Submission {
            op: IoOp::Write,
            offset: u64::from(lpn) * 4096,
            length: 4096,
            queue: 0,
            priority: 0,
            is_fua: false,
            placement: 0,
            handle: number,
        };
        drive.submit(at, submission, &mut done);
        while drive.outstanding() >= 2 * layout.planes() {
            let next = drive.next_time().unwrap();
            drive.step_at(next, &mut done);
        }
    }
    while let Some(next) = drive.next_time() {
        drive.step_at(next, &mut done);
    }
    assert_eq!(done.len(), writes as usize);
    drive.scheme().audit().unwrap();
    assert_eq!(drive.scheme().worn_out(), None, "no erase block has a limit");
    (drive, written)
}

/// The same policy on four planes, with time: the host writes while erase blocks are cleaned and
/// closed early.
#[test]
fn the_timed_drive_asks_and_tells_the_same() {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let (drive, written) = written_drive(|geometry| Watcher::new(geometry, &heard), "own", "2");
    let heard = heard.lock().unwrap();
    let counters = drive.scheme().counters();
    assert_eq!((heard.victims, heard.moved >= counters.relocated_pages), (counters.erases, true));
    assert!(
        heard.victims > 200 && drive.scheme().ftl().counters().unused_pages > 0,
        "{counters:?}"
    );
    // Without a write buffer each further write of a page is a death, unless the old version still
    // waited for room.
    let again: u32 = written.iter().map(|writes| writes.saturating_sub(1)).sum();
    let heard = heard.deaths.len() as u32;
    assert!((again * 19 / 20..=again).contains(&heard), "{heard} of {again}");
}

/// Wants an erase block of each of its streams closed at every call: more than is of use to any
/// policy, but no reason to fail.
struct Closer {
    /// True if it asks only once between two writes of the host.
    is_patient: bool,
    to_close: u32,
    /// Clock of the host's last write, and the number of calls since.
    asked: (u64, u32),
}

impl Closer {
    const fn new(is_patient: bool) -> Self {
        Self { is_patient, to_close: 0, asked: (0, 0) }
    }
}

impl Placement for Closer {
    #[inline]
    fn features(&self) -> Features {
        Features { closes_early: true, ..Features::NONE }
    }

    fn streams(&self) -> usize {
        2
    }

    fn host_stream(
        &mut self,
        _lpn: Lpn,
        _previous: Option<Previous>,
        _device: &Device,
    ) -> StreamId {
        StreamId(0)
    }

    fn relocation_streams(&mut self, _: Survivors<'_>, _: &Device, to: &mut [StreamId]) {
        to.fill(StreamId(1));
    }

    fn stream_to_close(&mut self, device: &Device) -> Option<StreamId> {
        let (at, times) = self.asked;
        self.asked = (device.clock, if at == device.clock { times + 1 } else { 1 });
        if self.is_patient && self.asked.1 > 3 {
            return None;
        }
        assert!(self.asked.1 < 1000, "cleaning goes on for ever, as closing undoes what it gains");
        self.to_close = (self.to_close + 1) % 3;
        self.to_close.checked_sub(1).map(StreamId)
    }
}

#[test]
fn closing_whatever_is_open_does_not_stop_cleaning() {
    let context = placement::Context {
        geometry: geometry(),
        seed: 1,
        page_weights: None,
        future: None,
        most_streams: usize::MAX,
    };
    let victims = build_victim(&Spec::parse("greedy").unwrap(), &context, 1).unwrap();
    let mut ftl = PageMapped::new(geometry(), "closer", Closer::new(false), victims).unwrap();
    let mut dice = SplitMix(7);
    (0..4000).for_each(|lpn| ftl.write(Lpn(lpn), 0));
    (0..20_000).for_each(|_| ftl.write(Lpn(skewed(&mut dice, 4000)), 0));
    ftl.audit().unwrap();
    assert!(ftl.counters().unused_pages > 1000, "{:?}", ftl.counters());
}

/// An erase block that is closed on one plane may be room that survivors on another need: so each
/// plane closes only before a cleaning of its own.
#[test]
fn closing_does_not_take_the_room_of_a_cleaning_that_is_under_way() {
    let (drive, _) = written_drive(|_| Closer::new(true), "greedy", "8");
    let counters = drive.scheme().ftl().counters();
    assert!(counters.unused_pages > 100, "{counters:?}");
}
