#!/usr/bin/env bash
# Makes an environment with the libraries of tests/integration/any-agent/python in the folder given.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1
requirements=tests/integration/any-agent/python/requirements.txt
[ ! "$folder/.done" -nt "$requirements" ] || exit 0
python -m venv --clear "$folder"
"$folder/bin/pip" install -q --require-hashes --disable-pip-version-check -r "$requirements"
touch "$folder/.done"
