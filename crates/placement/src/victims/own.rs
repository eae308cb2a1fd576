//! Own: the placement policy chooses, with what it knows of pages and streams.

use units::EraseBlockId;

use crate::{Device, Victim};

/// The name of this choice in place of a victim policy's.
pub const NAME: &str = "own";

/// Stands where a victim policy would: the FTL asks the placement policy
/// ([`crate::Placement::choose_victim`]) and never this.
#[derive(Clone, Copy, Debug)]
pub struct Own;

impl Victim for Own {
    fn closed(&mut self, _block: EraseBlockId, _domain: usize, _device: &Device) {}

    fn invalidated(&mut self, _block: EraseBlockId, _domain: usize, _device: &Device) {}

    fn choose(&mut self, _domain: usize, _device: &Device) -> Option<EraseBlockId> {
        unreachable!("the placement policy is asked")
    }

    fn remove(&mut self, _block: EraseBlockId, _domain: usize, _device: &Device) {}

    fn is_own(&self) -> bool {
        true
    }
}
