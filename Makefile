# Whetstone. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
ROOT := $(CURDIR)
export PATH := $(ROOT)/node_modules/.bin:$(ROOT)/.venv/bin:$(PATH)
PY := .venv/bin/python

.PHONY: gen
gen: ## Regenerate proto/gen (TypeScript and Python)
	cd proto && buf generate
	rm -rf proto/gen/python && mkdir -p proto/gen/python
	$(PY) -m grpc_tools.protoc -I proto --python_out=proto/gen/python --pyi_out=proto/gen/python --grpc_python_out=proto/gen/python $$(cd proto && find whetstone -name '*.proto' | sort | sed 's#^#proto/#')
	find proto/gen/python -type d -not -path proto/gen/python -exec touch {}/__init__.py \;
