//! What a placement policy is told where the scheme has a stream of its own.

#![allow(clippy::unwrap_used, reason = "helpers of tests that fail the test")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ftl::PageMapped;
use placement::{
    AnyVictim, Context, Device, Features, Place, Placement, Previous, Survivors, build_victim,
};
use registry::Spec;
use units::{EraseBlockId, Geometry, Lpn, StreamId};

use super::behind_cache::BehindCache;
use super::own_stream::WithOwnStream;

const PAGES: u32 = 4000;

type Places = Arc<Mutex<BTreeMap<u32, EraseBlockId>>>;

/// Notes where each page was put last.
struct Seen(Places);

impl Placement for Seen {
    fn features(&self) -> Features {
        Features { watches_places: true, ..Features::NONE }
    }

    fn streams(&self) -> usize {
        1
    }

    fn host_stream(&mut self, _: Lpn, _: Option<Previous>, _: &Device) -> StreamId {
        StreamId(0)
    }

    fn relocation_streams(&mut self, _: Survivors<'_>, _: &Device, to: &mut [StreamId]) {
        to.fill(StreamId(0));
    }

    fn page_placed(&mut self, place: Place, _: &Device) {
        assert_eq!(place.stream, StreamId(0), "it has no other");
        let last = self.0.lock().unwrap().insert(place.lpn.0, place.block);
        assert!(place.from.is_none() || place.from == last, "it is moved from where it lay");
    }
}

fn geometry() -> Geometry {
    Geometry::with_over_provisioning(4096, 16, u64::from(PAGES), 0.3).unwrap()
}

fn greedy() -> AnyVictim {
    build_victim(&Spec::parse("greedy").unwrap(), &Context::new(geometry(), 1), 1).unwrap()
}

fn block_of<P: Placement>(ftl: &PageMapped<P, AnyVictim>, lpn: u32) -> Option<EraseBlockId> {
    ftl.lookup(Lpn(lpn)).map(|page| EraseBlockId(page.0 / 16))
}

/// Writes all pages, then some of them many times, so that many are relocated.
fn write_over<P: Placement>(ftl: &mut PageMapped<P, AnyVictim>) {
    (0..PAGES).for_each(|lpn| ftl.write(Lpn(lpn), 0));
    (0..40_000_u32).for_each(|number| ftl.write(Lpn(number * 7919 % 3989), 0));
    assert!(ftl.counters().relocated_pages > 1000, "{:?}", ftl.counters());
}

#[test]
fn a_policy_behind_a_cache_sees_where_each_page_was_put() {
    for has_cache in [false, true] {
        let places = Places::default();
        let policy = BehindCache::new(Seen(places.clone()), has_cache);
        let mut ftl = PageMapped::new(geometry(), "seen", policy, greedy()).unwrap();
        write_over(&mut ftl);
        for lpn in 0..PAGES {
            assert_eq!(
                places.lock().unwrap().get(&lpn).copied(),
                block_of(&ftl, lpn),
                "page {lpn}"
            );
        }
    }
}

#[test]
fn a_policy_behind_a_cache_does_not_see_what_the_cache_holds() {
    let places = Places::default();
    let policy = BehindCache::new(Seen(places.clone()), true);
    let cache = policy.cache_stream().unwrap();
    let mut ftl = PageMapped::new(geometry(), "seen", policy, greedy()).unwrap();
    assert!(ftl.make_room(cache, 0));
    ftl.place_for_host(Lpn(7), cache, 0);
    assert!(places.lock().unwrap().is_empty());
}

/// Pages from the first of its own on are the drive's.
#[test]
fn a_policy_beside_translation_pages_sees_where_the_host_s_pages_were_put() {
    let (places, first) = (Places::default(), 3500);
    let policy = WithOwnStream::new(Seen(places.clone()), first, 1, "map");
    let mut ftl = PageMapped::new(geometry(), "seen", policy, greedy()).unwrap();
    write_over(&mut ftl);
    for lpn in 0..first {
        assert_eq!(places.lock().unwrap().get(&lpn).copied(), block_of(&ftl, lpn), "page {lpn}");
    }
    assert!(places.lock().unwrap().range(first..).next().is_none());
}
