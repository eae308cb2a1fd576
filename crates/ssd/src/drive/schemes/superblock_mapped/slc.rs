//! The SLC cache: superblocks with one bit per cell that the host writes to first. They are folded,
//! that is, their pages are moved to superblocks with all bits, when the drive is idle, or when
//! space is needed.

use placement::Placement;
use units::{EraseBlockId, Lpn, StreamId};

use super::SuperblockMapped;
use super::cleaning::is_idle;
use crate::drive::media::Media;
use crate::drive::profile::{Profile, SlcBlocks, SlcCacheConfig, SlcCacheKind};
use crate::drive::time::{Picos, picos_of_micros};
use ftl::CacheSize;

/// Settings of a scheme with an SLC cache.
#[derive(Clone, Debug)]
pub struct SlcSettings {
    config: SlcCacheConfig,
    blocks: SlcBlocks,
    superblocks: u32,
}

impl SlcSettings {
    /// The settings of a profile, if it has an SLC cache.
    #[must_use]
    pub fn of(profile: &Profile) -> Option<Self> {
        Some(Self {
            config: profile.slc_cache.clone(),
            blocks: profile.slc_blocks()?,
            superblocks: profile.slc_superblocks(),
        })
    }

    /// Number of superblocks that always belong to the cache.
    pub(super) fn fixed(&self) -> u32 {
        if self.config.kind == SlcCacheKind::Static { self.superblocks } else { 0 }
    }
}

/// State of the cache. Data in the cache is the newest version like any other: reads find it there.
///
/// Where makers publish no details, the model is simple: the superblock that was filled first is
/// folded first; if the cache is full, host writes bypass it to superblocks with all bits, until
/// cleaning would begin for want of space, and then a dynamic cache is folded before anything is
/// cleaned; folding in idle time ends with the next write of the host.
#[derive(Debug)]
pub(super) struct Slc {
    stream: StreamId,
    /// True for a static cache. Only a dynamic one gives space back to others.
    is_static: bool,
    idle: Picos,
    last_write: Picos,
    /// True if the drive is idle and folds.
    is_folding: bool,
    pub pages: u64,
    pub folded: u64,
}

impl<P: Placement> SuperblockMapped<P> {
    /// Sets the cache up. `keep` is the number of superblocks that it always leaves free.
    pub(super) fn use_slc(&mut self, settings: &SlcSettings, stream: StreamId, keep: usize) {
        let config = &settings.config;
        let is_static = config.kind == SlcCacheKind::Static;
        let share = (config.keep_free * f64::from(self.stripes.superblocks())).ceil() as usize;
        let most = match (is_static, config.bytes) {
            (true, _) => 0,
            (false, 0) => u32::MAX,
            (false, _) => settings.superblocks,
        };
        self.ftl.use_cache(CacheSize {
            stream,
            pages: self.stripes.slc_pages(settings.blocks),
            fixed: settings.fixed(),
            most,
            keep: keep.max(share),
            wear: config.wear,
        });
        self.slc = Some(Box::new(Slc {
            stream,
            is_static,
            idle: picos_of_micros(config.idle_us),
            last_write: 0,
            is_folding: false,
            pages: 0,
            folded: 0,
        }));
    }

    /// The stream of the host's next page, and whether that has room.
    #[inline]
    pub(super) fn room_for_host(&mut self, lpn: Lpn) -> (StreamId, bool) {
        if self.slc.is_some()
            && let Some(stream) = self.room_in_slc()
        {
            return (stream, true);
        }
        let stream = self.ftl.host_stream(lpn);
        (stream, self.ftl.make_room(stream, 0))
    }

    #[inline(never)]
    fn room_in_slc(&mut self) -> Option<StreamId> {
        let has_room = self.ftl.make_room_in_cache();
        self.slc.as_ref().filter(|_| has_room).map(|slc| slc.stream)
    }

    /// Prepares a superblock for a page that is about to be filled in at this offset.
    #[inline]
    pub(super) fn note_filled(
        &mut self,
        superblock: u32,
        offset: u32,
        is_of_host: bool,
        media: &mut Media,
    ) {
        let Some(slc) = &mut self.slc else { return };
        let stream = self.ftl.device().block(EraseBlockId(superblock)).stream;
        let is_slc = u32::from(stream) == slc.stream.0;
        slc.pages += u64::from(is_slc && is_of_host);
        if offset == 0 {
            self.stripes.set_slc(superblock, is_slc);
            for &block in self.stripes.blocks_of(superblock) {
                media.set_slc(block, is_slc);
            }
        }
    }

    /// Records a write of the host, which ends the work of idle time.
    #[inline]
    pub(super) fn note_host_write(&mut self, media: &Media) {
        if let Some(slc) = &mut self.slc {
            (slc.last_write, slc.is_folding) = (media.now(), false);
        }
    }

    /// Returns true if superblocks are folded because the drive is idle.
    #[inline]
    pub(super) fn is_folding(&self) -> bool {
        self.slc.as_ref().is_some_and(|slc| slc.is_folding)
    }

    /// Returns true if a superblock of the cache can be folded: in idle time or, with `for_space`,
    /// to make room for others.
    pub(super) fn can_fold(&self, for_space: bool) -> bool {
        match &self.slc {
            None => false,
            Some(slc) if for_space && slc.is_static => false,
            Some(slc) if slc.is_static => self.ftl.has_cached(false) && self.ftl.has_cache_target(),
            Some(_) => self.ftl.has_cached(for_space),
        }
    }

    /// Returns true if the cache could be folded if more were free, and cleaning can achieve that.
    pub(super) fn lacks_target(&self) -> bool {
        self.ftl.has_cached(false) && !self.can_fold(false) && self.gains()
    }

    /// Takes the superblock of the cache that is folded next, if cleaning should begin with the
    /// cache.
    pub(super) fn next_to_fold(&mut self) -> Option<EraseBlockId> {
        let for_space = !self.slc.as_ref()?.is_folding;
        if self.can_fold(for_space) { self.ftl.take_cached(for_space) } else { None }
    }

    /// Sets the time at which the drive may be idle next, so that the cache can be folded.
    pub(super) fn plan_folding(&mut self, media: &Media) {
        let Some(slc) = self.slc.as_ref().filter(|slc| !slc.is_folding) else { return };
        if self.ftl.has_cached(false) || self.job.is_fold() {
            let at = slc.last_write + slc.idle;
            self.wake_at =
                self.wake_at.min(if at > media.now() { at } else { media.now() + slc.idle });
        }
    }

    /// Folds the cache if the drive is idle.
    pub(super) fn fold_in_idle_time(&mut self, media: &mut Media) {
        let Some(slc) = &mut self.slc else { return };
        let is_due = slc.last_write + slc.idle <= media.now();
        let has_victim = self.job.cleaning.victim().is_some();
        if !is_due || !is_idle(media) || !self.waiting.is_empty() {
            return self.plan_folding(media);
        }
        slc.is_folding = true;
        if has_victim {
            self.go_on(media);
        } else if self.is_due() {
            self.start(media);
        }
    }
}
