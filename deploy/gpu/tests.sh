#!/usr/bin/env bash
# The tests of engine and trainer on this machine's GPU in place of its CPU. After `make setup`; arguments are pytest's.
#   deploy/gpu/tests.sh [-n 8] [-k gradients]
set -uo pipefail
cd "$(dirname "$0")/../.."
export PATH=$PWD/.venv/bin:$PATH OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE WHETSTONE_TEST_DEVICE=cuda
cd python-trainer
exec python -m pytest tests/engine tests/trainer "$@"
