# Whetstone. `make help` lists the targets; each sets up what it needs, once.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/node_modules/.bin:$(CURDIR)/.venv/bin:$(PATH)
export OMP_WAIT_POLICY := PASSIVE
# Python to build the virtual environment with, and where PyTorch comes from (empty: chosen by deploy/local/setup-python.sh).
PYTHON ?= python3
TORCH_INDEX ?=
# Seed of the quickstart, and extra arguments for it (e.g. QUICKSTART="--lag 0").
SEED ?= 1
QUICKSTART ?=
BENCH ?=
LEARN ?=
ARITHMETIC ?=
FUZZ ?=
KILLS ?= 50
PLANTED ?=
KUBE ?=
KUBERAY ?=
# Folder for the tarballs of `make pack`.
OUT ?= .whetstone/packages
# Command that brings an image into the cluster, for `make images`; its other settings are in deploy/images/build.sh.
LOAD ?= $(E2E_LOAD_IMAGE)

NODE_STAMP := node_modules/.whetstone-stamp
PYTHON_STAMP := .venv/.whetstone-stamp
SANDBOX_STAMP := .whetstone/sandbox-stamp
BROWSER_STAMP := .whetstone/browser-stamp
MANIFESTS := package.json $(wildcard services/*/package.json services/libs/*/package.json proto/package.json tests/package.json)
PROTOS := $(shell cd proto && find buf whetstone -name '*.proto' | sort)

.PHONY: help setup setup-verl setup-vllm setup-python-agents setup-coding-clis setup-other-environments quickstart learn repair clicks multi-hop mcp-tools arithmetic tasks-verify humaneval test test-all test-kube test-containers check gen pack images kuberay e2e format proto-baseline bench-engine bench-weights bench-trainer bench-memory bench-gateway bench-rollout bench-sandbox bench-browser bench-mcp bench-search bench-kube bench-batches bench-jobs fuzz-gateway fuzz-jobs kill-trainer planted clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

setup: $(NODE_STAMP) $(PYTHON_STAMP) $(SANDBOX_STAMP) $(BROWSER_STAMP) ## Install everything the other targets need (they do it themselves)

$(NODE_STAMP): package-lock.json $(MANIFESTS)
	@bash deploy/local/setup-node.sh
	@touch $@

$(PYTHON_STAMP): python-trainer/requirements.txt deploy/local/setup-python.sh
	@PYTHON="$(PYTHON)" TORCH_INDEX="$(TORCH_INDEX)" bash deploy/local/setup-python.sh
	@touch $@

$(SANDBOX_STAMP): deploy/local/setup-sandbox.sh
	@bash deploy/local/setup-sandbox.sh
	@mkdir -p $(@D) && touch $@

$(BROWSER_STAMP): deploy/local/setup-browser.sh
	@bash deploy/local/setup-browser.sh
	@mkdir -p $(@D) && touch $@

setup-verl: setup ## Install verl and Ray into .whetstone/verl, for whet up --trainer-backend verl (docs/verl.md)
	@bash deploy/local/setup-verl.sh

setup-vllm: setup ## Install vLLM's CPU build into .whetstone/vllm, beside the PyTorch of .venv (2 GB), for tests with it (docs/vllm.md)
	@SHARE=.venv bash deploy/local/setup-vllm.sh .whetstone/vllm

setup-python-agents: setup ## Install the agents' libraries that tests/integration/any-agent/python-agents.test.ts plays, into .whetstone/python-agents
	@bash deploy/local/setup-python-packages.sh .whetstone/python-agents tests/integration/any-agent/python/requirements.txt

setup-coding-clis: setup ## Install the coding command lines that tests/integration/coding-clis plays, into .whetstone/coding-clis (1.8 GB)
	@bash deploy/local/setup-coding-clis.sh

setup-other-environments: setup ## Install other people's environments that tests/integration/other-environments plays, into .whetstone/other-environments
	@bash deploy/local/setup-python-packages.sh .whetstone/other-environments tests/integration/other-environments/requirements.txt

quickstart: setup ## Train an agent from random weights on this machine and show what it learned (SEED=1)
	@node examples/frozenlake/quickstart.ts --seed $(SEED) $(QUICKSTART)

learn: setup ## What each algorithm learns from the same start, a JSON line and a table row a run (LEARN="--algorithms gspo --seeds 1")
	@node examples/frozenlake/learn.ts $(LEARN)

tasks-verify: setup ## Grade the repair, and nothing at all, of every task in examples/swe/tasks (VERIFY="--sample 20")
	@whet tasks make swe --out examples/swe/tasks --libraries "$$(ls examples/swe/tasks/libraries | sed 's/-[^-]*$$//' | paste -sd,)"
	@whet tasks verify examples/swe/tasks --at-once 2 $(VERIFY)

humaneval: setup ## Write HumanEval's problems as tasks of the environment `code`, for examples/code/job.yaml
	@node examples/code/humaneval.ts

repair: setup ## A random-weight model learns to repair functions with one wrong operator, judged in sandboxes (REPAIR="--set loop.steps=5")
	@node examples/repair/run.ts $(REPAIR)

clicks: setup ## A random-weight model learns to click what MiniWoB++ asks for, in browsers (CLICKS="--set loop.steps=5")
	@node examples/clicks/run.ts $(CLICKS)

multi-hop: setup ## A random-weight model learns to search for answers that stand two passages away (MULTI_HOP="--set loop.steps=5")
	@node examples/multi-hop/run.ts $(MULTI_HOP)

mcp-tools: setup ## A random-weight model learns which tools of an MCP server to call (MCP_TOOLS="--set loop.steps=5")
	@node examples/mcp-tools/run.ts $(MCP_TOOLS)

arithmetic: setup ## A pretrained model of 135 M parameters learns sums of two-digit numbers (ARITHMETIC="--set loop.steps=10")
	@node examples/arithmetic/run.ts $(ARITHMETIC)

test: setup ## Run every test that needs no GPU and no cluster
	@node tests/run-all.ts

test-all: setup ## Run every test there is: KUBECONFIG, DOCKER_HOST, and E2E_LOAD_IMAGE to bring the images into the cluster
	@node tests/run-all.ts --cluster

test-kube: setup ## Run the tests that need a cluster (KUBECONFIG); KUBE="services/libs/kube" for some of them
	@vitest run --project kube --passWithNoTests $(KUBE)

test-containers: setup ## Run the tests that need a container engine (DOCKER_HOST), its base images and the images of `make images`
	@vitest run --project containers --passWithNoTests

check: setup ## Format, lint, types, generated code, contract and layering
	@bash deploy/local/check.sh

gen: setup ## Regenerate proto/gen (TypeScript and Python) and what else is made from the contract
	cd proto && buf generate
	rm -rf proto/gen/python && mkdir -p proto/gen/python
	python -m grpc_tools.protoc -I proto --python_out=proto/gen/python --pyi_out=proto/gen/python --grpc_python_out=proto/gen/python $(addprefix proto/,$(PROTOS))
	find proto/gen/python -mindepth 1 -type d -exec touch {}/__init__.py \;
	node deploy/contract/generate.ts >/dev/null

pack: setup ## Make the npm tarballs of SDK and command line in OUT (default: .whetstone/packages)
	@node deploy/pack/pack.ts "$(OUT)"

images: ## Build the container images (REGISTRY, TAG, IMAGES="controller ...", VARIANT=cuda, LOAD="kind load docker-image")
	@LOAD="$(LOAD)" bash deploy/images/build.sh

kuberay: ## Build KubeRay's operator from its Go module and install it on the cluster of KUBECONFIG, for tests (KUBERAY=remove)
	@LOAD="$(LOAD)" deploy/kuberay/install.sh $(KUBERAY)

e2e: setup ## Install the chart on the cluster of KUBECONFIG, train through it, uninstall (E2E_LOAD_IMAGE="kind load docker-image" brings in missing images)
	@REGISTRY="$(REGISTRY)" TAG="$(TAG)" node tests/e2e/run.ts

format: setup ## Format everything
	prettier --log-level warn --write .
	ruff format -q python-trainer && ruff check -q --fix python-trainer

proto-baseline: setup ## Accept today's contract as the one that later changes are compared with (on a release)
	cd proto && buf build --exclude-source-info -o baseline.binpb

bench-engine: setup ## Tokens per second of the engine beside transformers, and beside vLLM after `make setup-vllm`, one JSON line (BENCH="--quick")
	@OMP_NUM_THREADS=1 python python-trainer/bench/bench_engine.py $(if $(wildcard .whetstone/vllm/bin/vllm),--vllm .whetstone/vllm) $(BENCH)

bench-weights: setup ## New weights to engines that sample, beside cp and a copy in memory, one JSON line (BENCH="--mib 256 --engines 2")
	@cd python-trainer && PYTHONPATH=src OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE python bench/bench_weights.py $(BENCH)

bench-trainer: setup ## CPU and memory of a whole training step beside TRL's update, one JSON line (BENCH="--quick")
	@bash deploy/local/setup-trl.sh .whetstone/trl
	@OMP_NUM_THREADS=1 python python-trainer/bench/bench_trainer.py --trl .whetstone/trl/bin/python $(BENCH)

bench-memory: setup ## What training and a restore hold beside the weights, and when weights are ready, a JSON line each for GRPO and PPO
	@OMP_NUM_THREADS=1 python python-trainer/bench/bench_memory.py

bench-rollout: setup ## Turns per second as a library and through the services, one JSON line (BENCH="--part library --levels 64,512")
	@node services/libs/sdk/bench/bench-rollout.ts $(BENCH)

bench-sandbox: setup ## Time to open, to fork and to run in sandboxes beside SWE-ReX, 500 at once, episodes a minute, one JSON line (BENCH="--at-once 50"); with DOCKER_HOST another of containers, with KUBECONFIG another of warm pods
	@bash deploy/local/setup-swe-rex.sh .whetstone/swe-rex
	@node tests/load/sandbox/bench-sandbox.ts --swe-rex .whetstone/swe-rex/bin/python $(BENCH)
	@if [ -n "$$DOCKER_HOST" ]; then node tests/load/sandbox/containers.ts; fi
	@if [ -n "$$KUBECONFIG" ]; then node tests/load/sandbox/claims.ts; fi

bench-browser: setup ## Steps of browsers for each CPU second, memory of a context, time of a reset, beside BrowserGym, one JSON line (BENCH="--contexts 16")
	@bash deploy/local/setup-browsergym.sh .whetstone/browsergym
	@node tests/load/browser/bench-browser.ts --browsergym .whetstone/browsergym/bin/python $(BENCH)

bench-mcp: setup ## Calls of MCP tools a second over stdio and HTTP, beside the client alone; episodes, and what they leave, one JSON line (BENCH="--episodes 100")
	@node tests/load/mcp/bench-mcp.ts $(BENCH)

bench-search: setup ## An index of a million made passages: bytes, memory, queries a second, p50 and p99, one JSON line (BENCH="--passages 100000")
	@node tests/load/search/bench-search.ts $(BENCH)

bench-gateway: setup ## Requests a second, CPU and added latency of the gateway, conversations, one and two replicas, one JSON line (BENCH="--seconds 3 --beside")
	@case " $(BENCH) " in *" --beside "*) bash deploy/local/setup-model-gateways.sh .whetstone/model-gateways;; esac
	@node tests/load/gateway/bench-gateway.ts $(BENCH)

bench-kube: setup ## What 500 TrainingJobs and 5,000 fake environment pods cost the controller, one JSON line (BENCH="--jobs 50 --pods 500")
	@node tests/load/kube-scale.ts $(BENCH)

bench-batches: setup ## What large evaluations and batches cost the controller, a JSON line each (BENCH="--evaluations 10000 --batches 4096x8")
	@node tests/load/batches.ts $(BENCH)

bench-jobs: setup ## Two jobs and an evaluation, one after the other and at once on the same engines, one JSON line (BENCH="--steps 4")
	@node tests/load/jobs/bench-jobs.ts $(BENCH)

fuzz-jobs: setup ## Ten thousand generated job specifications against a local runtime, one JSON line (FUZZ="--specs 500 --run 10 --seed 2")
	@node tests/load/generated-jobs.ts $(FUZZ)

fuzz-gateway: setup ## A hundred thousand mutated requests to each endpoint of the gateway, and a million random bytes, one JSON line (FUZZ="--requests 5000 --seed 2")
	@node tests/load/gateway/fuzz-gateway.ts $(FUZZ)

kill-trainer: setup ## kill -9 of the trainer at random moments, GRPO and PPO, a JSON line each (KILLS=50 SEED=1)
	@cd python-trainer && WHETSTONE_KILLS=$(KILLS) WHETSTONE_SEED=$(SEED) OMP_NUM_THREADS=1 python -m pytest -q -s tests/trainer/test_kills.py

planted: setup ## Take every mend of docs/faults.md away in turn and see its test fail, in a copy (PLANTED="--json certificates disk")
	@node tests/planted/planted.ts $(PLANTED)

clean: ## Remove what set-up and runs made
	rm -rf node_modules .venv .whetstone
