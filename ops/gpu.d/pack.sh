# pack.sh - ops/gpu pack: what a machine with a GPU lacks, in one archive. Sourced by ops/gpu.
# shellcheck shell=bash disable=SC2154,SC2034  # names are shared with ops/gpu
#
# gpu/bin/        release: fedgate, fedgate_cuda.so, gpu_*        gpu/faults/  fedgate and its module with planted faults
# gpu/lib/        shared libraries but those of the C library and the compiler, found by $ORIGIN
# gpu/postgresql/ bin/ (starters), lib/ and share/ as PostgreSQL expects them of each other
# gpu/shared/     data and peers, of FEDGATE_SHARED (beside the checkout), never committed
readonly gpu_archive_limit=$((60 * 1024 * 1024))
readonly gpu_data=(adult/adult.data adult/adult.test magic_gamma/magic04.data california_housing/housing.csv)
readonly gpu_peers=(torch_gpu_streaming.py torch_gpu.py jax_gpu.py)

# Libraries of the machine's own: the C library and the compiler's run time must match its driver, not our build.
carry_libraries() {    # FOLDER PROGRAM...
    local folder=$1
    shift
    { ldd "$@" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+|ld-linux[^/]*)\.so' |
        while read -r library; do cp -L "$library" "$folder/"; done
}

# Debian's server finds share/ and lib/ from its own place, when they lie to each other as below /usr. The environment that fedgate
# gives it is empty, so starters name the libraries.
pack_postgresql() {    # FOLDER
    local folder=$1 bin name
    bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
    [ -n "$bin" ] || ops_die "$ops_unavailable" "no PostgreSQL server below /usr/lib/postgresql to pack"
    local version=${bin%/bin}
    version=${version##*/}
    local home=$folder/lib/postgresql/$version
    mkdir -p "$home/bin" "$home/lib" "$folder/share/postgresql" "$folder/libraries" "$folder/bin"
    for name in initdb pg_ctl postgres; do
        install -s "$bin/$name" "$home/bin/"
        cat >"$folder/bin/$name" <<STARTER
#!/bin/sh
at=\$(cd "\$(dirname "\$0")/.." && pwd) || exit 1
LD_LIBRARY_PATH=\$at/libraries exec "\$at/lib/postgresql/$version/bin/$name" "\$@"
STARTER
        chmod 755 "$folder/bin/$name"
    done
    # initdb loads these two; the others are for encodings and extensions nobody asks for.
    cp "${bin%/bin}/lib/"{plpgsql,dict_snowball}.so "$home/lib/"
    cp -r "/usr/share/postgresql/$version" "$folder/share/postgresql/"
    rm -rf "$folder/share/postgresql/$version/"{man,locale}
    mkdir "$folder/zoneinfo"
    cp -L /usr/share/zoneinfo/UTC "$folder/zoneinfo/"
    carry_libraries "$folder/libraries" "$bin/"{initdb,pg_ctl,postgres} "$home/lib/"*.so
}

pack_shared() {    # FOLDER
    local from=${FEDGATE_SHARED:-$ops_root/../shared} name
    for name in "${gpu_data[@]}"; do
        [ -f "$from/data/$name" ] || { ops_say "left out, not there: data/$name"; continue; }
        mkdir -p "$1/data/$(dirname "$name")"
        cp "$from/data/$name" "$1/data/$name"
    done
    mkdir -p "$1/peers"
    for name in "${gpu_peers[@]}"; do
        [ -f "$from/peers/$name" ] || { ops_say "left out, not there: peers/$name"; continue; }
        cp "$from/peers/$name" "$1/peers/"
    done
}

phase_pack() {
    local release=$ops_root/build/gpu-release faults=$ops_root/build/gpu-faults programs size lock
    mkdir -p "$ops_root/build"
    exec {lock}>"$ops_root/build/gpu.lock"
    flock -n "$lock" || ops_die 75 "another ops/gpu pack is at work in $ops_root/build"
    # An old-style run path is inherited by libraries of libraries, and needs no environment: fedgate's children get none.
    local options=(-DFEDGATE_CUDA=ON "-DCMAKE_BUILD_RPATH=\$ORIGIN/../lib" "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags")
    # FEDGATE_CUDA_ARCHITECTURES=90: for one card alone, when time is short. Not asked for, what an earlier pack was told is forgotten.
    if [ -n "${FEDGATE_CUDA_ARCHITECTURES:-}" ]; then options+=("-DFEDGATE_CUDA_ARCHITECTURES=$FEDGATE_CUDA_ARCHITECTURES")
    else options+=(-UFEDGATE_CUDA_ARCHITECTURES); fi
    ops_build gpu-release gpu_programs -DCMAKE_BUILD_TYPE=Release "${options[@]}"
    ops_build gpu-faults gpu_night -DCMAKE_BUILD_TYPE=RelWithDebInfo -DFEDGATE_FAULTS=ON "${options[@]}"
    rm -rf "$gpu_place"
    mkdir -p "$gpu_place"/{bin,faults,lib,postgresql,shared}
    mapfile -t programs < <(find "$release/tests" -maxdepth 1 -name 'gpu_*' -type f -perm -u+x)
    install -s "$release/src/fedgate" "$release/src/fedgate_cuda.so" "${programs[@]}" "$gpu_place/bin/"
    install -s "$faults/src/fedgate" "$faults/src/fedgate_cuda.so" "$gpu_place/faults/"
    carry_libraries "$gpu_place/lib" "$release/src/fedgate" "${programs[@]}"
    pack_postgresql "$gpu_place/postgresql"
    pack_shared "$gpu_place/shared"
    git -C "$ops_root" describe --always --dirty --abbrev=7 >"$gpu_place/commit" 2>/dev/null || echo unknown >"$gpu_place/commit"
    # A pack that is cut off leaves the archive of before, never half of one.
    rm -f "$gpu_archive.new"
    XZ_OPT='-3 -T0' tar -C "$ops_root/build" --owner=0 --group=0 -cJf "$gpu_archive.new" gpu
    mv "$gpu_archive.new" "$gpu_archive"
    touch "$gpu_place/unpacked"
    size=$(stat -c %s "$gpu_archive")
    [ "$size" -lt "$gpu_archive_limit" ] || ops_die 70 "$gpu_archive has $size bytes, more than $gpu_archive_limit"
    ops_say "packed $gpu_archive, $size bytes, commit $(cat "$gpu_place/commit")"
}
