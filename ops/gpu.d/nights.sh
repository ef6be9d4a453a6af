# nights.sh - ops/gpu nights: the real data sets as whole nights on the real clock. Sourced by ops/gpu.
# shellcheck shell=bash disable=SC2154,SC2034  # names are shared with ops/gpu

# One night of a data set: its exit, its metric inside the band that one seed has on the cpu, what decided.
nights_one() {    # BACKEND CONFIG PRECISION SEED METRIC LEAST MOST
    local name=$2.$1.$3.$4 title="night $2 $1 $3 seed $4"
    night_go "$name" "$2" 150 --set "device.backend=$1" --set "train.precision=$3" --set "train.seed=$4"
    nights_metric=$(night_metric "$5")
    gpu_row "$title: exit" "$night_code" code "$(gpu_verdict 'c == 0' c="$night_code")" \
        "${night_decided:+$night_decided: $(night_reason "$name" "$night_decided")}"
    gpu_row "$title: $5" "$nights_metric" '' "$(gpu_verdict "v >= $6 && v <= $7" v="$nights_metric")"
    gpu_row "$title" "$night_seconds" s
}
nights_metric=''

# The means of the seeds on both back ends, and the same night twice: in a home of its own, and again in the same slot.
nights_adult() {    # BACKEND
    local seed sum=0 reference=0 first seeds=(1 2 3)
    [ "$1" != cpu ] || seeds=(1)
    for seed in "${seeds[@]}"; do
        nights_one "$1" adult bf16 "$seed" auc 0.905 0.92
        sum="$sum + ${nights_metric:-nan}"
        [ "$seed" != 1 ] || first=$(night_sealed "adult.$1.bf16.1")
    done
    night_go adult.again adult 150 --set "device.backend=$1" --set train.precision=bf16 --set train.seed=1
    gpu_same "night adult $1: two runs seal the same bytes" "$first" "$(night_sealed adult.again)"
    night_go "adult.$1.bf16.1" adult 150 --retry --set "device.backend=$1" --set train.precision=bf16 --set train.seed=1
    gpu_row "night adult $1, the same slot again: exit" "$night_code" code "$(gpu_verdict 'c == 0' c="$night_code")" \
        "$(tail -n 1 "$(night_home "adult.$1.bf16.1").log")"
    [ "$1" != cpu ] || return 0
    for seed in "${seeds[@]}"; do
        nights_one cpu adult bf16 "$seed" auc 0.905 0.92
        reference="$reference + ${nights_metric:-nan}"
    done
    sum=$(awk "BEGIN { printf \"%.5f\", ($sum) / ${#seeds[@]} }" 2>/dev/null) || sum=''
    reference=$(awk "BEGIN { printf \"%.5f\", ($reference) / ${#seeds[@]} }" 2>/dev/null) || reference=''
    gpu_row "night adult: auc, mean of ${#seeds[@]} seeds, $1" "$sum" ''
    gpu_row "night adult: auc, mean of ${#seeds[@]} seeds, cpu" "$reference" ''
    gpu_row 'night adult: means apart' "$(awk -v a="$sum" -v b="$reference" 'BEGIN { printf "%.5f", a < b ? b - a : a - b }')" '' \
        "$(gpu_verdict 'a - b <= 0.002 && b - a <= 0.002' a="$sum" b="$reference")"
}

nights_precisions() {    # BACKEND
    nights_one "$1" adult fp32 1 auc 0.905 0.92
    nights_one "$1" adult fp16 1 auc 0.905 0.92
}

nights_others() {    # BACKEND
    nights_one "$1" magic_gamma bf16 1 auc 0.915 0.95
    nights_one "$1" california_housing bf16 1 rmse 40000 52500
}

phase_nights() {    # [BACKEND] [PART]
    local backend=${1:-cuda} part
    night_prepare
    for part in adult precisions others; do
        if [ "${2:-$part}" = "$part" ]; then "nights_$part" "$backend"; fi
    done
}
