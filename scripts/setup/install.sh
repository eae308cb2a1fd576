#!/usr/bin/env bash
# install.sh PROFILE BIN: puts what cargo built into the Python package of this tree, with the stub of
# the core, and the command `flashwright` into the virtual environment, which runs the package where
# it lies.
#
# A file that is the same already stays. Servers that are running have the old files mapped: a file
# that is written over while it is mapped ends them with SIGBUS, so each is replaced at once.
set -euo pipefail

built=target/$1
bin=$2
package=python/flashwright

put() {
    cmp --silent "$1" "$2" && return
    cp "$1" "$2.new"
    mv -f "$2.new" "$2"
}

mkdir -p "$package/_native"
"$built/stub" "$built/lib_core.so" "$built/_core.pyi"
put "$built/_core.pyi" "$package/_core.pyi"
put "$built/lib_core.so" "$package/_core.abi3.so"
put "$built/libflashwright_nbdkit.so" "$package/_native/libflashwright_nbdkit.so"
put "$built/libflashwright_sqlite.so" "$package/_native/libflashwright_sqlite.so"

"$bin/python" - "$PWD/python" "$PWD/$bin" << 'END'
import sys, sysconfig
from pathlib import Path

source, bin = sys.argv[1:]
Path(sysconfig.get_path("purelib"), "flashwright.pth").write_text(f"{source}\n")
script = Path(bin, "flashwright")
script.write_text(
    f"#!{bin}/python\nfrom flashwright.cli import main\n\nif __name__ == '__main__':\n    main()\n"
)
script.chmod(0o755)
END
