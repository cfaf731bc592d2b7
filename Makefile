# What a person types. `make help` lists it; every step stops at its first failure.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
# One after another, whatever -j says; but for what a recipe itself starts side by side.
ifndef BESIDE
.NOTPARALLEL:
endif
MAKEFLAGS += --no-builtin-rules

TARGET := $(or $(CARGO_TARGET_DIR),target)
FARHOP := $(TARGET)/release/farhop
# Which branches are taken how often; cargo xtask profile counts it. Functions that were changed
# since find nothing there, of which the compiler need not tell.
COUNTED := --config 'build.rustflags=["-Cprofile-use=$(CURDIR)/profile/farhop.profdata", \
    "-Cllvm-args=-no-pgo-warn-mismatch"]'

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 16

.PHONY: demo
demo: setup-demo build ## TCP over 80 km, with farhop and without: about two minutes, a table and a page
	$(FARHOP) demo

.PHONY: build
build: ## the program, in target/release
	$(BESIDE) cargo build --release --bin farhop $(COUNTED)

# Does not build: root has no Rust where it came by rustup.
PREFIX ?= /usr/local
.PHONY: install
install: ## what `make build` made, to /usr/local (PREFIX=... for elsewhere), with the unit of systemd
install: UNITS = $(PREFIX)/lib/systemd/system
install:
	@test -x $(FARHOP) || { echo "install: there is no $(FARHOP) yet: make build" >&2; exit 1; }
	install -D -m 755 $(FARHOP) $(DESTDIR)$(PREFIX)/bin/farhop
	install -D -m 644 packaging/systemd/farhop@.service -t $(DESTDIR)$(UNITS)
	sed -i 's|^ExecStart=farhop |ExecStart=$(PREFIX)/bin/farhop |' $(DESTDIR)$(UNITS)/farhop@.service
	@case "$(PREFIX)" in /usr|/usr/local) ;; *) echo "install: systemd does not look in $(UNITS): \
	sudo systemctl link $(UNITS)/farhop@.service" ;; esac

.PHONY: test
test: setup-test fmt-check lint doc unit test-wire tidy deny test-system-and-build scenarios paper-quick conformance validate-quick test-radio ## all that CI checks
	@echo "make test: all passed"

.PHONY: fmt
fmt: ## formats the sources
	cargo fmt --all

.PHONY: fmt-check
fmt-check:
	cargo fmt --all --check

.PHONY: lint
lint: ## clippy, warnings are errors
	cargo clippy --workspace --all-targets -- -D warnings -D clippy::undocumented_unsafe_blocks

.PHONY: doc
doc: ## documentation of all items, private ones too
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

.PHONY: unit
unit: ## tests of the code by itself
	cargo test --workspace

.PHONY: test-wire
test-wire: ## the test vectors of docs/wire.md by a foreign library
	tests/wire/vectors.py

# Tests that take the machine for themselves (namespaces, real programs, faults) are marked
# #[ignore = "system: ..."]. One at a time: they measure time.
.PHONY: test-system
test-system: ## real daemons, kernel TCP, iperf3, ssh, curl, faults
	cargo test --workspace --tests -- --ignored --test-threads 1

# These wait for the clock, mostly. The release build takes what they leave of the processors, and
# yields whenever they want one.
.PHONY: test-system-and-build
test-system-and-build:
	$(MAKE) --jobs=2 BESIDE="chrt --idle 0 env CARGO_TERM_QUIET=true" test-system build

.PHONY: scenarios
scenarios: build ## checks and simulates every file in scenarios/
	for file in scenarios/*.toml scenarios/*/*.toml; do \
	    $(FARHOP) check "$$file"; \
	    $(FARHOP) sim "$$file" --json >/dev/null; \
	done

.PHONY: conformance
conformance: build ## the simulator beside the lab, within 10%; the quick form
	cargo xtask conformance --quick

# Both compare with committed references where ns-3 is concerned; the full form also runs it.
.PHONY: validate validate-quick
validate: setup-validate build ## the simulator beside theory, ns-3 and the kernel: docs/validation.md
	cargo build --bin xtask
	cargo xtask validate --ns3 --write
validate-quick: build ## the same in under three minutes, without ns-3
	cargo build --bin xtask
	cargo xtask validate --quick

# Rows of Hop that are quick and inside their bands; those of WiLDNet that are outside are named in
# papers/src/wildnet/rows.toml, any other one outside is a failure.
HOP_QUICK := H-F2 H-F5 H-N3 H-X1 H-X2

.PHONY: paper paper-quick
paper: build ## every published figure of WiLDNet, with a page in target/paper
	$(FARHOP) paper wildnet --known --out $(TARGET)/paper
paper-quick: build ## the same with short runs and few seeds, and some rows of Hop: about a minute
	$(FARHOP) paper wildnet --quick --known --out $(TARGET)/paper-quick
	$(FARHOP) paper hop --quick --known $(HOP_QUICK:%=--only %)

.PHONY: bench
bench: build ## the speed and the cost that farhop promises
	cargo xtask bench
.PHONY: bench-forward
bench-forward: build ## what a daemon needs to forward blocks, beside TCP of the kernel (root)
	cargo xtask forward

.PHONY: test-radio
test-radio: setup-test build ## two daemons on real mac80211 in a virtual machine
	tests/radio/test.sh $(FARHOP)

.PHONY: tidy
tidy: ## ranks, sizes, words, leftovers
	cargo xtask tidy

.PHONY: deny
deny: ## licences and sources of what we depend on
	cargo deny check licenses bans sources

.PHONY: setup-demo setup-test setup-validate
setup-demo:
	@scripts/setup.sh demo
setup-test:
	@scripts/setup.sh test
setup-validate:
	@scripts/setup.sh validate

.PHONY: clean
clean: ## takes away what was built
	cargo clean
