//! Mutilated images are opened or refused: no panic, no endless reading, no more memory than the
//! device has bytes.

use faults::fuzz::{Images, Moment, Outcomes};
use faults::{Dice, subjects};
use peak_alloc::PeakAlloc;

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

const IMAGES: usize = 2_000;

/// One test, for memory is counted for the whole process.
#[test]
fn mutilated_images_are_opened_or_refused_in_bounded_memory() {
    for subject in subjects() {
        let images =
            Images::new(&subject, 1).unwrap_or_else(|wrong| panic!("{subject}: {}", wrong.0));
        // Checksums are mended in half of the images: that has to find them.
        let has_form = ["stable_buffer", "log_volume", "replicas", "checksums"]
            .iter()
            .any(|name| subject.to_string().contains(name));
        if !has_form {
            continue;
        }
        assert!(images.structures() > 1, "{subject}: {} structures", images.structures());
        let (mut dice, mut outcomes, mut most) = (Dice::new(7), Outcomes::default(), 0);
        for number in 0..IMAGES / subjects().len() {
            let image = images.mutilate(&mut dice);
            let mut before = 0;
            let mut measure = |moment: Moment| match moment {
                Moment::Opening => {
                    before = PEAK.current_usage();
                    PEAK.reset_peak_usage();
                }
                Moment::Opened => most = most.max(PEAK.peak_usage().saturating_sub(before)),
            };
            if let Err(wrong) = images.open(&subject, image, &mut dice, &mut outcomes, &mut measure)
            {
                panic!("{subject}, image {number}: {}", wrong.0);
            }
        }
        // Some tables do not depend on the device's size.
        let limit = subject.device_bytes as usize + (96 << 10);
        assert!(
            most < limit,
            "{subject}: {most} bytes of memory for a device of {}",
            subject.device_bytes
        );
        assert_eq!(outcomes.opened + outcomes.refused, outcomes.tried, "{subject}");
    }
}
