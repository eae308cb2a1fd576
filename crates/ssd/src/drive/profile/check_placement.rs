//! Whether what a profile says of placement by the host can be.

use units::PLACEMENT_HANDLES;

use super::Profile;
use super::check::{At, Checked};

impl Profile {
    pub(super) fn check_fdp(&self, at: &At<'_>) -> Checked {
        let handles = self.fdp.handles;
        at.range("fdp.handles", handles, 0..=u32::from(PLACEMENT_HANDLES))?;
        if handles == 0 {
            return Ok(());
        }
        at.require(self.is_of_superblocks(), "fdp.handles", handles, || {
            "must be 0 unless ftl.scheme is superblock_mapped: reclaim units are superblocks"
                .to_owned()
        })?;
        let placement = &self.ftl.placement;
        at.require(placement == "none", "ftl.placement", format!("\"{placement}\""), || {
            "must be \"none\" where fdp.handles is above 0: the host says where pages go".to_owned()
        })
    }
}
