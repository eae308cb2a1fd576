//! Choice of the plane that a page is written to (PARALLELISM 4.4).

use registry::Args;
use units::Lpn;

use crate::drive::media::Layout;

/// The rule, and how far it has come.
#[derive(Debug)]
pub(super) struct Allocation {
    is_static: bool,
    /// Dynamic: planes that have no room at the moment are passed over.
    passes_over: bool,
    chunk_pages: u32,
    /// Planes in the order in which a stripe visits them.
    stripe: Vec<u32>,
    /// Dynamic: the place in the stripe, and the pages left of its chunk.
    at: usize,
    left: u32,
}

impl Allocation {
    pub fn new(args: &Args, layout: &Layout) -> Self {
        let chunk_pages = args.integer("chunk_pages") as u32;
        let kind = args.text("allocation");
        let (is_static, passes_over) = (kind == "static", kind == "available");
        Self {
            is_static,
            passes_over,
            chunk_pages,
            stripe: layout.stripe(),
            at: 0,
            left: chunk_pages,
        }
    }

    pub fn passes_over(&self) -> bool {
        self.passes_over
    }

    pub fn is_static(&self) -> bool {
        self.is_static
    }

    /// The plane for the next write: under static allocation by the page's address, otherwise by
    /// how many writes came before.
    #[inline]
    pub fn next(&mut self, lpn: Lpn) -> u32 {
        if self.is_static {
            return self.stripe[(lpn.0 / self.chunk_pages) as usize % self.stripe.len()];
        }
        let plane = self.stripe[self.at];
        self.left -= 1;
        if self.left == 0 {
            self.left = self.chunk_pages;
            self.advance();
        }
        plane
    }

    /// Dynamic: the plane that was just named can take no page, and the rest of its chunk goes to
    /// the next one.
    #[cold]
    pub fn pass_over(&mut self) {
        if !self.is_static && self.left < self.chunk_pages {
            self.left = self.chunk_pages;
            self.advance();
        }
    }

    #[inline]
    fn advance(&mut self) {
        self.at += 1;
        if self.at == self.stripe.len() {
            self.at = 0;
        }
    }

    /// Static: logical pages that the fullest plane has to hold.
    pub fn most_pages_of_a_lane(&self, logical_pages: u32) -> u32 {
        let chunks = logical_pages.div_ceil(self.chunk_pages).div_ceil(self.stripe.len() as u32);
        chunks.saturating_mul(self.chunk_pages).min(logical_pages)
    }
}
