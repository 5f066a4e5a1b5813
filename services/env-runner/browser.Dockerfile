# SPDX-License-Identifier: Apache-2.0
# An env-runner with Chromium and the pages of MiniWoB++, for the environment `browser`: the image env-runner, and one layer.
# Build it after that one, from the root of the repository: docker build -f services/env-runner/browser.Dockerfile .
#   --build-arg ENV_RUNNER=IMAGE  what it starts from
ARG ENV_RUNNER=localhost/whetstone/env-runner:dev

FROM ${ENV_RUNNER} AS miniwob
USER 0
COPY python-trainer/miniwob-requirements.txt ./
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-pip \
 && python3 -m pip install -q --disable-pip-version-check --no-cache-dir --no-compile --target /opt/miniwob \
    --require-hashes --no-deps --only-binary :all: -r miniwob-requirements.txt

FROM ${ENV_RUNNER}
USER 0
# Pages draw with whatever fonts there are: a set of its own makes them the same everywhere.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium-headless-shell fonts-liberation \
 && rm -rf /var/lib/apt/lists/*
COPY --from=miniwob /opt/miniwob /opt/miniwob
ENV WHETSTONE_MINIWOB_PATH=/opt/miniwob
USER 10001:10001
