//! A volume as one file in FUSE. A loop device over it is a block device where the kernel has
//! neither NBD nor ublk.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use block::{Data, Failure};
use bytes::Bytes;
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request as Asked, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::process::{getegid, geteuid};
use units::Lifetime;

use crate::{Done, Request, Service, VolumeError};

/// The name of the file.
pub const FILE_NAME: &str = "volume";

const FILE: INodeNo = INodeNo(2);
/// Time for which the kernel may cache attributes: they do not change.
const KEPT: Duration = Duration::from_secs(3600);
/// Longest write that the kernel hands over at once, in bytes.
const MOST_BYTES: u32 = 1 << 20;
/// Requests that the kernel has under way at a time.
const MOST_UNDER_WAY: u16 = 128;

/// The mounted directory with the file, as long as this lives.
pub struct Mounted {
    session: BackgroundSession,
}

impl Mounted {
    /// Unmounts the directory. It fails while somebody has the file open.
    ///
    /// # Errors
    /// The error of the system.
    pub fn unmount(self) -> io::Result<()> {
        ended(self.session.umount_and_join())
    }
}

/// Gives the outcome of a session. The thread that reads the kernel's last request during an
/// unmount may get an aborted connection (`fuse_dev_do_read`), which is a normal end.
fn ended(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
        outcome => outcome,
    }
}

/// Mounts an empty directory with the file [`FILE_NAME`] of a volume. Only its owner may use it.
///
/// # Errors
/// [`VolumeError::System`].
pub fn mount(service: Arc<Service>, directory: &Path) -> Result<Mounted, VolumeError> {
    let failed = |source| VolumeError::System {
        action: format!("mounting a FUSE file system at {}", directory.display()),
        source,
    };
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("flashwright".to_owned()),
        MountOption::Subtype("volume".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoExec,
    ];
    config.acl = SessionACL::Owner;
    let file = OneFile { service, since: SystemTime::now() };
    let session = fuser::spawn_mount(file, directory, &config).map_err(failed)?;
    Ok(Mounted { session })
}

struct OneFile {
    service: Arc<Service>,
    since: SystemTime,
}

impl OneFile {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size, nlink) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0, 2),
            FILE => (FileType::RegularFile, 0o600, self.service.capacity_bytes(), 1),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
            crtime: self.since,
            kind,
            perm,
            nlink,
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

fn empty(reply: ReplyEmpty) -> Done {
    Box::new(move |outcome| match outcome {
        Ok(_) => reply.ok(),
        Err(_) => reply.error(Errno::EIO),
    })
}

impl Filesystem for OneFile {
    fn init(&mut self, _: &Asked, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel with a lower limit takes less.
        let _ = config.set_max_write(MOST_BYTES);
        let _ = config.set_max_background(MOST_UNDER_WAY);
        let _ = config.set_congestion_threshold(MOST_UNDER_WAY);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _: &Asked, parent: INodeNo, name: &std::ffi::OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(file) if parent == INodeNo::ROOT && name == FILE_NAME => {
                reply.entry(&KEPT, &file, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Asked, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&KEPT, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// The size, the owner and the times of a volume do not change.
    fn setattr(
        &self,
        _: &Asked,
        inode: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = mode.is_some() || user.is_some() || group.is_some();
        match self.attributes(inode) {
            Some(own) if !changes && size.is_none_or(|size| size == own.size) => {
                reply.attr(&KEPT, &own);
            }
            Some(_) => reply.error(Errno::EPERM),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readdir(
        &self,
        _: &Asked,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if inode != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let all = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, FILE_NAME),
        ];
        for (number, (inode, kind, name)) in all.into_iter().enumerate().skip(offset as usize) {
            if reply.add(inode, number as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _: &Asked, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if inode != FILE {
            return reply.error(Errno::EISDIR);
        }
        let flags = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Asked,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // Bytes behind the end do not exist: a file is read up to its end.
        let left = self.service.capacity_bytes().saturating_sub(offset);
        let length = u64::from(size).min(left) as u32;
        let done = move |outcome: Result<Data, Failure>| match outcome {
            Ok(data) => reply.data(&data.joined().unwrap_or_default()),
            Err(_) => reply.error(Errno::EIO),
        };
        self.service.submit(Request::Read { offset, length }, Box::new(done));
    }

    fn write(
        &self,
        _: &Asked,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = data.len() as u32;
        if offset.saturating_add(u64::from(length)) > self.service.capacity_bytes() {
            return reply.error(Errno::ENOSPC);
        }
        let is_fua = flags.0 & (libc::O_SYNC | libc::O_DSYNC) != 0;
        // The kernel hands over no hint.
        let (data, lifetime) = (Bytes::copy_from_slice(data), Lifetime::NotSet);
        let done = move |outcome: Result<Data, Failure>| match outcome {
            Ok(_) => reply.written(length),
            Err(_) => reply.error(Errno::EIO),
        };
        self.service.submit(Request::Write { offset, data, is_fua, lifetime }, Box::new(done));
    }

    fn fsync(&self, _: &Asked, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.service.submit(Request::Flush, empty(reply));
    }

    fn flush(&self, _: &Asked, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // It is called when somebody closes the file, and promises nothing.
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Asked,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        // A hole reads as zeros, and the kernel's loop device turns each discard into a hole. Where
        // zeros would have to be written it is refused.
        let unmaps = mode & libc::FALLOC_FL_PUNCH_HOLE != 0;
        if unmaps && self.service.shape().zeroing_bytes.is_none() {
            return reply.error(Errno::EOPNOTSUPP);
        }
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE => {
                let request = Request::Zero { offset, length, is_fua: false, unmaps };
                self.service.submit(request, empty(reply));
            }
            // Its bytes are allocated.
            0 => reply.ok(),
            _ => reply.error(Errno::EOPNOTSUPP),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_meets_the_unmounting_is_no_failure() {
        let errno = |number| Err(io::Error::from_raw_os_error(number));
        assert!(ended(errno(libc::ECONNABORTED)).is_ok());
        assert!(ended(errno(libc::EBUSY)).is_err());
    }
}
