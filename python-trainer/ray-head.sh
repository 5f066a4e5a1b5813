#!/usr/bin/env bash
# The head of a RayCluster in the image trainer-verl: starts Ray as KubeRay wants it, but in the background, and then is the trainer.
# When Ray ends the trainer does, too, and with it the container.
#   ray-head ARGUMENTS...   those of python -m whetstone_trainer
set -euo pipefail
: "${KUBERAY_GEN_RAY_START_CMD:?is not set: this is the command of a head that KubeRay has made}"
ulimit -n 65536 2>/dev/null || true
eval "${KUBERAY_GEN_RAY_START_CMD/ --block /}"
exec python -m whetstone_trainer --backend=verl "$@"
