# night.sh - one night from the packed program with the packed PostgreSQL, and what is read from it. Sourced by phases of ops/gpu.
# shellcheck shell=bash disable=SC2154,SC2034  # names are shared with ops/gpu
#
# As root, fedgate runs its server under an account without rights: 'nobody' is everywhere. The server's files are copied to a
# place that account can reach. Results of a night: night_code, night_seconds, night_decided, night_run.
night_program=bin/fedgate
night_code='' night_seconds='' night_decided='' night_run=''

night_prepare() {
    cp -r "$gpu_place/postgresql" "$gpu_scratch/postgresql"
    chmod -R a+rX "$gpu_scratch/postgresql"
    export PATH=$gpu_scratch/postgresql/bin:$PATH
    # The server reads zones from this one place; an image without tzdata gets the only zone it is told.
    if [ ! -e /usr/share/zoneinfo/UTC ]; then
        { mkdir -p /usr/share/zoneinfo && cp "$gpu_place/postgresql/zoneinfo/UTC" /usr/share/zoneinfo/; } 2>/dev/null ||
            ops_die "$ops_unavailable" "no time zones here: install tzdata"
        ops_say "no tzdata here: put /usr/share/zoneinfo/UTC in its place"
    fi
    [ "$(id -u)" -ne 0 ] || export FEDGATE_SET_DATABASE__ACCOUNT=nobody
    export FEDGATE_SET_WINDOW__LENGTH=12h
}

night_home() { printf '%s/homes/%s' "$gpu_scratch" "$1"; }

night_data() {    # CONFIG: the folder of its data
    case $1 in
        learnable*) printf '%s/fixtures/learnable' "$ops_root" ;;
        quadrants*) printf '%s/fixtures/quadrants' "$ops_root" ;;
        made*) printf '%s/made' "$gpu_scratch" ;;
        *) printf '%s/shared/data/%s' "$gpu_place" "$1" ;;
    esac
}

# Runs a night in the home of this name, made first when it is not there; log, verdict and evidence stay in it.
night_go() {    # NAME CONFIG SECONDS FEDGATE-RUN-ARGUMENT...
    local name=$1 config=$2 seconds=$3 home begun file
    shift 3
    home=$(night_home "$name")
    file=$ops_root/fixtures/configs/$config.yaml
    [ -f "$file" ] || file=$gpu_scratch/$config.yaml
    [ -d "$home" ] || gpu_limit 60 "$gpu_place/$night_program" init --home "$home" --config "$file" >"$home.log" 2>&1 || {
        tail -n 5 "$home.log" "$home/pg/server.log" 2>/dev/null || true
        night_code=none night_seconds=0 night_decided='no home'
        return 0
    }
    begun=$(date +%s%N)
    night_code=0
    gpu_limit "$seconds" "${night_launcher[@]}" "$gpu_place/$night_program" run --home "$home" \
        --set "data.directory=$(night_data "$config")" "$@" >"$home.out" 2>"$home.log" || night_code=$?
    night_seconds=$(awk -v ns=$(($(date +%s%N) - begun)) 'BEGIN { printf "%.1f", ns / 1e9 }')
    night_decided=$(awk -F'"' '$2 == "decided_by" { print $4; exit }' "$home/last-verdict.json" 2>/dev/null) || true
    night_run=$(find "$home/runs" -mindepth 1 -maxdepth 1 -type d 2>/dev/null | sort | tail -n 1)
    { printf '==== %s: exit %s, %s s\n' "$name" "$night_code" "$night_seconds"; cat "$home.out"
      case $night_code in 0 | 10 | 11) ;; *) tail -n 12 "$home.log" ;; esac; } >>"$gpu_out/$phase-verdicts.txt"
    night_keep "$name"
    # The last line a night logs is its end in one sentence.
    printf '%s: exit %s, %s s: %s\n' "$name" "$night_code" "$night_seconds" "$(tail -n 1 "$home.log")"
}
night_launcher=()

# What its judges saw, and the timeline, of every night, beside the results.
night_keep() {    # NAME
    local file
    [ -n "$night_run" ] || return 0
    mkdir -p "$gpu_out/nights"
    for file in evidence timeline; do
        [ ! -f "$night_run/$file.json" ] || gzip -c "$night_run/$file.json" >"$gpu_out/nights/$1-$file.json.gz"
    done
}

night_check() {    # NAME CHECK: the check's outcome in the last verdict
    awk -F'"' -v check="$2" '$2 == "name" { inside = $4 == check } inside && $2 == "outcome" { print $4; exit }' \
        "$(night_home "$1")/last-verdict.json" 2>/dev/null || true
}
night_reason() {    # NAME CHECK
    awk -F'"' -v check="$2" '$2 == "name" { inside = $4 == check } inside && $2 == "reason" { print $4; exit }' \
        "$(night_home "$1")/last-verdict.json" 2>/dev/null || true
}
night_metric() {    # METRIC: the candidate's
    awk -v key="\"$1\":" '/"candidate": \{/ { inside = 1 } inside && $1 == key { gsub(/,/, "", $2); print $2; exit }
        inside && /\}/ { exit }' "$night_run/evidence.json" 2>/dev/null || true
}
night_live() {    # NAME: the pointer, as the program reads it
    "$gpu_place/$night_program" current --home "$(night_home "$1")" 2>&1 | head -n 1 || true
}
night_sealed() {    # NAME: the digest of what its last run's candidate sealed, live or refused
    local home version file
    home=$(night_home "$1")
    version=$(awk -F'"' '$2 == "version" { print $4; exit }' "$home/last-verdict.json" 2>/dev/null) || return 0
    for file in "$home/releases/$version/manifest.json" "$home/failed/${night_run##*/}/manifest.json"; do
        [ ! -f "$file" ] || { sha256sum "$file" | cut -d' ' -f1; return 0; }
    done
}
