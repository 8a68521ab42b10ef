# Two commands for everyone; every other chore is `cargo xtask help`.
export PATH := $(HOME)/.cargo/bin:$(PATH)

.PHONY: help demo test
help:
	@echo "make demo   send a 200 MB file across a four-hop space network, simulated and for real"
	@echo "make test   check format, layers and lints, and run every test"
	@echo
	@echo "Both install what this machine lacks first (scripts/bootstrap). Other chores: cargo xtask help"

demo:
	@scripts/bootstrap
	@scripts/demo

test:
	@scripts/bootstrap
	@cargo xtask ci
