# SPDX-License-Identifier: Apache-2.0
# Env-runner of environments in Python: `python -m whetstone_env MODULE …`, which the container's arguments name.
# Build it from the root of the repository: docker build -f python-trainer/environments.Dockerfile .
# For packages of your own: FROM this image, USER 0, RUN pip install …, USER 10001:10001 (docs/python-environments.md).
ARG NODE_IMAGE=node:24-bookworm-slim
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${NODE_IMAGE} AS source
WORKDIR /src
COPY LICENSE package.json ./
COPY deploy deploy
COPY proto/gen/python proto/gen/python
COPY python-trainer python-trainer
RUN node deploy/images/python.ts /out environments && mkdir /requirements && mv /out/requirements.txt /requirements/ && cp LICENSE /out/

FROM ${PYTHON_IMAGE} AS packages
WORKDIR /opt/whetstone
COPY --from=source /requirements/requirements.txt ./
RUN python -m venv .venv \
 && PIP_NO_CACHE_DIR=1 PIP_COMPILE=0 .venv/bin/pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements.txt \
 && (.venv/bin/python -m compileall -q -f -j 0 --invalidation-mode unchecked-hash .venv/lib >/dev/null || true)

FROM ${PYTHON_IMAGE}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends tini && rm -rf /var/lib/apt/lists/* \
 && echo 'whetstone:x:10001:10001::/tmp:/usr/sbin/nologin' >>/etc/passwd && echo 'whetstone:x:10001:' >>/etc/group
COPY --from=packages /opt/whetstone/.venv /opt/whetstone/.venv
COPY --from=source /out /opt/whetstone/src
RUN /opt/whetstone/.venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/whetstone/src
# Modules are looked for in /environments, where the chart's `files` lie and an image of your own may put some.
ENV PATH=/opt/whetstone/.venv/bin:$PATH PYTHONPATH=/opt/whetstone/src:/environments PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp USER=whetstone OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE WHETSTONE_HOST=0.0.0.0 WHETSTONE_GRPC_PORT=9081
WORKDIR /tmp
USER 10001:10001
# What an environment starts may leave children behind: tini collects them.
ENTRYPOINT ["tini", "--", "python", "-m", "whetstone_env"]
