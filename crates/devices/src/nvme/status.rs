//! Status of an NVMe command (Base, section 4.2.3).

/// The status as the kernel hands it over: without the phase bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(pub u16);

/// Set where the same command would fail again.
const DO_NOT_RETRY: u16 = 1 << 14;
/// The code within its type.
const CODE: u16 = 0xff;
/// The type.
const TYPE: u16 = 0x7 << 8;

impl Status {
    /// A result of the ring or of an ioctl that is above 0.
    pub fn of(result: i32) -> Option<Self> {
        u16::try_from(result).ok().filter(|&status| status != 0).map(Self)
    }

    /// Returns true if the controller has Flexible Data Placement, and it is not enabled here.
    pub const fn is_fdp_disabled(self) -> bool {
        self.0 & (TYPE | CODE) == 0x029
    }

    /// Returns true if the same command may succeed later.
    pub const fn may_pass(self) -> bool {
        self.0 & DO_NOT_RETRY == 0
    }

    /// Gives the status in words.
    pub fn told(self) -> String {
        let code = self.0 & (TYPE | CODE);
        format!("{} (NVMe status {code:03x}h)", words(code))
    }
}

fn words(code: u16) -> &'static str {
    match code {
        0x001 => "the drive does not do this",
        0x002 | 0x00b => "the drive does not take such a command",
        0x004 | 0x00d..=0x013 => "the data did not come over the link",
        0x005 => "the drive lost its power",
        0x006 => "the drive failed inside",
        0x007 | 0x008 | 0x371 => "the command was aborted",
        0x01c | 0x01d => "the drive is being sanitized, or has failed at it",
        0x020 | 0x182 => "it is read-only",
        0x021 => "the command was interrupted",
        0x022 => "the link to the drive failed for a moment",
        0x029 => "data placement is not enabled any more",
        0x080 => "the drive has no such sectors: it is smaller than it was",
        0x081 => "no space left under the namespace: it promises more than is behind it",
        0x082 => "the namespace is not ready",
        0x083 => "another host has reserved it",
        0x084 => "it is being formatted",
        0x280 => "the medium does not take it there",
        0x281 => "the medium is damaged there",
        0x282..=0x284 => "the data is not what was written: its protection does not fit",
        0x286 => "the drive allows no access there",
        0x287 => "nothing was written there, and the drive gives an error for it",
        0x300..=0x3ff => "no way leads to the drive",
        0x700..=0x7ff => "the drive has a failure that only its maker knows",
        _ => "the drive refused it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_apart_from_an_error_of_the_kernel() {
        assert_eq!(Status::of(0), None);
        assert_eq!(Status::of(-libc::EIO), None);
        assert_eq!(Status::of(0x4281), Some(Status(0x4281)));
        assert_eq!(Status::of(1 << 20), None);
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        assert!(Status(0x0082).may_pass() && Status(0x1881).may_pass());
        assert!(!Status(0x4281).may_pass());
        assert!(Status(0x4029).is_fdp_disabled() && !Status(0x4129).is_fdp_disabled());
    }

    #[test]
    fn a_status_has_words_and_its_number() {
        let of = |status| Status(status).told();
        assert_eq!(of(0x4281), "the medium is damaged there (NVMe status 281h)");
        assert_eq!(of(0x6020), "it is read-only (NVMe status 020h)");
        assert_eq!(of(0x0182), "it is read-only (NVMe status 182h)");
        assert_eq!(
            of(0x4080),
            "the drive has no such sectors: it is smaller than it was (NVMe status 080h)"
        );
        assert_eq!(of(0x0370), "no way leads to the drive (NVMe status 370h)");
        assert_eq!(of(0x0371), "the command was aborted (NVMe status 371h)");
        assert!(of(0x47c1).contains("only its maker knows"));
        assert_eq!(of(0x01ff), "the drive refused it (NVMe status 1ffh)");
    }
}
