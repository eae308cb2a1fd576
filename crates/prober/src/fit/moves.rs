//! Discrete changes to a profile: what least squares cannot find.

use ssd::drive::profile::{
    CommandOrder, Detector, FlushOrder, FlushRule, InterfaceKind, MediaConfig, Profile,
};

use super::parameters::{MIXES, READS, WRITES};
use super::scheme::Scheme;
use super::solve::tidy;
use super::spare;
use crate::analysis::estimate::mean;

struct Moves {
    from: Profile,
    found: Vec<Profile>,
}

impl Moves {
    fn add(&mut self, change: impl FnOnce(&mut Profile)) {
        let mut changed = self.from.clone();
        change(&mut changed);
        tidy(&mut changed);
        if changed != self.from && changed.check().is_ok() && !self.found.contains(&changed) {
            self.found.push(changed);
        }
    }

    fn scheme(&mut self, change: impl FnOnce(&mut Scheme)) {
        let mut scheme = Scheme::of(&self.from);
        change(&mut scheme);
        self.add(|profile| {
            scheme.put(profile);
            if scheme.is_log_block() {
                profile.cleaning.start_below_free = 0.0;
                profile.cleaning.background_below_free = 0.0;
            }
        });
    }
}

/// Profiles one change away that show in these kinds of load.
pub(super) fn moves(from: &Profile, phases: u8) -> Vec<Profile> {
    let mut moves = Moves { from: from.clone(), found: Vec::new() };
    if phases & READS != 0 {
        interface(&mut moves);
        rates(&mut moves);
        media(&mut moves);
        read_ahead(&mut moves);
    }
    if phases & WRITES != 0 {
        buffer(&mut moves);
        ftl(&mut moves);
        programs(&mut moves);
    }
    if phases & (WRITES | MIXES) != 0 {
        mixes(&mut moves);
    }
    moves.found
}

fn interface(moves: &mut Moves) {
    for (kind, depths) in [
        (InterfaceKind::Usb, [1].as_slice()),
        (InterfaceKind::Sata, &[1, 2, 4, 8, 16, 32]),
        (InterfaceKind::Nvme, &[16, 32, 128, 1024]),
    ] {
        for &depth in depths {
            moves.add(|profile| {
                profile.interface.kind = kind;
                profile.interface.queue_depth = depth;
                profile.interface.queues = if kind == InterfaceKind::Nvme { 8 } else { 1 };
            });
        }
    }
}

/// Rates and times far from here: where one shows nowhere, slopes do not lead back.
fn rates(moves: &mut Moves) {
    for factor in [0.1, 0.4, 2.5] {
        moves.add(|profile| profile.media.channel_mt_per_second *= factor);
        moves.add(|profile| profile.interface.link_mb_per_second *= factor);
    }
}

fn halved(value: u32) -> u32 {
    (value / 2).max(1)
}

fn media(moves: &mut Moves) {
    let m = moves.from.media.clone();
    let by_two = [(m.channels * 2, m.channels), (halved(m.channels), m.channels)];
    for (channels, before) in by_two {
        moves.add(|profile| profile.media.channels = channels);
        // The same rate in all.
        moves.add(|profile| {
            profile.media.channels = channels;
            profile.media.channel_mt_per_second *= f64::from(before) / f64::from(channels);
        });
        // The same dies.
        moves.add(|profile| {
            profile.media.channels = channels;
            profile.media.packages_per_channel =
                (profile.media.packages_per_channel * before / channels).max(1);
        });
        moves.add(|profile| {
            profile.media.channels = channels;
            profile.media.packages_per_channel =
                (profile.media.packages_per_channel * before / channels).max(1);
            profile.media.channel_mt_per_second *= f64::from(before) / f64::from(channels);
        });
    }
    for channels in [m.channels + 1, m.channels.saturating_sub(1)] {
        moves.add(|profile| profile.media.channels = channels);
    }
    for ways in
        [m.packages_per_channel * 2, m.packages_per_channel * 4, halved(m.packages_per_channel)]
    {
        moves.add(|profile| profile.media.packages_per_channel = ways);
    }
    for planes in [m.planes_per_die * 2, halved(m.planes_per_die), 1] {
        moves.add(|profile| profile.media.planes_per_die = planes);
        moves.add(|profile| {
            profile.media.planes_per_die = planes;
            profile.media.multi_plane = true;
        });
    }
    for (page, pages) in [
        (m.page_bytes * 2, halved(m.pages_per_erase_block)),
        (halved(m.page_bytes), m.pages_per_erase_block * 2),
    ] {
        moves.add(|profile| {
            profile.media.page_bytes = page;
            profile.media.pages_per_erase_block = pages;
        });
    }
    moves.add(|profile| profile.media.cache_mode = !profile.media.cache_mode);
    moves.add(|profile| profile.media.multi_plane = !profile.media.multi_plane);
}

fn read_ahead(moves: &mut Moves) {
    moves.add(|profile| profile.read_ahead.detector = Detector::None);
    moves.add(|profile| {
        profile.read_ahead.detector = Detector::None;
        profile.read_cache.bytes = 0;
    });
    let has = moves.from.read_ahead.detector != Detector::None;
    for detector in [Detector::LastRequest, Detector::Table] {
        for window in [32 << 10, 64 << 10, 128 << 10, 512 << 10] {
            moves.add(|profile| {
                profile.read_ahead.detector = detector;
                profile.read_ahead.streams = 16;
                profile.read_ahead.trigger_requests = profile.read_ahead.trigger_requests.max(2);
                if !has {
                    profile.read_cache.bytes = profile.read_cache.bytes.max(2 << 20);
                }
                profile.read_ahead.window_bytes = window;
            });
        }
    }
    if has {
        for trigger in 1..=4 {
            moves.add(|profile| profile.read_ahead.trigger_requests = trigger);
        }
        for factor in [0.5, 2.0] {
            moves.add(|profile| {
                profile.read_ahead.window_bytes =
                    (profile.read_ahead.window_bytes as f64 * factor) as u64;
            });
        }
    }
    for factor in [0.25, 0.5, 2.0, 4.0] {
        moves.add(|profile| {
            profile.read_cache.bytes = (profile.read_cache.bytes as f64 * factor) as u64;
        });
    }
    moves.add(|profile| profile.read_cache.bytes = profile.read_cache.bytes.max(1 << 20));
}

fn buffer(moves: &mut Moves) {
    moves.add(|profile| profile.write_buffer.bytes = 0);
    let old = moves.from.write_buffer.clone();
    for bytes in [64 << 10, 512 << 10, 4 << 20, 32 << 20] {
        for flush in [FlushRule::Eager, FlushRule::Batches, FlushRule::WhenFull] {
            moves.add(|profile| {
                profile.write_buffer.bytes = bytes;
                profile.write_buffer.flush = flush;
                if flush != FlushRule::Eager {
                    profile.write_buffer.flush_pages = profile.write_buffer.flush_pages.max(4);
                }
            });
        }
    }
    if old.bytes == 0 {
        return;
    }
    for factor in [0.25, 0.5, 2.0, 4.0] {
        moves.add(|profile| profile.write_buffer.bytes = (old.bytes as f64 * factor) as u64);
    }
    for pages in [old.flush_pages * 2, old.flush_pages / 2] {
        moves.add(|profile| profile.write_buffer.flush_pages = pages);
    }
    let flying = old.in_flight_pages.max(8);
    for pages in [0, flying / 4, flying / 2, flying * 2, flying * 4] {
        moves.add(|profile| profile.write_buffer.in_flight_pages = pages);
    }
    for order in [FlushOrder::Fifo, FlushOrder::ByEraseBlock] {
        moves.add(|profile| profile.write_buffer.order = order);
    }
}

fn ftl(moves: &mut Moves) {
    let scheme = Scheme::of(&moves.from);
    let chunk = scheme.chunk_pages.max(1);
    for allocation in ["dynamic", "available", "static"] {
        moves.scheme(|scheme| *scheme = Scheme::page_mapped(allocation, chunk));
    }
    for (name, logs) in [
        ("bast", 4),
        ("bast", 8),
        ("fast", 8),
        ("fast", 64),
        ("block_mapped", 1),
        ("block_mapped", 4),
    ] {
        moves.scheme(|scheme| *scheme = Scheme::with_logs(name, logs, 0));
    }
    if scheme.is_log_block() {
        for logs in
            [scheme.logs + 1, scheme.logs.saturating_sub(1), scheme.logs * 2, scheme.logs / 2]
        {
            moves.scheme(|scheme| scheme.logs = logs);
        }
        let layout = moves.from.layout();
        let wide = if scheme.interleave == 0 { layout.planes() } else { scheme.interleave };
        for interleave in [0, wide * 2, wide / 2, wide / 4] {
            moves.scheme(|scheme| scheme.interleave = interleave);
        }
        for merges in [1, scheme.merges_at_once * 2, scheme.merges_at_once / 2, 16] {
            moves.scheme(|scheme| scheme.merges_at_once = merges);
        }
        for maps in [0, 1, 2, 3, 4] {
            moves.scheme(|scheme| scheme.maps_in_memory = maps);
        }
    } else {
        for chunk in [1, chunk * 2, chunk / 2] {
            moves.scheme(|scheme| scheme.chunk_pages = chunk);
        }
        for free in [0.0, 0.01, 0.05] {
            moves.add(|profile| profile.cleaning.start_below_free = free);
        }
    }
}

/// An erase of the chips that data sheets are of, or longer, in microseconds.
const USUAL_ERASE_US: f64 = 3_500.0;

fn programs(moves: &mut Moves) {
    let m = moves.from.media.clone();
    let (reads, programs) = (mean(&m.read_us), mean(&m.program_us));
    for shape in [[1.0].as_slice(), &[0.35, 1.65], &[0.5, 1.0, 1.5], &[0.64, 0.88, 1.12, 1.36]] {
        moves.add(|profile| {
            profile.media.program_us = shape.iter().map(|part| part * programs).collect();
            profile.media.read_us = vec![reads; shape.len()];
        });
    }
    // Media that overlap nothing, whose pages may well be of two types, and whose planes then take
    // turns.
    for (shape, factor) in [
        (&[1.0] as &[f64], 1.0),
        (&[1.0], 0.6),
        (&[0.35, 1.65], 1.0),
        (&[0.35, 1.65], 0.6),
        (&[0.35, 1.65], 1.6),
    ] {
        for planes in [m.planes_per_die, m.planes_per_die * 2, 1] {
            moves.add(|profile| {
                profile.media.planes_per_die = planes;
                profile.media.program_us =
                    shape.iter().map(|part| part * programs * factor).collect();
                profile.media.read_us = vec![reads; shape.len()];
                (profile.media.cache_mode, profile.media.multi_plane) = (false, false);
            });
        }
    }
    // What the times were fitted to with the wrong dies is far from what they are with the right
    // ones.
    for factor in [1.0, 0.6, 1.6] {
        let mut add = |change: &dyn Fn(&mut MediaConfig)| {
            moves.add(|profile| {
                let m = &mut profile.media;
                change(m);
                if factor != 1.0 {
                    m.program_us.iter_mut().for_each(|time| *time *= factor);
                    m.erase_us = m.erase_us.min(USUAL_ERASE_US);
                }
            });
        };
        // Planes that take turns: writes in a row meet in a die.
        for planes in [m.planes_per_die * 2, halved(m.planes_per_die)] {
            add(&|m| m.planes_per_die = planes);
        }
        // As many planes, in fewer dies, and the other way round.
        for is_multi in [false, true] {
            add(&|m| {
                (m.packages_per_channel, m.dies_per_package) =
                    (halved(m.packages_per_channel * m.dies_per_package), 1);
                (m.planes_per_die, m.multi_plane) = (m.planes_per_die * 2, is_multi);
            });
        }
        add(&|m| {
            m.packages_per_channel *= 2;
            m.planes_per_die = halved(m.planes_per_die);
        });
    }
    for factor in [0.25, 0.5, 2.0, 4.0] {
        let pages = (f64::from(m.pages_per_erase_block) * factor) as u32;
        moves.add(|profile| profile.media.pages_per_erase_block = pages);
    }
    moves.add(|profile| profile.media.copy_back = !profile.media.copy_back);
    moves.add(|profile| profile.media.multi_plane = !profile.media.multi_plane);
    moves.add(|profile| profile.media.cache_mode = !profile.media.cache_mode);
}

/// Profiles one change away that show only where all is simulated: what is in use together, and so
/// when. Numbers are not among them: see [`super::counts`].
pub(super) fn of_history(from: &Profile) -> Vec<Profile> {
    let mut moves = Moves { from: from.clone(), found: Vec::new() };
    let scheme = Scheme::of(from);
    if scheme.is_log_block() {
        logs(&mut moves, &scheme);
    } else {
        erase_blocks(&mut moves);
        copies(&mut moves);
    }
    moves.found
}

fn logs(moves: &mut Moves, scheme: &Scheme) {
    for merges in [scheme.merges_at_once * 2, scheme.merges_at_once / 2] {
        moves.scheme(|scheme| scheme.merges_at_once = merges);
    }
    let planes = moves.from.layout().planes();
    let wide = if scheme.interleave == 0 { planes } else { scheme.interleave };
    let pages = moves.from.media.pages_per_erase_block;
    // The same bytes in all, in other superblocks.
    for (interleave, pages, logs) in [
        (wide, pages * 2, scheme.logs.div_ceil(2)),
        (wide, pages / 2, scheme.logs * 2),
        (wide * 2, pages, scheme.logs.div_ceil(2)),
        (wide / 2, pages, scheme.logs * 2),
    ] {
        let scheme = Scheme {
            interleave: if interleave == planes { 0 } else { interleave },
            logs,
            ..scheme.clone()
        };
        moves.add(|profile| {
            profile.media.pages_per_erase_block = pages;
            scheme.put(profile);
        });
    }
}

/// Erase blocks and planes together: the one hides what the other does.
fn erase_blocks(moves: &mut Moves) {
    let m = moves.from.media.clone();
    // A single plane says nothing of how several would be programmed.
    let multi_plane = if m.planes_per_die > 1 { [m.multi_plane; 2] } else { [false, true] };
    for (planes, is_multi) in multi_plane
        .map(|is_multi| (m.planes_per_die * 2, is_multi))
        .into_iter()
        .chain([(m.planes_per_die, m.multi_plane), (1, m.multi_plane)])
    {
        let with = |pages: u32, profile: &mut Profile| {
            let (before, logical) = (row_pages(profile), f64::from(profile.logical_pages()));
            profile.media.pages_per_erase_block = pages;
            (profile.media.planes_per_die, profile.media.multi_plane) = (planes, is_multi);
            spare::keep_onset(profile, row_pages(profile) - before, logical);
        };
        for factor in [1.0, 0.25, 0.5, 2.0, 4.0] {
            let pages = (f64::from(m.pages_per_erase_block) * factor) as u32;
            moves.add(|profile| with(pages, profile));
        }
        // As many pages in all: what copies and erases take was fitted to the wrong planes.
        if planes != m.planes_per_die {
            moves.add(|profile| {
                with((m.pages_per_erase_block * m.planes_per_die / planes).max(1), profile);
                (profile.media.copy_back, profile.media.erase_us) = (false, USUAL_ERASE_US);
            });
        }
    }
}

/// Adds other ways of making copies: the time of erases was fitted to the time that copies seemed
/// to take.
fn copies(moves: &mut Moves) {
    for factor in [1.0, 2.5, 0.4] {
        moves.add(|profile| {
            profile.media.copy_back = !profile.media.copy_back;
            profile.media.erase_us *= factor;
        });
    }
}

/// Pages of one erase block of each plane.
fn row_pages(profile: &Profile) -> f64 {
    f64::from(profile.layout().planes()) * f64::from(profile.media.pages_per_erase_block)
}

fn mixes(moves: &mut Moves) {
    let waits = moves.from.controller.writes_wait_for_reads;
    moves.add(|profile| {
        profile.controller.writes_wait_for_reads = !waits;
        (profile.controller.write_hold_us, profile.controller.drain_us) = (0.0, 0.0);
    });
    // A controller that takes so long, instead of one that waits.
    let hold_us = moves.from.controller.write_hold_us;
    moves.add(|profile| {
        profile.controller.write_command_us += hold_us;
        (profile.controller.write_hold_us, profile.controller.drain_us) = (0.0, 0.0);
    });
    // What takes the controller its time may take the link as long, and the other way round.
    let (frames_us, command_us) =
        (moves.from.interface.write_frames_us, moves.from.controller.write_command_us);
    let both_us = frames_us + command_us;
    for (frames_us, command_us) in
        [(both_us, 0.0), (0.0, both_us), (moves.from.interface.read_frames_us, 0.0)]
    {
        moves.add(|profile| {
            (profile.interface.write_frames_us, profile.controller.write_command_us) =
                (frames_us, command_us);
        });
    }
    for (hold, drain) in [(5.0, 0.0), (15.0, 0.0), (0.0, 20.0), (15.0, 60.0)] {
        moves.add(|profile| {
            profile.controller.writes_wait_for_reads = true;
            (profile.controller.write_hold_us, profile.controller.drain_us) = (hold, drain);
        });
    }
    for turnaround in [0.0, 5.0, 20.0, 50.0] {
        moves.add(|profile| profile.controller.turnaround_us = turnaround);
    }
    for suspend_us in [0.0, 20.0, 60.0] {
        moves.add(|profile| (profile.media.suspend, profile.media.suspend_us) = (true, suspend_us));
        moves.add(|profile| {
            (profile.media.suspend, profile.media.suspend_us) = (true, suspend_us);
            profile.media.order = CommandOrder::ReadsFirst;
        });
    }
    moves.add(|profile| profile.media.suspend = false);
    for order in [CommandOrder::Fifo, CommandOrder::ReadsFirst] {
        moves.add(|profile| profile.media.order = order);
    }
}
