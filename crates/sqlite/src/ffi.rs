//! Interface to SQLite in both directions: all code that is unsafe.
//!
//! SQLite promises (<https://sqlite.org/c3ref/vfs.html>): pointers that it gives are valid for the
//! call, an open file is used by one thread at a time, and a file is closed once, if `open` has set
//! its methods. Nothing may unwind into it: [`guarded`] makes sure of that.
#![allow(unsafe_code, reason = "the interface is C's")]

use std::ffi::{CStr, CString, c_char, c_double, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Mutex, PoisonError};

use crate::locks::REGION_BYTES;
use crate::problem::{self, Problem};
use crate::sqlite3::{self, Api, File, IoMethods, Opaque, Vfs};
use crate::vfs::{self, Handle, MOST_PATH_BYTES, Place};

/// The oldest SQLite that was tried.
const OLDEST: c_int = 3_040_001;
const NAME: &CStr = c"flashwright";

/// Context of our VFS: a process may hold several SQLites, each with its own.
struct Context {
    api: &'static Api,
    /// The VFS that was the default one.
    other: *mut Vfs,
}

/// Our data of an open file, behind `sqlite3_file`.
#[repr(C)]
struct Open {
    base: File,
    context: &'static Context,
    handle: *mut Handle,
}

static METHODS: IoMethods = IoMethods {
    version: 2,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock,
    check_reserved_lock,
    file_control,
    sector_size,
    device_characteristics,
    shm_map,
    shm_lock,
    shm_barrier,
    shm_unmap,
};

/// Runs a call of SQLite; a problem is logged, a bug is an error instead of an unwinding.
fn guarded(api: &Api, work: impl FnOnce() -> Result<c_int, Problem>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Problem::new(sqlite3::INTERNAL, "a bug of Flashwright; the panic's text has more"))
    });
    outcome.unwrap_or_else(|problem| {
        if !problem.message.is_empty() {
            problem.remember();
            log(api, problem.code, &problem.message);
        }
        problem.code
    })
}

/// Writes a line to the log that was set with `SQLITE_CONFIG_LOG`.
fn log(api: &Api, code: c_int, message: &str) {
    let text = format!("flashwright: {}", message.replace('\0', " "));
    if let Ok(text) = CString::new(text) {
        // SAFETY: the format takes one string, which is one.
        unsafe { (api.log)(code, c"%s".as_ptr(), text.as_ptr()) };
    }
}

/// # Safety
/// `text` is null or a string that ends with zero.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    // SAFETY: as the caller says.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })?.to_str().ok()
}

/// Does something with an open file.
///
/// # Safety
/// `file` was opened here and is not closed; nobody else uses it during the call.
unsafe fn with(
    file: *mut File,
    work: impl FnOnce(&mut Handle, &Api) -> Result<c_int, Problem>,
) -> c_int {
    // SAFETY: `open` has put a handle there, which `close` alone takes away.
    let (handle, api) = unsafe {
        let open = file.cast::<Open>();
        (&mut *(*open).handle, (*open).context.api)
    };
    guarded(api, || work(handle, api))
}

/// # Safety
/// `vfs` is ours.
unsafe fn context(vfs: *mut Vfs) -> &'static Context {
    // SAFETY: `register` has put it there, for good.
    unsafe { &*(*vfs).app_data.cast::<Context>() }
}

/// # Safety
/// `vfs` is ours.
unsafe fn other<'a>(vfs: *mut Vfs) -> (&'a Vfs, *mut Vfs) {
    // SAFETY: SQLite's own VFS are never freed.
    unsafe { (&*context(vfs).other, context(vfs).other) }
}

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: a VFS of ours.
    let api = unsafe { context(vfs) }.api;
    guarded(api, || {
        // SAFETY: SQLite gives as many bytes as `file_bytes` says, and a name or null.
        unsafe {
            (*file).methods = ptr::null();
            if !vfs::is_kept(flags) {
                let (other, itself) = other(vfs);
                let open = other.open.ok_or(Problem::code(sqlite3::CANTOPEN))?;
                return Ok(open(itself, name, file, flags, out));
            }
            let path = text(name).ok_or(Problem::code(sqlite3::CANTOPEN))?;
            let mut handle = Handle::open(path, flags)?;
            if flags & sqlite3::OPEN_MAIN_DB != 0 {
                handle.is_powersafe = (api.uri_boolean)(name, c"psow".as_ptr(), 1) != 0;
                handle.notes().for_each(|note| log(api, sqlite3::NOTICE, &note));
            }
            let open = file.cast::<Open>();
            (&raw mut (*open).context).write(context(vfs));
            (&raw mut (*open).handle).write(Box::into_raw(Box::new(handle)));
            (*file).methods = &raw const METHODS;
            if !out.is_null() {
                *out = flags;
            }
        }
        Ok(sqlite3::OK)
    })
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    // SAFETY: the handle is a box of ours, taken once: then there are no methods any more.
    let (handle, api) = unsafe {
        (*file).methods = ptr::null();
        let open = file.cast::<Open>();
        (Box::from_raw((*open).handle), (*open).context.api)
    };
    guarded(api, || handle.close().map(|()| sqlite3::OK))
}

unsafe extern "C" fn read(file: *mut File, to: *mut c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: an open file, and room for `bytes` bytes. They are made zero first, so that they are
    // some, and what is not there is zero.
    let (to, bytes) = (to.cast::<u8>(), bytes as usize);
    unsafe {
        ptr::write_bytes(to, 0, bytes);
        let to = std::slice::from_raw_parts_mut(to, bytes);
        with(file, |handle, _| {
            let there = handle.read(offset as u64, to)?;
            Ok(if there < bytes { sqlite3::IOERR_SHORT_READ } else { sqlite3::OK })
        })
    }
}

unsafe extern "C" fn write(
    file: *mut File,
    from: *const c_void,
    bytes: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: an open file, and `bytes` bytes.
    unsafe {
        let from = std::slice::from_raw_parts(from.cast::<u8>(), bytes as usize);
        with(file, |handle, _| handle.write(offset as u64, from).map(|()| sqlite3::OK))
    }
}

unsafe extern "C" fn truncate(file: *mut File, size: i64) -> c_int {
    // SAFETY: an open file.
    unsafe { with(file, |handle, _| handle.truncate(size as u64).map(|()| sqlite3::OK)) }
}

unsafe extern "C" fn sync(file: *mut File, _flags: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe { with(file, |handle, _| handle.sync().map(|()| sqlite3::OK)) }
}

unsafe extern "C" fn file_size(file: *mut File, size: *mut i64) -> c_int {
    // SAFETY: an open file, and a place for a number.
    unsafe {
        with(file, |handle, _| {
            *size = handle.size() as i64;
            Ok(sqlite3::OK)
        })
    }
}

/// Gives the code for a lock: OK if it was taken, else BUSY.
const fn had(is_had: bool) -> Result<c_int, Problem> {
    Ok(if is_had { sqlite3::OK } else { sqlite3::BUSY })
}

unsafe extern "C" fn lock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe { with(file, |handle, _| had(handle.lock(level))) }
}

unsafe extern "C" fn unlock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe {
        with(file, |handle, _| {
            handle.unlock(level);
            Ok(sqlite3::OK)
        })
    }
}

unsafe extern "C" fn check_reserved_lock(file: *mut File, out: *mut c_int) -> c_int {
    // SAFETY: an open file, and a place for a number.
    unsafe {
        with(file, |handle, _| {
            *out = c_int::from(handle.is_reserved());
            Ok(sqlite3::OK)
        })
    }
}

unsafe extern "C" fn file_control(file: *mut File, what: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: an open file; what `arg` is follows from `what`
    // (<https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html>).
    unsafe {
        with(file, |handle, api| {
            match what {
                sqlite3::FCNTL_LOCKSTATE => *arg.cast() = handle.held.level,
                sqlite3::FCNTL_SIZE_HINT => handle.reserve((*arg.cast::<i64>()).max(0) as u64)?,
                sqlite3::FCNTL_CHUNK_SIZE => {
                    handle.chunk_bytes = (*arg.cast::<c_int>()).max(0) as u64;
                }
                sqlite3::FCNTL_PERSIST_WAL => switch(arg, &mut handle.keeps_wal),
                sqlite3::FCNTL_POWERSAFE_OVERWRITE => switch(arg, &mut handle.is_powersafe),
                sqlite3::FCNTL_VFSNAME => {
                    *arg.cast() = (api.mprintf)(c"%s".as_ptr(), NAME.as_ptr());
                }
                sqlite3::FCNTL_HAS_MOVED => *arg.cast::<c_int>() = 0,
                sqlite3::FCNTL_SYNC => handle.before_sync(!arg.is_null())?,
                sqlite3::FCNTL_PRAGMA => return Ok(pragma(api, handle, arg.cast())),
                _ => return Ok(sqlite3::NOTFOUND),
            }
            Ok(sqlite3::OK)
        })
    }
}

/// Reads a setting if the number is below zero, otherwise sets it.
///
/// # Safety
/// `arg` is a number.
unsafe fn switch(arg: *mut c_void, value: &mut bool) {
    // SAFETY: as the caller says.
    let arg = unsafe { &mut *arg.cast::<c_int>() };
    match *arg {
        ..0 => *arg = c_int::from(*value),
        set => *value = set != 0,
    }
}

/// Answers `pragma flashwright_volume`; others are SQLite's.
///
/// # Safety
/// `words` are a place for a result, the pragma's name, and its value or null.
unsafe fn pragma(api: &Api, handle: &Handle, words: *mut *mut c_char) -> c_int {
    // SAFETY: as the caller says; SQLite frees what mprintf has made.
    unsafe {
        if text(*words.add(1)) != Some("flashwright_volume") {
            return sqlite3::NOTFOUND;
        }
        let Ok(about) = CString::new(handle.about()) else { return sqlite3::ERROR };
        *words = (api.mprintf)(c"%s".as_ptr(), about.as_ptr());
    }
    sqlite3::OK
}

unsafe extern "C" fn sector_size(file: *mut File) -> c_int {
    // SAFETY: an open file.
    unsafe { with(file, |handle, _| Ok(handle.sector_bytes())) }
}

unsafe extern "C" fn device_characteristics(file: *mut File) -> c_int {
    // SAFETY: an open file.
    unsafe { with(file, |handle, _| Ok(handle.characteristics())) }
}

unsafe extern "C" fn shm_map(
    file: *mut File,
    region: c_int,
    bytes: c_int,
    makes: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: an open file, and a place for a pointer. What it points at are words that may change
    // under whoever looks; they stay until the last connection has unmapped them.
    unsafe {
        *out = ptr::null_mut();
        with(file, |handle, _| {
            if bytes != REGION_BYTES as c_int {
                let message = format!("{bytes} bytes of shared memory at a time are not known");
                return Err(Problem::new(sqlite3::ERROR, message));
            }
            if let Some(place) = handle.map(region as usize, makes != 0) {
                *out = place.cast_mut().cast();
            }
            Ok(sqlite3::OK)
        })
    }
}

unsafe extern "C" fn shm_lock(file: *mut File, first: c_int, count: c_int, flags: c_int) -> c_int {
    let (first, count) = (first as usize, count as usize);
    // SAFETY: an open file.
    unsafe { with(file, |handle, _| had(handle.lock_memory(first, count, flags))) }
}

unsafe extern "C" fn shm_barrier(_file: *mut File) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut File, _deletes: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe {
        with(file, |handle, _| {
            handle.unmap();
            Ok(sqlite3::OK)
        })
    }
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, syncs: c_int) -> c_int {
    // SAFETY: a VFS of ours.
    let api = unsafe { context(vfs) }.api;
    guarded(api, || {
        // SAFETY: a name; what is not of a volume that is open is the other VFS's.
        unsafe {
            if let Some((place, mount)) = text(name).and_then(Place::of_path) {
                return vfs::delete(&place, &mount).map(|()| sqlite3::OK);
            }
            let (other, itself) = other(vfs);
            let delete = other.delete.ok_or(Problem::code(sqlite3::IOERR_DELETE))?;
            Ok(delete(itself, name, syncs))
        }
    })
}

unsafe extern "C" fn access(
    vfs: *mut Vfs,
    name: *const c_char,
    what: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: a VFS of ours.
    let api = unsafe { context(vfs) }.api;
    guarded(api, || {
        // SAFETY: a name, and a place for a number. A super-journal may be another VFS's: that it
        // is not there must be true.
        unsafe {
            if let Some((place, mount)) = text(name).and_then(Place::of_path) {
                let is_there = what != sqlite3::ACCESS_EXISTS || vfs::exists(&place, &mount);
                *out = c_int::from(is_there);
                return Ok(sqlite3::OK);
            }
            let (other, itself) = other(vfs);
            let access = other.access.ok_or(Problem::code(sqlite3::IOERR))?;
            Ok(access(itself, name, what, out))
        }
    })
}

unsafe extern "C" fn full_pathname(
    vfs: *mut Vfs,
    name: *const c_char,
    room: c_int,
    to: *mut c_char,
) -> c_int {
    // SAFETY: a VFS of ours.
    let api = unsafe { context(vfs) }.api;
    guarded(api, || {
        // SAFETY: the name of a database as SQLite has parsed it, with its parameters behind it,
        // and room for that number of bytes.
        unsafe {
            let volume = text((api.uri_parameter)(name, c"volume".as_ptr()));
            let name = text(name).unwrap_or_default();
            let path = Place::of_user(name, volume)?.path();
            if path.len() >= room as usize {
                let message = format!("`{path}` has more than {room} bytes");
                return Err(Problem::new(sqlite3::CANTOPEN, message));
            }
            ptr::copy_nonoverlapping(path.as_ptr().cast(), to, path.len());
            *to.add(path.len()) = 0;
        }
        Ok(sqlite3::OK)
    })
}

/// Passes a call on to the VFS that was the default one.
macro_rules! pass_on {
    ($($name:ident: $field:ident($($arg:ident: $kind:ty),*) -> $result:ty, $or:expr;)+) => {$(
        unsafe extern "C" fn $name(vfs: *mut Vfs, $($arg: $kind),*) -> $result {
            // SAFETY: the same call, of another VFS.
            unsafe {
                let (other, itself) = other(vfs);
                other.$field.map_or($or, |call| call(itself, $($arg),*))
            }
        }
    )+};
}

pass_on! {
    dl_open: dl_open(path: *const c_char) -> *mut c_void, ptr::null_mut();
    dl_error: dl_error(room: c_int, to: *mut c_char) -> (), ();
    dl_sym: dl_sym(library: *mut c_void, name: *const c_char) -> *mut c_void, ptr::null_mut();
    dl_close: dl_close(library: *mut c_void) -> (), ();
    randomness: randomness(bytes: c_int, to: *mut c_char) -> c_int, 0;
    sleep: sleep(microseconds: c_int) -> c_int, 0;
    current_time: current_time(out: *mut c_double) -> c_int, sqlite3::ERROR;
    current_time_int64: current_time_int64(out: *mut i64) -> c_int, sqlite3::ERROR;
}

/// Gives the line of the last problem: `xGetLastError`.
unsafe extern "C" fn last_error(_vfs: *mut Vfs, room: c_int, to: *mut c_char) -> c_int {
    // SAFETY: SQLite gives room for that number of bytes.
    unsafe { flashwright_sqlite_error(to, room.max(0) as usize) };
    0
}

/// Copies the line of the last problem in this process, and a zero behind it, to a place with room
/// for `room` bytes, and forgets it; returns its length. Without room nothing is forgotten.
///
/// # Safety
/// There is so much room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashwright_sqlite_error(to: *mut c_char, room: usize) -> usize {
    if room == 0 {
        return 0;
    }
    let line = problem::take_last();
    let bytes = line.len().min(room - 1);
    // SAFETY: as the caller says.
    unsafe {
        ptr::copy_nonoverlapping(line.as_ptr().cast(), to, bytes);
        *to.add(bytes) = 0;
    }
    line.len()
}

/// Addresses of the routines of each SQLite that has the VFS.
static REGISTERED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Registers the VFS with a SQLite, once.
fn register(api: &'static Api) -> c_int {
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let whose = ptr::from_ref(api).addr();
    if registered.contains(&whose) {
        return sqlite3::OK;
    }
    // SAFETY: SQLite's routines; a VFS that it knows is never freed, and neither is ours.
    unsafe {
        let other = (api.vfs_find)(ptr::null());
        if other.is_null() {
            return sqlite3::ERROR;
        }
        let context: &'static Context = Box::leak(Box::new(Context { api, other }));
        let vfs = Box::into_raw(Box::new(Vfs {
            version: 2,
            file_bytes: (*other).file_bytes.max(size_of::<Open>() as c_int),
            most_path_bytes: MOST_PATH_BYTES,
            next: ptr::null_mut(),
            name: NAME.as_ptr(),
            app_data: ptr::from_ref(context).cast_mut().cast(),
            open: Some(open),
            delete: Some(delete),
            access: Some(access),
            full_pathname: Some(full_pathname),
            dl_open: Some(dl_open),
            dl_error: Some(dl_error),
            dl_sym: Some(dl_sym),
            dl_close: Some(dl_close),
            randomness: Some(randomness),
            sleep: Some(sleep),
            current_time: Some(current_time),
            last_error: Some(last_error),
            current_time_int64: Some(current_time_int64),
        }));
        registered.push(whose);
        (api.vfs_register)(vfs, 0)
    }
}

/// Entry point that SQLite calls when it loads `libflashwright_sqlite.so`
/// (<https://sqlite.org/loadext.html>, section 4).
///
/// # Safety
/// Called by SQLite.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_flashwrightsqlite_init(
    _connection: *mut Opaque,
    error: *mut *mut c_char,
    routines: *const Api,
) -> c_int {
    // SAFETY: SQLite gives its routines, which stay where they are.
    let api = unsafe { &*routines };
    guarded(api, || {
        // SAFETY: SQLite's routines, and a place for a message, which it frees.
        unsafe {
            if (api.libversion_number)() < OLDEST {
                if !error.is_null() {
                    let wrong = c"flashwright: SQLite 3.40.1 or newer is needed";
                    *error = (api.mprintf)(c"%s".as_ptr(), wrong.as_ptr());
                }
                return Ok(sqlite3::ERROR);
            }
        }
        Ok(match register(api) {
            sqlite3::OK => sqlite3::OK_LOAD_PERMANENTLY,
            code => code,
        })
    })
}

/// Entry point with the name that SQLite tries first.
///
/// # Safety
/// Called by SQLite.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    connection: *mut Opaque,
    error: *mut *mut c_char,
    routines: *const Api,
) -> c_int {
    // SAFETY: the same call.
    unsafe { sqlite3_flashwrightsqlite_init(connection, error, routines) }
}
