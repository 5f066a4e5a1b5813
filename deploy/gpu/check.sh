#!/usr/bin/env bash
# Engines and trainers on this machine's GPU: do they agree on log-probabilities, how fast are they, what do they hold? One JSON line.
#   deploy/gpu/check.sh [--preset 0.5b|1.5b|tiny] [--device auto|cuda|cpu] [--requests 64] [--tokens 256]
# After `make setup`. Also of verl where .whetstone/verl is (make setup-verl), and of vLLM where WHETSTONE_VLLM names its environment
# (BUILD=cuda deploy/local/setup-vllm.sh FOLDER). Of what is missing the line says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH=$PWD/.venv/bin:$PATH OMP_WAIT_POLICY=PASSIVE
exec python python-trainer/bench/check_device.py "$@"
