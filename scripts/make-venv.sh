#!/bin/sh
# Create a virtual environment with the first Python >= 3.11 found. Usage: make-venv.sh FOLDER
# PYTHON names an interpreter to use instead of searching.
set -eu

folder=$1
suits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

found=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
    if suits "$candidate"; then
        found=$candidate
        break
    fi
done
if [ -z "$found" ]; then
    echo "error: no Python 3.11 or later found" >&2
    echo "  to do: install one, or name it: make setup PYTHON=/path/to/python3.12" >&2
    exit 1
fi

echo "Creating $folder with $("$found" --version) ..."
if ! "$found" -m venv "$folder" >"${TMPDIR:-/tmp}/make-venv.$$" 2>&1; then
    cat "${TMPDIR:-/tmp}/make-venv.$$" >&2
    rm -rf "$folder" "${TMPDIR:-/tmp}/make-venv.$$"
    echo "error: $found cannot create virtual environments" >&2
    echo "  to do: install its venv module (on Debian and Ubuntu: apt install python3-venv)" >&2
    exit 1
fi
rm -f "${TMPDIR:-/tmp}/make-venv.$$"
