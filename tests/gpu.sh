#!/usr/bin/env bash
# Everything that only a GPU can show, in one command and under 8 minutes: builds the CUDA back end, holds it
# against the oracle, looks for wrong accesses and races, measures; a short table last.
#
#   tests/gpu.sh              with the packages of `scripts/deps build` where they are installed
#   tests/gpu.sh FOLDER       with the *.deb files of this folder unpacked beside the build
#
# Without the server's packages only the kernels and their tests are built, and the table says what was
# left out. Needs nvcc, cmake, a C compiler and an NVIDIA GPU; PyTorch for the peers, where python3 has it.
# Exit status 1 if a check failed, 2 if there is no GPU or no compiler.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
build="build-gpu"
table=() failed=0 begin=$SECONDS

no() { echo "tests/gpu.sh: $1" >&2; exit 2; }
nvidia-smi -L >/dev/null 2>&1 || no "no GPU here (nvidia-smi finds none)"
nvcc=$(type -P nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || no "no nvcc here"
mkdir -p "$build"

# check NAME SECONDS COMMAND...: one line of the table, the output in a file.
check() {
    local name=$1 limit=$2 start=$SECONDS status
    shift 2
    timeout "$limit" "$@" >"$build/$name.log" 2>&1
    status=$?
    local said
    said=$(grep -E 'passed, [0-9]+ failed|ERROR SUMMARY|RACECHECK SUMMARY' "$build/$name.log" | tail -1)
    if [ "$status" -eq 0 ]; then
        table+=("$(printf '%-22s ok      %4d s  %s' "$name" $((SECONDS - start)) "$said")")
        return 0
    fi
    failed=$((failed + 1))
    [ "$status" -ne 124 ] || said="longer than $limit s"
    table+=("$(printf '%-22s FAILED  %4d s  %s' "$name" $((SECONDS - start)) "$said")")
    tail -20 "$build/$name.log"
    return 1
}

left_out() { table+=("$(printf '%-22s left out: %s' "$1" "$2")"); }

# The packages' files under $build/root, and where pkg-config, the compiler and the loader look for them.
unpack() {
    local root=$PWD/$build/root file libraries
    mkdir -p "$root"
    for file in "$1"/*.deb; do
        dpkg -x "$file" "$root" || no "$file cannot be unpacked"
    done
    libraries=$root/usr/lib/$(uname -m)-linux-gnu
    export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$root/usr/share/pkgconfig
    export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LDFLAGS="-L$libraries -Wl,-rpath-link,$libraries" PATH=$root/usr/bin:$PATH
}

[ $# -eq 0 ] || unpack "$1"
server=OFF
if pkg-config --exists libmicrohttpd jansson gnutls libpng zlib hiredis 2>/dev/null; then server=ON; fi

configure_and_build() {
    local capability
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
    cmake -B "$build" -DCMAKE_BUILD_TYPE=Release -DLINNET_CUDA=ON -DLINNET_TESTS=ON -DLINNET_SERVER=$server \
        -DLINNET_CUDA_ARCHITECTURES="$capability-real" -DCMAKE_CUDA_COMPILER="$nvcc" &&
        cmake --build "$build" --parallel "$(nproc)"
}

# --- checks

export LD_LIBRARY_PATH=$PWD/$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
sanitizer=$(type -P compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
if check build 200 configure_and_build; then
    check conformance 120 "$build/conformance" --backend cuda
    if [ $server = ON ]; then
        check golden-couplet 40 "$build/golden" weights/couplet tests/golden/couplet
        check golden-mnist 40 "$build/golden" weights/mnist tests/golden/mnist
    else
        left_out golden "built without the server's packages"
    fi
    if [ -x "$sanitizer" ]; then
        for tool in memcheck racecheck; do
            check $tool 60 "$sanitizer" --tool $tool --error-exitcode 9 \
                "$build/conformance" --backend cuda --test any_schedule_gives_equal_bytes
        done
    else
        left_out compute-sanitizer "not installed"
    fi
fi

# --- benchmark

# state_share BENCH GB_PER_S: lines "batch ms images/s percent-of-bound" of the MNIST model.
state_share() {
    python3 - "$1" "$2" <<'END'
import json, sys
bench, bandwidth = json.load(open(sys.argv[1])), float(sys.argv[2]) * 1e9
for row in bench["rows"]:
    n, ms = row["batch"], row["ms_per_step"]
    bound = 2 * bench["state_bytes"] * n / bandwidth * 1e3
    print(f"linnet, {n:6d} at once {ms:9.3f} ms/step {n / ms * 1e3 / 784:9.1f} images/s "
          f"{100 * bound / ms:5.1f} % of the state's bound")
END
}

measure() {
    local copy
    copy=$("$build/gpu_copy" | tr -dc '0-9.\n') || return 1
    echo "copy $copy GB/s"
    [ $server = ON ] || return 0
    "$build/linnet" bench --backend cuda --model weights/mnist --batch 1,16,256,1024,10000 --steps 50 --json \
        >"$build/bench.json" && state_share "$build/bench.json" "$copy"
    "$build/linnet" bench --backend cuda --model weights/mnist --prefill 392,783 --steps 5
}

peers() { python3 tests/bench/gpu_torch.py --seconds 0.5; }

if [ $failed -eq 0 ]; then
    if check benchmark 90 measure; then mapfile -t -O ${#table[@]} table <"$build/benchmark.log"; fi
    if python3 -c 'import torch' 2>/dev/null; then
        if check peers 60 peers; then mapfile -t -O ${#table[@]} table <"$build/peers.log"; fi
    else
        left_out peers "python3 has no torch"
    fi
fi

printf '\n%s\n' "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"
printf '%s\n' "${table[@]}"
printf '%d failed, %d s\n' "$failed" $((SECONDS - begin))
[ "$failed" -eq 0 ]
