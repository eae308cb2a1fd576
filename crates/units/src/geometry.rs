//! The size of a flash device, as far as an FTL without a clock needs it.

use thiserror::Error;

/// Pages, erase blocks and logical capacity of a device.
///
/// `over_provisioning` alpha = (physical - logical) / logical (MULTILOG table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size of a page in bytes.
    pub page_bytes: u32,
    /// Pages in an erase block (MULTILOG's C).
    pub pages_per_erase_block: u32,
    /// Pages that the host can address (MULTILOG's N).
    pub logical_pages: u32,
    /// Erase blocks on the media.
    pub erase_blocks: u32,
}

/// Errors of a geometry.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum GeometryError {
    /// A size is zero or not a number.
    #[error("{what} is {value}: it must be {right}")]
    OutOfRange {
        /// The size concerned.
        what: &'static str,
        /// The value given.
        value: String,
        /// The range of right values.
        right: &'static str,
    },
    /// More pages than 32-bit page numbers can address.
    #[error(
        "{logical_pages} logical pages at over-provisioning {over_provisioning} need more than \
         2^31 physical pages: use larger pages"
    )]
    TooLarge {
        /// Logical pages asked for.
        logical_pages: u64,
        /// Over-provisioning asked for.
        over_provisioning: f64,
    },
}

impl Geometry {
    /// The largest number of physical pages: the highest bit of a page number is reserved for
    /// [`crate::PageOp`].
    pub const MAX_PHYSICAL_PAGES: u64 = 1 << 31;

    /// Makes a device with `logical_pages` for the host. The media have a further fraction of
    /// these, `over_provisioning` (above 0), rounded to whole erase blocks.
    ///
    /// # Errors
    /// [`GeometryError`] if a size is zero, or the page numbers would not fit.
    pub fn with_over_provisioning(
        page_bytes: u32,
        pages_per_erase_block: u32,
        logical_pages: u64,
        over_provisioning: f64,
    ) -> Result<Self, GeometryError> {
        let out_of_range =
            |what, value: String, right| Err(GeometryError::OutOfRange { what, value, right });
        if page_bytes == 0 {
            return out_of_range("page size", page_bytes.to_string(), "at least 1 byte");
        }
        if !(2..=4096).contains(&pages_per_erase_block) {
            return out_of_range(
                "pages per erase block",
                pages_per_erase_block.to_string(),
                "2 to 4096",
            );
        }
        if logical_pages == 0 {
            return out_of_range("logical pages", logical_pages.to_string(), "at least 1");
        }
        if !(over_provisioning > 0.0 && over_provisioning <= 100.0) {
            return out_of_range(
                "over-provisioning",
                over_provisioning.to_string(),
                "above 0 and at most 100 (0.2 means 20 %)",
            );
        }
        let physical = logical_pages as f64 * (1.0 + over_provisioning);
        let erase_blocks = (physical / f64::from(pages_per_erase_block)).round();
        if erase_blocks * f64::from(pages_per_erase_block) > Self::MAX_PHYSICAL_PAGES as f64 {
            return Err(GeometryError::TooLarge { logical_pages, over_provisioning });
        }
        Ok(Self {
            page_bytes,
            pages_per_erase_block,
            logical_pages: logical_pages as u32,
            erase_blocks: erase_blocks as u32,
        })
    }

    /// Pages on the media.
    #[must_use]
    pub const fn physical_pages(&self) -> u32 {
        self.erase_blocks * self.pages_per_erase_block
    }

    /// Erase blocks beyond those that the logical pages fill.
    #[must_use]
    pub const fn spare_blocks(&self) -> u32 {
        self.erase_blocks.saturating_sub(self.logical_pages.div_ceil(self.pages_per_erase_block))
    }

    /// Alpha after rounding to whole erase blocks.
    #[must_use]
    pub fn over_provisioning(&self) -> f64 {
        f64::from(self.physical_pages()) / f64::from(self.logical_pages) - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_provisioning_is_kept_within_one_erase_block() {
        let g = Geometry::with_over_provisioning(4096, 64, 1 << 20, 0.07).unwrap();
        assert!((g.over_provisioning() - 0.07).abs() < 64.0 / f64::from(1 << 20));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (page, per_block, logical, op) in [
            (0, 64, 1, 0.1),
            (1, 1, 1, 0.1),
            (1, 64, 0, 0.1),
            (1, 64, 1, 0.0),
            (1, 64, 1, f64::NAN),
        ] {
            assert!(Geometry::with_over_provisioning(page, per_block, logical, op).is_err());
        }
        assert!(matches!(
            Geometry::with_over_provisioning(4096, 64, 1 << 31, 0.1),
            Err(GeometryError::TooLarge { .. })
        ));
    }
}
