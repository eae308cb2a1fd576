//! Statistics of page copies of a simulated drive.

use block::CopyWork;
use ssd::drive::media::MediaCounters;
use ssd::drive::schemes::SchemeCounters;
use ssd::drive::schemes::replicated::ReplicationFigures;
use ssd::drive::time::PICOS_PER_NANO;

/// The figures of a drive, of the same stretch of time, as those of a device.
#[must_use]
pub fn copy_work(
    figures: &ReplicationFigures,
    scheme: &SchemeCounters,
    media: &MediaCounters,
) -> CopyWork {
    let in_vain = media.in_vain.iter().flatten().sum();
    let of_flash = [
        ("host_page_writes", scheme.host_page_writes),
        ("replica_page_writes", scheme.replica_page_writes),
        ("commands_in_vain", in_vain),
        ("commands_withdrawn", media.vanished),
    ];
    CopyWork {
        counts: figures.counts.named().into_iter().chain(of_flash).collect(),
        predicted: figures.predicted_copies,
        interference: figures.interference.iter().map(|time| time / PICOS_PER_NANO).collect(),
        groups_by_size: figures.groups_by_size.clone(),
        sizes: vec![
            ("budget_pages", u64::from(figures.budget_pages)),
            ("used_pages", figures.used_pages),
            ("map_bytes", figures.map_bytes as u64),
            ("valid_map_bytes", figures.valid_map_bytes as u64),
            ("counter_bytes", figures.counter_bytes as u64),
            ("most_queued_bytes", figures.most_queued_bytes),
        ],
    }
}
