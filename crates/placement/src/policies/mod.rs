//! Placement policies: one file and one line in the registry each.

use registry::{Info, Spec, SpecError};

use crate::{BuildError, Context, Placement};

/// A placement policy in the registry.
#[derive(Clone, Copy, Debug)]
pub struct PlacementEntry {
    /// Name, parameters and source.
    pub info: Info,
    /// The victim policy that its authors use: the default when none is asked for.
    pub victim: &'static str,
    /// Most memory that it keeps, in bytes per logical page, without its tables of erase blocks and
    /// streams.
    pub bytes_per_page: u32,
}

/// Code that works with any placement policy. A release compiles it for each: a simulator is chosen
/// without a `dyn` call per page.
pub trait PlacementVisitor {
    /// The result.
    type Output;

    /// Called with the requested policy.
    fn visit<P: Placement + 'static>(self, policy: P) -> Self::Output;
}

/// Finds the placement policy that a spec names.
///
/// # Errors
/// [`SpecError`] for an unknown name.
pub fn find_placement(spec: &Spec) -> Result<&'static PlacementEntry, SpecError> {
    registry::find("placement policy", PLACEMENTS, |entry| &entry.info, spec)
}

#[cfg(not(debug_assertions))]
fn as_built<P>(policy: P) -> P {
    policy
}

/// A build for tests compiles what works with a policy once, not for each policy. That saves
/// minutes.
#[cfg(debug_assertions)]
fn as_built<P: Placement + 'static>(policy: P) -> Box<dyn Placement> {
    Box::new(policy)
}

macro_rules! placements {
    ($($module:ident :: $Type:ident),+ $(,)?) => {
        $(pub mod $module;)+

        /// Every placement policy.
        pub static PLACEMENTS: &[PlacementEntry] = &[
            $(PlacementEntry {
                info: $module::INFO,
                victim: $module::VICTIM,
                bytes_per_page: $module::BYTES_PER_PAGE,
            }),+
        ];

        /// Makes the placement policy that the spec names and hands it to the visitor.
        ///
        /// # Errors
        /// [`BuildError`] for an unknown name or parameter, or a device that the policy cannot work
        /// on.
        pub fn visit_placement<V: PlacementVisitor>(
            spec: &Spec,
            context: &Context<'_>,
            visitor: V,
        ) -> Result<V::Output, BuildError> {
            let info = &find_placement(spec)?.info;
            let args = info.accept(spec)?;
            $(if info.name == $module::INFO.name {
                return Ok(visitor.visit(as_built($module::$Type::build(&args, context)?)));
            })+
            unreachable!("every registered placement policy is built above")
        }
    };
}

// The registry: one line per policy.
placements! {
    none::NoPlacement,
    separate::Separate,
    envy_hybrid::EnvyHybrid,
    dac::Dac,
    container_marking::ContainerMarking,
    multi_log::MultiLog,
    multi_log_optimal::MultiLogOptimal,
    ffs::Ffs,
    sepbit::SepBit,
    hazard::Hazard,
    sfs::Sfs,
    mdc::Mdc,
    multi_queue::MultiQueue,
    fadac::Fadac,
    warcip::Warcip,
    midas::Midas,
    timestamps::Timestamps,
    future_knowledge::FutureKnowledge,
}
