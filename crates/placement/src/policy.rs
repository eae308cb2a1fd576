//! The questions that an FTL asks of its policies, and what it tells them.

use registry::SpecError;
use thiserror::Error;
use units::{EraseBlockId, Geometry, Lpn, PageOp, SourceError, StreamId};

use crate::{Device, Future};

/// Where the page that is being written lies now.
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
    /// Places within the erase block, ascending.
    pub offsets: &'a [u32],
    /// The logical pages.
    pub lpns: &'a [u32],
}

/// A page whose newest version is out of date: it was written again or trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// The logical page.
    pub lpn: Lpn,
    /// The erase block in which the version lies that died.
    pub block: EraseBlockId,
    /// Its place there, in pages.
    pub offset: u32,
    /// That erase block's stream.
    pub stream: StreamId,
    /// Whether it was trimmed.
    pub is_trimmed: bool,
}

/// A page that was put in an erase block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The logical page.
    pub lpn: Lpn,
    /// The erase block in which it lies now.
    pub block: EraseBlockId,
    /// That erase block's stream: what the policy said, or another one if there was no room.
    pub stream: StreamId,
    /// The erase block that it was relocated from; none if the host wrote it.
    pub from: Option<EraseBlockId>,
}

/// Valid pages that a cleaning takes along from another stream, beside its victim's survivors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The stream that they lie in.
    pub from: StreamId,
    /// Whether they are those that were written last, of its newest closed erase block from the
    /// end on; or those that were written first, of its oldest from the beginning on.
    pub newest: bool,
    /// How many at most. The FTL takes fewer if the erase block has no more, or if the cleaning
    /// would gain nothing otherwise.
    pub pages: u32,
    /// The stream that they go to.
    pub to: StreamId,
}

/// Placement: to which stream a page is written, and which stream gives up an erase block.
///
/// Streams are numbered from 0; their greatest number is fixed when the policy is made.
pub trait Placement: Send {
    /// Whether each stream is cleaned by itself. Then [`Device::streams`] counts valid pages, and
    /// the victim policy chooses within the domain that [`Placement::donor`] names; otherwise it
    /// chooses among all closed erase blocks.
    const PER_STREAM: bool;

    /// Whether the policy looks at [`Previous`]. An FTL saves the look-up for those that do not.
    const USES_PREVIOUS: bool;

    /// Whether the policy is told of every page that dies ([`Placement::page_died`]).
    const WATCHES_DEATHS: bool = false;

    /// Whether the policy is told where every page was put ([`Placement::page_placed`]).
    const WATCHES_PLACES: bool = false;

    /// Whether the policy can choose victims itself, so that both choices share what it knows. It
    /// does so where the victim policy is [`own`](crate::victims::own); with another one it is not
    /// asked.
    const CHOOSES_VICTIMS: bool = false;

    /// Whether it has open erase blocks closed early ([`Placement::stream_to_close`]).
    const CLOSES_EARLY: bool = false;

    /// Whether its cleanings take pages along from other streams ([`Placement::pulls`]).
    const PULLS: bool = false;

    /// Whether it is shown writes of the host ahead ([`Placement::look_ahead`]).
    const LOOKS_AHEAD: bool = false;

    /// Whether the host says with each write where it belongs ([`Placement::set_handle`]).
    const HAS_HANDLES: bool = false;

    /// How many streams there may be at most.
    fn streams(&self) -> usize;

    /// The placement handle of the pages that [`Placement::host_stream`] is asked for from now on.
    /// Told only to policies with [`Placement::HAS_HANDLES`].
    #[inline]
    fn set_handle(&mut self, handle: u8) {
        let _ = handle;
    }

    /// Streams that the policy goes without as there is no room for them
    /// ([`Context::most_streams`]).
    fn streams_left_out(&self) -> usize {
        0
    }

    /// To how many different streams the survivors of one victim may go: the FTL keeps that many
    /// erase blocks in reserve.
    fn relocation_targets(&self) -> usize {
        1
    }

    /// The stream for a page that the host writes. `previous` is none if the page holds no data.
    fn host_stream(&mut self, lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId;

    /// How many operations of the host at most are shown ahead, 1 or more. For policies with
    /// [`Placement::LOOKS_AHEAD`], as the next one.
    fn most_ahead(&self) -> usize {
        1
    }

    /// The pages that the host writes next, in order, each with where it lies now: a cleaning may
    /// move it before its turn, and an earlier write of the same pages does. [`host_stream`] is
    /// asked for each in its turn, and for no other until the next call. Only a medium that counts
    /// shows them.
    ///
    /// [`host_stream`]: Placement::host_stream
    fn look_ahead(&mut self, writes: &[(Lpn, Option<Previous>)], device: &Device) {
        let _ = (writes, device);
    }

    /// Loads what the policy looks at for each of these pages, which the host writes soon. The
    /// loads do not depend on each other, so that their cache misses overlap. Changes nothing.
    #[inline]
    fn fetch(&self, operations: &[PageOp]) {
        let _ = operations;
    }

    /// The stream for each survivor of a victim, written to `to`, which is as long as the
    /// survivors.
    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    );

    /// For policies with [`Placement::PULLS`]: what else is moved with these survivors. Asked after
    /// [`Placement::relocation_streams`].
    fn pulls(&mut self, survivors: Survivors<'_>, device: &Device, pulls: &mut Vec<Pull>) {
        let _ = (survivors, device, pulls);
    }

    /// Which domain gives up an erase block, so that `needy` can have one. Asked only of policies
    /// with [`Placement::PER_STREAM`].
    fn donor(&mut self, needy: StreamId, device: &Device) -> usize {
        let _ = device;
        needy.index()
    }

    /// A page has died. [`Device`] shows its erase block's count after it. Told only to policies
    /// with [`Placement::WATCHES_DEATHS`].
    #[inline]
    fn page_died(&mut self, death: Death, device: &Device) {
        let _ = (death, device);
    }

    /// A page was put in an erase block, which is not closed yet: [`Placement::block_closed`] comes
    /// after it. If the host wrote it its last version died before that. [`Device`] shows the erase
    /// block's count with it. Told only to policies with [`Placement::WATCHES_PLACES`].
    ///
    /// What an FTL goes on from after it was stopped is told to nobody: a page may die or be
    /// relocated that no policy has seen placed.
    #[inline]
    fn page_placed(&mut self, place: Place, device: &Device) {
        let _ = (place, device);
    }

    /// For policies with [`Placement::CLOSES_EARLY`]: a stream whose open erase block is to be
    /// closed though it is not full, as nothing more shall be written there. Asked before a
    /// cleaning until there is none, but only once between two writes of the host. Each plane
    /// closes its own before the next cleaning there.
    fn stream_to_close(&mut self, device: &Device) -> Option<StreamId> {
        let _ = device;
        None
    }

    /// As [`Victim::closed`], for policies with [`Placement::CHOOSES_VICTIMS`]. So are the next
    /// two.
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

    /// The domain of a stream: which victims its erase blocks are chosen among.
    #[inline]
    #[must_use]
    fn domain_of(stream: u32) -> usize
    where
        Self: Sized,
    {
        if Self::PER_STREAM { stream as usize } else { 0 }
    }

    /// How many domains there are at most: each stream is one, or all streams together.
    fn domains(&self) -> usize
    where
        Self: Sized,
    {
        if Self::PER_STREAM { self.streams() } else { 1 }
    }

    /// Names for the streams in reports, from 0 on.
    fn stream_label(&self, stream: StreamId) -> String {
        format!("stream {}", stream.0)
    }
}

/// Victim choice: which closed erase block is cleaned next. `domain` is 0 where all are cleaned
/// together, or [`Placement::domain_of`] the stream.
pub trait Victim: Send {
    /// An erase block was filled and may be chosen from now on.
    fn closed(&mut self, block: EraseBlockId, domain: usize, device: &Device);

    /// A page of the erase block became invalid; it may be open still. [`Device`] shows the count
    /// after it.
    fn invalidated(&mut self, block: EraseBlockId, domain: usize, device: &Device);

    /// The next victim of the domain, which is taken out of the index; none if the domain has no
    /// closed erase block.
    fn choose(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId>;

    /// Takes out an erase block that the FTL cleans for a reason of its own.
    fn remove(&mut self, block: EraseBlockId, domain: usize, device: &Device);

    /// Whether it leaves the choice to the placement policy ([`Placement::CHOOSES_VICTIMS`]).
    #[inline]
    fn is_own(&self) -> bool {
        false
    }
}

/// What a policy is made from.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Sizes of the device.
    pub geometry: Geometry,
    /// Seed of whatever the policy draws.
    pub seed: u64,
    /// Tells how often each logical page is updated, in any unit. Asked only by policies with an
    /// oracle.
    pub page_weights: Option<&'a dyn Fn() -> Vec<f64>>,
    /// Tells when each page that the host writes will be out of date. Asked only by policies that
    /// know the future.
    pub future: Option<&'a dyn Fn() -> Result<Future, SourceError>>,
    /// Streams that there is room for: each has an erase block open in each lane. A policy that
    /// would have more takes this many, and says so ([`Placement::streams_left_out`]).
    pub most_streams: usize,
}

impl Context<'_> {
    /// A context without an oracle, and with room for any number of streams.
    #[must_use]
    pub fn new(geometry: Geometry, seed: u64) -> Self {
        Self { geometry, seed, page_weights: None, future: None, most_streams: usize::MAX }
    }
}

/// Why a policy cannot be made.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum BuildError {
    /// The name or a parameter is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The policy knows update frequencies, and nobody gave them.
    #[error("`{0}` needs to know how often each page is updated, and this source does not tell")]
    NeedsWeights(&'static str),
    /// The policy knows the future and is in a place where nobody does.
    #[error(
        "`{0}` knows when each page will be written again, which is known only where a whole trace \
         is counted: take another placement policy here"
    )]
    NeedsFuture(&'static str),
    /// The future cannot be read.
    #[error("{0}")]
    NoFuture(String),
    /// The victim policy is `own`, and the placement policy chooses none.
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
        /// Of them beyond the logical capacity.
        spare_blocks: u32,
        /// What the policy needs beyond the logical capacity.
        needed: u32,
    },
}
