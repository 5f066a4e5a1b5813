#!/usr/bin/env bash
# Installs Chromium's headless shell, which the environment `browser` drives. Where we may not, it says how to: everything else works
# without, and jobs that want a browser are refused.
set -uo pipefail
for program in /usr/lib/chromium/chromium-headless-shell /usr/lib/chromium/chromium /opt/google/chrome/chrome; do
  [ ! -x "$program" ] || exit 0
done
install() { apt-get install -y -qq --no-install-recommends chromium-headless-shell fonts-dejavu-core >/dev/null; }
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "setup: Chromium (this takes half a minute)"
  install 2>/dev/null || { apt-get update -qq && install; } && exit
fi
echo "setup: without Chromium there are no browsers (environment: browser); install it: apt-get install chromium-headless-shell" >&2
