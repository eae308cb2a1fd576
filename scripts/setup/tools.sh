#!/usr/bin/env bash
# Looks for what make cannot install: cargo and Python. Says what is missing and how to get it.
set -euo pipefail

RUST_LEAST=$(sed -nE 's/^rust-version = "([0-9.]+)"/\1/p' Cargo.toml)
PYTHON=${PYTHON:-python3}
missing=0

at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

if ! command -v cargo > /dev/null; then
    echo "make: cargo is missing: install Rust $RUST_LEAST or newer from https://rustup.rs, then run make again" >&2
    missing=1
elif ! rustc --version > /dev/null 2>&1; then
    echo "make: cargo is there, and rustc does not start: run \`rustup default stable\` to get Rust $RUST_LEAST or newer" >&2
    missing=1
elif ! at_least "$RUST_LEAST" "$(rustc --version | cut -d ' ' -f 2)"; then
    echo "make: $(rustc --version) is too old: run \`rustup update\` to get $RUST_LEAST or newer" >&2
    missing=1
fi

if ! command -v "$PYTHON" > /dev/null; then
    echo "make: $PYTHON is missing: install Python 3.11 or newer (Debian: apt install python3 python3-venv), or name one with PYTHON=..." >&2
    missing=1
elif ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "make: $("$PYTHON" --version) is too old: Python 3.11 or newer is needed; name one with PYTHON=..." >&2
    missing=1
elif ! "$PYTHON" -c 'import ensurepip, venv' 2> /dev/null; then
    echo "make: $PYTHON cannot make a virtual environment (Debian: apt install python3-venv)" >&2
    missing=1
fi

exit "$missing"
