//! Problems: a code for SQLite, and a line for people.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use servers::files::FilesError;

use crate::sqlite3;

/// A problem that SQLite is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// SQLite's code.
    pub code: c_int,
    /// Message: the failed action, its place and the reason; empty if it would say no more than the
    /// code.
    pub message: String,
}

/// The line of the last problem in this process.
static LAST: Mutex<String> = Mutex::new(String::new());

impl Problem {
    pub fn new(code: c_int, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Makes a problem of only a code, which is a usual answer.
    pub const fn code(code: c_int) -> Self {
        Self { code, message: String::new() }
    }

    /// Makes the problem of an error of files: `code` for an I/O error.
    pub fn of(error: &FilesError, code: c_int, name: &str) -> Self {
        let code = match error {
            FilesError::Full(_) => sqlite3::FULL,
            FilesError::NoFile(_) | FilesError::Refused(_) => sqlite3::CANTOPEN,
            FilesError::Failed(_) | FilesError::Broken(_) => code,
        };
        Self::new(code, format!("{name}: {error}"))
    }

    /// Keeps the line for a later query.
    pub fn remember(&self) {
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = self.message.clone();
    }
}

/// Gives the line of the last problem in this process, and forgets it; empty if there was none.
pub fn take_last() -> String {
    std::mem::take(&mut *LAST.lock().unwrap_or_else(PoisonError::into_inner))
}
