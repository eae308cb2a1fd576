//! Stacks of layers: how they are written, made, opened, and what they take.

mod memory;
mod opening;
mod registered;
mod resize;
mod staging;
mod structures;

pub use memory::{StackMemory, memory};
pub use opening::{format, open, open_flawed, salvage};
pub use registered::{LAYERS, parse, settled};
pub use resize::{capacity, resize};
pub use staging::{area_of, bytes_with_area, lay_area};
pub use structures::{Placed, structures};
