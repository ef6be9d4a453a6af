# place.sh - what the phases of ops/gpu share: the unpacked archive, a scratch folder, time limits, rows. Sourced by ops/gpu.
# shellcheck shell=bash disable=SC2154,SC2034  # names are shared with ops/gpu
readonly gpu_archive=$ops_root/build/gpu.tar.xz gpu_place=$ops_root/build/gpu
readonly gpu_phase_seconds=470    # a machine is lent for ten minutes a command; unpacking and copying come beside it
gpu_results=${FEDGATE_RESULTS:-$ops_root/build/gpu-results/rows.jsonl}
gpu_out=$(dirname "$gpu_results")
gpu_scratch='' gpu_child='' gpu_failures=0 gpu_until=0

gpu_unpack() {
    if [ -f "$gpu_archive" ] && [ ! "$gpu_place/unpacked" -nt "$gpu_archive" ]; then
        rm -rf "$gpu_place"
        tar -C "$ops_root/build" -xJf "$gpu_archive" || ops_die 74 "could not unpack $gpu_archive"
        touch "$gpu_place/unpacked"
    fi
    [ -x "$gpu_place/bin/fedgate" ] ||
        ops_die "$ops_unavailable" "neither $gpu_place nor $gpu_archive is there: run ops/gpu pack first"
}

gpu_begin() {
    gpu_unpack
    gpu_until=$((SECONDS + gpu_phase_seconds))
    gpu_scratch=$(mktemp -d "${TMPDIR:-/tmp}/fedgate-gpu-XXXXXX")
    trap gpu_clean EXIT
    trap 'exit 143' TERM INT
    chmod 755 "$gpu_scratch"    # the private server runs under an account without rights
    mkdir -p "$gpu_out" "$gpu_scratch/homes"
    gpu_out=$(cd "$gpu_out" && pwd)
    : >"$gpu_scratch/table"
    FEDGATE_RESULTS=$gpu_out/$(basename "$gpu_results")
    FEDGATE_COMMIT=$(cat "$gpu_place/commit")
    FEDGATE_DATE=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    FEDGATE_DRIVER=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1) || FEDGATE_DRIVER=
    gpu_device=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) || gpu_device=
    [ -n "$FEDGATE_DRIVER" ] || FEDGATE_DRIVER=none
    [ -n "$gpu_device" ] || gpu_device="$(nproc)-core $(uname -m)"
    FEDGATE_SHARE=$ops_root
    export FEDGATE_RESULTS FEDGATE_COMMIT FEDGATE_DATE FEDGATE_DRIVER FEDGATE_SHARE
}

# What was started and not waited for, and servers of nights that were cut off, are ours to stop; nothing else is.
gpu_clean() {
    local file pid
    trap '' TERM INT
    [ -z "$gpu_child" ] || { kill "$gpu_child" 2>/dev/null && wait "$gpu_child"; } || true
    for file in "$gpu_scratch"/homes/*/pg/data/postmaster.pid; do
        [ -f "$file" ] || continue
        read -r pid <"$file"
        kill -INT "$pid" 2>/dev/null || continue
        for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$pid" 2>/dev/null && sleep 0.3; done
    done
    rm -rf "$gpu_scratch"
}

gpu_finish() {
    printf '\n%s, driver %s, commit %s, %s\n' "$gpu_device" "$FEDGATE_DRIVER" "$FEDGATE_COMMIT" "$FEDGATE_DATE"
    cat "$gpu_scratch/table"
    printf '%s: %d not as expected, %d s\n' "$phase" "$gpu_failures" "$SECONDS"
    [ "$gpu_failures" -eq 0 ] || exit 1
}

gpu_line() {    # FORMAT ARGUMENT...: a line of the table
    # shellcheck disable=SC2059  # the format is the caller's
    printf "$@" >>"$gpu_scratch/table"
    # shellcheck disable=SC2059
    printf "$@"
}

gpu_number() { [[ $1 =~ ^[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?$ ]]; }

# A row of the results; a value that is no number is null there.
gpu_record() {    # CASE VALUE UNIT
    local value=null
    ! gpu_number "$2" || value=$2
    printf '{"case":"%s","value":%s,"unit":"%s","device":"%s","driver":"%s","commit":"%s","date":"%s"}\n' \
        "$1" "$value" "$3" "$gpu_device" "$FEDGATE_DRIVER" "$FEDGATE_COMMIT" "$FEDGATE_DATE" >>"$FEDGATE_RESULTS"
}

gpu_row() {    # CASE VALUE UNIT [good|bad] [NOTE]
    local said=''
    gpu_record "$1" "$2" "$3"
    case ${4:-} in
        good) said=ok ;;
        bad) said=WRONG gpu_failures=$((gpu_failures + 1)) ;;
    esac
    gpu_line '%-52s %12s %-9s %-5s %.110s\n' "$1" "${2:-none}" "$3" "$said" "${5:-}"
}

# Whether an awk expression over numbers holds; what is no number never holds.
gpu_holds() {    # EXPRESSION NAME=VALUE...
    local expression=$1 pair names=()
    shift
    for pair in "$@"; do
        gpu_number "${pair#*=}" || return 1
        names+=(-v "$pair")
    done
    awk "${names[@]}" "BEGIN { exit !($expression) }"
}
gpu_verdict() { if gpu_holds "$@"; then echo good; else echo bad; fi; }

# A row whose value is 1 when two texts are the same, else 0.
gpu_same() {    # CASE TEXT TEXT [NOTE]
    if [ -n "$2" ] && [ "$2" = "$3" ]; then gpu_row "$1" 1 '' good "${4:-}"; else gpu_row "$1" 0 '' bad "${4:-$2}"; fi
}

# Runs a command inside the time it may take and the phase has left; 124 or 137: it was cut off. In the background, so that a
# signal to this script is heard at once and handed on.
gpu_limit() {    # SECONDS COMMAND...
    local seconds=$1 left=$((gpu_until - SECONDS)) code=0
    shift
    [ "$left" -ge 1 ] || { ops_say "no time left for: $1"; return 124; }
    [ "$seconds" -le "$left" ] || seconds=$left
    timeout --kill-after=15 "$seconds" "$@" &
    gpu_child=$!
    wait "$gpu_child" || code=$?
    gpu_child=
    return "$code"
}

# One of the packed programs, its output kept beside the results, what it called wrong in the table.
gpu_program() {    # SECONDS NAME ARGUMENT...
    local seconds=$1 name=$2 code=0 said=$gpu_scratch/said
    shift 2
    [ -x "$gpu_place/bin/$name" ] || { gpu_row "$name" "" "not packed" bad; return 0; }
    gpu_limit "$seconds" env -C "$ops_root" "$gpu_place/bin/$name" "$@" >"$said" 2>&1 || code=$?
    tee -a "$gpu_out/$phase.txt" <"$said"
    grep -E 'FAILED|^failed:' "$said" | tail -n 20 >>"$gpu_scratch/table" || true
    gpu_row "$name $*: exit" "$code" code "$(gpu_verdict 'c == 0' c="$code")"
}
