# Sourced by scripts/start and scripts/check: makes .venv at the top and installs into it what the arguments name.
# Usage: . scripts/setup.sh; need_system PACKAGE...; make_venv REQUIREMENTS...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# need_system COMMAND PACKAGE ...: installs Debian's packages where the command is missing.
need_system() {
    local command=$1
    shift
    if command -v "$command" >/dev/null; then return; fi
    echo "Installing $* (for $command) ..."
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# The first Python that can run the app.
find_python() {
    local name
    for name in python3.11 python3.12 python3; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    echo "Python 3.11 or 3.12 is needed (Debian: apt-get install python3 python3-venv)." >&2
    return 1
}

make_venv() {
    local wanted files=() file python
    need_system python3 python3 python3-venv
    python=$(find_python)
    for file in "$@"; do files+=(-r "$file"); done
    wanted=$(cat "$@" requirements.lock | sha256sum)
    if [ "$(cat .venv/installed 2>/dev/null)" = "$wanted" ]; then return; fi
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        as_root apt-get update -qq
        as_root apt-get install -y -qq --no-install-recommends python3-venv
    fi
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    .venv/bin/python -m pip install -q --disable-pip-version-check uv==0.13.9
    echo "Installing $* into .venv (some gigabytes the first time) ..."
    .venv/bin/uv pip install -q --python .venv/bin/python "${files[@]}" -c requirements.lock ||
        .venv/bin/python -m pip install -q "${files[@]}" -c requirements.lock
    echo "$wanted" >.venv/installed
}
