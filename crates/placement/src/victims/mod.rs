//! Victim policies: one file and one line in the registry each.

mod aged;
pub mod own;
mod pool;

use registry::{Info, Spec};
use units::EraseBlockId;

use crate::{BuildError, Context, Device, Victim};

/// Makes the list of all victim policies and an enum of them. Calls go through a `match` on the
/// variant, which the branch predictor learns at once, so an FTL is compiled once for each
/// placement and not for each pair.
macro_rules! victims {
    ($($module:ident :: $Type:ident),+ $(,)?) => {
        $(pub mod $module;)+

        /// Any victim policy.
        #[derive(Debug)]
        #[allow(missing_docs)]
        pub enum AnyVictim {
            $($Type($module::$Type),)+
            Own(own::Own),
        }

        /// Registry entries of all victim policies.
        pub static VICTIMS: &[Info] = &[$($module::INFO),+];

        /// Makes the victim policy that the spec names, choosing within each of `domains`. `own`
        /// leaves the choice to the placement policy, and is not listed, as few policies can
        /// choose.
        ///
        /// # Errors
        /// [`BuildError::Spec`] for an unknown name or parameter.
        pub fn build_victim(
            spec: &Spec,
            context: &Context<'_>,
            domains: usize,
        ) -> Result<AnyVictim, BuildError> {
            if spec.name == own::NAME {
                return Ok(AnyVictim::Own(own::Own));
            }
            let info = registry::find("victim policy", VICTIMS, |info| info, spec)?;
            let args = info.accept(spec)?;
            $(if info.name == $module::INFO.name {
                return Ok(AnyVictim::$Type($module::$Type::build(&args, context, domains)));
            })+
            unreachable!("every registered victim policy is built above")
        }

        impl Victim for AnyVictim {
            #[inline]
            fn closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
                match self {
                    $(Self::$Type(policy) => policy.closed(block, domain, device),)+
                    Self::Own(own) => own.closed(block, domain, device),
                }
            }

            #[inline]
            fn invalidated(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
                match self {
                    $(Self::$Type(policy) => policy.invalidated(block, domain, device),)+
                    Self::Own(own) => own.invalidated(block, domain, device),
                }
            }

            #[inline]
            fn choose(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
                match self {
                    $(Self::$Type(policy) => policy.choose(domain, device),)+
                    Self::Own(own) => own.choose(domain, device),
                }
            }

            fn remove(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
                match self {
                    $(Self::$Type(policy) => policy.remove(block, domain, device),)+
                    Self::Own(own) => own.remove(block, domain, device),
                }
            }

            #[inline]
            fn is_own(&self) -> bool {
                matches!(self, Self::Own(_))
            }
        }
    };
}

// The registry: one line per policy.
victims! {
    lru::Lru,
    greedy::Greedy,
    window_greedy::WindowGreedy,
    d_choices::DChoices,
    cost_benefit::CostBenefit,
    lfs_cost_benefit::LfsCostBenefit,
    random::Random,
}
