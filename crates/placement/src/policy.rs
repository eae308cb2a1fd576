//! The interface between an FTL and its policies: the FTL's questions, and the events that it
//! reports.

use auto_impl::auto_impl;
use registry::SpecError;
use thiserror::Error;
use units::{EraseBlockId, Geometry, Lpn, PageOp, SourceError, StreamId};

use crate::{Device, Future};

/// Current place of the page that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Previous {
    /// The erase block that holds its last version.
    pub block: EraseBlockId,
    /// That erase block's stream.
    pub stream: StreamId,
}

/// The valid pages of a victim, in the order in which they lie there.
#[derive(Clone, Copy, Debug)]
pub struct Survivors<'a> {
    /// The victim.
    pub block: EraseBlockId,
    /// Its stream.
    pub stream: StreamId,
    /// Page offsets within the erase block, ascending.
    pub offsets: &'a [u32],
    /// The logical pages.
    pub lpns: &'a [u32],
}

/// Death of a version of a page: the page was written again or trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// The logical page.
    pub lpn: Lpn,
    /// The erase block of the version that died.
    pub block: EraseBlockId,
    /// Its offset there, in pages.
    pub offset: u32,
    /// That erase block's stream.
    pub stream: StreamId,
    /// True if the page was trimmed.
    pub is_trimmed: bool,
}

/// Placement of a page in an erase block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The logical page.
    pub lpn: Lpn,
    /// The erase block in which it lies now.
    pub block: EraseBlockId,
    /// That erase block's stream: the policy's choice, or another one if there was no room.
    pub stream: StreamId,
    /// The erase block that it was relocated from; `None` if the host wrote it.
    pub from: Option<EraseBlockId>,
}

/// Valid pages that a cleaning takes along from another stream, beside its victim's survivors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The stream that they lie in.
    pub from: StreamId,
    /// True to take the pages that were written last, of the stream's newest closed erase block
    /// from the end on; false to take those that were written first, of its oldest one from the
    /// beginning on.
    pub newest: bool,
    /// Most pages to take. The FTL takes fewer if the erase block has no more, or if the cleaning
    /// would gain nothing otherwise.
    pub pages: u32,
    /// The stream that they go to.
    pub to: StreamId,
}

/// Parts of the interface that a placement policy uses. An FTL leaves the others out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub struct Features {
    /// True if each stream is cleaned by itself. Then [`Device::streams`] counts valid pages, and
    /// the victim policy chooses within the domain that [`Placement::donor`] names; otherwise it
    /// chooses among all closed erase blocks.
    pub per_stream: bool,
    /// True if the policy uses [`Previous`].
    pub uses_previous: bool,
    /// True if the policy is told of every page that dies ([`Placement::page_died`]).
    pub watches_deaths: bool,
    /// True if the policy is told where every page was put ([`Placement::page_placed`]).
    pub watches_places: bool,
    /// True if the policy can choose victims itself, so that placement and victim choice share its
    /// state. It does so only if the victim policy is [`own`](crate::victims::own).
    pub chooses_victims: bool,
    /// True if it has open erase blocks closed early ([`Placement::stream_to_close`]).
    pub closes_early: bool,
    /// True if its cleanings take pages along from other streams ([`Placement::pulls`]).
    pub pulls: bool,
    /// True if it is shown coming writes of the host ([`Placement::look_ahead`]).
    pub looks_ahead: bool,
    /// True if the host gives a placement handle with each write ([`Placement::set_handle`]).
    pub has_handles: bool,
}

impl Features {
    /// The least: a policy that chooses a stream by the page alone.
    pub const NONE: Self = Self {
        per_stream: false,
        uses_previous: false,
        watches_deaths: false,
        watches_places: false,
        chooses_victims: false,
        closes_early: false,
        pulls: false,
        looks_ahead: false,
        has_handles: false,
    };
}

/// Placement: chooses the stream to which a page is written, and the stream that gives up an erase
/// block.
///
/// Streams are numbered from 0; their greatest number is fixed when the policy is made.
#[auto_impl(Box)]
pub trait Placement: Send {
    /// Parts of the interface that it uses: the same at each call, so that a compiler leaves out
    /// what it does not use.
    fn features(&self) -> Features;

    /// Greatest number of streams.
    fn streams(&self) -> usize;

    /// Sets the placement handle of the pages for which [`Placement::host_stream`] is called from
    /// now on. Called only for policies with [`Features::has_handles`].
    #[inline]
    fn set_handle(&mut self, handle: u8) {
        let _ = handle;
    }

    /// Number of streams that the policy goes without, since there is no room for them
    /// ([`Context::most_streams`]).
    fn streams_left_out(&self) -> usize {
        0
    }

    /// Greatest number of different streams to which the survivors of one victim may go: the FTL
    /// keeps that many erase blocks in reserve.
    fn relocation_targets(&self) -> usize {
        1
    }

    /// Chooses the stream for a page that the host writes. `previous` is `None` if the page holds
    /// no data.
    fn host_stream(&mut self, lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId;

    /// Most operations of the host that are shown ahead, 1 or more. For policies with
    /// [`Features::looks_ahead`], as the next function.
    fn most_ahead(&self) -> usize {
        1
    }

    /// Shows the pages that the host writes next, in order, each with its current place: a cleaning
    /// may move it before its turn, and an earlier write of the same page does. [`host_stream`] is
    /// called for each in its turn, and for no other until the next call. Only a counting medium
    /// calls this.
    ///
    /// [`host_stream`]: Placement::host_stream
    fn look_ahead(&mut self, writes: &[(Lpn, Option<Previous>)], device: &Device) {
        let _ = (writes, device);
    }

    /// Loads the policy's entries for these pages, which the host writes soon. The loads do not
    /// depend on each other, so their cache misses overlap. Changes nothing.
    #[inline]
    fn fetch(&self, operations: &[PageOp]) {
        let _ = operations;
    }

    /// Chooses the stream for each survivor of a victim. The choices are written to `to`, which is
    /// as long as the survivors.
    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    );

    /// For policies with [`Features::pulls`]: chooses further pages to move with these survivors.
    /// Called after [`Placement::relocation_streams`].
    fn pulls(&mut self, survivors: Survivors<'_>, device: &Device, pulls: &mut Vec<Pull>) {
        let _ = (survivors, device, pulls);
    }

    /// Chooses the domain that gives up an erase block, so that `needy` can have one. Called only
    /// for policies with [`Features::per_stream`].
    fn donor(&mut self, needy: StreamId, device: &Device) -> usize {
        let _ = device;
        needy.index()
    }

    /// Reports that a page has died. [`Device`] shows its erase block's count after that. Called
    /// only for policies with [`Features::watches_deaths`].
    #[inline]
    fn page_died(&mut self, death: Death, device: &Device) {
        let _ = (death, device);
    }

    /// Reports that a page was put in an erase block, which is not closed yet:
    /// [`Placement::block_closed`] comes later. If the host wrote the page, the death of its last
    /// version was reported before. [`Device`] shows the erase block's count including the page.
    /// Called only for policies with [`Features::watches_places`].
    ///
    /// Pages that an FTL restores after it was stopped are not reported: a page may die or be
    /// relocated that the policy has not seen placed.
    #[inline]
    fn page_placed(&mut self, place: Place, device: &Device) {
        let _ = (place, device);
    }

    /// For policies with [`Features::closes_early`]: gives a stream whose open erase block is to
    /// be closed though it is not full, as nothing more shall be written there. Called before a
    /// cleaning until it gives `None`, but only once between two writes of the host. Each plane
    /// closes its own erase block before the next cleaning there.
    fn stream_to_close(&mut self, device: &Device) -> Option<StreamId> {
        let _ = device;
        None
    }

    /// As [`Victim::closed`], for policies with [`Features::chooses_victims`]. The same holds for
    /// the next two functions.
    fn block_closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        let _ = (block, domain, device);
    }

    /// As [`Victim::choose`].
    fn choose_victim(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        let _ = (domain, device);
        None
    }

    /// As [`Victim::remove`].
    fn victim_removed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        let _ = (block, domain, device);
    }

    /// The domain of a stream: the group of erase blocks among which its victims are chosen.
    #[inline]
    #[must_use]
    fn domain_of(&self, stream: u32) -> usize {
        if self.features().per_stream { stream as usize } else { 0 }
    }

    /// Greatest number of domains: each stream is one, or all streams together.
    fn domains(&self) -> usize {
        if self.features().per_stream { self.streams() } else { 1 }
    }

    /// Name of a stream in reports.
    fn stream_label(&self, stream: StreamId) -> String {
        format!("stream {}", stream.0)
    }
}

/// Victim choice: the closed erase block that is cleaned next. `domain` is 0 where all are cleaned
/// together, else [`Placement::domain_of`] the stream.
pub trait Victim: Send {
    /// Reports that an erase block was filled and may be chosen from now on.
    fn closed(&mut self, block: EraseBlockId, domain: usize, device: &Device);

    /// Reports that a page of the erase block became invalid; the erase block may still be open.
    /// [`Device`] shows the count after that.
    fn invalidated(&mut self, block: EraseBlockId, domain: usize, device: &Device);

    /// Chooses the next victim of the domain and takes it out of the index; gives `None` if the
    /// domain has no closed erase block.
    fn choose(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId>;

    /// Takes out an erase block that the FTL cleans for a reason of its own.
    fn remove(&mut self, block: EraseBlockId, domain: usize, device: &Device);

    /// Returns true if it leaves the choice to the placement policy
    /// ([`Features::chooses_victims`]).
    #[inline]
    fn is_own(&self) -> bool {
        false
    }
}

/// Context in which a policy is made.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Sizes of the device.
    pub geometry: Geometry,
    /// Seed of the policy's random draws.
    pub seed: u64,
    /// Gives the update frequency of each logical page, in any unit. Called only by policies with
    /// an oracle.
    pub page_weights: Option<&'a dyn Fn() -> Vec<f64>>,
    /// Gives the times at which the pages that the host writes will be out of date. Called only by
    /// policies that know the future.
    pub future: Option<&'a dyn Fn() -> Result<Future, SourceError>>,
    /// Number of streams that there is room for: each has an erase block open in each lane. A
    /// policy that would have more uses this many, and says so ([`Placement::streams_left_out`]).
    pub most_streams: usize,
}

impl Context<'_> {
    /// A context without an oracle, and with room for any number of streams.
    #[must_use]
    pub fn new(geometry: Geometry, seed: u64) -> Self {
        Self { geometry, seed, page_weights: None, future: None, most_streams: usize::MAX }
    }
}

/// Errors of making a policy.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum BuildError {
    /// The name or a parameter is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The policy needs update frequencies, and the context has none.
    #[error("`{0}` needs to know how often each page is updated, and this source does not tell")]
    NeedsWeights(&'static str),
    /// The policy needs the future, and the context does not know it.
    #[error(
        "`{0}` knows when each page will be written again, which is known only where a whole trace \
         is counted: take another placement policy here"
    )]
    NeedsFuture(&'static str),
    /// The future cannot be read.
    #[error("{0}")]
    NoFuture(String),
    /// The victim policy is `own`, but the placement policy chooses no victims.
    #[error("`{0}` chooses no victims itself: take another victim policy than `own`")]
    NoOwnVictims(String),
    /// There are fewer erase blocks than the policy's streams need.
    #[error(
        "{erase_blocks} erase blocks with {spare_blocks} spare are too few for `{name}`, which \
         needs {needed} spare: take more pages, more over-provisioning or smaller erase blocks"
    )]
    TooSmall {
        /// The policy.
        name: String,
        /// Erase blocks on the media.
        erase_blocks: u32,
        /// Number of erase blocks beyond the logical capacity.
        spare_blocks: u32,
        /// Number of erase blocks that the policy needs beyond the logical capacity.
        needed: u32,
    },
}
