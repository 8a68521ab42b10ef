# Three commands for everyone; every other chore is `cargo xtask help`.
export PATH := $(HOME)/.cargo/bin:$(PATH)

# Where `farlink` goes: for everyone when root installs it, else for you.
PREFIX ?= $(if $(filter 0,$(shell id -u)),/usr/local,$(HOME)/.local)

.PHONY: help demo test install
help:
	@echo "make demo      send a 200 MB file across a four-hop space network, simulated and for real"
	@echo "make test      check format, layers and lints, and run every test"
	@echo "make install   put the command farlink into $(PREFIX)/bin, with completions, man pages and"
	@echo "               systemd unit beside it (PREFIX=... puts them elsewhere, below DESTDIR=...)"
	@echo
	@echo "All install what this machine lacks first (scripts/bootstrap). Other chores: cargo xtask help"

demo:
	@scripts/bootstrap
	@scripts/demo

test:
	@scripts/bootstrap
	@# With the whole workspace's features, which the tests need too: `cargo xtask` would build its dependencies twice.
	@cargo build --quiet --workspace --bin xtask
	@"$${CARGO_TARGET_DIR:-target}/debug/xtask" ci

install:
	@scripts/bootstrap
	@DESTDIR="$(DESTDIR)" scripts/install "$(PREFIX)"
