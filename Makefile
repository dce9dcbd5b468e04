# What people run: make test. What CI runs: .ci/run, which calls these targets.

GO    ?= go
TAGS  ?= invariants
BENCH ?= .
# Seconds that each fuzz target gets.
FUZZTIME ?= 5s
# A file to which every test run appends its counts; empty for none.
COUNTS ?=
PACKAGES ?= ./...
# Packages whose correctness hangs on goroutines.
RACE_PACKAGES ?= ./actors/... ./gpuworker ./gpuworker/dispatch/... ./gpuworker/sim/... ./transfer/... ./cluster/... ./server/... ./model/hub/... ./cmd/...

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0

SUMMARY = $(GO) run ./tests/cmd/summary run $(if $(COUNTS),-counts $(COUNTS)) --

.PHONY: build test race fuzz bench lint vulncheck cross clean

build:
	$(GO) build -trimpath -o bin/slicer ./cmd/slicer

# All tests that this machine can run; what was skipped, and why, stands at the end.
test:
	$(SUMMARY) -tags $(TAGS) -timeout 15m $(PACKAGES)

race:
	CGO_ENABLED=1 $(SUMMARY) -race -short -tags $(TAGS) -timeout 10m $(RACE_PACKAGES)

# Every fuzz target for a moment. The seeds alone run with "make test" already.
fuzz:
	@set -e; $(GO) list -f '{{.Dir}}' ./... | while read -r dir; do \
		cat "$$dir"/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' | while read -r target; do \
			$(SUMMARY) -tags $(TAGS) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x -timeout 3m "$$dir" </dev/null || exit 1; \
		done || exit 1; \
	done

bench:
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(PACKAGES)

lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags $(TAGS) ./...
	$(GO) run $(STATICCHECK) -tags $(TAGS) ./...

vulncheck:
	$(GO) run $(GOVULNCHECK) ./...

# The platforms that must at least build.
cross:
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build -o /dev/null ./cmd/slicer
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/slicer
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 $(GO) build -o /dev/null ./cmd/slicer

clean:
	rm -rf bin
