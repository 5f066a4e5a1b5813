#!/usr/bin/env bash
# The cluster for the tests that need one: the program CLUSTER starts and stops it (docs/testing.md says what it must do).
# Without one the cluster of KUBECONFIG is used as it is.
#   .ci/cluster.sh up     what it takes to start it; prints shell lines for what the tests must know
#   .ci/cluster.sh down   stops it
# A machine that cannot have one is no failure of ours: the reason goes to standard error, and the exit code is 3.
set -uo pipefail
CLUSTER=${CLUSTER:-}
# Images of docker and of the node, and their layers, once more while they are loaded.
NEEDS_GB=36
NEEDS_MB_OF_MEMORY=8000
# What the chart and the tests start beside our own images: a node that can pull nothing has to be given them.
IMAGES_OF_OTHERS="nats:2-slim python:3.11-slim-bookworm busybox:stable"

cannot() { echo "no cluster, so no tests that need one: $*" >&2; exit 3; }
step() { # NAME SECONDS COMMAND...
  local name=$1 limit=$2 log
  log=$(mktemp)
  echo "cluster: $name" >&2
  timeout --kill-after=30 "$limit" "${@:3}" >"$log" 2>&1 && { rm "$log"; return; }
  tail -20 "$log" >&2
  cannot "$name failed, or took more than $limit s"
}

up() {
  if [ -z "$CLUSTER" ]; then
    [ -n "${KUBECONFIG:-}" ] || cannot 'set KUBECONFIG, or CLUSTER to a program that starts one: docs/testing.md, "Get a cluster"'
    echo "cluster: that of KUBECONFIG, $KUBECONFIG" >&2
    return
  fi
  [ -x "$CLUSTER" ] || cannot "CLUSTER names $CLUSTER, which is no program"
  [ "$(id -u)" = 0 ] || cannot "$CLUSTER wants root"
  local home free used memory image
  home=${WHETSTONE_CLUSTER_HOME:-$HOME/.cache/whetstone-cluster}
  mkdir -p "$home"
  free=$(df --output=avail -BG "$home" | tail -1 | tr -dc 0-9)
  # A home that was used before has the greater part of it already.
  used=$(du -s -BG "$home" | cut -f1 | tr -dc 0-9)
  memory=$(awk '/MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
  [ $((free + used)) -ge $NEEDS_GB ] || cannot "$free GB of disk are free, $NEEDS_GB are needed"
  [ "$memory" -ge $NEEDS_MB_OF_MEMORY ] || cannot "$memory MB of memory are free, $NEEDS_MB_OF_MEMORY are needed"
  step install 1500 "$CLUSTER" install --with-extras
  step "base images" 600 "$CLUSTER" images
  step up 180 "$CLUSTER" up
  for image in $IMAGES_OF_OTHERS; do step "load $image" 120 "$CLUSTER" load "$image"; done
  "$CLUSTER" env
  cat <<END
export E2E_LOAD_IMAGE='$CLUSTER load' E2E_CLUSTER='$CLUSTER' E2E_NODE='$CLUSTER exec'
END
  # Of a cluster whose node is this machine.
  [ ! -d "$home/state/kubelet" ] || echo "export E2E_SECCOMP_FOLDER='$home/state/kubelet/seccomp'"
  local containerd=$home/run/containerd.sock
  [ ! -S "$containerd" ] || echo "export E2E_KILL='ctr --address $containerd --namespace k8s.io tasks kill -s SIGKILL'"
}

case ${1:-} in
  up) up ;;
  down) [ ! -x "$CLUSTER" ] || "$CLUSTER" down >/dev/null 2>&1 ;;
  *) echo "usage: .ci/cluster.sh up|down" >&2; exit 2 ;;
esac
