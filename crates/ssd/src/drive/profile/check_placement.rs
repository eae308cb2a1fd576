//! Checks of a profile's keys for placement by the host.

use units::PLACEMENT_HANDLES;

use registry::{Args, Spec};

use super::check::{At, Checked};
use super::{FlushOrder, Profile};
use crate::drive::schemes::zoned;

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

    /// The parameters of the scheme, if the drive has zones.
    pub(super) fn zoned(&self) -> Option<Args> {
        let spec = Spec::parse(&self.ftl.scheme).ok()?;
        if zoned::INFO.is_called(&spec.name) { zoned::INFO.accept(&spec).ok() } else { None }
    }

    /// A program unit of each active zone may wait in the write buffer until it is full: zones are
    /// not padded.
    pub(super) fn check_zones(&self, at: &At<'_>) -> Checked {
        let Some(args) = self.zoned() else { return Ok(()) };
        let buffer = &self.write_buffer;
        at.require(
            buffer.bytes > 0 && buffer.power_loss_protected,
            "write_buffer.power_loss_protected",
            buffer.power_loss_protected,
            || {
                "must be true, and write_buffer.bytes above 0, where ftl.scheme is zoned: a page \
                 waits there until its program is full"
                    .to_owned()
            },
        )?;
        at.require(
            buffer.order == FlushOrder::Fifo,
            "write_buffer.order",
            "by_erase_block",
            || "must be fifo where ftl.scheme is zoned: zones are written in order".to_owned(),
        )?;
        // Without a limit: as many zones as there may be, of one die each.
        let zones =
            u64::from(self.media.erase_blocks_per_plane) * u64::from(self.layout().planes());
        let active = Some(args.integer("max_active")).filter(|&most| most > 0).unwrap_or(zones);
        let least = active * u64::from(self.program_unit_pages() - 1) + 1;
        let most = match buffer.in_flight_pages {
            0 => u64::from(self.layout().planes()),
            pages => u64::from(pages),
        };
        at.require(most >= least, "write_buffer.in_flight_pages", most, || {
            format!(
                "must be at least {least} where ftl.scheme is zoned: of each of {active} active \
                 zones {} pages may wait for the last of their program",
                self.program_unit_pages() - 1
            )
        })
    }
}
