//! The part of SQLite's C interface that is needed: `sqlite3.h` and `sqlite3ext.h` of 3.40.1, which
//! later versions only add to (<https://sqlite.org/c3ref/vfs.html>, `io_methods.html`,
//! <https://sqlite.org/loadext.html>).

use std::ffi::{c_char, c_double, c_int, c_void};

pub const OK: c_int = 0;
pub const ERROR: c_int = 1;
pub const INTERNAL: c_int = 2;
pub const BUSY: c_int = 5;
pub const IOERR: c_int = 10;
pub const NOTFOUND: c_int = 12;
pub const FULL: c_int = 13;
pub const CANTOPEN: c_int = 14;
pub const NOTICE: c_int = 27;
pub const OK_LOAD_PERMANENTLY: c_int = 256;
pub const IOERR_READ: c_int = IOERR | 1 << 8;
pub const IOERR_SHORT_READ: c_int = IOERR | 2 << 8;
pub const IOERR_WRITE: c_int = IOERR | 3 << 8;
pub const IOERR_FSYNC: c_int = IOERR | 4 << 8;
pub const IOERR_TRUNCATE: c_int = IOERR | 6 << 8;
pub const IOERR_DELETE: c_int = IOERR | 10 << 8;
pub const IOERR_CLOSE: c_int = IOERR | 16 << 8;
pub const IOERR_DELETE_NOENT: c_int = IOERR | 23 << 8;

pub const OPEN_CREATE: c_int = 0x4;
pub const OPEN_MAIN_DB: c_int = 0x100;
pub const OPEN_MAIN_JOURNAL: c_int = 0x800;
pub const OPEN_SUPER_JOURNAL: c_int = 0x4000;
pub const OPEN_WAL: c_int = 0x8_0000;

pub const ACCESS_EXISTS: c_int = 0;

pub const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;

pub const FCNTL_LOCKSTATE: c_int = 1;
pub const FCNTL_SIZE_HINT: c_int = 5;
pub const FCNTL_CHUNK_SIZE: c_int = 6;
pub const FCNTL_PERSIST_WAL: c_int = 10;
pub const FCNTL_VFSNAME: c_int = 12;
pub const FCNTL_POWERSAFE_OVERWRITE: c_int = 13;
pub const FCNTL_PRAGMA: c_int = 14;
pub const FCNTL_HAS_MOVED: c_int = 20;
pub const FCNTL_SYNC: c_int = 21;

pub const LOCK_NONE: c_int = 0;
pub const LOCK_SHARED: c_int = 1;
pub const LOCK_RESERVED: c_int = 2;
pub const LOCK_PENDING: c_int = 3;
pub const LOCK_EXCLUSIVE: c_int = 4;

pub const SHM_UNLOCK: c_int = 1;
pub const SHM_SHARED: c_int = 4;
pub const SHM_LOCKS: usize = 8;

/// A connection: only SQLite looks inside.
pub type Opaque = c_void;

/// `sqlite3_file`: what a VFS keeps lies behind it.
#[repr(C)]
pub struct File {
    pub methods: *const IoMethods,
}

/// `sqlite3_io_methods`, version 2.
#[repr(C)]
pub struct IoMethods {
    pub version: c_int,
    pub close: unsafe extern "C" fn(*mut File) -> c_int,
    pub read: unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int,
    pub write: unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int,
    pub truncate: unsafe extern "C" fn(*mut File, i64) -> c_int,
    pub sync: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub file_size: unsafe extern "C" fn(*mut File, *mut i64) -> c_int,
    pub lock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub unlock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub check_reserved_lock: unsafe extern "C" fn(*mut File, *mut c_int) -> c_int,
    pub file_control: unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int,
    pub sector_size: unsafe extern "C" fn(*mut File) -> c_int,
    pub device_characteristics: unsafe extern "C" fn(*mut File) -> c_int,
    pub shm_map: unsafe extern "C" fn(*mut File, c_int, c_int, c_int, *mut *mut c_void) -> c_int,
    pub shm_lock: unsafe extern "C" fn(*mut File, c_int, c_int, c_int) -> c_int,
    pub shm_barrier: unsafe extern "C" fn(*mut File),
    pub shm_unmap: unsafe extern "C" fn(*mut File, c_int) -> c_int,
}

type DlOpen = unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void;
type DlError = unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char);
type DlSym = unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> *mut c_void;
type DlClose = unsafe extern "C" fn(*mut Vfs, *mut c_void);

/// `sqlite3_vfs`, version 2. SQLite's own methods may be missing, ours are not.
#[repr(C)]
pub struct Vfs {
    pub version: c_int,
    pub file_bytes: c_int,
    pub most_path_bytes: c_int,
    pub next: *mut Self,
    pub name: *const c_char,
    pub app_data: *mut c_void,
    pub open: Option<
        unsafe extern "C" fn(*mut Self, *const c_char, *mut File, c_int, *mut c_int) -> c_int,
    >,
    pub delete: Option<unsafe extern "C" fn(*mut Self, *const c_char, c_int) -> c_int>,
    pub access: Option<unsafe extern "C" fn(*mut Self, *const c_char, c_int, *mut c_int) -> c_int>,
    pub full_pathname:
        Option<unsafe extern "C" fn(*mut Self, *const c_char, c_int, *mut c_char) -> c_int>,
    pub dl_open: Option<DlOpen>,
    pub dl_error: Option<DlError>,
    pub dl_sym: Option<DlSym>,
    pub dl_close: Option<DlClose>,
    pub randomness: Option<unsafe extern "C" fn(*mut Self, c_int, *mut c_char) -> c_int>,
    pub sleep: Option<unsafe extern "C" fn(*mut Self, c_int) -> c_int>,
    pub current_time: Option<unsafe extern "C" fn(*mut Self, *mut c_double) -> c_int>,
    pub last_error: Option<unsafe extern "C" fn(*mut Self, c_int, *mut c_char) -> c_int>,
    pub current_time_int64: Option<unsafe extern "C" fn(*mut Self, *mut i64) -> c_int>,
}

/// `sqlite3_api_routines`: what is needed by its place, the rest passed over.
#[repr(C)]
pub struct Api {
    _0: [usize; 67],
    pub libversion_number: unsafe extern "C" fn() -> c_int,
    _68: usize,
    pub mprintf: unsafe extern "C" fn(*const c_char, ...) -> *mut c_char,
    _70: [usize; 71],
    pub vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Vfs,
    pub vfs_register: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    _143: [usize; 24],
    pub log: unsafe extern "C" fn(c_int, *const c_char, ...),
    _168: [usize; 19],
    pub uri_boolean: unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> c_int,
    _188: usize,
    pub uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// As `offsetof` of sqlite3ext.h says, in words.
    #[test]
    fn routines_are_in_their_places() {
        let words = |bytes: usize| bytes / size_of::<usize>();
        assert_eq!(words(offset_of!(Api, libversion_number)), 67);
        assert_eq!(words(offset_of!(Api, mprintf)), 69);
        assert_eq!(words(offset_of!(Api, vfs_find)), 141);
        assert_eq!(words(offset_of!(Api, vfs_register)), 142);
        assert_eq!(words(offset_of!(Api, log)), 167);
        assert_eq!(words(offset_of!(Api, uri_boolean)), 187);
        assert_eq!(words(offset_of!(Api, uri_parameter)), 189);
    }
}
