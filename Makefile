# Every target creates the environment first if it is missing. `make help` lists the targets.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCHES := start partition filter rebuild conflicts packing openb claim_links plan explain page page_readers calls volcano embedded agent admission footprint

# Programs that tests start are slow without compiled bytecode, and assertions would be rewritten in every run.
unexport PYTHONDONTWRITEBYTECODE
# worksteal: every worker begins with neighbouring tests, so that few modules set their fixtures up in two of them
PYTEST := $(BIN)/pytest --numprocesses auto --dist worksteal
OF_CHECK := tests/architecture tests/docs
PAGE_READY := page/node_modules/.ready

.PHONY: help setup demo up test browser e2e check fix shape mutants bench bench-cluster soak soak-cluster docs site manifests page page-check page-dev image release licences lock clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

$(READY): requirements.lock pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh $(VENV)

setup: $(READY)  ## create .venv with the locked requirements

demo: $(READY)  ## seven stories on an embedded cluster, with a score card (ARGS=--once: no pauses, then exit)
	@$(BIN)/linkwise demo $(ARGS)

up: $(READY)  ## embedded cluster to try things on, until Ctrl-C (ARGS="--nodes 5000", ARGS=--help)
	@$(BIN)/linkwise up $(ARGS)

test: $(READY)  ## tests of behaviour; those of source and documentation run in `make check` (TEST_PROFILE=full: all examples)
	$(PYTEST) $(if $(findstring tests/,$(ARGS)),,$(OF_CHECK:%=--ignore=%) --ignore=tests/browser) $(ARGS)

# KUBECONFIG in the environment may point to a production cluster: only one given on the command line is used.
GIVEN = $(if $(filter command,$(origin KUBECONFIG)),$(KUBECONFIG))

e2e: $(READY)  ## tests on two real Kubernetes clusters, built on first use (KUBECONFIG=FILE: on that cluster; CLUSTERS=1)
	$(BIN)/python scripts/kubernetes.py build $(if $(GIVEN),kubernetes)
	$(if $(GIVEN),,[ "$$(id -u)" != 0 ] || $(BIN)/python scripts/oci_image.py --cached --install)
	LINKWISE_E2E=1 LINKWISE_E2E_KUBECONFIG="$(GIVEN)" $(BIN)/pytest tests/e2e -p support.e2e.safety_plugin \
	  --numprocesses $(if $(GIVEN)$(filter 1,$(CLUSTERS)),0,$(or $(CLUSTERS),2)) --dist loadfile $(ARGS)

browser: $(READY) $(PAGE_READY) page-check  ## tests of the web page in a real browser; installs chromium with apt-get if there is none
	@sh scripts/browser.sh $(VENV)
	$(BIN)/pytest tests/browser --numprocesses 0 $(ARGS)

check: $(READY)  ## lint, types, layers, and the tests of source and documentation
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
	$(BIN)/hadolint deploy/Dockerfile
	$(PYTEST) $(OF_CHECK) $(ARGS)

fix: $(READY)  ## apply automatic fixes and formatting
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

shape: $(READY)  ## sizes, imports and walks of the source beside other projects; no limits (ARGS=--help)
	@$(BIN)/python scripts/shape.py $(ARGS)

mutants: $(READY)  ## change 200 random places of the source one at a time, and list those that no test notices (N=50, SEED=2)
	$(BIN)/python scripts/mutants.py --count $(or $(N),200) --seed $(or $(SEED),1) $(ARGS)

bench: $(READY)  ## benchmarks, each with its bar: choice, filter, cold start, conflicts, packing, planning, explaining, HTTP, Volcano, node agent
	@code=0; for part in $(BENCHES); do $(BIN)/python bench/$$part.py $(ARGS) || code=1; done; exit $$code

bench-cluster: $(READY)  ## real kube-scheduler and Volcano with and without the service, HTTP filter, memory over 20,000 pods (about 30 minutes)
	@code=0; for part in cluster cluster_claims volcano_cluster calls memory; do $(BIN)/python bench/$$part.py || code=1; done; exit $$code

soak: $(READY)  ## fuzz the parsers and the broker (SECONDS=600, or STEPS of each kind), 50,000 pods on the embedded cluster, an attack on the port, then soak-cluster
	$(BIN)/python scripts/soak.py $(if $(STEPS),--steps $(STEPS) --jobs $(or $(JOBS),2),$(or $(SECONDS),600))
	$(BIN)/python scripts/soak_embedded.py memory 50000
	$(BIN)/python scripts/soak_strangers.py 60
	$(MAKE) soak-cluster

soak-cluster: $(READY)  ## kill leaders (KILLS=1000) and services among gangs on a real Kubernetes; skipped where `make e2e` has built none
	$(BIN)/python scripts/soak_cluster.py $(KILLS)

docs: $(READY)  ## regenerate generated pages, pictures and console samples
	$(BIN)/python scripts/docs.py
	$(BIN)/python scripts/page_pictures.py

site: $(READY)  ## build the documentation as a website in dist/site; warnings and broken links are errors
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs auto -b html -c docs -d dist/doctrees . dist/site

manifests: $(READY)  ## render the manifests of `linkwise manifests all` from the Helm chart (needs helm; HELM=FILE)
	HELM="$(or $(HELM),helm)" $(BIN)/python scripts/manifests.py

$(PAGE_READY): page/package.json page/package-lock.json
	cd page && npm ci --silent && touch node_modules/.ready

page: $(PAGE_READY)  ## build the web page from page/ into the package (needs Node 20; users of Linkwise do not)
	cd page && npm run --silent build -- --logLevel warn

page-check: $(PAGE_READY)  ## types and unit tests of the web page, and whether its built files are current
	cd page && npm run --silent types && npm run --silent test && npx vite build --logLevel warn --outDir ../dist/page --emptyOutDir
	diff --recursive dist/page src/linkwise/serve/page_files || { echo "run: make page" >&2; exit 1; }

page-dev: $(PAGE_READY)  ## the web page with hot reload beside a running service (LINKWISE_URL=http://127.0.0.1:PORT)
	cd page && npm run --silent dev

# The programs that this needs are installed on demand only, since building an image should not change the machine.
image: $(READY)  ## build the container image as dist/linkwise-VERSION.oci.tar, without Docker (root; INSTALL=1, IMAGE_BASE, ARGS="--tag 1")
	@$(BIN)/python scripts/oci_image.py $(if $(INSTALL),--install) $(IMAGE_BASE:%=--base %) $(ARGS)

release: $(READY)  ## build all files of a release in dist/VERSION: VERSION=0.1.0 (root; INSTALL=1, ARGS=--dirty for a trial)
	@$(BIN)/python scripts/release.py $(VERSION) $(if $(INSTALL),--install) $(ARGS)

licences: $(READY)  ## list the licences of the packages in the container image and the web page (ARGS=--all: for development too)
	@$(BIN)/python scripts/licences.py $(ARGS)

lock: pyproject.toml  ## update requirements.lock, and the part of it that the container image has (needs uv)
	uv pip compile pyproject.toml --extra agent --group dev --group docs --universal --generate-hashes --upgrade \
	  --python-version 3.11 --custom-compile-command "make lock" -o requirements.lock
	uv pip compile pyproject.toml --extra agent --universal --generate-hashes --upgrade --constraints requirements.lock \
	  --no-annotate --python-version 3.11 --custom-compile-command "make lock" -o deploy/image/requirements.lock
	uv pip compile --group image --universal --generate-hashes --upgrade --constraints requirements.lock \
	  --no-annotate --python-version 3.11 --custom-compile-command "make lock" -o deploy/image/tools.lock

clean:  ## remove everything that the other targets created
	rm -rf page/node_modules $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
