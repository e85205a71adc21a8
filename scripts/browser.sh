#!/bin/sh
# Installs what tests in a browser need and is missing: chromium, and the dependency group `browser` in the environment $1.
set -eu
venv=$1

if ! command -v chromium >/dev/null 2>&1 && ! command -v chromium-browser >/dev/null 2>&1; then
  apt-get update -qq
  apt-get install -qq -y --no-install-recommends chromium
fi
if ! "$venv/bin/python" -c 'import playwright' 2>/dev/null; then
  # pip reads dependency groups from version 25.1 on only
  packages=$("$venv/bin/python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["browser"])')
  if command -v uv >/dev/null 2>&1; then
    uv pip install --quiet --python "$venv/bin/python" "$packages"
  else
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$packages"
  fi
fi
