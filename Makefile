# The manual: `make help`. `./run TARGET` first makes the environment, then runs the target.
# A target that measures ends with one line of figures, writes JSON under out/, and fails when a bar does not hold.

PY ?= .venv/bin/python
SEEDS ?= 200
KILLS ?= 100
TWINS ?= 100000
FIRST ?= 0
UNITS ?= 200
ROUNDS ?= 3
VALIDATORS ?= 4
STEPS ?= 1000000
INTERLEAVINGS ?= 1000
SEED ?= 1
JOBS ?= 1
SECONDS ?= 30
LINES ?= 2000
# Processes of pytest: one more than cores, since half of the tests wait for others. In `make test` mypy runs beside them.
WORKERS ?= 3
PURE := runtime consensus genesis gpu_tasks/batches gpu_tasks/traces gpu_tasks/market gpu_tasks/workloads streams
PYTEST = $(PY) -m pytest -n $(WORKERS) --dist load
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
comma := ,
MAKEFLAGS += --no-print-directory
# A network is dozens of processes: each would compile this project anew.
unexport PYTHONDONTWRITEBYTECODE
# NumPy here multiplies small matrices: more BLAS threads than one only wait for each other.
export OPENBLAS_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: game stolenkey chats alltests lint nightly types batchkills files market elections seats rollcall twins telemetry containers capacity help setup demo devnet test check static format quick bench peers clients simulate mutants replay economy stakes soak properties gpu crash cheats units sessions equivocation claims honest flood prose escape liars auction ladder conformance house lock package clean weights

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## system packages and .venv from the locks (what ./run does before every target)
	@./run setup

demo: ## a network that mines real inference, catches a cheat and elects; PROMPTS=file gives the prompts; out/demo.json
	@$(PY) -m devnet.demo $(if $(PROMPTS),--prompts "$(PROMPTS)")

devnet: ## the same network, left running until `ogpu-devnet down`
	@$(PY) -m devnet.demo --stay $(if $(PROMPTS),--prompts "$(PROMPTS)")

test: ## the merge gate, 9 minutes on two cores: static checks beside unit tests, properties, short simulations, a real process of each program
	@$(MAKE) lint
	@mkdir -p out; $(MAKE) types > out/types.log 2>&1 & types=$$!; \
	$(PYTEST) --max-worker-restart 0 -m "not nightly"; tests=$$?; \
	wait $$types || { cat out/types.log; exit 1; }; exit $$tests

nightly: ## the rest, some hours: all tests with fresh seeds, long simulations, proofs on real devnets; NIGHTLY="units cheats" chooses, SEED=n repeats
	@$(PY) -m scripts.nightly $(if $(filter-out file,$(origin SEED)),--seed $(SEED)) $(NIGHTLY)

alltests: # what the gate has and what it leaves out, in another order and with other examples
	@HYPOTHESIS_PROFILE=nightly $(PYTEST) --hypothesis-seed=$(SEED) --randomly-seed=$(SEED)

check: static quick ## before a commit: format, lint, types, imports, determinism, quick tests

static: lint types ## the checks that run no test: format, lint, determinism, types, imports

lint:
	@$(PY) -m ruff format --check --quiet --output-format concise .
	@$(PY) -m ruff check --quiet --output-format concise .

types:
	@$(PY) -m scripts.check_determinism $(PURE)
	@$(PY) -m mypy
	@$(dir $(PY))lint-imports --no-cache --no-logo

format: ## rewrite the sources as `make check` wants them
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

quick: ## the gate's tests without real processes
	@$(PY) -m pytest -q -m "not nightly and not e2e"

bench: ## CPU per transfer by stage, import rate, finality, polls, tokens per second, memory; out/bench.json
	@$(PY) -m benchmarks

weights: ## real over declared weight of every call, hook and full block, 100,000 accounts; WRITE=1 writes the tables (MISSING=1: new rows alone); out/weights.json
	@$(PY) -m benchmarks.weights $(if $(WRITE),--write) $(if $(MISSING),--missing)

ladder: ## what each verifier computes over what the provider does, for each workload and rung of verification; fees, K and times of claims; out/ladder.json, out/ladder.md
	@$(PY) -m benchmarks.ladder

peers: .peers/stamp .venv-peers/stamp ## beside anvil, LiteSVM, py-evm: transfers until final, ROUNDS=3 in turns; out/peers.json
	@$(PY) -m benchmarks.peers --rounds $(ROUNDS)

clients: .venv-clients/stamp ## unmodified public clients against a node of ours: connect, read, sign, submit, watch
	@CLIENTS_PYTHON=.venv-clients/bin/python $(PY) -m devnet.proofs.clients

simulate: ## SEEDS=200 simulated networks from FIRST=0 on with loss, delay, crashes, partitions and a Byzantine node
	@$(PY) -m devnet.simulation --seeds $(SEEDS) --first $(FIRST)

twins: ## TWINS=100000 scenarios of bare finality gadgets in which one key of four has two; FIRST=n, another shard; out/twins.json
	@$(PY) -m devnet.simulation.twins --count $(TWINS) --first $(FIRST)

mutants: $(if $(RANDOM),.venv-mutants/stamp) ## planted bugs, each of which its tests must find; ONLY=name,name; or RANDOM=50 SEED=3 SINCE=main ROOMS="consensus runtime"
	@$(PY) -m scripts.mutants $(foreach name,$(subst $(comma), ,$(ONLY)),--only $(name)) $(if $(RANDOM),--random $(RANDOM) --seed $(SEED) $(if $(SINCE),--since $(SINCE)) --rooms $(ROOMS))

replay: ## the same 5,000 random extrinsics under two Python versions and three hash seeds: the same roots and events
	@$(PY) -m simulation.replay

conformance: ## exact workloads: the same hashes over plain integers, reference, NumPy, PyTorch, CUDA, two Pythons, instruction sets; NEED=torch-cuda:0; MODEL=name adds a model file; out/conformance.json
	@$(PY) -m scripts.conformance $(foreach backend,$(subst $(comma), ,$(NEED)),--need $(backend)) $(if $(MODEL),--model $(MODEL))

capacity: ## what DEVICES="1 10 100 1000" fake devices on one machine may claim together; some minutes; out/capacity.json
	@$(PY) -m scripts.capacity $(if $(DEVICES),--devices $(DEVICES))

economy: ## STEPS=1000000 random steps over all calls, every grain in its place after each; SEED=1, SEASON=N repeats one chain, JOBS=1 at a time
	@$(PY) -m simulation.economy --steps $(STEPS) --seed $(SEED) $(if $(SEASON),--season $(SEASON)) --jobs $(JOBS)

stakes: ## STEPS=1000000 random steps on stakes beside the naive rule, INTERLEAVINGS=1000 of leaving and offending, 10 to 10,000 delegators; out/stakes.json
	@$(PY) -m simulation.stakes --steps $(STEPS) --interleavings $(INTERLEAVINGS) --seed $(SEED) $(if $(SEASON),--season $(SEASON)) --jobs $(JOBS)

soak: ## 100,000 damaged extrinsics, 20,000 damaged blocks, a storm of damaged messages; some minutes
	@HYPOTHESIS_PROFILE=soak $(PY) -m pytest -q -n 2 -m "not e2e" tests/malformed

properties: ## 10,000 cases of each property of the auction, 1,000 whole chains, 100,000 settlements of tasks, 1,000 batches of each lie; half an hour
	@HYPOTHESIS_PROFILE=properties $(PY) -m pytest -q -n 2 -o faulthandler_timeout=3600 tests/gpu_tasks/market/training tests/gpu_tasks/batches/test_cheats.py

gpu: ## this machine's GPU as a provider uses it, beside NumPy: same bits, limits, failures, energy; exit 2 without one
	@$(PY) -m benchmarks.gpu

crash: ## KILLS=100 times kill -9 on a live devnet, with purges and detours: all come back, nothing final is lost
	@$(PY) -m devnet.proofs.crash --kills $(KILLS) $(if $(filter-out file,$(origin SEED)),--seed $(SEED))

flood: ## SECONDS=30 of each flood by one stranger on a live devnet, ATTACKS=name,name chooses, HOG=1 on busy processors: blocks, RPC, memory hold
	@$(PY) -m devnet.proofs.flood --seconds $(SECONDS) $(if $(ATTACKS),--only $(ATTACKS)) $(if $(HOG),--hog)

escape: ## a stranger's container tries to leave its limits in 27 ways, ONLY=name,name chooses; root, a dockerd of its own; out/escape.json
	@$(PY) -m devnet.proofs.escape $(if $(ONLY),--only $(ONLY))

liars: ## nodes and stores that lie in 99 ways to every program, LIES=name,name chooses; UNITS=200: bad stores only, 200 units
	@$(PY) -m devnet.proofs.liars $(if $(LIES),--only $(LIES),$(if $(filter-out file,$(origin UNITS)),--only bad-stores --units $(UNITS)))

auction: ## training tasks sold to sealed bids on a devnet of five; winner and standby killed, a gang: the same roots, paid to the grain
	@$(PY) -m devnet.proofs.auction $(if $(filter-out file,$(origin VALIDATORS)),--validators $(VALIDATORS))

containers: ## jobs and leases in Docker on a devnet: run, left by customer and provider, killed; root, an engine and a registry of its own
	@$(PY) -m devnet.proofs.containers $(if $(ONLY),--only $(ONLY))

rollcall: ## a roll call over real nodes: devices prove and answer checks, a daemon is killed with -9, one lies and loses its collateral, one has too little; five minutes
	@$(PY) -m devnet.proofs.roll_call

telemetry: ## tasks are watched over MQTT while the broker is down, slow, forged into, replayed, flooded, mute; out/telemetry.json
	@$(PY) -m devnet.proofs.telemetry

claims: ## PLAYS=16 of every dishonest behaviour in claims and disputes on their pallets, 4 to 33 validators: gains over honest behaviour, losses of honest parties; four minutes; out/claims.json
	@$(PY) -m simulation.claims $(if $(PLAYS),--plays $(PLAYS)) $(if $(ONLY),--only "$(ONLY)")

game: ## claims and checks as a game: gains of every known deviation, collateral for the check rates, simulator against formulas; a minute
	@$(PY) -m simulation.claims_game

honest: ## UNITS=50000 random units and TASKS=50000 tasks of honest parties over all backends here, with kills: none slashed; FLIPS=1000 flipped bits apart; CASE=task/1/7 repeats one; an hour with JOBS=1; out/honest.json
	@$(PY) -m simulation.honest $(if $(filter-out file,$(origin UNITS)),--units $(UNITS)) $(if $(TASKS),--tasks $(TASKS)) $(if $(FLIPS),--flips $(FLIPS)) $(if $(CASE),--case $(CASE)) --seed $(SEED) --jobs $(JOBS)

cheats: ## every known way to cheat the market: about units on a devnet of eight whose claims are all checked, in sessions on a devnet of six, about tasks, TASKS=5 honest ones, on another; ONLY=name,name chooses; MODEL=smollm2-135m-instruct computes this model of your store wrongly instead, UNITS=24
	@$(PY) -m devnet.proofs.cheats$(if $(MODEL),.models --model $(MODEL) $(if $(filter-out file,$(origin UNITS)),--units $(UNITS)), $(if $(TASKS),--tasks $(TASKS)) $(if $(ONLY),--only $(ONLY)))

units: ## UNITS=200 honest units on a devnet, a provider killed midway: each paid once
	@$(PY) -m devnet.proofs.work --units $(UNITS)

sessions: ## SESSIONS=200 sessions of five customers at four providers of a real devnet, some handed over, closed early, expired: every balance to the grain
	@$(PY) -m devnet.proofs.sessions $(if $(filter-out file,$(origin SESSIONS)),--sessions $(SESSIONS))

equivocation: ## a validator proposes twice on a live devnet: proven, slashed and tombstoned; blocks go on
	@$(PY) -m devnet.proofs.equivocation

market: ## four providers on a real devnet of six, batches of 1 to 4,096 requests: tokens a second beside the same devices bare; a slow device beside a free one; forty minutes; MODEL=name sells a language model in batches of 64 instead
	@$(PY) -m devnet.proofs.market $(if $(MODEL),--only trades --model $(MODEL))

files: ## LINES=2000 requests of a file on a real devnet, the customer killed with -9 while it posts: each unit once, each line once; four minutes
	@$(PY) -m devnet.proofs.files --lines $(LINES)

batchkills: ## a provider killed with -9 four times amid a batch of 4,096 requests: none computed twice, paid once; three minutes; out/batch_kills.json
	@$(PY) -m devnet.proofs.batch_kills

chats: ## four chats at once in sessions of a language model on a real devnet, beside the bare engine; provider and customer killed with -9 amid answers, the same tokens, paid to the grain; ONLY=name,name chooses; needs the model, out/chats.json
	@$(PY) -m devnet.proofs.chats $(if $(filter-out file,$(origin SEED)),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

seats: ## an operator takes a seat on a real devnet, changes keys, moves to another machine, leaves, by the words of the documents; three minutes
	@$(PY) -m devnet.proofs.seats

stolenkey: ## a budget spent, revoked and closed to the grain on a real devnet, and a thief that tries everything with a delegate's key; ten minutes; MODEL=smollm2-135m-instruct chats with that model
	@$(PY) -m devnet.proofs.stolen_key $(if $(MODEL),--model $(MODEL))

elections: ## six validators take turns on four seats of a real devnet, 30 epochs: every set reckoned anew; jail, an offence; seven minutes
	@$(PY) -m devnet.proofs.elections

prose: ## the clarity of help, messages and docstrings in figures; AGAINST=checkout puts another one beside it; out/prose.json
	@$(PY) -m scripts.prose $(if $(AGAINST),--against "$(AGAINST)")

house: ## the house in figures: lines, files, circles, class names; AGAINST=folder counts another beside it
	@$(PY) -m scripts.house $(if $(AGAINST),--against "$(AGAINST)")

lock: ## solve the dependencies anew into locks/ (needs uv on the path)
	@$(LOCK) --upgrade pyproject.toml --all-extras -o locks/all.lock
	@$(LOCK) --upgrade pyproject.toml -c locks/all.lock -o locks/wallet.lock
	@$(LOCK) --upgrade --group build -o locks/build.lock
	@$(LOCK) --upgrade --group clients -o locks/clients.lock
	@$(LOCK) --upgrade --group peers -o locks/peers.lock
	@$(LOCK) --upgrade --group mutants -o locks/mutants.lock

package: ## wheel and source archive in dist/; the wheel proves itself in an empty environment
	@PY=$(PY) sh scripts/check_package.sh

clean: ## remove what can be made again, environments apart
	@rm -rf out dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +

.venv-clients/stamp: locks/clients.lock
	@$(PY) -m venv --clear .venv-clients
	@.venv-clients/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/clients.lock
	@touch $@

# Required by `make peers`: the package holds the program, so nothing is fetched by a script of its own.
.peers/stamp: benchmarks/peers/npm/package-lock.json
	@command -v npm >/dev/null || { echo "peers: anvil comes by npm, and there is none: install Node.js 20 or newer"; exit 1; }
	@mkdir -p .peers && cp benchmarks/peers/npm/*.json .peers/
	@cd .peers && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

# Not required: what does not install is left out, said so, and tried again the next time.
.venv-mutants/stamp: locks/mutants.lock
	@$(PY) -m venv --clear .venv-mutants
	@.venv-mutants/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/mutants.lock
	@touch $@

.venv-peers/stamp: locks/peers.lock
	@$(PY) -m venv --clear .venv-peers
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/peers.lock \
	  && touch $@ || echo "peers: LiteSVM and py-evm do not install here and are left out"
