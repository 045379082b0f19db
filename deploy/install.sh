#!/bin/sh
# Installs azselfplay from this checkout with exactly the packages of requirements.lock, each checked against its hash:
#     deploy/install.sh PYTHON SECTION [editable]
# PYTHON: the interpreter of the environment. SECTION: client, train, web, all or dev; each contains those before it.
# PyTorch (not in `client`) has its version from the lock and its build from pip's index, CPU or CUDA: docs/install.md.
set -eu
[ $# -ge 2 ] || { echo "usage: install.sh PYTHON client|train|web|all|dev [editable]" >&2; exit 2; }
python=$1 section=$2
cd "$(dirname "$0")/.."
grep -q "^# section: $section\$" requirements.lock || { echo "install.sh: no section '$section' in requirements.lock" >&2; exit 2; }
wanted=$(mktemp) && trap 'rm -f "$wanted"' EXIT
awk -v last="$section" '/^# section: /{ if (done) exit; if ($3 == last) done = 1 } { print }' requirements.lock >"$wanted"
pip() { "$python" -m pip --quiet --disable-pip-version-check "$@"; }
pip install --no-deps --require-hashes --requirement "$wanted"
[ "$section" = client ] || pip install "$(sed -n 's/^# \(torch==.*\)/\1/p' requirements.lock)"
rm -rf build/lib # setuptools would install modules from there that are gone
pip install --no-deps --no-build-isolation ${3:+--editable} .
