# lib.sh - what the scripts of ops/ share: packages, builds, counting tests. Sourced, never run.
# shellcheck shell=bash

ops_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly ops_root

# Debian 12 names; libasan and libubsan come with gcc.
readonly ops_packages=(build-essential cmake ninja-build pkg-config check libarchive-dev libcurl4-openssl-dev
    libjansson-dev libopenblas-dev libpq-dev libssl-dev libyaml-dev zlib1g-dev postgresql-15 tzdata)
readonly ops_unavailable=69

ops_say() { printf '== %s\n' "$*" >&2; }

ops_die() {    # CODE MESSAGE...
    local code=$1
    shift
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit "$code"
}

ops_missing_packages() {
    local package
    for package in "${ops_packages[@]}"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s\n' "$package"
    done
}

# Debian's package starts a cluster of its own on install, unless this file says no. fedgate makes its own in the home.
ops_prevent_main_cluster() {
    local file=/etc/postgresql-common/createcluster.conf
    mkdir -p "$(dirname "$file")"
    [ -f "$file" ] || : >"$file"
    if grep -Eq '^[[:space:]]*#?[[:space:]]*create_main_cluster[[:space:]]*=' "$file"; then
        sed -Ei 's/^[[:space:]]*#?[[:space:]]*create_main_cluster[[:space:]]*=.*/create_main_cluster = false/' "$file"
    else
        printf 'create_main_cluster = false\n' >>"$file"
    fi
}

ops_install_packages() {
    command -v dpkg-query >/dev/null ||
        ops_die "$ops_unavailable" "this is no Debian; install by hand what these are: ${ops_packages[*]}"
    local missing
    mapfile -t missing < <(ops_missing_packages)
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        printf 'Missing packages: %s\nAs root:\n' "${missing[*]}" >&2
        if [[ " ${missing[*]} " == *" postgresql-15 "* ]]; then
            printf '  mkdir -p /etc/postgresql-common\n' >&2
            printf '  echo "create_main_cluster = false" >>/etc/postgresql-common/createcluster.conf\n' >&2
        fi
        printf '  apt-get update && apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
        exit "$ops_unavailable"
    fi
    command -v apt-get >/dev/null || ops_die "$ops_unavailable" "no apt-get here; missing packages: ${missing[*]}"
    ops_say "installing ${missing[*]}"
    ops_prevent_main_cluster
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q >&2 </dev/null || ops_die "$ops_unavailable" "could not update the package lists"
    # The file just written is kept, whatever the package brings.
    UCF_FORCE_CONFFOLD=1 apt-get -o Dpkg::Options::=--force-confold install -q -y --no-install-recommends \
        "${missing[@]}" >&2 </dev/null ||
        ops_die "$ops_unavailable" "could not install: ${missing[*]}"
}

# Configures and builds; the folder is made below the checkout's build/.
ops_build() {    # FOLDER TARGET CMAKE-OPTION...
    local folder=$ops_root/build/$1 target=$2
    shift 2
    mkdir -p "$ops_root/build" 2>/dev/null || true
    [ -w "$ops_root/build" ] ||
        ops_die 74 "cannot write to $ops_root/build: use a checkout of your own"
    local launcher=()
    if command -v ccache >/dev/null; then
        launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    fi
    cmake -S "$ops_root" -B "$folder" -G Ninja "${launcher[@]}" "$@" >"$folder.configure.log" 2>&1 || {
        cat "$folder.configure.log" >&2
        ops_die 70 "could not configure $folder"
    }
    ninja -C "$folder" -j "$(nproc)" "$target" >&2 || ops_die 70 "could not build $folder"
}

# Reads the log of `ctest -V`: cases of Check programs one by one, other tests as one each. Prints "PASSED FAILED".
ops_count_tests() {
    awk '
        /^[0-9]+: [0-9]+%: Checks: / {
            id = $1; sub(/:$/, "", id)
            checks = $4 + 0; failures = $6 + 0; errors = $8 + 0
            seen[id] = 1; good[id] += checks - failures - errors; bad[id] += failures + errors
        }
        /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
            id = $0; sub(/^.*Test +#/, "", id); sub(/:.*$/, "", id)
            if ($0 ~ /Skipped/) next
            if ($0 ~ / Passed +[0-9.]+ sec/) { passed += (id in seen) ? good[id] : 1; failed += bad[id] + 0 }
            else { passed += good[id] + 0; failed += bad[id] > 0 ? bad[id] : 1 }
        }
        END { printf "%d %d\n", passed, failed }' "$1"
}
