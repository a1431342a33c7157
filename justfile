# Short names for the commands of CONTRIBUTING.md; `just` alone lists them.

_list:
    @just --list

# Serves PostgreSQL clients on 127.0.0.1:5433, in memory; OPTIONS are those of `fencepost start`
start *OPTIONS:
    cargo run --release -- start {{OPTIONS}}

# Runs all tests
test:
    cargo test --workspace

# Checks the rules of STYLE.md that a program can check
tidy:
    cargo xtask tidy

# Runs the console blocks of documents, such as `just console docs/guides/backup.md`; all without a name
console *FILES:
    cargo xtask console {{FILES}}

# Takes the steps that a change must pass, such as `just ci format clippy`; all without a name
ci *STEPS:
    .ci/run {{STEPS}}

# Runs a benchmark and checks its data, such as `just bench tatp --threads 2`
bench NAME *OPTIONS:
    cargo run --release -- bench {{NAME}} {{OPTIONS}}

# Runs the simulated cluster of one seed, such as `just sim 17 --kind crash`
sim SEED *OPTIONS:
    cargo run --release -p fencepost-simulator -- --seed {{SEED}} {{OPTIONS}}

# Writes the references that the built program describes, and makes the documentation of all crates
docs:
    cargo xtask docs
    cargo doc --workspace --no-deps
