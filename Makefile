# Everything a newcomer needs; Meson does the work underneath.
BUILD ?= build
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
APT := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get

# What builds the page (web/); an npm that is there, of whatever source, does as well.
PAGE_PACKAGES = $(if $(shell command -v npm),,nodejs npm)
BUILD_PACKAGES = build-essential g++ clang bpftool libbpf-dev libelf-dev zlib1g-dev libzstd-dev \
	libyaml-dev libjansson-dev libcapstone-dev libprotobuf-c-dev protobuf-c-compiler libcsv-dev libcap-dev libseccomp-dev libevent-dev libssl-dev libsqlite3-dev libnghttp2-dev \
	meson ninja-build pkg-config python3 $(PAGE_PACKAGES)
TEST_PACKAGES = libcmocka-dev openssl libdw-dev libdebuginfod1 protobuf-compiler util-linux
TRACED_PACKAGES = python3-greenlet python3-h2 python3-protobuf python3-torch
# Official definitions of what is pushed and asked: OTLP's, pprof's, the kubelet's, the runtimes'. Debian
# 12 has none that are new enough; files alone, nothing of them is run.
PROTO_RELEASE = forky
PROTO_PACKAGES = python3-opentelemetry-proto golang-github-google-pprof-dev golang-github-kubernetes-cri-api-dev \
	golang-github-kubernetes-kubelet-dev golang-github-gogo-protobuf-dev libprotobuf-dev
# What boots another kernel, emulated.
KERNELS_PACKAGES = qemu-system-x86 busybox-static cpio
# What opens the pages; one that is there, of whatever source, does as well (tests/browser/chromium.py).
BROWSER = $(or $(shell command -v chromium || command -v chromium-browser || command -v google-chrome || \
	command -v google-chrome-stable),none)
LINT_PACKAGES = clang-format clang-tidy cppcheck libclang-rt-14-dev

.PHONY: all setup setup-test setup-sanitize setup-tests-built setup-traced tests-built setup-lint setup-kernels test demo dist deb format lint fuzz fuzz-campaign sanitize \
	setup-systemd test-kernels test-systemd test-gpu bench man clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD) eacgm libeacgm_gpu.so libeacgm_calls.so

$(BUILD)/build.ninja:
	@command -v meson >/dev/null && command -v bpftool >/dev/null || { [ -x /usr/sbin/bpftool ] && command -v meson >/dev/null; } || \
		{ echo "build tools are missing: run 'make setup' first"; exit 1; }
	PATH="$$PATH:/usr/sbin" meson setup $(BUILD)

# $(1): packages; installs the missing ones only, so that it is quick when all are there. In a shell.
define install_missing
{ missing=""; for p in $(1); do \
		dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	[ -z "$$missing" ] || { echo "installing:$$missing"; \
		$(APT) update -q && $(APT) install -y -q --no-install-recommends $$missing; }; }
endef
install = @$(call install_missing,$(1))

setup:
	$(call install,$(BUILD_PACKAGES))

# What only tests need. Prometheus is unpacked, not installed: its service is not wanted, and one that
# is there is left alone. Where something is not to be had that is said, and is no failure: its tests skip.
setup-sanitize: setup-traced
	@[ $(BROWSER) != none ] || $(call install_missing,chromium) || \
		echo "there is no package chromium to be had: tests that open pages skip"
	@[ -x $(BUILD)/prometheus/usr/bin/prometheus ] || sh tools/unpack.sh $(BUILD)/prometheus prometheus
	@[ -d $(BUILD)/protos ] || sh tools/unpack.sh -s $(PROTO_RELEASE) $(BUILD)/protos $(PROTO_PACKAGES)

# The emulator is large: not where it has no kernel to boot.
setup-test: setup-sanitize
	@if ! sh tests/kernels/get_kernel.sh $(BUILD); then echo "the test that boots it skips"; \
	elif ! $(call install_missing,$(KERNELS_PACKAGES)); then \
		echo "there is no emulator to be had: the test that boots Debian's kernel skips"; fi

# What tests are built with, and what they run: the latter is not needed to build.
setup-tests-built: setup
	$(call install,$(TEST_PACKAGES))

setup-traced: setup-tests-built
	$(call install,$(TRACED_PACKAGES))

tests-built: setup-tests-built
	$(MAKE) all
	ninja -C $(BUILD)

setup-lint: setup
	$(call install,$(LINT_PACKAGES))

# Sets itself up; the root tests call sudo where it is needed. PyTorch and a browser are installed while it builds.
test: setup-tests-built
	$(MAKE) -j 2 tests-built setup-test
	$(SUDO) env PATH="$$PATH:/usr/sbin" python3 tests/run.py $(BUILD)

# Trains a small PyTorch model under the tracer and shows what came of it.
demo: setup-traced
	$(MAKE) all
	$(SUDO) sh demo/demo.sh $(BUILD)/eacgm

dist: all
	sh tools/dist.sh $(BUILD)

# The Debian package, with the agent as a service: docs/agent.md.
deb: all
	sh tools/deb.sh $(BUILD)

format:
	clang-format -i $$(git ls-files '*.c' '*.h' '*.cc')

lint: setup-lint
	$(MAKE) all
	sh tools/lint.sh $(BUILD)

fuzz: setup-lint
	sh tests/fuzz/run.sh $${SECONDS_EACH:-30}

# 50,000 hostile inputs and the recordings of make_crafted, in this build and under the sanitizers.
fuzz-campaign: setup-traced
	$(MAKE) all
	ninja -C $(BUILD)
	python3 tests/fuzz/campaign.py $(BUILD)
	PATH="$$PATH:/usr/sbin" meson setup $(BUILD)-asan -Db_sanitize=address,undefined -Db_lundef=false 2>/dev/null || true
	ninja -C $(BUILD)-asan
	python3 tests/fuzz/campaign.py $(BUILD)-asan

sanitize: setup-sanitize
	PATH="$$PATH:/usr/sbin" meson setup $(BUILD)-asan -Db_sanitize=address,undefined -Db_lundef=false 2>/dev/null || true
	ninja -C $(BUILD)-asan
	$(SUDO) env PATH="$$PATH:/usr/sbin" python3 tests/run.py $(BUILD)-asan

setup-kernels: setup
	$(call install,$(KERNELS_PACKAGES))
	@sh tests/kernels/get_kernel.sh $(BUILD) || echo "tests of it skip"

test-kernels: setup-kernels
	$(MAKE) all
	ninja -C $(BUILD)
	sh tests/kernels/run.sh $(BUILD)

setup-systemd: setup
	$(call install,qemu-system-x86 busybox-static cpio mmdebstrap e2fsprogs)

# The package's service under a systemd that boots in QEMU; the first time makes a Debian for it.
test-systemd: setup-systemd setup-tests-built
	$(MAKE) all
	ninja -C $(BUILD) tests/root/targets/libtarget.so
	$(SUDO) env PATH="$$PATH:/usr/sbin" sh tests/systemd/run.sh $(BUILD)

# Proves the CUDA and NCCL layers on a GPU host, from the unpacked tarball alone; PYTHON=... has
# PyTorch, TARBALL=... takes one that is there already, GPU_ARGS=... goes to tests/gpu/run.py.
PYTHON ?= python3
TARBALL ?=
test-gpu: $(if $(TARBALL),,dist)
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	tarball="$(TARBALL)"; \
	[ -n "$$tarball" ] || tarball=$(BUILD)/eacgm-$$($(BUILD)/eacgm --version | awk '{print $$2}')-x86_64.tar.gz; \
	tar -xzf "$$tarball" -C "$$dir"; \
	$(MAKE) --no-print-directory -C "$$dir"/eacgm-*/ test-gpu PYTHON="$(PYTHON)" \
		OUT="$(abspath $(BUILD))/gpu" ARGS="$(GPU_ARGS)"

bench: setup-traced
	$(call install,bpftrace)
	$(MAKE) all
	ninja -C $(BUILD)
	$(SUDO) python3 bench/run.py $(BUILD)

man: all
	ninja -C $(BUILD) man

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-fuzz
