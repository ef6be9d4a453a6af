# check.sh - ops/gpu check: what the machine has, and a whole night on its CPU from what was packed. Sourced by ops/gpu.
# shellcheck shell=bash disable=SC2154,SC2034  # names are shared with ops/gpu

fact() { gpu_line '%-22s %s\n' "$1" "${2:-none}"; }
first_line() { "$@" 2>/dev/null | head -n 1 || true; }

check_machine() {
    local tool
    fact kernel "$(uname -sr), $(nproc) cores"
    fact system "$(sed -n 's/^PRETTY_NAME=//p' /etc/os-release | tr -d '"'), $(first_line ldd --version)"
    fact account "uid $(id -u), umask $(umask); nobody: $(first_line getent passwd nobody)"
    fact checkout "$(stat -c '%A %U %n' "$ops_root" "$(dirname "$ops_root")" | tr '\n' ' ')"
    fact zones "$(find /usr/share/zoneinfo -maxdepth 1 2>/dev/null | wc -l) entries, TZ '${TZ:-}', $(date +%Z)"
    fact card "$(nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader 2>/dev/null)"
    fact compiler "$(nvcc --version 2>/dev/null | grep release)"
    for tool in compute-sanitizer ncu nsys cuda-gdb; do
        fact "$tool" "$(command -v $tool || true) $($tool --version 2>/dev/null | grep -i version | head -n 1)"
    done
    fact 'sanitizer filter' "$(compute-sanitizer --help 2>/dev/null | grep -oE '^ *--kernel-(name|regex)[a-z-]*' | tr '\n' ' ')"
    fact python "$(first_line python3 -c 'import sys, torch, jax; print(sys.version.split()[0], torch.__version__, jax.__version__)')"
    fact cupti "$(find /usr/local/cuda*/ /opt -name 'libcupti.so*' 2>/dev/null | tr '\n' ' ')"
    fact cublasLt "$(find /usr/local/cuda*/ /opt -name 'libcublasLt.so*' 2>/dev/null | tr '\n' ' ')"
    fact nvml "$(find / -xdev -name 'libnvidia-ml.so*' 2>/dev/null | tr '\n' ' ')"
    fact 'missing libraries' "$(ldd "$gpu_place"/bin/* "$gpu_place"/faults/* 2>/dev/null | grep 'not found' | sort -u | tr '\n' ' ')"
}

# Whether the driver's list of processes names ours by the number we know it by.
check_processes() {
    local pid seen=''
    (cd "$ops_root" && exec "$gpu_place/bin/gpu_bench" cuda G2) >"$gpu_scratch/bench" 2>&1 &
    pid=$!
    for _ in $(seq 40); do
        sleep 0.25
        kill -0 "$pid" 2>/dev/null || break
        seen=$(nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader 2>/dev/null | tr '\n' ' ')
        [ -z "$seen" ] || break
    done
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    fact 'driver sees' "${seen:-nothing}; ours was $pid"
    fact 'gpu_bench says' "$(tail -n 1 "$gpu_scratch/bench")"
}

phase_check() {
    check_machine
    [ "$FEDGATE_DRIVER" = none ] || check_processes
    night_prepare
    night_go check learnable 120
    fact 'server' "$(first_line "$gpu_scratch/postgresql/bin/postgres" --version), $(stat -c 'runs as %U' "$(night_home check)/pg/data" 2>/dev/null)"
    fact 'night' "$(tail -n 1 "$(night_home check).log")"
    # A slow machine may refuse a night on the real clock; packed well, it is judged, and its telemetry is stored.
    gpu_row 'night on the cpu: exit' "$night_code" code "$(gpu_verdict 'c == 0 || c == 10' c="$night_code")"
    gpu_same 'night on the cpu: telemetry stored' "$(night_check check telemetry)" pass
    gpu_row 'night on the cpu' "$night_seconds" s
}
