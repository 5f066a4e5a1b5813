#!/usr/bin/env bash
# Installs bubblewrap, which runs sandboxes. Where we may not, it says how to: everything else works without.
set -uo pipefail
command -v bwrap >/dev/null && exit
install() { apt-get install -y -qq --no-install-recommends bubblewrap >/dev/null; }
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "setup: bubblewrap"
  install 2>/dev/null || { apt-get update -qq && install; } && exit
fi
echo "setup: without bubblewrap there are no sandboxes (tools: [python]); install it: apt-get install bubblewrap" >&2
