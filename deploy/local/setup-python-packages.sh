#!/usr/bin/env bash
# Makes a virtual environment with the packages of a file of pinned requirements: FOLDER REQUIREMENTS.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1
requirements=$2
[ ! "$folder/.done" -nt "$requirements" ] || exit 0
python -m venv --clear "$folder"
# The file is whole. Looking for dependencies would find releases of which it has no hash where one is asked for with an extra.
"$folder/bin/pip" install -q --no-deps --require-hashes --disable-pip-version-check -r "$requirements"
touch "$folder/.done"
