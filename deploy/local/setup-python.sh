#!/usr/bin/env bash
# Makes .venv: PyTorch, then everything else pinned with hashes.
#   PYTHON       the interpreter to build it with (3.11 or newer)
#   TORCH_INDEX  a package index for PyTorch; empty: PyTorch's CPU builds if there is no GPU and they answer, else the default
#                "default": the default one without asking
set -euo pipefail
PYTHON=${PYTHON:-python3}
TORCH=torch==2.13.0
CPU_INDEX=https://download.pytorch.org/whl/cpu

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  { echo "Python 3.11 or newer is needed (found: $("$PYTHON" --version 2>&1)); set PYTHON=/path/to/python3.11" >&2; exit 2; }
"$PYTHON" -c 'import venv, ensurepip' 2>/dev/null ||
  { echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 2; }

has_torch() { "$1" -c 'import torch, sys; sys.exit(not torch.__version__.startswith("2.13."))' 2>/dev/null; }
cpu_index_answers() { "$PYTHON" -c "import urllib.request as u; u.urlopen('$CPU_INDEX/torch/', timeout=5)" 2>/dev/null; }

# pip comes last: an environment whose making was interrupted lacks it.
if [ ! -x .venv/bin/pip ]; then
  echo "setup: Python environment"
  if has_torch "$PYTHON"; then "$PYTHON" -m venv --system-site-packages .venv; else "$PYTHON" -m venv .venv; fi
fi
if ! has_torch .venv/bin/python; then
  if [ "${TORCH_INDEX:-}" = default ]; then TORCH_INDEX=
  elif [ -z "${TORCH_INDEX:-}" ] && ! command -v nvidia-smi >/dev/null && cpu_index_answers; then TORCH_INDEX=$CPU_INDEX; fi
  echo "setup: PyTorch (this takes a minute or two)"
  .venv/bin/pip install -q --disable-pip-version-check ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$TORCH"
fi
echo "setup: Python packages"
.venv/bin/pip install -q --disable-pip-version-check --require-hashes --no-deps -r python-trainer/requirements.txt
