# The targets for developers. `make help` lists them.
#
# Requirements: Python 3.11 (with venv), Java 17 or later, make, and gcc (only for the load
# generator of `make bench`). Everything else is downloaded into .venv and the user's cache.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SPARK_FETCHED := $(VENV)/.spark-packages-fetched

LOCKED_EXTRAS := spark otel build dev
LOCK_OPTIONS := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet

say = printf '\n\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help lab setup-fast setup fetch demo test test-fast test-all kafka-away differential pipelines envelopes model chaos soak what-if hostile mutants tamper rolling pictures quota-cluster quota-cluster-clients ingest-kills service-kills kraft-quorum upstreams browser check check-format check-lint check-types check-imports check-house \
	check-helm apply-chart check-rules check-otel manifests format schemas lock conformance bench bench-spark bench-year interop kerberos cut release site clean distclean

help: ## List the targets of every day
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

lab: ## List the test programs and long tests
	@grep -hE '^[a-z-]+:.*##@ ' $(MAKEFILE_LIST) | awk -F ':.*##@ ' '{printf "  %-22s %s\n", $$1, $$2}'

setup-fast: $(INSTALLED) ## Create .venv only: enough for check and test-fast, without Java

setup: $(INSTALLED) fetch ## Create .venv and download Kafka's and Spark's jars; fast when repeated

# Tries these names in turn, so that PYTHON=/opt/python/bin/python3.13 works too. The lock file was resolved for
# these releases. `import ensurepip` detects distributions that ship Python without a working venv.
$(INSTALLED): requirements.lock pyproject.toml
	@$(call say,Python environment in $(VENV))
	@found=; for candidate in $(PYTHON) python3.11 python3.12 python3.13 python3 python; do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; \
	  then found="$$candidate"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Python 3.11, 3.12 or 3.13 with the venv module is required; none of these is it: $(PYTHON) python3.11 python3.12 python3.13 python3 python" >&2; \
	  echo "Install it, or give its path: make setup PYTHON=/path/to/python3.13" >&2; exit 1; \
	fi; \
	"$$found" -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --require-hashes -r requirements.lock
# setuptools is in the lock file, so that building the project needs no package index.
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $@

fetch: $(INSTALLED)
	@$(call say,Apache Kafka for the demo and the tests)
	$(BIN)/python -m tests.lab.cluster.kafka
	@$(MAKE) --silent $(SPARK_FETCHED)

$(SPARK_FETCHED): $(INSTALLED)
	@$(call say,Spark packages for the audit jobs)
	$(BIN)/penstock audit prepare
	@touch $@

demo: setup ## Run a broker, a controller and a proxy on loopback, show what they do, write the audit report
	$(BIN)/python -m tests.lab.demo

test-fast: $(INSTALLED) ## Run the tests that need no JVM and start no process, in a minute or two
	$(BIN)/python -m tests.support.landing fast

# Tests that need Kafka are skipped without it, except here, so that no test is skipped unnoticed.
test: setup ## Run the tests that guard a landing; up to three failed tests run once more, alone
	PENSTOCK_REQUIRE_KAFKA=1 $(BIN)/python -m tests.support.landing landing

test-all: setup ## Run every test, including those that are marked as long
	PENSTOCK_REQUIRE_KAFKA=1 $(BIN)/python -m tests.support.landing all

CASES ?= 2000
SEED ?= 1
KAFKA ?=

differential: setup ##@ Compare with a Kafka broker: CASES=2000 random cases of SEED=1; ONLY=42 repeats one case; KAFKA=3.9.2
	PENSTOCK_KAFKA=$(KAFKA) $(BIN)/python -m tests.lab.differential --seed $(SEED) --cases $(CASES) $(if $(ONLY),--only $(ONLY))

SECONDS_EACH ?= 60

pipelines: setup ##@ Compare clients with 1 to 1,000 requests in flight, at a broker and through proxies: SECONDS_EACH=60 ONLY="fetch raw"
	$(BIN)/python -m tests.lab.pipelines --seconds $(SECONDS_EACH) $(if $(ONLY),--only "$(ONLY)")

envelopes: setup ##@ Compare the controllers by Envelopes: CASES=2000 SEED=1 ONLY=42
	$(BIN)/python -m tests.lab.differential --envelopes --seed $(SEED) --cases $(CASES) $(if $(ONLY),--only $(ONLY))

EXAMPLES ?= 2000

model: setup ##@ Test controllers with random changes, crashes and elections against a model: EXAMPLES=2000
	PENSTOCK_MODEL_EXAMPLES=$(EXAMPLES) $(BIN)/pytest tests/property/test_controller_model.py

MINUTES ?= 10
BROKERS ?= 3

chaos: setup ##@ Kill and freeze proxies, controller, brokers and ingest under load for MINUTES=10 (SEED=1), then compare
	$(BIN)/python -m tests.lab.chaos --minutes $(MINUTES) --seed $(SEED) --brokers $(BROKERS)

soak: setup ##@ Run traffic of every kind for MINUTES=60, then reconcile: there may be no finding (SEED=1)
	$(BIN)/python -m tests.lab.soak --minutes $(if $(filter command line,$(origin MINUTES)),$(MINUTES),60) --seed $(SEED)

what-if: setup ##@ Record traffic for MINUTES=60, try a proposal on it, play it again with the proposal in effect, and compare
	$(BIN)/python -m tests.lab.what_if --minutes $(if $(filter command line,$(origin MINUTES)),$(MINUTES),60)
	PENSTOCK_REQUIRE_KAFKA=1 PENSTOCK_PROPOSALS=200 $(BIN)/pytest -v tests/spark/test_what_if_kafka.py

hostile: setup ##@ Attack a live proxy with a normal user, and print the cost of each attack (ONLY=NAME, SHORT=1)
	$(BIN)/python -m tests.lab.hostile $(if $(ONLY),--only $(ONLY)) $(if $(SHORT),--short)

SAMPLE ?= 400

mutants: setup ##@ Change one expression at a time, SAMPLE=400 times (SEED=1), and report changes that no test notices
	$(BIN)/python -m tests.lab.mutants --sample $(SAMPLE) --seed $(SEED) $(if $(ONLY),--only $(ONLY))

tamper: setup ##@ Edit audit trails in every way and compare docs/tampering.md with what is found (WRITE=1 writes it; EDITS=100000 SEED=1: random edits)
	$(BIN)/python -m tests.lab.tampering --seed $(SEED) $(if $(EDITS),--edits $(EDITS)) $(if $(PARTS),--parts $(PARTS)) $(if $(WRITE),--write)

UPGRADE ?=

rolling: setup ##@ Restart proxies, controller and brokers, and change certificates and configurations, under five kinds of clients; UPGRADE="3.9.2 4.2.1": upgrade the brokers instead, over these releases; KRAFT=1: with Kafka's controllers
	$(BIN)/python -m tests.lab.rolling $(if $(KRAFT),--kraft) $(if $(UPGRADE),--upgrade $(UPGRADE)) $(if $(KEEP),--keep $(KEEP)) $(if $(HELD),--held) $(if $(PLAIN),--plain)

kraft-quorum: setup ##@ Import Kafka's metadata log from three nodes whose leader dies with uncommitted records, and reconcile
	PENSTOCK_REQUIRE_KAFKA=1 PENSTOCK_KRAFT_QUORUM=all $(BIN)/pytest -v tests/spark/test_kraft_quorum.py

KILLS ?= 30

ingest-kills: setup ##@ Kill the ingest at KILLS=30 random moments (SEED=1), then compare tables and topics
	PENSTOCK_REQUIRE_KAFKA=1 PENSTOCK_INGEST_KILLS=$(KILLS) PENSTOCK_INGEST_SEED=$(SEED) $(BIN)/pytest -v tests/spark/test_ingest_kills.py

service-kills: setup ##@ Kill the audit service at random moments for MINUTES=10 (SEED=1), then compare tables and topics
	PENSTOCK_REQUIRE_KAFKA=1 PENSTOCK_SERVICE_MINUTES=$(or $(MINUTES),10) PENSTOCK_SERVICE_SEED=$(SEED) $(BIN)/pytest -v tests/spark/test_service.py -k killed

pictures: setup ##@ Draw the dashboard over a live run into docs/pictures (AGAIN=1: use the last run)
	$(BIN)/python -m tests.lab.pictures $(if $(AGAIN),--again)

quota-cluster-clients: setup ##@ Move the load of Java and librdkafka clients between three proxies with one quota, and compare with the limit
	PENSTOCK_REQUIRE_KAFKA=1 $(BIN)/pytest -v -s tests/interop/test_cluster_quota.py

quota-cluster: $(INSTALLED) ##@ Simulate one quota for 3 and 50 proxies, print the figures and draw their picture
	$(BIN)/python -m tests.lab.quota_cluster

clients: setup ##@ Run every client with every scenario, through the proxy and at a broker (Go builds one of them)
	PENSTOCK_REQUIRE_KAFKA=1 PENSTOCK_CLIENTS=all $(BIN)/pytest -v tests/lab/clients

upstreams: setup ##@ Run the core of the end-to-end tests before brokers of 2.8 to 4.4 (KAFKA=3.9.2-zookeeper: one of them), write docs/tested-with.md
	$(BIN)/python -m tests.lab.upstreams $(KAFKA)

browser: setup ##@ Test the audit report in Chromium, and write screenshots to build/report
	PENSTOCK_REQUIRE_BROWSER=1 $(BIN)/pytest -v tests/spark/test_browser.py

TARGET ?= kraft

interop: setup ##@ Run the end-to-end tests on TARGET=penstock, kraft (Kafka's controller) or broker (Kafka alone)
	PENSTOCK_REQUIRE_KAFKA=1 PENSTOCK_INTEROP_TARGET=$(TARGET) $(BIN)/pytest -v tests/interop

kerberos: setup ##@ Test GSSAPI against a KDC; needs krb5-kdc, krb5-admin-server, libkrb5-dev
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-build-isolation --editable '.[gssapi]'
	PENSTOCK_REQUIRE_KAFKA=1 PENSTOCK_REQUIRE_KERBEROS=1 $(BIN)/pytest -v tests/net/test_kerberos.py tests/interop/test_kerberos.py

check: $(INSTALLED) ## Check format, lint, types, import rules and house rules, and report all failures
	@$(MAKE) --keep-going check-format check-lint check-types check-imports check-house

check-format:
	@$(call say,ruff format --check)
	$(BIN)/ruff format --check .

check-lint:
	@$(call say,linters)
	$(BIN)/ruff check .
	$(BIN)/yamllint --strict deploy proxy/examples
	$(BIN)/hadolint Dockerfile deploy/spark/Dockerfile

check-types:
	@$(call say,mypy --strict)
	$(BIN)/mypy

check-imports:
	@$(call say,import rules)
	$(BIN)/lint-imports

check-house:
	@$(call say,house rules)
# With CI=1 pytest prints failures in full.
	CI=1 $(BIN)/pytest --quiet tests/unit/test_house_rules.py tests/unit/test_conformance.py

# Not part of `check`: a cold build of helm takes four minutes of CPU time, one of the rules' engine not quite two.
check-helm: $(INSTALLED) ##@ Lint and render the Helm chart, compare it with Kubernetes' schemas (Go builds helm, once)
	PENSTOCK_REQUIRE_HELM=1 CI=1 $(BIN)/pytest --quiet tests/unit/test_chart.py

# A cold build of the API server takes half an hour of CPU time. Needs etcd (Debian: etcd-server).
apply-chart: $(INSTALLED) ##@ Apply what the Helm chart renders to a real Kubernetes API server (Go builds it and helm, once)
	$(BIN)/python -m tests.lab.kubernetes

check-rules: $(INSTALLED) ##@ Evaluate the alert rules in Prometheus' own engine (Go builds it, once)
	PENSTOCK_REQUIRE_PROMETHEUS=1 CI=1 $(BIN)/pytest --quiet tests/contract/test_alert_rules.py

check-otel: $(INSTALLED) ##@ Send traces to the OpenTelemetry Collector's own receiver (Go builds it, once)
	PENSTOCK_REQUIRE_OTLP=1 CI=1 $(BIN)/pytest --quiet tests/contract/test_otlp_collector.py

site: $(INSTALLED) ##@ Build the documentation as a site, build/site; a dead link or anchor is an error
	$(BIN)/python -m tests.support.site

cut: $(INSTALLED) ##@ Commit the release VERSION=0.9.0, with its number in all places, and open the next version
	$(BIN)/python -m tests.support.release cut "$(VERSION)"

release: $(INSTALLED) ##@ Make the files of a release in dist/: VERSION=0.9.0 (wheel, sdist, chart, image context, bill of materials, docs, notes, checksums)
	$(BIN)/python -m tests.support.release release "$(VERSION)" dist

manifests: $(INSTALLED) ##@ Render deploy/kubernetes and deploy/spark/service.yaml from the Helm chart
	$(BIN)/python -m tests.support.chart

format: $(INSTALLED) ## Format the code and apply ruff's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schemas: $(INSTALLED) ##@ Write the message tables and type stubs from the Kafka release in the cache
	libs="$$($(BIN)/python -c 'from tests.lab.cluster.kafka import libs; print(libs(report=lambda _: None))')"; \
	$(BIN)/python -m tests.support.import_schemas "$$libs"/kafka-clients-*.jar "$$libs"/kafka-metadata-*.jar
	$(BIN)/python -m tests.support.broker_versions "$$($(BIN)/python -c 'from tests.lab.cluster.kafka import KAFKA_VERSION; print(KAFKA_VERSION)')"

# Every extra except gssapi, which is built with the Kerberos headers: see `make kerberos`.
lock: $(INSTALLED) ## Resolve the dependencies into the lock files
	$(BIN)/uv pip compile pyproject.toml $(foreach extra,$(LOCKED_EXTRAS),--extra $(extra)) $(LOCK_OPTIONS) -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra build --extra otel --constraints requirements.lock $(LOCK_OPTIONS) -o deploy/requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra spark --constraints requirements.lock $(LOCK_OPTIONS) -o deploy/spark/requirements.lock

conformance: $(INSTALLED) ## Write build/conformance.md, and its summary in docs/spec.md, from the tests' spec markers
	$(BIN)/python -m tests.support.conformance

bench: setup ##@ Measure CPU per request, GiB and decision, memory per connection and ACL; write build/*.json and build/bench.svg
	$(BIN)/python -m tests.lab.bench
	$(BIN)/python -m tests.lab.bench.picture
	$(BIN)/python -m tests.lab.bench.decisions
	$(BIN)/python -m tests.lab.bench.quotas
	$(BIN)/python -m tests.lab.bench.decoded
	$(BIN)/python -m tests.lab.bench.trail
	$(BIN)/python -m tests.lab.bench.workers

AWAY ?= 600000

kafka-away: setup ##@ Write an hour's records (AWAY=600000) without Kafka while processes are killed, then start Kafka
	PENSTOCK_REQUIRE_KAFKA=1 PENSTOCK_AWAY_RECORDS=$(AWAY) $(BIN)/pytest -s tests/net/test_kafka_away.py

RECORDS ?= 1000000,5000000,20000000

bench-spark: setup ##@ Reconcile trails of RECORDS=1000000,5000000,... with planted faults (made once in KEEP=DIR); write build/audit.json
	$(BIN)/python -m tests.lab.bench.audit $(RECORDS) $(if $(KEEP),--keep $(KEEP))

DAYS ?= 1,30,31,180,365

bench-year: setup ##@ Measure the audit service's work on DAYS=1,30,31,180,365 of a long trail; write build/year.json and build/year.svg
	$(BIN)/python -m tests.lab.bench.audit.year $(DAYS)

clean: ## Remove the output of builds and tests
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis \
	  spark-warehouse metastore_db derby.log
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## Remove also the environment; the cache of jars stays
	rm -rf $(VENV)
