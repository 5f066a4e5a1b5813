#!/usr/bin/env bash
# Makes an environment with BrowserGym in the folder given, for `make bench-browser` and tests/load/browser/record_browsergym.py. It
# looks for a browser of Playwright's own, which has to be downloaded: in its place stands the system's Chromium.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$1
[ ! -e "$folder/.done" ] || exit 0
python -m venv --clear "$folder"
"$folder/bin/pip" install -q --disable-pip-version-check -r tests/load/browser/requirements-browsergym.txt
place=$("$folder/bin/python" -c 'from playwright.sync_api import sync_playwright as s
with s() as p: print(p.chromium.executable_path)')
place=$folder/browsers/${place#*ms-playwright/}
mkdir -p "$(dirname "$place")"
printf '#!/bin/sh\nexec /usr/lib/chromium/chromium-headless-shell --no-sandbox "$@"\n' >"$place"
chmod +x "$place"
touch "$folder/.done"
