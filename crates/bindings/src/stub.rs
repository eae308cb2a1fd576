//! Writes the stub of the module, for editors and mypy, from what PyO3 keeps in the built library:
//! `stub LIBRARY STUB`.

use std::error::Error;
use std::{env, fs};

use pyo3_introspection::{introspect_cdylib, module_stub_files};

/// PyO3 does not keep what exceptions there are, and says so by the line that these replace.
const UNKNOWN: &str = "def __getattr__(name: str) -> Incomplete: ...\n";
const EXCEPTIONS: &str = "\
class FlashwrightError(Exception): ...
class InputError(FlashwrightError): ...
class RunError(FlashwrightError): ...
class ImpossibleError(RunError): ...
class Cancelled(FlashwrightError): ...
class InputWarning(UserWarning): ...
";

fn main() -> Result<(), Box<dyn Error>> {
    let [_, library, stub]: [String; 3] = env::args()
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "right would be: stub LIBRARY STUB")?;
    let module = introspect_cdylib(&library, "_core")?;
    let texts = module_stub_files(&module);
    let text = texts.values().next().ok_or("the library has no module")?;
    fs::write(stub, text.replace(UNKNOWN, EXCEPTIONS))?;
    Ok(())
}
