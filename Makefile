# What a machine needs: Go, Node with npm, and make. Everything else is fetched
# by lock file: the engines into a cache folder, npm's modules beside their
# package.json, Go's tools by go.mod.

# Nothing here needs a C compiler, and no binary differs by whether there is one.
export CGO_ENABLED := 0

# One set of flags for all, so that what was compiled for one target is there
# for the next.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

FUZZTIME ?= 30s
SEED     ?= 0
FOR      ?= 2m
FROM     ?= 0788331
N        ?= 2000
ARGS     ?=
ARTICLES ?= 20000

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BIN      := bin/millrace

# The built page is in the repository, so that go install gives a program with
# it. It is built anew when what it was built from has changed.
PAGE_SRC := $(sort $(shell find query/dashboard/src query/dashboard/public query/dashboard/build -type f) \
	$(wildcard query/dashboard/*.json query/dashboard/*.html query/dashboard/*.ts))
PAGE_SUM := query/dashboard/dist.sha256

# With the race detector a test takes three to four times the processor. make test has it
# for the packages whose goroutines share memory, except those that take longest and share
# least; make race has it for all. It needs a C compiler.
RACE     := $(shell command -v gcc >/dev/null 2>&1 || command -v clang >/dev/null 2>&1 && echo -race)
PACKAGES  = go list -f '{{.Dir}}' ./... | sed 's,^$(CURDIR),.,' | grep -v '^./test/'
RACED     = grep -rlE --include='*.go' --exclude='*_test.go' --exclude-dir=node_modules --exclude-dir=test \
	'^[[:space:]]*go [a-zA-Z]|"sync(/atomic)?"|errgroup' . | xargs -n 1 dirname | sort -u | \
	grep -vxE './(ingest/(backfill|batches|demo|scheduler|uploads)|internal/(backup|embedded/clickhouse|objects)|query/(pipeline|uploads))'
# Tests wait as well as work, so one package more than there are processors is tested
# at a time, those that take longest first. Those of the whole program each start its
# engines, so fewer run at a time: three tests of e2e, which has work for all processors,
# then two packages, and beside them tests in JavaScript, but for the browser's. What they are
# made of is compiled before: on a new machine that takes minutes, in which a server would
# have no processor to answer with.
# Linking the tests takes half as long without what debuggers read. Vet has its place
# in lint.
#
# RERUN=file, which continuous integration sets, runs up to six tests that fail once more,
# and writes down which they were: one that passes then is to be looked at, and stops nobody.
# A data race is not run again. Of tests in Node and in the browser, whole files are.
#
# Tests make databases of thousands of files and delete them. That takes most of their time on some
# file systems: ext4 without a journal looks through what was deleted a moment ago for each file. So
# they have a folder in memory where there is room, and TMPDIR=/tmp make test has them on disk.
SHM    := $(shell awk '/^MemAvailable/ && $$2 > 8e6' /proc/meminfo 2>/dev/null | grep -q . && \
	df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 6e6 { print "/dev/shm" }')
IN_TEMP = tmp=$$(mktemp -d "$(or $(TMPDIR),$(SHM),/tmp)/millrace-test.XXXXXX") && chmod 711 "$$tmp" && \
	trap 'rm -rf "$$tmp"' EXIT && trap : INT TERM && TMPDIR=$$tmp
JOBS   := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
#
# SHORT leaves out the tests that take longest, which are about half of the time; make test-all
# runs them, too.
RERUN  ?=
SHORT  ?= -short
export SHORT
GOTEST  = go tool gotestsum --format=pkgname --format-hide-empty-pkg --hide-summary=skipped $(if $(RERUN), \
	--rerun-fails=1 --rerun-fails-max-failures=6 --rerun-fails-abort-on-data-race --rerun-fails-report=$(RERUN)-$@) \
	--packages="$(1)" -- $(SHORT) -count=1 -vet=off -timeout=30m -ldflags='-s -w' $(2)
NPMTEST = $(if $(RERUN),FAILED=$(RERUN)-$@ )npm test$(if $(RERUN), || npm test -- $$(cat $(RERUN)-$@))
GORACE  = $(if $(RACE),CGO_ENABLED=1) $(call GOTEST,$(1),-p=$(JOBS) -timeout=15m $(RACE))

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build engines ## Run everything, with demonstration events, on 127.0.0.1:8075 (ARGS=--no-demo leaves them out)
	$(BIN) up $(ARGS)

.PHONY: demo
demo: build engines ## The same in a data folder that is thrown away at the end
	@data=$$(mktemp -d) && chmod 711 "$$data" && trap 'rm -rf "$$data"' EXIT && trap : INT TERM && $(BIN) up --data "$$data/data" $(ARGS)

.PHONY: build
build: page ## Build the page and bin/millrace
	go build -ldflags '-X main.version=$(VERSION)' -o $(BIN) ./cmd/millrace

.PHONY: engines
engines: build ## Install the embedded engines into a cache folder
	$(BIN) engines

.PHONY: test
test: page ## Run the tests, but for the longest: Go, the page, a Node client, a browser
	@$(MAKE) --no-print-directory --jobs $(SYNC) engines $(addsuffix /node_modules/.package-lock.json,query/dashboard test/node test/browser)
	@$(IN_TEMP) $(MAKE) --no-print-directory test-parts

.PHONY: test-parts
test-parts:
	@$(MAKE) --no-print-directory test-raced
	@$(MAKE) --no-print-directory test-unraced
	@$(MAKE) --no-print-directory --jobs $(SYNC) $(if $(SHORT),,test-benchmarks) compile-programs
	@$(MAKE) --no-print-directory test-e2e
	@$(MAKE) --no-print-directory --jobs $(SYNC) test-programs test-page test-node
	@$(MAKE) --no-print-directory test-browser

.PHONY: test-all
test-all: ## Run all tests (test leaves out those that take longest)
	@$(MAKE) --no-print-directory test SHORT=

.PHONY: race
race: SHORT =
race: ## Run the tests of all packages with the race detector
	@test -n '$(RACE)' || { echo 'the race detector needs gcc or clang' >&2; exit 1; }
	$(call GORACE,$$($(PACKAGES)))

# What each of these prints stays together where make can do that. Each benchmark runs once,
# so that none rots, but in a short run: its figures mean nothing there.
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
.PHONY: test-raced test-unraced test-benchmarks compile-programs test-e2e test-programs test-page test-node test-browser
test-raced:
	$(call GORACE,./projector/pipeline ./projector/work $$($(PACKAGES) | grep -xF "$$($(RACED))"))
test-unraced:
	$(call GOTEST,./internal/embedded/clickhouse $$($(PACKAGES) | grep -vxF "$$($(RACED))"),-p=$(JOBS) -timeout=15m)
test-benchmarks:
	go test -vet=off -ldflags='-s -w' -p=$(JOBS) -run '^$$' -bench . -benchtime 1x $$(grep -rl --include='*_test.go' --exclude-dir=node_modules '^func Benchmark' . | xargs -n 1 dirname | sort -u)
compile-programs:
	go list -export -deps -test ./test/... >/dev/null
	cd test/natscli && go build -o /dev/null github.com/nats-io/natscli/nats
	cd test/versitygw && go build -o /dev/null github.com/versity/versitygw/cmd/versitygw
test-e2e:
	MILLRACE_BIN=$(CURDIR)/$(BIN) $(call GOTEST,./test/e2e,-parallel=3)
test-programs:
	MILLRACE_BIN=$(CURDIR)/$(BIN) $(call GOTEST,./test/faults $$(go list ./test/... | grep -v '/test/e2e$$'),-p=2 -timeout=60m)
test-page:
	cd query/dashboard && npm test
test-node:
	cd test/node && $(NPMTEST)
test-browser:
	cd test/browser && $(NPMTEST)

.PHONY: lint
lint: query/dashboard/node_modules/.package-lock.json ## Check formatting, and look for mistakes
	@unformatted=$$(go tool gofumpt -l $$(git ls-files '*.go')) && if [ -n "$$unformatted" ]; then \
		printf 'gofumpt would change:\n%s\n' "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	cd query/dashboard && npm run lint

.PHONY: fuzz
fuzz: ## Fuzz each decoder for FUZZTIME (30s)
	@grep -rEo --include='*_test.go' --exclude-dir=node_modules '^func Fuzz[A-Za-z0-9_]*' . | while IFS=: read -r file func; do \
		echo "$${func#func } in $$(dirname $$file)"; \
		go test -run '^$$' -fuzz "^$${func#func }$$" -fuzztime $(FUZZTIME) "$$(dirname $$file)" || exit 1; \
	done

.PHONY: faults
faults: build engines test/node/node_modules/.package-lock.json ## Break a running installation for FOR (2m) at random, or by SEED, and recount
	MILLRACE_BIN=$(CURDIR)/$(BIN) go run ./test/faults -seed $(SEED) -for $(FOR) $(ARGS)

.PHONY: upgrade
upgrade: build engines ## Upgrade an installation of the commit FROM (0788331) role by role under load, break it, and recount
	@old=$$(mktemp -d) && trap 'git worktree remove --force "$$old/tree"; rm -rf "$$old"' EXIT && trap : INT TERM && \
	git worktree add --quiet --detach "$$old/tree" $(FROM) && (cd "$$old/tree" && go build -o "$$old/millrace" ./cmd/millrace) && \
	MILLRACE_BIN=$(CURDIR)/$(BIN) go run ./test/faults -from "$$old/millrace" -seed $(SEED) -for $(FOR) $(ARGS)

.PHONY: backup
backup: build engines ## Back up an installation under load, destroy it, restore it elsewhere and recount (ARTICLES=20000, five events each)
	MILLRACE_BIN=$(CURDIR)/$(BIN) MILLRACE_BACKUP_ARTICLES=$(ARTICLES) go test ./test/e2e -run '^(TestBackup|TestBackupOfServers|TestRefold)$$' -count=1 -v -timeout=60m

.PHONY: rot
rot: ## Damage files of an installation one at a time, N (2000) times, by SEED, and count what goes unnoticed
	go run ./test/rot -seed $(SEED) -n $(N) $(ARGS)

.PHONY: alerts
alerts: build engines ## Record the metrics of real outages anew, by which the alerts are tested (ARGS="-outages quiet")
	MILLRACE_BIN=$(CURDIR)/$(BIN) go run ./test/faults -record test/faults/testdata/outages $(ARGS)

.PHONY: soak
soak: build engines ## Run an installation for FOR (20m) without faults, and look for what grows
	MILLRACE_BIN=$(CURDIR)/$(BIN) go run ./test/faults -soak -seed $(SEED) -for $(if $(filter file,$(origin FOR)),20m,$(FOR)) $(ARGS)

.PHONY: bench
bench: build engines ## Measure throughput, latency and memory, and print them (ARGS="-events 1000000 -runs 3")
	MILLRACE_BIN=$(CURDIR)/$(BIN) go run ./test/bench $(ARGS)

SHARDS ?= 2
.PHONY: shards
shards: engines ## Run the pipeline's tests over a ClickHouse cluster of SHARDS (2)
	MILLRACE_TEST_SHARDS=$(SHARDS) go test -count=1 -p=1 -timeout=30m ./schemas/clickhouse ./projector/pipeline/... ./query/pipeline/...

DSN ?=
.PHONY: postgres
postgres: SHORT =
postgres: engines ## Run the tests of what rests in Postgres on another server, whose login may make databases (DSN=postgres://…)
	@test -n '$(DSN)' || { echo 'name the server: DSN=postgres://…' >&2; exit 1; }
	MILLRACE_TEST_POSTGRES_DSN='$(DSN)' go test -count=1 -p=1 -timeout=30m \
		$$(grep -rlE --include='*_test.go' --exclude-dir=node_modules --exclude-dir=test 'embeddedtest\.Postgres' . | xargs -n 1 dirname | sort -u | grep -vx ./cmd/millrace)

.PHONY: docs
docs: ## Write the documents that are generated: settings and faults
	go test ./cmd/millrace -run '^TestSettingsPage$$' -count=1 -update
	go test ./test/faults -run '^TestFaultsPage$$' -count=1 -update

.PHONY: clean
clean: ## Remove what was built, but neither data nor engines
	rm -rf bin query/dashboard/node_modules test/*/node_modules

.PHONY: page
page: ## Build the page, if its sources have changed
	@sha256sum $(PAGE_SRC) | sha256sum | cmp -s - $(PAGE_SUM) || { \
		$(MAKE) query/dashboard/node_modules/.package-lock.json && \
		(cd query/dashboard && npm run build) && \
		sha256sum $(PAGE_SRC) | sha256sum > $(PAGE_SUM); }

%/node_modules/.package-lock.json: %/package.json %/package-lock.json
	cd $* && npm ci --ignore-scripts
	@touch $@
