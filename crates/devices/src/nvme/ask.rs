//! Questions to a namespace and its controller, before the first command.

#![allow(unsafe_code, reason = "ioctls that no library has")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::Nvme;
use super::abi::{self, COMMAND_BYTES, Command, HANDLES_HEADER_BYTES, PAGE_BYTES};
use super::identify::{self, CommandLimits, Controller, Namespace, Page};
use super::status::Status;

/// The pages in which a namespace and its controller say what they are.
struct Pages {
    controller: Box<Page>,
    namespace: Box<Page>,
    /// None of an older controller.
    limits: Option<Box<Page>>,
    /// None where FDP is not enabled.
    handles: Option<Box<Page>>,
}

impl Nvme {
    /// Fails with what is wrong with it.
    fn parse(number: u32, pages: &Pages) -> Result<Self, String> {
        Ok(Self {
            number,
            controller: Controller::parse(&pages.controller),
            namespace: Namespace::parse(&pages.namespace)?,
            limits: pages.limits.as_deref().map(CommandLimits::parse).unwrap_or_default(),
            placements: pages
                .handles
                .as_deref()
                .map_or_else(Vec::new, |handles| identify::placements(handles)),
        })
    }
}

/// Describes the namespace of a character device; or says what is wrong with it.
///
/// # Errors
/// The error of the kernel, or of the drive.
pub(crate) fn ask(file: &File) -> io::Result<Result<Nvme, String>> {
    // SAFETY: it takes nothing, and only tells a number.
    let number = unsafe { libc::ioctl(file.as_raw_fd(), abi::NAMESPACE_NUMBER.into()) };
    let number = u32::try_from(number).map_err(|_| io::Error::last_os_error())?;
    let identify = |page, of| asked(file, abi::ADMIN, Command::identify(page, of));
    let controller = identify(abi::Page::Controller, 0)?.map_err(refused)?;
    let namespace = identify(abi::Page::Namespace, number)?.map_err(refused)?;
    let limits = identify(abi::Page::ControllerOfCommandSet, 0)?.ok();
    let has_fdp = Controller::parse(&controller).has_fdp;
    let handles = if has_fdp { handles(file, number)? } else { None };
    Ok(Nvme::parse(number, &Pages { controller, namespace, limits, handles }))
}

/// The reclaim unit handle status; none where FDP is not enabled. First how long it is: a drive may
/// refuse a place that is longer than what it gives.
fn handles(file: &File, number: u32) -> io::Result<Option<Box<Page>>> {
    let asked = |bytes: usize| asked(file, abi::IO, Command::handles(number, bytes as u32));
    match asked(HANDLES_HEADER_BYTES)? {
        Ok(header) => asked(identify::handles_bytes(&header[..]))?.map(Some).map_err(refused),
        Err(status) if status.is_fdp_disabled() => Ok(None),
        Err(status) => Err(refused(status)),
    }
}

fn refused(status: Status) -> io::Error {
    io::Error::other(status.told())
}

/// The page that a command brings, or the status with which the drive refuses it.
fn asked(file: &File, request: u32, command: Command) -> io::Result<Result<Box<Page>, Status>> {
    let mut page: Box<Page> = Box::new([0; PAGE_BYTES]);
    assert!(command.bytes as usize <= PAGE_BYTES, "it has to fit");
    // In dwords, as the kernel's structure is aligned.
    let mut whole = [0_u64; COMMAND_BYTES / 8];
    let encoded = Command { address: page.as_mut_ptr() as u64, ..command }.encode();
    for (word, bytes) in whole.iter_mut().zip(encoded.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    }
    // SAFETY: the kernel reads and writes the command, which is as long as the request's number
    // says, and at most a page of data.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request.into(), whole.as_mut_ptr()) };
    match Status::of(result) {
        Some(status) => Ok(Err(status)),
        None if result < 0 => Err(io::Error::last_os_error()),
        None => Ok(Ok(page)),
    }
}
