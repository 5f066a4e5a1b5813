#!/usr/bin/env bash
# Makes a virtual environment with the packages of a file of pinned requirements: FOLDER REQUIREMENTS.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1
requirements=$2
[ ! "$folder/.done" -nt "$requirements" ] || exit 0
python -m venv --clear "$folder"
"$folder/bin/pip" install -q --require-hashes --disable-pip-version-check -r "$requirements"
touch "$folder/.done"
