#!/bin/sh
# Creates the virtual environment $1, with uv if it is installed, else with venv and pip.
set -eu
venv=$1
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "setup: '$python' is missing or older than Python 3.11; choose another: make setup PYTHON=python3.12" >&2
  exit 1
fi

if command -v uv >/dev/null 2>&1; then
  echo "setup: creating $venv with uv" >&2
  uv venv --quiet --clear --no-python-downloads --python "$python" "$venv"
  uv pip install --quiet --python "$venv/bin/python" --require-hashes -r requirements.lock
  uv pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
else
  echo "setup: creating $venv with venv and pip (about a minute the first time)" >&2
  "$python" -m venv --clear "$venv" || {
    echo "setup: '$python -m venv' failed; install your system's python3-venv package, or uv" >&2
    exit 1
  }
  # The lock is complete. Asked to resolve it, pip before 23.3 takes the newest release for a dependency with extras.
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
fi
touch "$venv/.ready"
