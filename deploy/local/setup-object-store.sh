#!/usr/bin/env bash
# Builds versitygw, an object store that speaks S3 over a folder, from its Go module into .whetstone/versitygw, for tests, and
# prints where the program is. A second time it only does that.
set -euo pipefail
cd "$(dirname "$0")/../.."
MODULE=github.com/versity/versitygw
VERSION=v1.8.0
SUM=h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc=
folder=$PWD/.whetstone/versitygw/$VERSION
program=$folder/versitygw

fail() { echo "object store: $*" >&2; exit 2; }
mkdir -p "$folder"
exec 9>"$folder/lock" && flock 9 # Tests that start at the same time build it once.
if [ ! -x "$program" ]; then
  GO=$(command -v go || ls /usr/local/go/bin/go 2>/dev/null) || fail "Go 1.25 or newer is needed to build $MODULE: install it, and put it on the PATH"
  found=$(cd / && "$GO" mod download -json "$MODULE@$VERSION") || fail "$MODULE@$VERSION cannot be downloaded: does GOPROXY answer?"
  grep -qF "\"Sum\": \"$SUM\"" <<<"$found" || fail "$MODULE@$VERSION is not the one that was tested: its sum is not $SUM"
  source=$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' <<<"$found")
  (cd "$source" && CGO_ENABLED=0 "$GO" build -mod=readonly -trimpath -ldflags='-s -w' -o "$program.new" ./cmd/versitygw) || fail "it could not be built"
  mv "$program.new" "$program"
fi
echo "$program"
