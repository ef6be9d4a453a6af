# faults.sh - ops/gpu faults: one night for each planted fault, each refused by the check that a person would name. Sourced by ops/gpu.
# shellcheck shell=bash disable=SC2154,SC2034  # names are shared with ops/gpu

# NAME | back ends | config on cuda, on cpu | faults | options | exit | checks that may decide
# On the cpu durations are modelled, so that a busy machine cannot change the answers: a trial of this script, not of the faults.
readonly faults_table='
none|cuda cpu|adult learnable_night|||0|
copy.pageable|cuda cpu|adult learnable_night|copy.pageable=1||10|overlap
none on G1|cuda|made|||0|
copy.compute_stream|cuda|made|copy.compute_stream=1|train.batch=1024|10|overlap
step.synchronise|cuda|made|step.synchronise=1||10|overlap fed
train.leak_bytes|cuda cpu|adult learnable_night|train.leak_bytes=100000||10|memory
train.unsynchronised|cuda cpu|adult learnable_night|train.unsynchronised=1||10|plausible
compute.tf32|cuda cpu|adult learnable_night|compute.tf32=1||10|parity
compute.bf16_sums|cuda cpu|adult learnable_night|compute.bf16_sums=1||10|parity
fp16 unscaled|cuda cpu|made quadrants_night||train.precision=fp16 train.scale_initial=1 train.scale_growth=0 MADE_FIT|10|parity
memory.extra_bytes|cuda|adult|memory.extra_bytes=21600000000|device.memory=24GB|10|memory
memory.extra_bytes|cpu|learnable_night|memory.extra_bytes=2097152|train.precision=fp32 train.hidden=1024,512 train.epochs=4 device.threads=1 device.memory=21MB memory.reserve=0 memory.unexplained=0.4|10|memory
feed.refill_early|cuda|adult|feed.refill_early=1||10|determinism
'

# The question of fixtures/quadrants among 32 columns, with rows enough for G1 of design.md section 10 as a night: the sign of a
# product, never near 0, is learned until gradients are so small that FP16 loses them.
faults_make() {
    local columns
    mkdir -p "$gpu_scratch/made"
    LC_ALL=C awk '
        function unit() { state = (state * 16807) % 2147483647; return state / 2147483647 }
        function side(  x) { x = 20 + int(80 * unit()); return unit() < 0.5 ? -x : x }
        BEGIN {
            state = 31416
            for (i = 0; i < 32; i++) printf "x%d,", i
            print "y"
            for (row = 0; row < 65536; row++) {
                for (i = 0; i < 32; i++) printf "%d,", x[i] = side()
                print (x[0] * x[1] > 0)
            }
        }' >"$gpu_scratch/made/rows.csv"
    columns=$(awk 'BEGIN { for (i = 0; i < 32; i++) printf "%sx%d", i ? ", " : "", i }')
    cat >"$gpu_scratch/made.yaml" <<CONFIG
model: made
task: binary
data: {train: [rows.csv], target: y, numeric: [$columns]}
split: {method: modulo, modulo: 5, remainder: 4, validation: 0.1}
train: {hidden: [256, 256], batch: 256, epochs: 20, patience: 20, learning_rate: 0.002, checkpoint_every: 1000}
quality: {metric: auc}
baseline: {name: linear, rule: "x0 > 0 -> 0.6; else -> 0.4"}
CONFIG
}
readonly faults_fit='train.batch=8192 train.epochs=60 train.learning_rate=0.01 train.weight_decay=0 quality.metric=logloss parity.steps=16'

faults_night() {    # TITLE CONFIG FAULTS OPTIONS EXIT CHECKS
    local name=${1//[^a-z0-9]/_} set sets=() reached=bad
    [ "$2" = made ] || set -- "$1" "$2" "$3" "${4/MADE_FIT/}" "$5" "$6"
    for set in train.precision=bf16 ${4/MADE_FIT/$faults_fit}; do sets+=(--set "$set"); done
    FEDGATE_FAULT=$3 night_go "$name" "$2" 120 --set "device.backend=$faults_backend" "${sets[@]}"
    if [ "$night_code" = "$5" ] && [[ " $6 " == *" $night_decided "* || -z $6$night_decided ]]; then reached=good; fi
    gpu_row "fault $1: exit" "$night_code" code "$reached" \
        "${night_decided:+$night_decided: $(night_reason "$name" "$night_decided")}"
}

# A step that never ends: the child is named dead in time, what was live stays live, and the next run finds every lock free.
faults_hang() {
    local fault=compute.hang_step=20 live before model=
    [ "$faults_backend" = cuda ] || { fault=process.kill_step=20 model=clock.model=1; }
    local sets=(--set "device.backend=$faults_backend" --set train.precision=bf16 --set device.timeout=5s)
    FEDGATE_FAULT=$model night_go hang "$faults_config" 120 "${sets[@]}"
    gpu_row 'hang, the night before: exit' "$night_code" code "$(gpu_verdict 'c == 0' c="$night_code")"
    before=$(night_live hang)
    FEDGATE_FAULT=$fault${model:+,$model} night_go hang "$faults_config" 120 --retry "${sets[@]}"
    gpu_row "${fault%=*}: exit" "$night_code" code "$(gpu_verdict 'c == 69' c="$night_code")"
    gpu_row "${fault%=*}" "$night_seconds" s
    live=$(night_live hang)
    gpu_same "${fault%=*}: pointer untouched" "$before" "$live"
    FEDGATE_FAULT=$model night_go hang "$faults_config" 120 --retry "${sets[@]}"
    gpu_row 'hang, the next run: exit' "$night_code" code "$(gpu_verdict 'c == 0' c="$night_code")" "$(tail -n 1 "$(night_home hang).log")"
}

phase_faults() {    # [BACKEND] [NAME]
    local title backends configs faults options code checks
    faults_backend=${1:-cuda}
    night_program=faults/fedgate
    night_prepare
    [ "$faults_backend" = cpu ] || faults_make
    while IFS='|' read -r title backends configs faults options code checks; do
        [[ -n $title && " $backends " == *" $faults_backend "* ]] || continue
        [ -z "${2:-}" ] || [[ $title == *"$2"* ]] || continue
        # shellcheck disable=SC2206  # two words
        configs=($configs)
        if [ "$faults_backend" = cpu ]; then
            faults_night "$title" "${configs[-1]}" "clock.model=1${faults:+,$faults}" "$options" "$code" "$checks"
        else
            faults_night "$title" "${configs[0]}" "$faults" "$options" "$code" "$checks"
        fi
    done <<<"$faults_table"
    faults_config=adult
    [ "$faults_backend" = cuda ] || faults_config=learnable_night
    if [ "${2:-hang}" = hang ]; then faults_hang; fi
}
