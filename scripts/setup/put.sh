#!/usr/bin/env bash
# put.sh FOLDER FILE...: copies files into a folder, each under its name at once.
#
# Servers that are running have the old ones mapped: a file that is written over while it is mapped
# ends them with SIGBUS. (maturin takes the extension's file away before it writes the new one.)
set -euo pipefail

folder=$1
shift
for file in "$@"; do
    new="$folder/.$(basename "$file").new"
    cp "$file" "$new"
    mv -f "$new" "$folder/$(basename "$file")"
done
