//! Files by name within a volume, for a database that needs no file system: `docs/sqlite.md`.
//!
//! They are few and large: a database, its journal, its log. The directory is written as a whole
//! whenever it changes (`docs/formats/sqlite_files.md`). Synced content is durable; a power cut or
//! a kill leaves each sector of a file as it was when the file was synced last, or as it was
//! written since; a file that was synced has at least the size that it had then, unless it was
//! truncated since. A size never comes back larger than a synced one. Content that was truncated
//! without a sync may come back as it was, or as zeros.

mod directory;
mod file;
mod format;
mod medium;
mod space;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::Failure;
use thiserror::Error;

pub(crate) use directory::give_owner;
pub use file::File;
pub use medium::{Batch, Medium};

use directory::Directory;

/// Errors of files.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilesError {
    /// There is no such file.
    #[error("{0}")]
    NoFile(String),
    /// There is no room.
    #[error("the volume is full: {0}")]
    Full(String),
    /// The volume does not have files, or not in this form; or the request is not possible.
    #[error("{0}")]
    Refused(String),
    /// A command failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A flush or the directory's own write failed: it is unknown what is durable.
    #[error("nothing can be made durable any more until the volume is opened again: {0}")]
    Broken(Failure),
}

/// A file in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFound {
    /// Name of the file.
    pub name: String,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Files of SQLite that a volume holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesFound {
    /// Files, by name.
    pub files: Vec<FileFound>,
    /// Notes on damage: a copy of the directory that is bad.
    pub notes: Vec<String>,
}

/// Function that reads bytes from a place on.
pub(crate) type Reading<'a> = dyn FnMut(u64, &mut [u8]) -> Result<(), Failure> + 'a;

/// Reads the directory of a volume that nothing else uses: none if it holds no files.
///
/// # Errors
/// [`FilesError`] if there is one that cannot be used.
pub(crate) fn look(
    capacity_bytes: u64,
    sector_bytes: u32,
    owner: [u8; 16],
    read: &mut Reading<'_>,
) -> Result<Option<FilesFound>, FilesError> {
    let layout = directory::layout_of(capacity_bytes, sector_bytes, owner, read);
    let Some(layout) = layout else { return Ok(None) };
    let found = directory::find(layout, owner, read)?;
    Ok(found.map(|(snapshot, _, notes)| {
        let of = |(name, kept): (String, format::Kept)| FileFound { name, bytes: kept.size };
        FilesFound { files: snapshot.files.into_iter().map(of).collect(), notes }
    }))
}

/// Gives the end of the directory and files of a volume, in bytes: none if it holds no files.
///
/// # Errors
/// [`FilesError`] if there is a directory that cannot be used.
pub(crate) fn end(
    capacity_bytes: u64,
    sector_bytes: u32,
    owner: [u8; 16],
    read: &mut Reading<'_>,
) -> Result<Option<u64>, FilesError> {
    let layout = directory::layout_of(capacity_bytes, sector_bytes, owner, read);
    let Some(layout) = layout else { return Ok(None) };
    let found = directory::find(layout, owner, read)?;
    Ok(found.map(|(snapshot, ..)| {
        let extents = snapshot.files.values().flat_map(|file| file.extents.list());
        let last = extents.map(|extent| extent.end() as u32).max().unwrap_or_default();
        layout.unit(last.max(format::LEAST_UNITS as u32))
    }))
}

/// The files of a volume. Any thread may use them.
pub struct Files {
    directory: Arc<Directory>,
    /// Open files by their number in the directory, each with the number of its openings.
    open: Mutex<HashMap<usize, (Arc<File>, usize)>>,
    notes: Vec<String>,
}

impl Files {
    /// Opens the files of a volume; with `makes`, one that holds nothing gets a directory.
    ///
    /// # Errors
    /// [`FilesError`]: in particular if the volume holds something else.
    pub fn open(medium: Arc<dyn Medium>, makes: bool) -> Result<Self, FilesError> {
        let (directory, notes) = Directory::open(medium, makes)?;
        Ok(Self { directory: Arc::new(directory), open: Mutex::default(), notes })
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<usize, (Arc<File>, usize)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the notes on damage of its opening.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Gives the bytes of a sector, which a power cut does not tear.
    pub fn sector_bytes(&self) -> u32 {
        self.directory.layout.sector_bytes
    }

    /// Opens a file; with `makes` it is made if it does not exist, durably with the next sync.
    /// Every opening has to end with [`Files::close_file`].
    ///
    /// # Errors
    /// [`FilesError::NoFile`], [`FilesError::Full`], [`FilesError::Refused`].
    pub fn open_file(&self, name: &str, makes: bool) -> Result<Arc<File>, FilesError> {
        let mut open = self.opened();
        if let Some(id) = self.directory.id_of(name)
            && let Some((file, count)) = open.get_mut(&id)
        {
            *count += 1;
            return Ok(file.clone());
        }
        let opened = self.directory.open_file(name, makes)?;
        let file = Arc::new(File::new(self.directory.clone(), opened));
        open.insert(file.id, (file.clone(), 1));
        Ok(file)
    }

    /// Ends an opening.
    ///
    /// # Errors
    /// [`FilesError`] if something that was written and not synced is lost.
    pub fn close_file(&self, file: &File) -> Result<(), FilesError> {
        let mut open = self.opened();
        let Some((_, count)) = open.get_mut(&file.id) else { return Ok(()) };
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        open.remove(&file.id);
        let (size, outcome) = file.finish();
        self.directory.close_file(file.id, size);
        outcome
    }

    /// Returns true if there is a file of this name.
    pub fn has(&self, name: &str) -> bool {
        self.directory.has(name)
    }

    /// Gives the bytes of the file of this name; none if there is no such file.
    pub fn size_of(&self, name: &str) -> Option<u64> {
        let open = self.opened();
        let id = self.directory.id_of(name)?;
        match open.get(&id) {
            Some((file, _)) => Some(file.size()),
            None => self.directory.size_of(name),
        }
    }

    /// Deletes a file's name, durably when it returns; those who have it open keep its content
    /// until it is closed.
    ///
    /// # Errors
    /// [`FilesError::NoFile`], [`FilesError::Broken`].
    pub fn delete(&self, name: &str) -> Result<(), FilesError> {
        self.directory.delete(name)
    }

    /// Gives all files, by name.
    pub fn list(&self) -> Vec<FileFound> {
        self.directory.list()
    }

    /// Gives the bytes that no file has.
    pub fn free_bytes(&self) -> u64 {
        self.directory.free_bytes()
    }

    /// Makes everything durable that was written to files that are closed.
    ///
    /// # Errors
    /// [`FilesError`].
    ///
    /// # Panics
    /// If a file is open.
    pub fn close(&self) -> Result<(), FilesError> {
        assert!(self.opened().is_empty(), "all files were closed");
        self.directory.close()
    }
}

#[cfg(test)]
mod alone;
#[cfg(test)]
mod tests;
