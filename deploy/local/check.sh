#!/usr/bin/env bash
# Everything that can be judged without running the product. Runs all of it, then fails if any part failed.
set -uo pipefail
failed=()
step() { printf 'check: %s\n' "$1"; shift; "$@" || failed+=("$*"); }

# Byte code that Python left there is nobody's contract.
generated_files() {
  find proto/gen charts/whetstone-crds/generated services/libs/*/src/generated services/libs/*/src/*/generated docs/{job-reference,kubernetes-objects}.md \
    -type f ! -name '*.pyc' -exec sha256sum {} + | sort
}
generated_is_current() {
  local before after
  before=$(generated_files)
  make -s gen >/dev/null || return 1
  after=$(generated_files)
  [ "$before" = "$after" ] || { echo "generated code is not what \`make gen\` makes; run it and commit the result" >&2; return 1; }
}
contract_is_compatible() { (cd proto && buf breaking --against baseline.binpb); }
python_types() { (cd python-trainer && pyright --pythonpath ../.venv/bin/python); }

# The daemon of sandboxes is in Go, which nothing else needs.
GO=$(command -v go || ls /usr/local/go/bin/go 2>/dev/null || true)
daemon() { (cd services/sandbox-daemon && [ -z "$("${GO}fmt" -l .)" ] && "$GO" vet ./...); }

step "format (prettier)" prettier --log-level warn --check .
step "lint (eslint)" eslint . --max-warnings 0
step "types (tsc)" tsc -p tsconfig.json
step "format (ruff)" ruff format -q --check python-trainer
step "lint (ruff)" ruff check -q python-trainer
step "types (pyright)" python_types
step "contract (buf lint)" bash -c 'cd proto && buf lint'
step "contract (buf breaking)" contract_is_compatible
step "generated code" generated_is_current
if [ -n "$GO" ]; then step "sandbox daemon (gofmt, go vet)" daemon; else echo "check: NOT CHECKED services/sandbox-daemon: there is no Go"; fi
if [ ${#failed[@]} -gt 0 ]; then printf 'check: failed: %s\n' "${failed[@]}" >&2; exit 1; fi
echo "check: all well"
