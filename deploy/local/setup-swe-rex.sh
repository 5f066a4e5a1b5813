#!/usr/bin/env bash
# Makes an environment with SWE-ReX in the folder given, for `make bench-sandbox`.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1
[ ! -e "$folder/.done" ] || exit 0
python -m venv --clear "$folder"
"$folder/bin/pip" install -q --disable-pip-version-check -r tests/load/sandbox/requirements-swe-rex.txt
touch "$folder/.done"
