//! Construction of a drive from its profile.

use placement::{
    AnyVictim, BuildError, Context, PLACEMENTS, Placement, PlacementVisitor, build_victim,
    visit_placement,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Normal};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Spec};
use thiserror::Error;
use units::EraseBlockId;

use super::device::Drive;
use super::media::{Layout, Media};
use super::profile::{MediaConfig, Profile};
use super::schemes::behind_cache::BehindCache;
use super::schemes::dftl::{DftlScheme, MapSize};
use super::schemes::page_mapped::{PageMappedScheme, SchemeSettings};
use super::schemes::replicated::Replicated;
use super::schemes::stripes::{Stripes, Together};
use super::schemes::superblock_mapped::{ByHandle, SlcSettings, SuperblockMapped};
use super::schemes::{
    SCHEMES, Scheme, SchemeError, bast, block_mapped, dftl, fast, page_mapped, superblock_mapped,
    zoned,
};

/// Errors of making a drive.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DriveError {
    /// A name or parameter in the profile is wrong, or a policy needs more space.
    #[error("profile `{profile}`: {error}")]
    Policy {
        /// The profile.
        profile: String,
        /// The error of the name, parameter or policy.
        error: BuildError,
    },
    /// A single plane has too little space for a policy.
    #[error(
        "profile `{profile}`: {error}; each of {planes} planes has streams of its own: with \
         ftl.scheme = superblock_mapped they are of all planes together"
    )]
    Planes {
        /// The profile.
        profile: String,
        /// Number of planes.
        planes: u32,
        /// The policy's error.
        error: BuildError,
    },
    /// The scheme cannot be made.
    #[error("profile `{profile}`: {error}")]
    Scheme {
        /// The profile.
        profile: String,
        /// The scheme's error.
        error: SchemeError,
    },
}

/// Spare erase blocks of a plane that are not for streams: the reserve of the policy with the most
/// relocation targets, one more that is needed beyond it, and one that is being cleaned.
const OTHER_BLOCKS: usize = 6;

/// The same where translation pages or copies have a stream and a place in the reserve of their
/// own.
const OTHER_BLOCKS_WITH_OWN: usize = 8;

/// Code that runs with a drive of any scheme. A release compiles it for each scheme and placement.
pub trait DriveVisitor {
    /// The result.
    type Output;

    /// Called with the drive.
    fn visit<S: Scheme + 'static>(self, drive: Drive<S>) -> Self::Output;
}

/// Makes the drive of a profile, erased, and passes it to the visitor. `page_weights` gives the
/// update frequency of each logical page, for placement policies with an oracle. `seed` is that of
/// policies and of the endurance of erase blocks.
///
/// # Errors
/// [`DriveError`] if the profile's scheme or policies are unknown or do not fit.
pub fn visit_drive<V: DriveVisitor>(
    profile: &Profile,
    seed: u64,
    page_weights: Weights<'_>,
    visitor: V,
) -> Result<V::Output, DriveError> {
    let in_drive = InDrive { profile, seed, visitor };
    #[cfg(not(debug_assertions))]
    let found = visit_scheme(profile, seed, page_weights, in_drive);
    // A build for tests compiles schemes and drive once, not for each visitor of each crate. That
    // saves minutes.
    #[cfg(debug_assertions)]
    let found = boxed::scheme(profile, seed, page_weights).map(|scheme| in_drive.visit(scheme));
    found
}

type Weights<'a> = Option<&'a dyn Fn() -> Vec<f64>>;

/// Code that runs with a scheme.
trait SchemeVisitor {
    type Output;

    fn visit<S: Scheme + 'static>(self, scheme: S) -> Self::Output;
}

/// Makes the drive for its visitor.
struct InDrive<'a, V> {
    profile: &'a Profile,
    seed: u64,
    visitor: V,
}

impl<V: DriveVisitor> SchemeVisitor for InDrive<'_, V> {
    type Output = V::Output;

    fn visit<S: Scheme + 'static>(self, scheme: S) -> V::Output {
        let Self { profile, seed, visitor } = self;
        let media = Media::new(&profile.media).with_slc(profile).with_seed(seed);
        visitor.visit(Drive::new(profile, scheme, media))
    }
}

#[cfg(debug_assertions)]
mod boxed {
    use super::{DriveError, Profile, Scheme, SchemeVisitor, Weights, visit_scheme};

    struct Boxed;

    impl SchemeVisitor for Boxed {
        type Output = Box<dyn Scheme>;

        fn visit<S: Scheme + 'static>(self, scheme: S) -> Self::Output {
            Box::new(scheme)
        }
    }

    pub(super) fn scheme(
        profile: &Profile,
        seed: u64,
        page_weights: Weights<'_>,
    ) -> Result<Box<dyn Scheme>, DriveError> {
        visit_scheme(profile, seed, page_weights, Boxed)
    }
}

fn visit_scheme<V: SchemeVisitor>(
    profile: &Profile,
    seed: u64,
    page_weights: Weights<'_>,
    visitor: V,
) -> Result<V::Output, DriveError> {
    let of_policy = |error: BuildError| DriveError::Policy { profile: profile.name.clone(), error };
    let of_spec = |error| of_policy(BuildError::Spec(error));
    let spec = Spec::parse(&profile.ftl.scheme).map_err(of_spec)?;
    let info = *registry::find("FTL scheme", SCHEMES, |info| *info, &spec).map_err(of_spec)?;
    let args = info.accept(&spec).map_err(of_spec)?;
    let layout = profile.layout();
    let builder = Builder { profile, seed, page_weights, layout, info, args, visitor };
    builder.build()
}

struct Builder<'a, V> {
    profile: &'a Profile,
    seed: u64,
    page_weights: Weights<'a>,
    layout: Layout,
    info: &'static Info,
    args: Args,
    visitor: V,
}

impl<V: SchemeVisitor> Builder<'_, V> {
    fn of_policy(&self, error: BuildError) -> DriveError {
        DriveError::Policy { profile: self.profile.name.clone(), error }
    }

    fn build(self) -> Result<V::Output, DriveError> {
        match self.info.name {
            name if name == page_mapped::INFO.name || name == dftl::INFO.name => self.page_mapped(),
            name if name == superblock_mapped::INFO.name => self.page_mapped(),
            name if name == bast::INFO.name => self.with_log_blocks(bast::build),
            name if name == fast::INFO.name => self.with_log_blocks(fast::build),
            name if name == block_mapped::INFO.name => self.with_log_blocks(block_mapped::build),
            name if name == zoned::INFO.name => self.zoned(),
            other => unreachable!("the registered scheme `{other}` is built here"),
        }
    }

    fn is_of_superblocks(&self) -> bool {
        self.info.name == superblock_mapped::INFO.name
    }

    fn stripes(&self) -> Stripes {
        let media = &self.profile.media;
        let endurance = endurance(media, self.layout.erase_blocks(), self.seed);
        let together = Together {
            per_read: media.pages_per_read,
            per_program: media.pages_per_program,
            multi_plane: media.multi_plane,
            parity: self.profile.ftl.parity_dies,
            group: self.profile.ftl.stripe_dies,
        };
        let is_bad = |block: EraseBlockId| endurance.get(block.index()) == Some(&0);
        let stripes = Stripes::new(&self.layout, together, is_bad);
        match self.profile.slc_blocks() {
            Some(slc) => stripes.with_slc(slc),
            None => stripes,
        }
    }

    fn settings(&self, logical_pages: u32) -> SchemeSettings<'_> {
        let Self { profile, layout, args, seed, .. } = self;
        SchemeSettings {
            args,
            layout,
            logical_pages,
            cleaning: &profile.cleaning,
            wear_levelling: &profile.wear_levelling,
            fdp: &profile.fdp,
            copy_back: profile.media.copy_back,
            power_loss_protected: profile.write_buffer.power_loss_protected,
            endurance: endurance(&profile.media, layout.erase_blocks(), *seed),
        }
    }

    fn with_log_blocks<S: Scheme + 'static>(
        self,
        build: impl FnOnce(&Args, &Layout, u32, bool) -> Result<S, SchemeError>,
    ) -> Result<V::Output, DriveError> {
        let profile = self.profile;
        let scheme =
            build(&self.args, &self.layout, profile.logical_pages(), profile.media.copy_back)
                .map_err(|error| DriveError::Scheme { profile: profile.name.clone(), error })?;
        Ok(self.visitor.visit(scheme))
    }

    fn zoned(self) -> Result<V::Output, DriveError> {
        let scheme =
            zoned::Zoned::new(&self.settings(self.profile.logical_pages()), self.stripes())
                .map_err(|error| DriveError::Scheme {
                    profile: self.profile.name.clone(),
                    error,
                })?;
        Ok(self.visitor.visit(scheme))
    }

    fn page_mapped(self) -> Result<V::Output, DriveError> {
        let logical_pages = self.profile.logical_pages();
        let (geometry, spare_of_plane) = if self.is_of_superblocks() {
            let geometry = self.stripes().geometry(self.layout.page_bytes, logical_pages);
            let cache = self.profile.slc_fixed_superblocks()
                + u32::from(self.profile.slc_blocks().is_some());
            (geometry, geometry.spare_blocks().saturating_sub(cache) as usize)
        } else {
            let geometry = self.layout.geometry(logical_pages);
            let copies = self.profile.replica_pages().div_ceil(geometry.pages_per_erase_block);
            let spare = geometry.spare_blocks().saturating_sub(copies);
            (geometry, (spare / self.layout.planes()) as usize)
        };
        let is_dftl = self.info.name == dftl::INFO.name;
        let has_own = is_dftl || self.profile.has_replicas();
        let others = if has_own { OTHER_BLOCKS_WITH_OWN } else { OTHER_BLOCKS };
        let context = Context {
            geometry,
            seed: self.seed,
            page_weights: self.page_weights,
            future: None,
            most_streams: spare_of_plane.saturating_sub(others),
        };
        let profile = self.profile.name.clone();
        let of_policy = |error| DriveError::Policy { profile: profile.clone(), error };
        let placement =
            Spec::parse(&self.profile.ftl.placement).map_err(|error| of_policy(error.into()))?;
        let entry = registry::find("placement policy", PLACEMENTS, |entry| &entry.info, &placement)
            .map_err(|error| of_policy(error.into()))?;
        let victim = if self.profile.ftl.victim.is_empty() {
            entry.victim
        } else {
            &self.profile.ftl.victim
        };
        let victim = Spec::parse(victim).map_err(|error| of_policy(error.into()))?;
        if self.profile.fdp.handles > 0 {
            let policy = ByHandle::new(&self.profile.fdp);
            return PageMappedBuilder { builder: self, context, victim }.superblock_mapped(policy);
        }
        visit_placement(&placement, &context, PageMappedBuilder { builder: self, context, victim })
            .map_err(of_policy)?
    }
}

struct PageMappedBuilder<'a, 'c, V> {
    builder: Builder<'a, V>,
    context: Context<'c>,
    victim: Spec,
}

impl<V: SchemeVisitor> PlacementVisitor for PageMappedBuilder<'_, '_, V> {
    type Output = Result<V::Output, DriveError>;

    fn visit<P: Placement + 'static>(self, policy: P) -> Self::Output {
        if self.builder.info.name == dftl::INFO.name {
            self.dftl(policy)
        } else if self.builder.is_of_superblocks() {
            self.superblock_mapped(policy)
        } else {
            self.page_mapped(policy)
        }
    }
}

impl<V: SchemeVisitor> PageMappedBuilder<'_, '_, V> {
    fn page_mapped<P: Placement + 'static>(self, policy: P) -> Result<V::Output, DriveError> {
        if self.builder.profile.has_replicas() {
            return self.replicated(policy);
        }
        let victims = self.victims(policy.domains())?;
        let settings = self.builder.settings(self.context.geometry.logical_pages);
        let placement = &self.builder.profile.ftl.placement;
        let planes = self.builder.layout.planes();
        let scheme = PageMappedScheme::new(settings, placement, policy, victims).map_err(
            |error| match error {
                BuildError::TooSmall { .. } if planes > 1 => {
                    DriveError::Planes { profile: self.builder.profile.name.clone(), planes, error }
                }
                error => self.builder.of_policy(error),
            },
        )?;
        Ok(self.builder.visitor.visit(scheme))
    }

    fn replicated<P: Placement + 'static>(self, policy: P) -> Result<V::Output, DriveError> {
        let Builder { profile, layout, .. } = &self.builder;
        let pages = self.context.geometry.logical_pages.saturating_add(profile.replica_pages());
        let policy = Replicated::place_apart(policy, profile, layout.planes());
        let victims = self.victims(policy.domains())?;
        let no_room = |needed: u32, have: u32| DriveError::Scheme {
            profile: profile.name.clone(),
            error: SchemeError::Copies { budget: profile.replication.budget, needed, have },
        };
        let geometry = layout.geometry(self.context.geometry.logical_pages);
        let (copies, have) = (profile.replica_pages(), geometry.spare_blocks());
        let needed = copies.div_ceil(geometry.pages_per_erase_block);
        if needed >= have {
            return Err(no_room(needed, have));
        }
        let scheme = Replicated::new(
            self.builder.settings(pages),
            profile,
            self.builder.seed,
            policy,
            victims,
        )
        .map_err(|error| match error {
            BuildError::TooSmall { spare_blocks, needed: all, .. } => {
                no_room(needed + all.saturating_sub(spare_blocks), have)
            }
            error => self.builder.of_policy(error),
        })?;
        Ok(self.builder.visitor.visit(scheme))
    }

    fn superblock_mapped<P: Placement + 'static>(self, policy: P) -> Result<V::Output, DriveError> {
        let slc = SlcSettings::of(self.builder.profile);
        let policy = BehindCache::new(policy, slc.is_some());
        let victims = build_victim(&self.victim, &self.context, policy.domains())
            .map_err(|error| self.builder.of_policy(error))?;
        let settings = self.builder.settings(self.context.geometry.logical_pages);
        let (stripes, name) = (self.builder.stripes(), &self.builder.profile.ftl.placement);
        let scheme = SuperblockMapped::new(&settings, slc, stripes, name, policy, victims)
            .map_err(|error| self.builder.of_policy(error))?;
        let scheme = scheme.using_parity(self.builder.profile);
        Ok(self.builder.visitor.visit(scheme))
    }

    fn dftl<P: Placement + 'static>(self, policy: P) -> Result<V::Output, DriveError> {
        let Builder { profile, layout, args, .. } = &self.builder;
        let size = MapSize::new(args, self.context.geometry.logical_pages, layout.page_bytes)
            .map_err(|error| DriveError::Scheme { profile: profile.name.clone(), error })?;
        let policy = size.place_apart(policy, layout.planes());
        let victims = self.victims(policy.domains())?;
        let scheme = DftlScheme::new(
            self.builder.settings(size.all_pages()),
            &size,
            &profile.ftl.placement,
            policy,
            victims,
        )
        .map_err(|error| self.builder.of_policy(error))?;
        Ok(self.builder.visitor.visit(scheme))
    }

    fn victims(&self, domains: usize) -> Result<AnyVictim, DriveError> {
        build_victim(&self.victim, &self.context, domains * self.builder.layout.planes() as usize)
            .map_err(|error| self.builder.of_policy(error))
    }
}

/// Erases that each erase block endures: normally distributed, at least 1; 0 for those bad from the
/// factory. Empty if there is no limit and none is bad.
fn endurance(media: &MediaConfig, erase_blocks: u32, seed: u64) -> Vec<u32> {
    if media.endurance_cycles == 0 && media.factory_bad_share == 0.0 {
        return Vec::new();
    }
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x656e_6475_7261_6e63);
    let mean = if media.endurance_cycles == 0 {
        f64::from(u32::MAX)
    } else {
        f64::from(media.endurance_cycles)
    };
    let spread = if media.endurance_cycles == 0 { 0.0 } else { mean * media.endurance_spread };
    let normal = Normal::new(mean, spread).expect("a profile's spread was checked");
    let one = |_| {
        let cycles = normal.sample(&mut random).round().max(1.0) as u32;
        let is_bad = random.random::<f64>() < media.factory_bad_share;
        if is_bad { 0 } else { cycles }
    };
    (0..erase_blocks).map(one).collect()
}
