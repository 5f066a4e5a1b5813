#!/usr/bin/env bash
# Makes an environment with TRL in the folder given, for `make bench-trainer`; PyTorch and transformers are those of .venv.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1
[ ! -e "$folder/.done" ] || exit 0
python -m venv --clear "$folder"
packages=("$PWD"/.venv/lib/python3.*/site-packages)
echo "${packages[0]}" >"$(echo "$folder"/lib/python3.*/site-packages)/whetstone.pth"
"$folder/bin/pip" install -q --disable-pip-version-check -r python-trainer/bench/requirements-trl.txt
touch "$folder/.done"
