#!/usr/bin/env bash
# Makes an environment for `--backend verl` in the folder given (default: .whetstone/verl); what requirements.txt and PyTorch
# bring it takes from .venv.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-.whetstone/verl}
requirements=python-trainer/verl-requirements.txt
! cmp -s "$requirements" "$folder/.done" || exit 0
python -m venv --clear "$folder"
packages=("$PWD"/.venv/lib/python3.*/site-packages)
echo "${packages[0]}" >"$(echo "$folder"/lib/python3.*/site-packages)/whetstone.pth"
"$folder/bin/pip" install -q --disable-pip-version-check --no-deps --require-hashes -r "$requirements"
"$folder/bin/python" -c 'import warnings; warnings.simplefilter("ignore"); import ray, verl'
cp "$requirements" "$folder/.done"
