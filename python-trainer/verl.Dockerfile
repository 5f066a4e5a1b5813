# SPDX-License-Identifier: Apache-2.0
# The trainer on verl and Ray, for the pods of a RayCluster: the image model-tools, all of whose layers it shares, and verl.
# Build it after that one, from the root of the repository: docker build -f python-trainer/verl.Dockerfile .
#   --build-arg MODEL_TOOLS=IMAGE  what it starts from
ARG MODEL_TOOLS=localhost/whetstone/model-tools:dev
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

# An environment of its own, behind which that of model-tools lies (deploy/local/setup-verl.sh makes the same one).
FROM ${PYTHON_IMAGE} AS packages
WORKDIR /opt/whetstone
COPY python-trainer/verl-requirements.txt ./
RUN python -m venv verl && folder=$(verl/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])') \
 && echo "$folder" | sed s,/verl/,/.venv/, >"$folder/whetstone.pth" \
 && PIP_NO_CACHE_DIR=1 PIP_COMPILE=0 verl/bin/pip install -q --disable-pip-version-check --no-deps --require-hashes -r verl-requirements.txt \
 && rm -rf "$folder/pandas/tests" "$folder/ray/jars" \
 && (verl/bin/python -m compileall -q -f -j 0 --invalidation-mode unchecked-hash verl/lib >/dev/null || true)

FROM ${MODEL_TOOLS}
COPY --from=packages /opt/whetstone/verl /opt/whetstone/verl
COPY python-trainer/ray-head.sh /usr/local/bin/ray-head
ENV PATH=/opt/whetstone/verl/bin:$PATH RAY_USAGE_STATS_ENABLED=0
# What cannot be imported is to fail here, and not in a pod.
RUN python -W ignore -c 'import ray, verl' && ray --version
USER 10001:10001
