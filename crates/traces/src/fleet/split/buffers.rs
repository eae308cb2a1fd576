//! Requests of many volumes in memory, in blocks of one size.

use units::{IoOp, IoRequest};

/// Requests of a block: few, so that volumes with few requests do not cost much.
const BLOCK_REQUESTS: usize = 256;
/// Latency of a request that has none.
const NO_LATENCY: u64 = u64::MAX;
/// Least blocks that there are, however little memory is given.
const LEAST_BLOCKS: usize = 8;

/// A request in half the room; the volume is that of the chain, the latency lies beside it.
#[derive(Clone, Copy)]
struct Packed {
    time_ns: u64,
    offset: u64,
    length: u32,
    op: IoOp,
    handle: u8,
    is_fua: bool,
}

const _: () = assert!(size_of::<Packed>() == 24);

/// Requests of one volume that follow each other.
pub(super) struct Block {
    requests: Vec<Packed>,
    /// One for each request, once any of the block had one.
    latencies: Vec<u64>,
}

impl Block {
    fn new() -> Self {
        Self { requests: Vec::with_capacity(BLOCK_REQUESTS), latencies: Vec::new() }
    }

    fn clear(&mut self) {
        self.requests.clear();
        self.latencies.clear();
    }

    /// Gives the times of its requests.
    pub(super) fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.requests.iter().map(|one| one.time_ns)
    }

    /// Gives its requests.
    pub(super) fn requests(&self, stream: u32) -> impl Iterator<Item = IoRequest> + '_ {
        self.requests.iter().enumerate().map(move |(index, one)| IoRequest {
            time_ns: one.time_ns,
            op: one.op,
            offset: one.offset,
            length: one.length,
            stream,
            latency_ns: self.latencies.get(index).copied().filter(|ns| *ns != NO_LATENCY),
            handle: one.handle,
            is_fua: one.is_fua,
        })
    }
}

/// All requests that are not handed to a writer yet. What is done depends on what is held alone,
/// not on how fast the writers are.
pub(super) struct Buffers {
    chains: Vec<Vec<Block>>,
    /// Blocks in chains.
    held: usize,
    /// Blocks for use again, and all that there are, also those that writers have.
    spare: Vec<Block>,
    made: usize,
    most: usize,
    memory_bytes: u64,
    has_latencies: bool,
}

impl Buffers {
    pub(super) fn new(memory_bytes: u64) -> Self {
        let mut buffers = Self {
            chains: Vec::new(),
            held: 0,
            spare: Vec::new(),
            made: 0,
            most: 0,
            memory_bytes,
            has_latencies: false,
        };
        buffers.most = buffers.affordable();
        buffers
    }

    /// Blocks that the memory holds.
    fn affordable(&self) -> usize {
        let each = size_of::<Packed>() + if self.has_latencies { size_of::<u64>() } else { 0 };
        let bytes = (each * BLOCK_REQUESTS + size_of::<Block>()) as u64;
        usize::try_from(self.memory_bytes / bytes).unwrap_or(usize::MAX).max(LEAST_BLOCKS)
    }

    /// Adds a volume; they are numbered from 0.
    pub(super) fn add_volume(&mut self) {
        self.chains.push(Vec::new());
    }

    /// Returns true if a request of the volume needs a further block.
    #[inline]
    pub(super) fn needs_block(&self, volume: usize) -> bool {
        self.chains[volume].last().is_none_or(|block| block.requests.len() == BLOCK_REQUESTS)
    }

    /// Returns true if so much is held that some is to be handed over: a quarter of the memory is
    /// for what writers have.
    pub(super) fn is_full(&self) -> bool {
        self.held >= self.most - self.most / 4
    }

    /// Returns true if enough was handed over, so that it is not done for every block.
    pub(super) fn is_roomy(&self) -> bool {
        self.held <= self.most - self.most / 4 - self.most.div_ceil(8)
    }

    /// Gives a volume a block. `false` if writers have them all: wait for one.
    pub(super) fn extend(&mut self, volume: usize) -> bool {
        let block = match self.spare.pop() {
            Some(block) => block,
            None if self.made < self.most => {
                self.made += 1;
                Block::new()
            }
            None => return false,
        };
        self.chains[volume].push(block);
        self.held += 1;
        true
    }

    /// Adds a request to a volume whose last block has room.
    #[inline]
    pub(super) fn push(&mut self, volume: usize, request: &IoRequest) {
        let Some(block) = self.chains[volume].last_mut() else {
            unreachable!("a volume gets a block before its requests")
        };
        block.requests.push(Packed {
            time_ns: request.time_ns,
            offset: request.offset,
            length: request.length,
            op: request.op,
            handle: request.handle,
            is_fua: request.is_fua,
        });
        if let Some(latency_ns) = request.latency_ns {
            self.push_latency(volume, latency_ns);
        }
    }

    #[cold]
    fn push_latency(&mut self, volume: usize, latency_ns: u64) {
        if !self.has_latencies {
            self.has_latencies = true;
            self.most = self.affordable();
        }
        if let Some(block) = self.chains[volume].last_mut() {
            block.latencies.resize(block.requests.len() - 1, NO_LATENCY);
            block.latencies.push(latency_ns);
        }
    }

    /// Volumes that have requests, those with most first.
    pub(super) fn largest_first(&self) -> Vec<usize> {
        let mut volumes: Vec<usize> = self.filled().collect();
        volumes.sort_by_key(|&volume| (std::cmp::Reverse(self.chains[volume].len()), volume));
        volumes
    }

    /// Volumes that have requests, in the order of their numbers.
    pub(super) fn filled(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.chains.len()).filter(|&volume| !self.chains[volume].is_empty())
    }

    /// Takes all that is held of a volume.
    pub(super) fn take(&mut self, volume: usize) -> Vec<Block> {
        let blocks = std::mem::take(&mut self.chains[volume]);
        self.held -= blocks.len();
        blocks
    }

    /// Takes blocks back; those beyond the memory are freed.
    pub(super) fn give_back(&mut self, blocks: Vec<Block>) {
        for mut block in blocks {
            if self.made > self.most {
                self.made -= 1;
                continue;
            }
            block.clear();
            self.spare.push(block);
        }
    }
}
