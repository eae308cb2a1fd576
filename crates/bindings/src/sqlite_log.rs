//! A log of SQLite that is read while it grows.

use std::fs::File;
use std::path::PathBuf;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use wal::sqlite::{Commit, Follow, Look, Nature, Written};

use crate::errors;

/// Follows the log of a SQLite database: `look` gives the transactions since the last look. `log`
/// and `database` are paths. Raises InputError if the log is none, or one of them cannot be read.
#[pyclass(module = "flashwright._core")]
pub struct SqliteLog {
    path: PathBuf,
    follow: Option<Follow<File>>,
    page_bytes: u32,
}

impl SqliteLog {
    fn failed(&self, error: &dyn std::fmt::Display) -> PyErr {
        errors::input_error(format!("{}: {error}", self.path.display()))
    }
}

#[pymethods]
impl SqliteLog {
    #[new]
    fn new(log: PathBuf, database: PathBuf) -> PyResult<Self> {
        let mut found = Self { path: log, follow: None, page_bytes: 0 };
        let of = |error: &dyn std::fmt::Display| {
            errors::input_error(format!("{}: {error}", database.display()))
        };
        let file = File::open(&found.path).map_err(|error| found.failed(&error))?;
        let base = File::open(&database).map_err(|error| of(&error))?;
        found.follow = Follow::open(file, &base).map_err(|error| found.failed(&error))?;
        if let Some(follow) = &found.follow {
            found.page_bytes = follow.page_bytes().map_err(|error| found.failed(&error))?;
        }
        Ok(found)
    }

    /// Bytes of a page; 0 while the log has no header.
    #[getter]
    fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// What is known of the database so far: skips_freed, auto_vacuum_full.
    #[getter]
    fn nature<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let nature = self.follow.as_ref().map_or(Nature::PLAIN, Follow::nature);
        Ok(dict!(py,
            "skips_freed": nature.skips_freed, "auto_vacuum_full": nature.is_auto_vacuum_full))
    }

    /// Goes on with another file: a log that was deleted is made anew. Raises InputError.
    fn reopen(&mut self, log: PathBuf) -> PyResult<()> {
        self.path = log;
        let file = File::open(&self.path).map_err(|error| self.failed(&error))?;
        self.follow = self.follow.take().map(|follow| follow.go_on(file));
        Ok(())
    }

    /// The commits since the last look. A dict of arrays, a row a commit: log (0, 1, ... as it is
    /// restarted), first_frame, frames, pages_before, pages_after; a row a page of them: page,
    /// free_for; beside these doubt (why some may have been missed, or None). Raises InputError.
    fn look<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (mut commits, mut pages) = (Vec::<Commit>::new(), Vec::<Written>::new());
        let look = match self.follow.as_mut() {
            Some(follow) => py.detach(|| follow.look(&mut commits, &mut pages)),
            None => Ok(Look::default()),
        };
        let look = look.map_err(|error| self.failed(&error))?;
        let of_commits =
            |take: fn(&Commit) -> u64| PyArray1::from_iter(py, commits.iter().map(take));
        let of_pages = |take: fn(&Written) -> u32| PyArray1::from_iter(py, pages.iter().map(take));
        Ok(dict!(py,
            "log": of_commits(|one| one.log),
            "first_frame": of_commits(|one| one.first_frame),
            "frames": of_commits(|one| one.frames),
            "pages_before": of_commits(|one| u64::from(one.before)),
            "pages_after": of_commits(|one| u64::from(one.after)),
            "page": of_pages(|one| one.page),
            "free_for": of_pages(|one| one.free_for),
            "doubt": look.doubt))
    }
}
