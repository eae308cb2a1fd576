//! Makes transactions of a log, with what was free when they began.

use std::fs::File;

use super::SqliteError;
use super::checksum::number;
use super::free_pages::FreePages;
use super::log::{Log, Look, ReadAt};
use super::transactions::{Nature, Written};

/// A transaction in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Number of the log, and of its first frame in it: see [`super::log::Frame`].
    pub log: u64,
    /// Number of the first frame in it.
    pub first_frame: u64,
    /// Its frames.
    pub frames: u64,
    /// Pages of the database before it.
    pub before: u32,
    /// Pages of the database after it.
    pub after: u32,
}

/// A log that is followed, with the database that it is of.
#[derive(Debug)]
pub struct Follow<F> {
    log: Log<F>,
    free: FreePages,
    size: u32,
}

/// Pages of a database at rest, as its header or its length says; `bytes` are those of the file.
///
/// # Errors
/// [`SqliteError::Io`].
pub fn pages_of(database: &impl ReadAt, bytes: u64, page_bytes: u32) -> Result<u32, SqliteError> {
    let mut header = [0; 100];
    let read = database.read_at(0, &mut header);
    let read = read.map_err(|source| SqliteError::Io { offset: 0, source })?;
    let said = number(&header, 28);
    // It counts only if whoever wrote the database last knew of it.
    let is_said = read == header.len() && said > 0 && header[24..28] == header[92..96];
    Ok(if is_said { said } else { (bytes / u64::from(page_bytes)) as u32 })
}

impl Follow<File> {
    /// Opens a log beside its database; none while the log has no header.
    ///
    /// # Errors
    /// As [`Log::look`].
    pub fn open(log: File, database: &File) -> Result<Option<Self>, SqliteError> {
        let io = |source| SqliteError::Io { offset: 0, source };
        let Some(header) = Log::new(log.try_clone().map_err(io)?).read_header()? else {
            return Ok(None);
        };
        let bytes = database.metadata().map_err(io)?.len();
        let size = pages_of(database, bytes, header.page_bytes)?;
        Ok(Some(Self::new(log, size, |page| {
            let mut content = vec![0; header.page_bytes as usize];
            let offset = u64::from(page.checked_sub(1)?) * u64::from(header.page_bytes);
            let read = ReadAt::read_at(database, offset, &mut content).ok()?;
            (read == content.len()).then_some(content)
        })))
    }

    /// Bytes of a page.
    ///
    /// # Errors
    /// As [`Log::look`].
    pub fn page_bytes(&self) -> Result<u32, SqliteError> {
        Ok(self.log.read_header()?.map_or(0, |header| header.page_bytes))
    }
}

impl<F: ReadAt> Follow<F> {
    /// Before its first commit, of a database of `size` pages whose content `page` gives.
    pub fn new(file: F, size: u32, page: impl Fn(u32) -> Option<Vec<u8>>) -> Self {
        Self { log: Log::new(file), free: FreePages::of(page), size }
    }

    /// The log.
    pub fn log(&mut self) -> &mut Log<F> {
        &mut self.log
    }

    /// What is known of the database so far.
    pub fn nature(&self) -> Nature {
        Nature {
            is_page_one_told: true,
            skips_freed: self.free.skips_freed(),
            is_auto_vacuum_full: self.free.is_auto_vacuum_full(),
        }
    }

    /// Goes on with another file: a log that was deleted is made anew.
    pub fn go_on(self, file: F) -> Self {
        Self { log: self.log.go_on(file), ..self }
    }

    /// Adds the commits since the last look, and the pages of each.
    ///
    /// # Errors
    /// As [`Log::look`].
    pub fn look(
        &mut self,
        commits: &mut Vec<Commit>,
        pages: &mut Vec<Written>,
    ) -> Result<Look, SqliteError> {
        let Self { log, free, size } = self;
        free.reset();
        let begin = pages.len();
        let (mut done, mut open, mut of) = (begin, 0, 0);
        let look = log.look(&mut |frame| {
            if frame.log != of {
                // What the log before had open was never committed.
                pages.truncate(done);
                free.reset();
                (open, of) = (0, frame.log);
            }
            open += 1;
            pages.push(Written { page: frame.page, free_for: free.free_for(frame.page) });
            free.write(frame.page, frame.content);
            if frame.after > 0 {
                commits.push(Commit {
                    log: frame.log,
                    first_frame: frame.index + 1 - open,
                    frames: open,
                    before: *size,
                    after: frame.after,
                });
                free.commit();
                (*size, done, open) = (frame.after, pages.len(), 0);
            }
        })?;
        pages.truncate(done);
        free.reset();
        Ok(look)
    }
}
