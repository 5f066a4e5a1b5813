#!/usr/bin/env bash
# Installs other people's gateways for models into the folder given, for `make bench-gateway BENCH=--beside`.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1
[ ! -e "$folder/.done" ] || exit 0
mkdir -p "$folder/portkey"
echo '{ "private": true }' >"$folder/portkey/package.json"
npm install --prefix "$folder/portkey" --no-audit --no-fund --ignore-scripts --loglevel=error @portkey-ai/gateway@1.15.2
python -m venv --clear "$folder/rllm"
"$folder/rllm/bin/pip" install -q --disable-pip-version-check -r tests/load/gateway/requirements-rllm.txt
touch "$folder/.done"
