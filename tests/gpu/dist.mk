# The Makefile of the tarball: what a user who has nothing else can run.
#   make test-gpu                       proves the CUDA and NCCL layers on this GPU host
#   make test-gpu PYTHON=/venv/bin/python3 ARGS="--quick --only gpt2" OUT=results
PYTHON ?= python3
OUT ?= gpu-out
ARGS ?=
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: help test-gpu

help:
	@sed -n '2,3s/^#   //p' $(MAKEFILE_LIST)
	@./eacgm --help

test-gpu:
	@python=$$(command -v "$(PYTHON)") || { echo "test-gpu: there is no $(PYTHON): say which Python has PyTorch with PYTHON=..." >&2; exit 1; }; \
	$(SUDO) "$$python" tests/gpu/run.py --eacgm ./eacgm --out "$(OUT)" $(ARGS)
