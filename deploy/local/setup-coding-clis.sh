#!/usr/bin/env bash
# Installs the coding command lines that tests/integration/coding-clis plays into .whetstone/coding-clis: their binaries are
# large (1.8 GB in all), and nothing of ours depends on them. Their lock file names versions and digests.
set -euo pipefail
cd "$(dirname "$0")/../.."
pinned=tests/integration/coding-clis
folder=.whetstone/coding-clis
mkdir -p "$folder"
if ! cmp -s "$pinned/package-lock.json" "$folder/.done"; then
  cp "$pinned/package.json" "$pinned/package-lock.json" .npmrc "$folder/"
  # `install`, not `ci`: see setup-node.sh.
  (cd "$folder" && npm install --no-save --no-audit --no-fund --loglevel=error)
  cp "$pinned/package-lock.json" "$folder/.done"
fi
bash deploy/local/setup-python-packages.sh "$folder/python" "$pinned/python/requirements.txt"
