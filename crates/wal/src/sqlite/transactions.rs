//! Recorded transactions, in flat arrays; and several in one.

use units::Nanos;

use super::SqliteError;

/// A page that was no free page when its transaction began.
pub const NOT_FREE: u32 = 0;
/// A page of which this is not known.
pub const UNKNOWN: u32 = u32::MAX;

/// A page that a transaction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Number of the page, from 1.
    pub page: u32,
    /// At how many beginnings of transactions in a row, this one's the last, the page had been a
    /// leaf of the list of free pages: [`NOT_FREE`], [`UNKNOWN`], or a number.
    pub free_for: u32,
}

#[derive(Clone, Copy, Debug)]
struct One {
    time: Nanos,
    before: u32,
    after: u32,
    /// End of its pages.
    end: usize,
}

/// What is known of a database and of how its transactions were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// The first page is among a transaction's only if it would be in a log, too; in a rollback
    /// mode each transaction writes it, for its count of changes.
    pub is_page_one_told: bool,
    /// See [`super::free_pages::FreePages::skips_freed`].
    pub skips_freed: bool,
    /// See [`super::free_pages::FreePages::is_auto_vacuum_full`].
    pub is_auto_vacuum_full: bool,
}

impl Nature {
    /// As of a log, of a database without peculiarities.
    pub const PLAIN: Self =
        Self { is_page_one_told: true, skips_freed: false, is_auto_vacuum_full: false };
}

/// Transactions in the order of their commits.
#[derive(Clone, Debug)]
pub struct Transactions {
    page_bytes: u32,
    all: Vec<One>,
    /// Pages of each transaction, rising.
    pages: Vec<Written>,
    nature: Nature,
}

impl Transactions {
    /// None, of a database with pages of these bytes.
    #[must_use]
    pub fn new(page_bytes: u32, nature: Nature) -> Self {
        Self { page_bytes, all: Vec::new(), pages: Vec::new(), nature }
    }

    /// Adds the next transaction; `before` and `after`: pages of the database. `pages` is sorted,
    /// and a page that is named twice is one.
    ///
    /// # Errors
    /// [`SqliteError::Transaction`] if it does not follow the one before it.
    pub fn push(
        &mut self,
        time: Nanos,
        before: u32,
        after: u32,
        pages: &mut Vec<Written>,
    ) -> Result<(), SqliteError> {
        let wrong = |what: String, right| {
            let number = self.all.len() as u64;
            Err(SqliteError::Transaction { number, what, right })
        };
        pages.sort_unstable_by_key(|one| one.page);
        pages.dedup_by_key(|one| one.page);
        let (Some(first), Some(last)) = (pages.first(), pages.last()) else {
            return wrong("it writes no page".to_owned(), "at least one");
        };
        if first.page == 0 || after == 0 {
            return wrong("it has a page or a size of 0".to_owned(), "numbers from 1 on");
        }
        if last.page > before.max(after) {
            let what = format!("page {} is behind the end of the database", last.page);
            return wrong(what, "a page of the database before or after it");
        }
        if let Some(previous) = self.all.last() {
            if previous.after != before {
                let what = format!("it begins with {before} pages");
                return wrong(what, "the size after the transaction before it: none is missing");
            }
            if previous.time > time {
                let what = format!("its time, {time} ns, is before the last one's");
                return wrong(what, "times that rise");
            }
        }
        self.pages.append(pages);
        self.all.push(One { time, before, after, end: self.pages.len() });
        Ok(())
    }

    /// Number of transactions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Pages of all transactions together.
    #[must_use]
    pub fn pages_written(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Whether it is known of each page if it was free.
    #[must_use]
    pub fn knows_free_pages(&self) -> bool {
        self.pages.iter().all(|one| one.free_for != UNKNOWN)
    }

    /// What is known of them.
    #[must_use]
    pub fn nature(&self) -> Nature {
        self.nature
    }

    /// Most pages that the database has.
    #[must_use]
    pub fn most_pages(&self) -> u32 {
        self.all.iter().map(|one| one.before.max(one.after)).max().unwrap_or(0)
    }

    /// Time from the first commit to the last.
    #[must_use]
    pub fn duration(&self) -> Nanos {
        let time = |one: Option<&One>| one.map_or(0, |one| one.time);
        time(self.all.last()) - time(self.all.first())
    }

    /// Leaves the first transactions out; times count from the first that is left.
    pub fn skip(&mut self, count: usize) {
        let count = count.min(self.all.len());
        let pages = count.checked_sub(1).map_or(0, |last| self.all[last].end);
        self.pages.drain(..pages);
        self.all.drain(..count);
        let zero = self.all.first().map_or(0, |one| one.time);
        for one in &mut self.all {
            one.end -= pages;
            one.time -= zero;
        }
    }

    fn pages_of(&self, number: usize) -> &[Written] {
        let begin = number.checked_sub(1).map_or(0, |last| self.all[last].end);
        &self.pages[begin..self.all[number].end]
    }
}

/// Goes through transactions, several in one: the union of their sets of pages.
#[derive(Debug)]
pub struct Merging<'a> {
    of: &'a Transactions,
    count: usize,
    next: usize,
    /// Pages of the current one, rising; `free_for` is [`NOT_FREE`], [`UNKNOWN`] or 1, if the page
    /// was free when it began.
    pub pages: Vec<Written>,
    /// Number of its first recorded transaction.
    pub first: usize,
    /// Time of its commit: that of its last one.
    pub time: Nanos,
    /// Pages of the database before it.
    pub before: u32,
    /// Pages of the database after it.
    pub after: u32,
}

impl<'a> Merging<'a> {
    /// Before the first; `count`, at least 1, are one.
    #[must_use]
    pub fn new(of: &'a Transactions, count: usize) -> Self {
        assert!(count > 0, "none makes no transaction");
        Self { of, count, next: 0, pages: Vec::new(), first: 0, time: 0, before: 0, after: 0 }
    }

    /// Goes to the next; `false` behind the last. The last may have fewer in it.
    pub fn advance(&mut self) -> bool {
        let end = (self.next + self.count).min(self.of.len());
        if self.next == end {
            return false;
        }
        self.first = self.next;
        self.pages.clear();
        for number in self.next..end {
            let place = (number - self.first) as u32;
            self.pages.extend(self.of.pages_of(number).iter().map(|one| Written {
                page: one.page,
                free_for: match one.free_for {
                    NOT_FREE | UNKNOWN => one.free_for,
                    // A page that was freed within the transaction is journalled before.
                    begins => u32::from(begins > place),
                },
            }));
        }
        if end > self.next + 1 {
            // Stable: what a page was when it is written first comes first.
            self.pages.sort_by_key(|one| one.page);
            self.pages.dedup_by_key(|one| one.page);
        }
        let last = self.of.all[end - 1];
        (self.before, self.after, self.time) =
            (self.of.all[self.next].before, last.after, last.time);
        self.next = end;
        true
    }
}
