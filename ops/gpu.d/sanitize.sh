# sanitize.sh - ops/gpu sanitize: whole nights and the operations' probes under compute-sanitizer. Sourced by ops/gpu.
# shellcheck shell=bash disable=SC2154,SC2034  # names are shared with ops/gpu

# Kernels of the libraries are for their makers: under racecheck and initcheck they take minutes and speak of their own padding.
readonly sanitize_library='regex=nvjet|cutlass|cublas|gemm|gemv|splitK'

sanitize_launcher() {    # TOOL LOG
    night_launcher=(compute-sanitizer --tool "$1" --target-processes all --log-file "$2")
    [ "$1" = memcheck ] || night_launcher+=(--kernel-name-exclude "$sanitize_library")
}

# Errors of every process that has a summary; nothing where none has: then nothing was looked at.
sanitize_errors() {    # LOG...
    awk '/SUMMARY: / { for (i = 1; i <= NF; i++) if ($i == "SUMMARY:") { sum += $(i + 1); seen = 1 } } END { if (seen) print sum }' \
        "$@" 2>/dev/null || true
}

sanitize_report() {    # TITLE LOG-STEM
    local errors
    errors=$(sanitize_errors "$2".*)
    gpu_row "$1: errors" "$errors" errors "$(gpu_verdict 'e == 0' e="$errors")"
    grep -h SUMMARY "$2".* 2>/dev/null | sort | uniq -c | while read -r line; do gpu_line '    %s\n' "$line"; done
    cat "$2".* >>"$gpu_out/$phase-logs.txt" 2>/dev/null || true
}

# A small night: the sanitizer holds the profiler's place, so that the overlap check cannot trust what it saw, and says so.
sanitize_night() {    # TOOL
    local stem=$gpu_scratch/night-$1 name=$1 outcome
    sanitize_launcher "$1" "$stem.%p"
    night_go "$name" learnable_night 150 --set device.backend=cuda --set train.precision=bf16 --set train.epochs=2 \
        --set parity.pairs=2 --set device.timeout=10m
    night_launcher=()
    outcome=$(night_check "$name" overlap)
    gpu_row "night under $1: exit" "$night_code" code "$(gpu_verdict 'c == 10 || c == 11' c="$night_code")" \
        "${night_decided:+$night_decided: $(night_reason "$name" "$night_decided")}"
    gpu_same "night under $1: overlap says error" "$outcome" error "$(night_reason "$name" overlap)"
    gpu_row "night under $1" "$night_seconds" s
    sanitize_report "night under $1" "$stem"
}

sanitize_operations() {    # TOOL PART
    local stem=$gpu_scratch/operations-$1-$2 code=0
    sanitize_launcher "$1" "$stem.%p"
    gpu_limit 90 "${night_launcher[@]}" "$gpu_place/bin/gpu_operations" cuda "$2" >"$stem-output" 2>&1 || code=$?
    night_launcher=()
    gpu_row "operations, $2, under $1: exit" "$code" code "$(gpu_verdict 'c == 0' c="$code")"
    sanitize_report "operations, $2, under $1" "$stem"
}

phase_sanitize() {    # [TOOL]
    local tool
    command -v compute-sanitizer >/dev/null || ops_die "$ops_unavailable" "no compute-sanitizer here"
    night_prepare
    for tool in memcheck racecheck initcheck; do
        [ "${1:-$tool}" = "$tool" ] || continue
        sanitize_night "$tool"
        sanitize_operations "$tool" probes
        [ "$tool" = memcheck ] || sanitize_operations "$tool" elements
    done
}
