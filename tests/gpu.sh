#!/usr/bin/env bash
# Everything that only a GPU can show, in one command and under 8 minutes: builds the CUDA back end, holds it
# against the oracle and the golden fixtures, looks for wrong accesses and races, measures; a short table last.
#
#   tests/gpu.sh              with the packages of `scripts/deps test` where they are installed
#   tests/gpu.sh FOLDER       with the *.deb files of this folder unpacked beside the build, and Python
#                             packages for the peers in FOLDER/python (as `pip install --target` lays them)
#   tests/gpu.sh --fetch FOLDER   fills FOLDER with these *.deb files, on a Debian machine with a network
#
# Without the server's packages only the kernels and their tests are built, and the table says what was
# left out. Needs nvcc, cmake, a C compiler and an NVIDIA GPU; numpy for the benchmark and PyTorch for the
# peers, where python3 has them. The whole output of every line is in build-gpu/NAME.log.
# Exit status 1 if a check failed (not for a target missed), 2 if there is no GPU or no compiler.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
export build="build-gpu" server=OFF name=
# Seconds for everything. A step's limit is what it may take at most; together they are more than this, as few come near
# theirs, so what bounds the whole is that no step gets more than is left (run). What is then not run is no success.
table=() failed=0 whole=470

no() { echo "tests/gpu.sh: $1" >&2; exit 2; }

# What the server and its tests are built with and need at run time, without what every system has. The
# closure is named, for a machine of another distribution may have none of it.
packages="pkg-config pkgconf pkgconf-bin libpkgconf3 libmicrohttpd-dev libmicrohttpd12 libgnutls28-dev libgnutls30
    libjansson-dev libjansson4 libpng-dev libpng16-16 libfreetype-dev libfreetype6 libbrotli-dev libbrotli1 zlib1g-dev zlib1g libpcre2-dev libpcre2-8-0 libpcre2-16-0 libpcre2-32-0 libpcre2-posix3
    libunistring-dev libhiredis-dev libhiredis0.14 libcmocka-dev libedit-dev libedit2 libbsd-dev libbsd0 libmd-dev libmd0 libncurses-dev
    libncurses6 libncursesw6 libtinfo6
    libsndfile1-dev libsndfile1 libflac-dev libflac12 libogg-dev libogg0 libvorbis-dev libvorbis0a libvorbisenc2 libvorbisfile3
    libopus-dev libopus0 libmp3lame0 libmpg123-dev libmpg123-0 libsamplerate0-dev libsamplerate0
    libkissfft-dev libkissfft-float131
    libcmocka0 nettle-dev libnettle8 libhogweed6 libgmp10 libp11-kit-dev libp11-kit0 libffi8 libidn2-0 libidn2-dev
    libunistring2 libtasn1-6 libtasn1-6-dev"
if [ "${1:-}" = --fetch ]; then
    mkdir -p "${2:?tests/gpu.sh --fetch FOLDER}" && cd "$2" || exit 2
    # shellcheck disable=SC2086 # a list of words
    apt-get download -qq -o APT::Sandbox::User="$(id -un)" $packages && du -sh .
    exit
fi

nvidia-smi -L >/dev/null 2>&1 || no "no GPU here (nvidia-smi finds none)"
nvcc=$(type -P nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || no "no nvcc here"
mkdir -p "$build"

# run NAME SECONDS COMMAND...: a command or function, its output in a file; no longer than there is time for all.
run() {
    local limit=$2
    [ $((whole - SECONDS)) -gt "$limit" ] || limit=$((whole - SECONDS))
    [ "$limit" -gt 0 ] || return 124
    name=$1 timeout "$limit" bash -c '"$@"' run "${@:3}" >"$build/$1.log" 2>&1
}

# check NAME SECONDS COMMAND...: one line of the table.
check() {
    local name=$1 limit=$2 start=$SECONDS status said
    run "$@"
    status=$?
    said=$(grep -E 'passed, [0-9]+ failed|ERROR SUMMARY|RACECHECK SUMMARY' "$build/$name.log" | tail -1)
    if [ "$status" -eq 0 ]; then
        table+=("$(printf '%-22s ok      %4d s  %s' "$name" $((SECONDS - start)) "$said")")
        return 0
    fi
    failed=$((failed + 1))
    [ "$status" -ne 124 ] || said="longer than $limit s, or no time left"
    table+=("$(printf '%-22s FAILED  %4d s  %s' "$name" $((SECONDS - start)) "$said")")
    tail -20 "$build/$name.log"
    return 1
}

left_out() { table+=("$(printf '%-22s left out: %s' "$1" "$2")"); }

# The packages' files under $build/root, and where pkg-config, the compiler and the loader look for them.
unpack() {
    local root=$PWD/$build/root folder file machine libraries
    machine=$(uname -m)-linux-gnu
    folder=$(cd "$1" && pwd) || no "no folder $1"
    mkdir -p "$root"
    for file in "$folder"/*.deb; do
        dpkg -x "$file" "$root" || no "$file cannot be unpacked"
    done
    find "$root" -type l -lname '/*' -print0 | while IFS= read -r -d '' file; do
        ln -sfn "$root$(readlink "$file")" "$file" # links name places of the whole system
    done
    libraries=$root/usr/lib/$machine
    export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$root/usr/share/pkgconfig
    export LD_LIBRARY_PATH=$libraries:$root/lib/$machine${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export CMAKE_PREFIX_PATH=$root/usr # hiredis.pc names a folder that it is not in
    export LDFLAGS="-L$libraries -Wl,-rpath-link,$libraries" PATH=$root/usr/bin:$PATH
    [ ! -d "$folder/python" ] || export PYTHONPATH=$folder/python${PYTHONPATH:+:$PYTHONPATH}
}

[ $# -eq 0 ] || unpack "$1"
if pkg-config --exists libmicrohttpd jansson gnutls libpng freetype2 zlib libpcre2-8 hiredis sndfile samplerate kissfft-float cmocka 2>/dev/null; then server=ON; fi

configure_and_build() {
    local capability
    local targets="kernels_cuda conformance gpu_copy gpu_kernels gpu_graphs"
    [ $server = OFF ] || targets+=" linnet golden test_mixers http_load"
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
    cmake -B "$build" -DCMAKE_BUILD_TYPE=Release -DLINNET_CUDA=ON -DLINNET_TESTS=ON -DLINNET_SERVER=$server \
        -DLINNET_CUDA_ARCHITECTURES="$capability-real" -DCMAKE_CUDA_COMPILER="$nvcc" || return
    # shellcheck disable=SC2086 # a list of words
    cmake --build "$build" --parallel "$(nproc)" --target $targets
}

# These tests leave a back end out that cannot be opened; here that is a failure.
on_gpu() {
    "$@" || return
    if grep -qE 'cuda.*not on this machine|skipped: cuda' "$build/$name.log"; then
        echo "cuda was left out: 0 passed, 1 failed"
        return 1
    fi
}

# The models that copy, one a kind of attention; two kinds are not on a GPU.
golden_copies() {
    local model
    for model in weights/copy/*/; do
        case $model in
            */lsh/ | */memory_compressed/) ;;
            *) "$build/golden" "$model" tests/golden/copy cuda || return ;;
        esac
    done
}

# Each kernel, for one stream, for a small batch and for a large one, and what part of the roofline that is.
kernel_times() {
    local rate rows
    rate=$("$build/gpu_copy" | tr -dc 0-9.) || return
    for rows in 1 256 8192; do
        "$build/gpu_kernels" "$rows" "$rate" && "$build/gpu_kernels" "$rows" "$rate" own || return
    done
}
export -f configure_and_build on_gpu golden_copies kernel_times
export nvcc

# --- checks

export LD_LIBRARY_PATH=$PWD/$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
sanitizer=$(type -P compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
# A test of each operation, at odd sizes and of few launches (scripts/check-cuda).
small="attend_matches_oracle,linear_rounds_inputs_as_it_says,norm_matches_oracle,sample_rows_are_independent"
small+=",mixture_rows_are_independent,embed_adds_table_rows,gather_copies_output_rows"
small+=",rows_give_the_classical_formula,thousands_of_rows_match_oracle,recurrence_neighbours_do_not_matter"
small+=",chunks_match_oracle,gate_matches_oracle,head_norm_matches_oracle,kept_inputs_match_oracle"
small+=",bonus_matches_oracle,rotary_matches_oracle"
if check build 200 configure_and_build; then
    check rows-independent 60 on_gpu "$build/conformance" --backend cuda --test linear_rows_are_independent,linear_matches_oracle
    check graphs 30 "$build/gpu_graphs"
    check conformance 90 on_gpu "$build/conformance" --backend cuda
    check equal-bytes 30 on_gpu "$build/conformance" --threads 1 \
        --test every_cpu_gives_equal_bytes,mixture_has_equal_bytes_on_every_cpu
    if [ $server = ON ]; then
        check golden-couplet 30 "$build/golden" weights/couplet tests/golden/couplet cuda
        check golden-mixture 30 "$build/golden" tests/golden/mixture tests/golden/mixture cuda
        check golden-mnist 30 "$build/golden" weights/mnist tests/golden/mnist cuda
        check golden-mnist-softmax 30 "$build/golden" weights/mnist-softmax tests/golden/mnist-softmax cuda
        check golden-cifar10 30 "$build/golden" weights/cifar10 tests/golden/cifar10 cuda
        check golden-poem 30 "$build/golden" weights/poem tests/golden/poem cuda
        check golden-copies 40 on_gpu golden_copies
        check mixers 60 on_gpu "$build/test_mixers" all cuda
    else
        left_out golden "built without the server's packages"
    fi
    if [ -x "$sanitizer" ]; then
        # Our kernels alone: every one of them takes a structure of that name.
        ours=()
        ! "$sanitizer" --help | grep -q -e --kernel-name || ours=(--kernel-name kns=lx_cuda_)
        for tool in synccheck memcheck racecheck initcheck; do
            check $tool 40 on_gpu "$sanitizer" --tool $tool "${ours[@]}" --error-exitcode 9 \
                "$build/conformance" --backend cuda --test "$small"
        done
    else
        left_out compute-sanitizer "not installed"
    fi
fi

# --- benchmark: its lines come into the table, and a target that is missed is no failure of a check

# measure NAME SECONDS COMMAND...
measure() {
    local name=$1 start=$SECONDS
    run "$@"
    case $? in
        0) table+=("$(printf '%-22s ok      %4d s' "$name" $((SECONDS - start)))") ;;
        1) table+=("$(printf '%-22s missed  %4d s  (a target, or see %s)' "$name" $((SECONDS - start)) "$build/$name.log")") ;;
        *) left_out "$name" "failed or took longer than $2 s" ;;
    esac
    mapfile -t -O ${#table[@]} table <"$build/$name.log"
}

[ $failed -ne 0 ] || ! check kernel-times 60 kernel_times || mapfile -t -O ${#table[@]} table <"$build/kernel-times.log"
if [ $failed -eq 0 ] && [ $server = ON ]; then
    if python3 -c 'import numpy' 2>/dev/null; then
        measure benchmark 120 python3 tests/bench/gpu.py --build "$build" --out "$build/benchmark.json"
    else
        left_out benchmark "python3 has no numpy"
    fi
    measure http 60 python3 tests/bench/http_load.py --build "$build" --device cuda --clients 1000 --units rows --seconds 8
elif [ $failed -eq 0 ]; then
    left_out benchmark "built without the server's packages"
    measure copy 20 "$build/gpu_copy"
fi

printf '\n%s\n' "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"
printf '%s\n' "${table[@]}"
printf '%d failed, %d s\n' "$failed" "$SECONDS"
[ "$failed" -eq 0 ]
