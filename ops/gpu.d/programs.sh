# programs.sh - the phases of ops/gpu that run one of the gpu_* programs, alone or beside its peers. Sourced by ops/gpu.
# shellcheck shell=bash disable=SC2154,SC2034  # names are shared with ops/gpu

phase_operations() { gpu_program 420 gpu_operations cuda "$@"; }
phase_observe() { gpu_program 300 gpu_observe cuda "$@"; }
phase_train() {    # [curves|streaming]
    program_rows 450 gpu_train cuda fixtures "$@"
    [ "${1:-streaming}" != streaming ] || train_hold
}
phase_bench() { gpu_program 420 gpu_bench cuda "$@"; }
phase_overhead() { gpu_program 300 gpu_train cuda fixtures overhead; }

# Runs a program and keeps its rows apart too, so that they can be judged here.
program_rows() {    # SECONDS NAME ARGUMENT...
    local rows=$FEDGATE_RESULTS
    FEDGATE_RESULTS=$gpu_scratch/ours
    : >"$FEDGATE_RESULTS"
    gpu_program "$@"
    cat "$FEDGATE_RESULTS" >>"$rows"
    FEDGATE_RESULTS=$rows
}
program_figure() {    # CASE: what program_rows saw last, or nothing
    awk -v start="{\"case\":\"$1\"," 'index($0, start) == 1 { value = $0; sub(/.*"value":/, "", value); sub(/,.*/, "", value) }
        END { print value }' "$gpu_scratch/ours" 2>/dev/null || true
}

# What streaming must keep: the share of copy time that kernels hide, and that the device does not wait for its batch.
train_hold() {
    local work least hidden wait
    while read -r work least; do
        hidden=$(program_figure "$work bf16 streaming: copy time hidden by kernels")
        wait=$(program_figure "$work bf16 streaming: batch wait")
        gpu_row "$work: hidden share of copies, at least $least" "$hidden" share "$(gpu_verdict "h >= $least" h="$hidden")" \
            "kernels busy $(program_figure "$work bf16 streaming: kernels busy (ceiling of hiding)")"
        gpu_row "$work: batch wait, at most 0.01" "$wait" share "$(gpu_verdict 'w <= 0.01' w="$wait")"
    done <<<$'G1 0.80\nG2 0.95\nG3 0.95'
}

# -- peers

# Multiply-adds of one sample of G3, forward and twice backward, as the peers count them: 6 x parameters.
readonly peers_g3_flop=314695686

# The figure of a peer's JSON line for this work: batch 256 and 256 units, 8192 and 256, 8192 and 4096.
peers_figure() {    # KIND WORK
    local batch=8192 units=256
    [ "$2" != G1 ] || batch=256
    [ "$2" != G3 ] || units=4096
    grep "\"kind\": \"$1\"" "$gpu_out/peers.jsonl" 2>/dev/null | grep "\"batch\": $batch," | grep "\"h\": $units," |
        sed -n 's/.*"samples_s": \([0-9.eE+]*\).*/\1/p' | tail -n 1 || true
}

peers_run() {    # SECONDS SCRIPT ARGUMENT...
    local seconds=$1 script=$gpu_place/shared/peers/$2 code=0
    shift 2
    [ -f "$script" ] || { gpu_row "peer $(basename "$script")" "" "not packed" bad; return 0; }
    gpu_limit "$seconds" python3 "$script" "$@" >"$gpu_scratch/said" 2>"$gpu_scratch/peer" || code=$?
    tee -a "$gpu_out/peers.jsonl" <"$gpu_scratch/said"
    [ "$code" -eq 0 ] || tail -n 5 "$gpu_scratch/peer"
    gpu_row "peer $(basename "$script"): exit" "$code" code "$(gpu_verdict 'c == 0' c="$code")"
}

peers_compare() {    # WORK
    local ours whole torch jax good='' unit
    # Steady is what the peers time, steps after the first; the whole run has also what they leave out.
    ours=$(program_figure "$1 bf16 streaming, steady") whole=$(program_figure "$1 bf16 streaming, whole run")
    torch=$(peers_figure torch_best_stream "$1") jax=$(peers_figure jax_scan_resident "$1")
    gpu_row "$1: ours, streaming, steady" "$ours" samples/s
    gpu_row "$1: ours, streaming, whole run" "$whole" samples/s
    gpu_row "$1: PyTorch, streaming" "$torch" samples/s
    gpu_row "$1: JAX, resident" "$jax" samples/s
    [ "$1" = G3 ] || good=$(gpu_verdict 'o >= 2 * t' o="$ours" t="$torch")
    gpu_row "$1: steady over PyTorch's streaming" "$(peers_ratio "$ours" "$torch")" ratio "$good"
    gpu_row "$1: whole run over PyTorch's streaming" "$(peers_ratio "$whole" "$torch")" ratio
    gpu_row "$1: steady over JAX resident" "$(peers_ratio "$ours" "$jax")" ratio
    [ "$1" = G3 ] || return 0
    unit=$(awk -v f=$peers_g3_flop 'BEGIN { printf "%.9g", 1e12 / f }')
    gpu_row 'G3: ours, streaming, steady: multiplications' "$(peers_ratio "$ours" "$unit")" TFLOP/s \
        "$(gpu_verdict "o * $peers_g3_flop >= 650e12" o="$ours")"
}
peers_ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (a > 0 && b > 0) printf "%.3f", a / b }'; }

phase_peers() {
    local work
    export TORCHINDUCTOR_CACHE_DIR=$gpu_scratch/inductor TRITON_CACHE_DIR=$gpu_scratch/triton
    : >"$gpu_out/peers.jsonl"
    program_rows 200 gpu_train cuda fixtures streaming
    train_hold
    peers_run 120 torch_gpu_streaming.py
    peers_run 60 torch_gpu.py quick
    peers_run 120 jax_gpu.py
    for work in G1 G2 G3; do peers_compare "$work"; done
}
