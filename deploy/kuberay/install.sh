#!/usr/bin/env bash
# KubeRay's own operator on the cluster of KUBECONFIG, built from its Go module, with its own definitions and rights. For tests: where
# images can be pulled, install it as its documentation says.
#   install.sh         in the namespace kuberay; a second time changes nothing
#   install.sh remove  with the definitions, and so with every RayCluster
#   LOAD               a command that brings an image into the cluster (default: E2E_LOAD_IMAGE), e.g. "kind load docker-image"
#   DOCKER             the builder's command (default docker)
set -euo pipefail
cd "$(dirname "$0")/../.."
MODULE=github.com/ray-project/kuberay/ray-operator
VERSION=v1.6.0
SUM=h1:1hs7Di2U/vm09ot7MIU8jUqEo7gHDc4gkbv1eFvqCsQ=
NAMESPACE=kuberay
IMAGE=localhost/whetstone/kuberay-operator:$VERSION
DOCKER=${DOCKER:-docker}
LOAD=${LOAD:-${E2E_LOAD_IMAGE:-}}
folder=$PWD/.whetstone/kuberay/$VERSION

fail() { echo "kuberay: $*" >&2; exit 2; }
GO=$(command -v go || ls /usr/local/go/bin/go 2>/dev/null) || fail "Go 1.25 or newer is needed to build the operator: install it, and put it on the PATH"

fetch() { # the module, checked, into $folder/source
  local found source
  [ ! -e "$folder/.fetched" ] || return 0
  found=$(cd / && "$GO" mod download -json "$MODULE@$VERSION") || fail "$MODULE@$VERSION cannot be downloaded: does GOPROXY answer?"
  grep -qF "\"Sum\": \"$SUM\"" <<<"$found" || fail "$MODULE@$VERSION is not the one that was tested: its sum is not $SUM"
  source=$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' <<<"$found")
  rm -rf "$folder" && mkdir -p "$folder"
  cp -r "$source" "$folder/source" && chmod -R u+w "$folder/source"
  touch "$folder/.fetched"
}
build() {
  [ -e "$folder/image/manager" ] || {
    mkdir -p "$folder/image"
    (cd "$folder/source" && CGO_ENABLED=0 "$GO" build -trimpath -ldflags='-s -w' -o "$folder/image/manager.new" .) || fail "the operator could not be built"
    mv "$folder/image/manager.new" "$folder/image/manager"
  }
  printf 'FROM scratch\nCOPY manager /manager\nUSER 65532:65532\n' >"$folder/image/Dockerfile"
  $DOCKER build -q --tag "$IMAGE" "$folder/image" >/dev/null || fail "$IMAGE could not be built"
  if [ -n "$LOAD" ]; then $LOAD "$IMAGE" >/dev/null || fail "$IMAGE could not be loaded by: $LOAD"; fi
}
# Its own manifests, with our image.
manifests() {
  local own=$folder/source/config/whetstone
  mkdir -p "$own"
  cat >"$own/kustomization.yaml" <<END
namespace: $NAMESPACE
resources: [../crd, ../rbac, ../manager]
images: [{ name: kuberay/operator, newName: ${IMAGE%:*}, newTag: ${IMAGE##*:} }]
END
  kubectl kustomize "$own"
}
install() {
  build
  kubectl create namespace "$NAMESPACE" --dry-run=client -o yaml | kubectl apply -f - >/dev/null
  manifests | kubectl apply --server-side --force-conflicts -f - >/dev/null
  kubectl wait --for=condition=Established --timeout=60s crd/rayclusters.ray.io >/dev/null
  kubectl -n "$NAMESPACE" rollout status --timeout=180s deployment/kuberay-operator
}

fetch
case ${1:-} in
  "") install ;;
  remove) manifests | kubectl delete --ignore-not-found --timeout=180s -f - >/dev/null && kubectl delete namespace "$NAMESPACE" --ignore-not-found --timeout=120s ;;
  *) echo "usage: deploy/kuberay/install.sh [remove]" >&2; exit 2 ;;
esac
