//! Places to look for somebody's data: everywhere, if that takes seconds, and else at as many
//! places as there is time for.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use units::{Cancelled, Progress};

/// Longest place that is looked at at once, in bytes.
pub(super) const LONGEST: u64 = 1 << 20;
/// Bytes of a sample.
const SAMPLE_BYTES: u64 = 4096;
/// Time in which all has to be read, as fast as its trials were, to be read as a whole; and time
/// for samples if it is not.
const PATIENCE: Duration = Duration::from_secs(10);
/// Places that are read to see how fast that is.
const TRIALS: u64 = 16;
/// Samples of the first round, and of all. Each round lies between the places of those before.
const FIRST_ROUND: u64 = 1024;
const MOST_SAMPLES: u64 = 1 << 16;
/// Written parts of a file that are told apart; what lies behind them is taken for one. 16 MiB of
/// memory.
const MOST_PARTS: usize = 1 << 20;

/// Reasons for an early end of a search.
#[derive(Debug)]
pub(super) enum Stop {
    Failed(io::Error),
    Cancelled(Cancelled),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Cancelled> for Stop {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

/// The written parts of a file within a region: what lies between them is holes.
pub(super) fn written(file: &File, region: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let mut parts = Vec::new();
    let mut from = region.start;
    while from < region.end {
        if parts.len() + 1 == MOST_PARTS {
            parts.push(from..region.end);
            break;
        }
        let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
            Ok(start) if start < region.end => start.max(from),
            Ok(_) | Err(Errno::NXIO) => break,
            // The file system knows no holes.
            Err(Errno::INVAL) => return Ok(vec![region]),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start))?.min(region.end).max(start + 1);
        parts.push(start..end);
        from = end;
    }
    Ok(parts)
}

/// Looks at parts of a device or file until `look` finds something, and gives that.
///
/// All is looked at if that takes no more than 10 seconds by the speed of 16 trials (and not twice
/// that in the end). Else the first and the last MiB, and samples of 4 KiB: where parts of a file
/// begin, and up to 65,536 places at equal distances, as many as there is time for in 10 seconds.
/// The progress counts bytes that were looked at, or that samples stand for.
pub(super) fn search<T>(
    parts: &[Range<u64>],
    progress: &Progress,
    mut look: impl FnMut(Range<u64>) -> io::Result<Option<T>>,
) -> Result<Option<T>, Stop> {
    let all = Parts::new(parts);
    progress.set_total(all.bytes);
    if all.bytes > 4 * TRIALS * LONGEST {
        // What describes the rest stands at an end; the first trial is the other one.
        if let Some(found) = look(all.place(all.bytes - LONGEST, LONGEST))? {
            return Ok(Some(found));
        }
        let began = Instant::now();
        for trial in 0..TRIALS {
            if let Some(found) = look(all.place(all.bytes / TRIALS * trial, LONGEST))? {
                return Ok(Some(found));
            }
            progress.advance(0)?;
        }
        let would_take =
            began.elapsed().as_secs_f64() * all.bytes as f64 / (TRIALS * LONGEST) as f64;
        if would_take > PATIENCE.as_secs_f64() {
            return samples(&all, progress, Instant::now() + PATIENCE, look);
        }
    }
    let end = Instant::now() + 2 * PATIENCE;
    for part in parts {
        for at in part.clone().step_by(LONGEST as usize) {
            let place = at..part.end.min(at + LONGEST);
            let bytes = place.end - place.start;
            if let Some(found) = look(place)? {
                return Ok(Some(found));
            }
            progress.advance(bytes)?;
            if Instant::now() > end {
                return samples(&all, progress, Instant::now() + PATIENCE, look);
            }
        }
    }
    Ok(None)
}

/// Looks at samples until the time is over.
fn samples<T>(
    all: &Parts<'_>,
    progress: &Progress,
    end: Instant,
    mut look: impl FnMut(Range<u64>) -> io::Result<Option<T>>,
) -> Result<Option<T>, Stop> {
    let each = all.bytes / MOST_SAMPLES;
    let starts = if all.parts.len() > 1 { all.parts } else { &[] };
    let starts = starts
        .iter()
        .take(MOST_SAMPLES as usize)
        .map(|part| (part.start..part.end.min(part.start + SAMPLE_BYTES), 0));
    let evenly = sample_places(all.bytes).map(|at| (all.place(at, SAMPLE_BYTES), each));
    for (place, bytes) in starts.chain(evenly) {
        if let Some(found) = look(place)? {
            return Ok(Some(found));
        }
        progress.advance(bytes)?;
        if Instant::now() > end {
            break;
        }
    }
    Ok(None)
}

/// Places at equal distances within so many bytes, then those between, and so on, so that they are
/// spread evenly whenever one stops.
fn sample_places(bytes: u64) -> impl Iterator<Item = u64> {
    let at = move |number: u64, of: u64| {
        (u128::from(bytes) * u128::from(number) / u128::from(of)) as u64
    };
    let first = (0..FIRST_ROUND).map(move |number| at(number, FIRST_ROUND));
    let rounds = std::iter::successors(Some(2 * FIRST_ROUND), |of| Some(2 * of))
        .take_while(|&of| of <= MOST_SAMPLES);
    first.chain(rounds.flat_map(move |of| (0..of / 2).map(move |number| at(2 * number + 1, of))))
}

/// Parts laid end to end.
struct Parts<'a> {
    parts: &'a [Range<u64>],
    /// Beginning of each, when they are laid so.
    starts: Vec<u64>,
    bytes: u64,
}

impl<'a> Parts<'a> {
    fn new(parts: &'a [Range<u64>]) -> Self {
        let mut bytes = 0;
        let mut starts = Vec::with_capacity(parts.len());
        for part in parts {
            starts.push(bytes);
            bytes += part.end - part.start;
        }
        Self { parts, starts, bytes }
    }

    /// The place of up to so many bytes that is `at` bytes behind the start of the first part,
    /// within one part.
    fn place(&self, at: u64, bytes: u64) -> Range<u64> {
        let number = self.starts.partition_point(|&start| start <= at) - 1;
        let part = &self.parts[number];
        let from = part.start + (at - self.starts[number]);
        from..part.end.min(from + bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_evenly_whenever_one_stops() {
        let places: Vec<u64> = sample_places(1 << 40).collect();
        assert_eq!(places.len() as u64, MOST_SAMPLES);
        for count in [1024, 2048, 8192, MOST_SAMPLES] {
            let mut some = places[..count as usize].to_vec();
            some.sort_unstable();
            assert!(some.windows(2).all(|pair| pair[1] - pair[0] == (1 << 40) / count), "{count}");
        }
    }

    #[test]
    fn places_lie_within_parts() {
        let parts = [10..20, 100..1100, 5000..5001];
        let all = Parts::new(&parts);
        assert_eq!(all.bytes, 1011);
        assert_eq!(
            [0, 9, 10, 1009, 1010].map(|at| all.place(at, 50)),
            [10..20, 19..20, 100..150, 1099..1100, 5000..5001]
        );
    }

    #[test]
    fn all_is_looked_at_where_that_is_quick() {
        let parts = [0..(300 << 20) + 5, 1 << 40..(1 << 40) + 7];
        let mut seen = 0;
        let progress = Progress::default();
        let found = search(&parts, &progress, |place| {
            seen += place.end - place.start;
            Ok(None::<()>)
        });
        assert!(found.unwrap().is_none());
        let all = (300 << 20) + 12;
        // The trials are looked at twice, and the end, which lies in the first part but for the 7
        // bytes of the second.
        assert_eq!((seen, progress.state()), (all + TRIALS * LONGEST + LONGEST - 7, (all, all)));
    }

    #[test]
    fn what_is_too_slow_is_sampled_and_a_search_can_be_stopped() {
        // However fast a trial is, an exbibyte takes longer than anybody waits.
        let whole = 0..1 << 60;
        let parts = std::slice::from_ref(&whole);
        let progress = Progress::default();
        let mut seen = 0;
        let wanted = (1 << 60) / FIRST_ROUND * 700;
        let found = search(parts, &progress, |place| {
            seen += 1;
            Ok(place.contains(&wanted).then_some(seen))
        });
        assert_eq!(found.unwrap(), Some(1 + TRIALS + 701));
        let at_the_end = search(parts, &Progress::default(), |place| {
            Ok((place.end == 1 << 60).then_some(place.start))
        });
        assert_eq!(at_the_end.unwrap(), Some((1 << 60) - LONGEST));
        progress.cancel();
        assert!(matches!(search(parts, &progress, |_| Ok(None::<()>)), Err(Stop::Cancelled(_))));
    }
}
