#!/usr/bin/env bash
# Installs the npm workspace. The system's Node (20 or newer) only bootstraps it: Node 24 comes as the package `node`.
set -euo pipefail
command -v node >/dev/null || { echo "Node 20 or newer is needed: install it from your distribution or nodejs.org" >&2; exit 2; }
major=$(node -p 'process.versions.node.split(".")[0]')
[ "$major" -ge 20 ] || { echo "Node 20 or newer is needed, found $(node --version)" >&2; exit 2; }
echo "setup: npm packages"
# `install`, not `ci`: the lock names binaries of other platforms, which not every registry carries. --no-save keeps the lock.
npm install --no-save --no-audit --no-fund --loglevel=error
node_modules/.bin/node --version | grep -q '^v24\.' || { echo "the npm package node@24 did not install its binary" >&2; exit 1; }
