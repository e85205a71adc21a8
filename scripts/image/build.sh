#!/bin/sh
# Builds what the container image contains: a virtual environment with Linkwise and its locked requirements, and its SBOM.
#
#   scripts/image/build.sh ENVIRONMENT SBOM
#
# ENVIRONMENT is created at the path at which it is used, because its programs contain it. TOOLS is a Python with the
# requirements of deploy/image/tools.lock, which builds the wheel and the SBOM; nothing of it is in the environment.
set -eu
environment=$1
sbom=$2
tools=${TOOLS:-python3}
python=${PYTHON:-python3}
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Byte code contains sets of constants in the order of their hashes.
export PYTHONHASHSEED=0

# The versions of the build tools are locked, so they are not downloaded for an isolated build.
(cd "$root" && "$tools" -m hatchling build --target wheel --directory "$scratch" >/dev/null)

"$python" -m venv --without-pip "$environment"
install() {
  "$tools" -m pip --python "$environment/bin/python" install --quiet --disable-pip-version-check --no-cache-dir \
    --no-compile "$@"
}
install --no-deps --require-hashes --only-binary :all: --requirement "$root/deploy/image/requirements.lock"
# By name, not by file: otherwise the path of the file is recorded.
install --no-deps --no-index --find-links "$scratch" linkwise

mkdir -p "$(dirname "$sbom")"
"$tools" -m cyclonedx_py environment --output-format JSON --output-reproducible --output-file "$sbom" \
  "$environment/bin/python"
# Unchecked: a copy of the image may give files another time, with which byte code would be ignored.
"$environment/bin/python" -m compileall -q --invalidation-mode unchecked-hash "$environment/lib"
