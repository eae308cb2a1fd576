//! Whoever watches a play: an oracle in tests. By default it sees nothing and costs nothing.

/// Events of a play, in the order in which they happen.
pub trait Observer {
    /// A client has a lock.
    fn locked(&mut self, _client: u32, _lock: u32, _is_exclusive: bool) {}
    /// A client's transaction begins, or begins again.
    fn began(&mut self, _client: u32) {}
    /// A client reads or changes a page that is in the pool; a change has a log record that ends
    /// at `lsn`.
    fn accessed(&mut self, _client: u32, _page: u32, _row: u32, _is_write: bool, _lsn: u64) {}
    /// A client's transaction is committed; its record ends at `lsn`.
    fn committed(&mut self, _client: u32, _lsn: u64) {}
    /// A client's transaction is restarted.
    fn restarted(&mut self, _client: u32) {}
    /// A page's write began: what the page holds now is what is written.
    fn write_begins(&mut self, _page: u32) {}
    /// It ended.
    fn write_ends(&mut self, _page: u32) {}
    /// A frame takes `page` and gives up `old`.
    fn replaced(&mut self, _old: Option<u32>, _page: u32) {}
    /// The log is durable to here, and is needed from `redo` on.
    fn log_is_durable(&mut self, _to: u64, _redo: u64) {}
}

impl Observer for () {}
