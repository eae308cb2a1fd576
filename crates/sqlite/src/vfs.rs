//! SQLite's operations on files, as safe code: names, an open file, its locks.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use servers::files::{File, FilesError};
use units::Lifetime;

use crate::locks::{Held, Shared};
use crate::mounts::{self, Mount};
use crate::problem::Problem;
use crate::sqlite3::{
    CANTOPEN, ERROR, IOCAP_POWERSAFE_OVERWRITE, IOERR_DELETE, IOERR_DELETE_NOENT, IOERR_FSYNC,
    IOERR_READ, IOERR_TRUNCATE, IOERR_WRITE, OPEN_CREATE, OPEN_MAIN_DB, OPEN_MAIN_JOURNAL,
    OPEN_SUPER_JOURNAL, OPEN_WAL,
};

/// Longest name of a file with its volume, in bytes.
pub const MOST_PATH_BYTES: c_int = 1024;

/// Message on a transaction over several databases, which is not supported.
const NO_SUPER_JOURNAL: &str = "a transaction over several databases needs a super-journal, which \
                                volumes do not have: write to one database in a transaction, or \
                                use journal_mode=wal";

/// Beginning of a rollback journal's header, which is written as a whole; alone it is the end of
/// the name of a super-journal (<https://sqlite.org/fileformat2.html#the_rollback_journal>). It is
/// not known when the super-journal of another VFS is gone, and when it is, the journal that names
/// it is not played back: half a transaction would stay. Without its end the name is invalid.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The volume and the name of a file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub device: String,
    pub name: String,
}

impl Place {
    /// Reads a user's path: a name with `volume=` beside it, or `VOLUME/NAME`.
    ///
    /// # Errors
    /// [`Problem`] that names the right form.
    pub fn of_user(path: &str, volume: Option<&str>) -> Result<Self, Problem> {
        let wrong = |reason: &str| {
            Problem::new(
                CANTOPEN,
                format!(
                    "`{path}`: {reason}; right would be \
                     `file:app.db?vfs=flashwright&volume=/dev/sdb`"
                ),
            )
        };
        let (device, name) = match volume {
            Some(volume) => (volume, path.trim_start_matches('/')),
            None => path.rsplit_once('/').ok_or_else(|| wrong("the volume is missing"))?,
        };
        if device.trim().is_empty() {
            return Err(wrong("the volume is missing"));
        }
        if name.is_empty() || name.contains('/') {
            return Err(wrong("a file's name is not empty and has no `/`"));
        }
        Ok(Self { device: mounts::canonical(device), name: name.to_owned() })
    }

    /// Gives the path that SQLite has from then on.
    pub fn path(&self) -> String {
        format!("{}/{}", self.device, self.name)
    }

    /// Reads such a path, if it is of a volume that is open.
    pub fn of_path(path: &str) -> Option<(Self, Arc<Mount>)> {
        let (device, name) = path.rsplit_once('/')?;
        let mount = mounts::find(device)?;
        Some((Self { device: device.to_owned(), name: name.to_owned() }, mount))
    }
}

/// Returns true if a file that SQLite opens belongs to a volume; others are temporary.
pub const fn is_kept(flags: c_int) -> bool {
    flags & (OPEN_MAIN_DB | OPEN_MAIN_JOURNAL | OPEN_WAL | OPEN_SUPER_JOURNAL) != 0
}

/// Gives the lifetime hint of such a file: journals are not needed after the transaction, or the
/// next checkpoint.
const fn lifetime(flags: c_int) -> Lifetime {
    if flags & (OPEN_MAIN_JOURNAL | OPEN_WAL) != 0 { Lifetime::Short } else { Lifetime::Long }
}

/// A file that one connection has open.
pub struct Handle {
    mount: Arc<Mount>,
    file: Arc<File>,
    /// Path by which SQLite knows it.
    path: String,
    shared: Arc<Shared>,
    /// True if it is a rollback journal.
    is_journal: bool,
    pub held: Held,
    /// Unit of its growth, in bytes; 0 for any.
    pub chunk_bytes: u64,
    /// True if a write changes nothing around it in its sector, whatever happens.
    pub is_powersafe: bool,
    /// True if the write-ahead log stays when the last connection closes.
    pub keeps_wal: bool,
}

impl Handle {
    /// Opens a file by its whole path.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn open(path: &str, flags: c_int) -> Result<Self, Problem> {
        if flags & OPEN_SUPER_JOURNAL != 0 {
            return Err(Problem::new(CANTOPEN, format!("{path}: {NO_SUPER_JOURNAL}")));
        }
        let (device, name) = path.rsplit_once('/').unwrap_or_default();
        let (mount, file) = mounts::open(device, name, flags & OPEN_CREATE != 0)?;
        let shared = mount.shared(name);
        file.expect(lifetime(flags));
        Ok(Self {
            mount,
            file,
            path: path.to_owned(),
            shared,
            is_journal: flags & OPEN_MAIN_JOURNAL != 0,
            held: Held::default(),
            chunk_bytes: 0,
            is_powersafe: true,
            keeps_wal: false,
        })
    }

    fn failed(&self, code: c_int) -> impl Fn(FilesError) -> Problem + '_ {
        move |error| Problem::of(&error, code, &self.path)
    }

    /// Gives the notes on damage of the volume, if this is its first file.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.mount.notes()
    }

    /// Closes it; with the volume's last file, the volume.
    pub fn close(mut self) -> Result<(), Problem> {
        self.shared.unmap(&mut self.held);
        self.shared.unlock(&mut self.held, 0);
        mounts::close(&self.mount, &self.file)
    }

    /// Reads bytes; gives the number that were there.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<usize, Problem> {
        self.file.read(offset, to).map_err(self.failed(IOERR_READ))
    }

    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Problem> {
        if self.is_journal && data == JOURNAL_MAGIC {
            return Err(Problem::new(CANTOPEN, format!("{}: {NO_SUPER_JOURNAL}", self.path)));
        }
        let end = offset.saturating_add(data.len() as u64);
        if self.chunk_bytes > 0 && end > self.file.size() {
            self.reserve(end)?;
        }
        self.file.write(offset, data).map_err(self.failed(IOERR_WRITE))
    }

    pub fn truncate(&self, size: u64) -> Result<(), Problem> {
        self.file.truncate(size).map_err(self.failed(IOERR_TRUNCATE))
    }

    pub fn sync(&self) -> Result<(), Problem> {
        self.file.sync().map_err(self.failed(IOERR_FSYNC))
    }

    pub fn size(&self) -> u64 {
        self.file.size()
    }

    /// Makes room for `bytes`, in chunks.
    pub fn reserve(&self, bytes: u64) -> Result<(), Problem> {
        let chunk = self.chunk_bytes.max(1);
        let bytes = bytes.div_ceil(chunk).saturating_mul(chunk);
        self.file.reserve(bytes).map_err(self.failed(IOERR_WRITE))
    }

    /// Checks that a database may be synced: not with a super-journal, which its journal does not
    /// name.
    pub fn before_sync(&self, has_super_journal: bool) -> Result<(), Problem> {
        if has_super_journal {
            return Err(Problem::new(ERROR, format!("{}: {NO_SUPER_JOURNAL}", self.path)));
        }
        Ok(())
    }

    pub fn sector_bytes(&self) -> c_int {
        self.mount.files.sector_bytes() as c_int
    }

    /// Gives the promises to SQLite: a write changes nothing around it in its sectors, as sectors
    /// are written whole. No more than a sector is atomic, whatever the stack.
    ///
    /// Sizes are durable only after the bytes that they cover, which SQLite calls SAFE_APPEND. That
    /// is not promised: SQLite would then trust the end of a journal also where it overwrites one
    /// (`journal_mode=persist`), and its checksum, which samples every 200th byte, may take a
    /// record that a power cut has torn there for a whole one.
    pub const fn characteristics(&self) -> c_int {
        if self.is_powersafe { IOCAP_POWERSAFE_OVERWRITE } else { 0 }
    }

    /// Raises the lock; returns true if it could.
    pub fn lock(&mut self, level: c_int) -> bool {
        self.shared.lock(&mut self.held, level)
    }

    pub fn unlock(&mut self, level: c_int) {
        self.shared.unlock(&mut self.held, level);
    }

    pub fn is_reserved(&self) -> bool {
        self.shared.is_reserved()
    }

    pub fn map(&mut self, region: usize, makes: bool) -> Option<*const AtomicU64> {
        self.shared.map(&mut self.held, region, makes)
    }

    pub fn lock_memory(&mut self, first: usize, count: usize, flags: c_int) -> bool {
        self.shared.lock_memory(&mut self.held, first, count, flags)
    }

    pub fn unmap(&mut self) {
        self.shared.unmap(&mut self.held);
    }

    /// Gives the answer to `pragma flashwright_volume`: a line for each file, and one for free
    /// bytes.
    pub fn about(&self) -> String {
        let files = self.mount.files.list();
        let lines = files.iter().map(|file| format!("{} {}\n", file.name, file.bytes));
        lines.chain([format!("free {}", self.mount.files.free_bytes())]).collect()
    }
}

/// Deletes a file of a volume, durably, also where SQLite does not request that: otherwise a commit
/// with `journal_mode=delete` and `synchronous=full` would not even survive a kill of the process,
/// which here does the work of the operating system.
///
/// # Errors
/// [`Problem`]; without a message if there is none.
pub fn delete(place: &Place, mount: &Mount) -> Result<(), Problem> {
    match mount.files.delete(&place.name) {
        Err(FilesError::NoFile(_)) => Err(Problem::code(IOERR_DELETE_NOENT)),
        outcome => outcome.map_err(|error| Problem::of(&error, IOERR_DELETE, &place.path())),
    }
}

/// Returns true if there is a file that is not empty, as for SQLite's own VFS.
pub fn exists(place: &Place, mount: &Mount) -> bool {
    mount.files.size_of(&place.name).is_some_and(|size| size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a new volume on a file in a folder.
    fn volume(folder: &tempfile::TempDir, stack: &str) -> String {
        let device = folder.path().join("device").display().to_string();
        std::fs::File::create(&device).unwrap().set_len(8 << 20).unwrap();
        let creating = servers::Creating {
            device: device.clone(),
            stack: stack.to_owned(),
            facts: layers::Facts::default(),
            seed: 1,
            destroys: false,
            staging: None,
        };
        servers::Volume::create(&creating).unwrap().close().unwrap();
        device
    }

    #[test]
    fn a_volume_is_open_as_long_as_one_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let device = volume(&folder, "log_volume(segment=64Ki)");
        let is_clean = || servers::about(&device, None).unwrap().header.is_clean;
        let place = Place::of_user("a", Some(&device)).unwrap();
        let path = place.path();
        let problem = Handle::open(&path, OPEN_MAIN_DB).map(|_| ()).unwrap_err();
        assert_eq!(problem.code, CANTOPEN, "nothing is made unless it is asked");
        let mut first = Handle::open(&path, OPEN_MAIN_DB | OPEN_CREATE).unwrap();
        let mut second = Handle::open(&path, OPEN_MAIN_DB).unwrap();
        assert!(!exists(&place, &mounts::find(&place.device).unwrap()), "it is empty");
        first.write(4000, b"far").unwrap();
        assert!(exists(&place, &mounts::find(&place.device).unwrap()));
        let mut read = [7; 5];
        assert_eq!((second.read(3998, &mut read), read), (Ok(5), *b"\0\0far"));
        assert_eq!(first.characteristics(), IOCAP_POWERSAFE_OVERWRITE);
        assert!(first.lock(1) && first.lock(2) && second.lock(1) && !second.lock(2));
        first.sync().unwrap();
        first.close().unwrap();
        assert!(second.lock(2) && !is_clean());
        let super_journal = Handle::open(&format!("{path}-mj1"), OPEN_SUPER_JOURNAL | OPEN_CREATE);
        assert!(super_journal.map(|_| ()).unwrap_err().message.contains("super-journal"));
        assert!(second.before_sync(false).is_ok() && second.before_sync(true).is_err());
        second.close().unwrap();
        assert!(is_clean() && mounts::find(&place.device).is_none());
        let found = servers::check(&device, None, &units::Progress::default()).unwrap();
        assert_eq!(found.files.unwrap().files[0].bytes, 4003);
    }

    /// A log volume that takes hints keeps the journal's pages in another log than the database's.
    #[test]
    fn what_a_file_is_for_says_how_long_its_pages_live() {
        let folder = tempfile::tempdir().unwrap();
        let device = volume(&folder, "log_volume(segment=64Ki,hints=yes)");
        let place = Place::of_user("a", Some(&device)).unwrap();
        let kinds = [
            ("", OPEN_MAIN_DB, Lifetime::Long),
            ("-wal", OPEN_WAL, Lifetime::Short),
            ("-journal", OPEN_MAIN_JOURNAL, Lifetime::Short),
        ];
        let mut open = Vec::new();
        for (end, kind, expected) in kinds {
            assert_eq!(lifetime(kind | OPEN_CREATE), expected);
            open.push(Handle::open(&(place.path() + end), kind | OPEN_CREATE).unwrap());
        }
        let mount = mounts::find(&place.device).unwrap();
        let written = || {
            let counts = ["host_pages", "hinted_pages"].map(|name| mount.layer_count(name));
            (counts[0], counts[1])
        };
        let (pages, hinted) = written();
        for file in &open {
            file.write(0, &[7; 8 * 4096]).unwrap();
            file.sync().unwrap();
        }
        let (pages, hinted) = (written().0 - pages, written().1 - hinted);
        assert!(pages >= 24 && pages == hinted, "{hinted} of {pages} pages have a hint");
        drop(mount);
        open.into_iter().for_each(|file| file.close().unwrap());
    }

    #[test]
    fn a_place_is_a_volume_and_a_name() {
        let place = |path, volume| Place::of_user(path, volume).map(|place| place.path());
        assert_eq!(place("app.db", Some("/no/such")).unwrap(), "/no/such/app.db");
        assert_eq!(place("/app.db", Some("/no/such")).unwrap(), "/no/such/app.db");
        assert_eq!(place("/no/such/app.db", None).unwrap(), "/no/such/app.db");
        let emulated = "emulated(profile=sd-card,data=/tmp/card)";
        assert_eq!(place("a", Some(emulated)).unwrap(), format!("{emulated}/a"));
        for (path, volume) in
            [("app.db", None), ("a/b", Some("/x")), ("", Some("/x")), ("/a", None)]
        {
            let problem = place(path, volume).unwrap_err();
            assert!(problem.message.contains("right would be"), "{problem:?}");
        }
    }
}
