//! Names and parameters of variants: trace formats, policies, profiles, workloads.
//!
//! A variant is one file with an [`Info`], and one line in the registry of its kind. The `Info`
//! drives the parsing of `name(key=value, ...)`, `--help`, `flashwright list`, the table in the
//! docs, the listing in Python and the conformance tests. An unknown name or key is an error that
//! lists the known ones.

mod args;
mod quantity;
mod spec;
mod written;

pub use args::{Args, Param, ParamKind, Value};
pub use quantity::{parse_bytes, parse_count, parse_duration, parse_number};
pub use spec::{Spec, SpecError};
pub use written::{Unread, read};

/// Entry of a variant in the registry.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// The name on the command line and in files: lower case, words joined by `_`.
    pub name: &'static str,
    /// Other names that mean the same, such as the one that a paper uses.
    pub aliases: &'static [&'static str],
    /// Summary in one line.
    pub summary: &'static str,
    /// Publication: paper, section, equation.
    pub source: &'static str,
    /// The parameters.
    pub params: &'static [Param],
}

impl Info {
    /// Returns true if the variant has this name or alias.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Checks the given keys against the parameters and fills in the defaults.
    ///
    /// # Errors
    /// [`SpecError`] for an unknown key, a key given twice, or a value of the wrong kind or out of
    /// range.
    pub fn accept(&self, spec: &Spec) -> Result<Args, SpecError> {
        Args::fill(self, spec)
    }

    /// One line per parameter, for `--help` and the docs.
    #[must_use]
    pub fn usage(&self) -> String {
        if self.params.is_empty() {
            return self.name.to_owned();
        }
        let keys: Vec<String> =
            self.params.iter().map(|p| format!("{}={}", p.name, p.default)).collect();
        format!("{}({})", self.name, keys.join(","))
    }
}

/// Finds the entry of the spec's name. `kind` is the user's word for such a thing ("placement
/// policy").
///
/// # Errors
/// [`SpecError::UnknownName`] lists the known names.
pub fn find<'a, T>(
    kind: &'static str,
    entries: &'a [T],
    info: impl Fn(&T) -> &Info,
    spec: &Spec,
) -> Result<&'a T, SpecError> {
    entries.iter().find(|entry| info(entry).is_called(&spec.name)).ok_or_else(|| {
        SpecError::UnknownName {
            kind,
            name: spec.name.clone(),
            known: entries.iter().map(|entry| info(entry).name).collect::<Vec<_>>().join(", "),
        }
    })
}
