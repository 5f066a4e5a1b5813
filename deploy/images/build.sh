#!/usr/bin/env bash
# Builds the container images, and prints name, size and seconds of each.
#   REGISTRY, TAG         names: $REGISTRY/<name>:$TAG (default localhost/whetstone/<name>:dev)
#   IMAGES                which (default: all but env-runner-browser, trainer-verl and vllm, which are large)
#   LOAD                  a command that brings an image into a cluster; it gets the image's name, e.g. "kind load docker-image"
#   PUSH=1                pushes each
#   VARIANT, TORCH_INDEX  for model-tools: see python-trainer/Dockerfile; for vllm: VARIANT=vllm (default) or vllm-cpu
#   MODEL_TOOLS           what trainer-verl starts from (default: $REGISTRY/model-tools:$TAG, which has to be there)
#   ENV_RUNNER            what env-runner-browser starts from (default: $REGISTRY/env-runner:$TAG, which has to be there)
#   NODE_IMAGE, RUNTIME_IMAGE, PYTHON_IMAGE  other base images of the same kind, e.g. from a registry of your own
#   DOCKER                the builder's command (default docker), e.g. podman
set -euo pipefail
cd "$(dirname "$0")/../.."
ALL="env-runner env-runner-python inference-gateway rollout-orchestrator controller sandbox-daemon model-tools"
REGISTRY=${REGISTRY:-localhost/whetstone}
TAG=${TAG:-dev}
IMAGES=${IMAGES:-$ALL}
DOCKER=${DOCKER:-docker}
MODEL_TOOLS=${MODEL_TOOLS:-$REGISTRY/model-tools:$TAG}
ENV_RUNNER=${ENV_RUNNER:-$REGISTRY/env-runner:$TAG}

fail() { echo "images: $*" >&2; exit 2; }
dockerfile() {
  case $1 in
    model-tools | vllm) echo python-trainer/Dockerfile ;;
    trainer-verl) echo python-trainer/verl.Dockerfile ;;
    env-runner-browser) echo services/env-runner/browser.Dockerfile ;;
    env-runner-python) echo python-trainer/environments.Dockerfile ;;
    env-runner | inference-gateway | rollout-orchestrator | controller | sandbox-daemon) echo "services/$1/Dockerfile" ;;
    *) fail "no image is named $1; there are: $ALL env-runner-browser trainer-verl vllm" ;;
  esac
}
# Its program is made outside: it is one file, and Go comes in no image that the others need.
program() {
  [ "$1" != sandbox-daemon ] || make -s -C services/sandbox-daemon || fail "sandbox-daemon needs Go 1.25 or newer on the PATH; leave it out with IMAGES=\"…\""
}
# Builders warn about arguments that a Dockerfile does not declare, so each gets its own.
arguments() {
  local name
  for name in $(sed -n 's/^ARG \([A-Z_]*\)=.*/\1/p' "$1" | sort -u); do
    [ -z "${!name:-}" ] || printf -- '--build-arg\n%s=%s\n' "$name" "${!name}"
  done
}
build() { # FILE IMAGE NAME
  local log more
  if [ "$3" = vllm ]; then local VARIANT=${VARIANT:-vllm}; fi
  mapfile -t more < <(arguments "$1")
  log=$(mktemp)
  $DOCKER build --file "$1" --tag "$2" "${more[@]}" . >"$log" 2>&1 || { tail -40 "$log" >&2; rm "$log"; fail "$2 could not be built"; }
  rm "$log"
}

$DOCKER version >/dev/null 2>&1 || fail "$DOCKER does not answer: start it, or set DOCKER_HOST"
for name in $IMAGES; do
  file=$(dockerfile "$name")
  image=$REGISTRY/$name:$TAG
  began=$SECONDS
  program "$name"
  build "$file" "$image" "$name"
  size=$($DOCKER image inspect --format '{{.Size}}' "$image")
  printf '%-48s %6d MB %5d s\n' "$image" $((size / 1000000)) $((SECONDS - began))
  if [ -n "${LOAD:-}" ]; then $LOAD "$image" >/dev/null || fail "$image could not be loaded by: $LOAD"; fi
  if [ -n "${PUSH:-}" ]; then $DOCKER push --quiet "$image"; fi
done
