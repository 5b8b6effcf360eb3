#!/usr/bin/env bash
# All checks that need a GPU, in one command and under 8 minutes. Builds the CUDA back end and compares it with the
# oracle and the golden fixtures. Looks for wrong accesses and races, measures, and prints a short table last.
#
#   tests/gpu.sh              with the packages of `scripts/deps test` where they are installed
#   tests/gpu.sh FOLDER       with the *.deb files of this folder unpacked next to the build, and Python
#                             packages for the peers in FOLDER/python (as `pip install --target` lays them)
#   tests/gpu.sh --fetch FOLDER   fills FOLDER with these *.deb files, on a Debian machine with a network
#
# Without the server's packages only the kernels and their tests are built, and the table names the omitted checks.
# Needs nvcc, cmake, a C compiler and an NVIDIA GPU; numpy for the benchmark and PyTorch for the
# peers, where python3 has them. The whole output of every line is in build-gpu/NAME.log.
# GPU_SECONDS (470) bounds the whole. scripts/gpu-pack prepares a checkout for a machine that takes 64 MiB.
# Exit status 1 if a check failed (not for a target missed), 2 if there is no GPU or no compiler.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
export build="build-gpu" server=OFF name=
# Seconds for all steps. A step's limit is its longest time. The sum of the limits is larger than the whole, because few
# steps come near their limit, so `run` gives no step more than the rest of the time. A step that does not run for lack
# of time is no success.
names=() times=() begun=() whole=${GPU_SECONDS:-470}
ulimit -n "$(ulimit -Hn)" 2>/dev/null # a thousand clients, and their server

no() { echo "tests/gpu.sh: $1" >&2; exit 2; }

# The packages that the build and the tests of the server need, without packages that every system has. The closure is
# named, for a machine of another distribution may have none of it.
packages="pkg-config pkgconf pkgconf-bin libpkgconf3 libmicrohttpd-dev libmicrohttpd12 libgnutls28-dev libgnutls30
    libjansson-dev libjansson4 libpng-dev libpng16-16 libfreetype-dev libfreetype6 libbrotli-dev libbrotli1 zlib1g-dev zlib1g libpcre2-dev libpcre2-8-0 libpcre2-16-0 libpcre2-32-0 libpcre2-posix3
    libunistring-dev libhiredis-dev libhiredis0.14 libsqlite3-dev libsqlite3-0 libcmocka-dev libedit-dev libedit2 libbsd-dev libbsd0 libmd-dev libmd0 libncurses-dev
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
# While a process has the device open, the driver need not start it for each of our programs; and the log records the
# device's load.
nvidia-smi dmon -s pucm -o T >"$build/dmon.log" 2>/dev/null &
watcher=$!
trap 'kill "$watcher" 2>/dev/null' EXIT
trap 'exit 1' INT TERM

# run NAME SECONDS COMMAND...: a command or function, its output in a file; no longer than there is time for all.
run() {
    local limit=$2
    [ $((whole - SECONDS)) -gt "$limit" ] || limit=$((whole - SECONDS))
    [ "$limit" -gt 0 ] || return 124
    name=$1 timeout "$limit" bash -c '"$@"' run "${@:3}" >"$build/$1.log" 2>&1
}

# check NAME SECONDS COMMAND...: one line of the table, in $build/NAME.row.
check() {
    names+=("$1")
    checked "$@"
}

# beside NAME SECONDS COMMAND...: runs it in the background, for checks that measure nothing; `ended` waits for all of
# them.
beside() {
    names+=("$1")
    checked "$@" &
    begun+=($!)
}
ended() {
    [ ${#begun[@]} -eq 0 ] || wait "${begun[@]}"
    begun=()
}

checked() {
    local name=$1 limit=$2 start=$SECONDS status said
    run "$@"
    status=$?
    said=$(grep -E 'passed, [0-9]+ failed|ERROR SUMMARY|RACECHECK SUMMARY' "$build/$name.log" | tail -1)
    if [ "$status" -eq 0 ]; then
        row "$name" ok "$start" "$said"
        return 0
    fi
    [ "$status" -ne 124 ] || said="longer than $limit s, or no time left"
    row "$name" FAILED "$start" "$said"
    tail -20 "$build/$name.log"
    return 1
}

# row NAME WORD START TEXT
row() { printf '%-22s %-7s %4d s  %s\n' "$1" "$2" $((SECONDS - $3)) "$4" >"$build/$1.row"; }

left_out() {
    names+=("$1")
    printf '%-22s left out: %s\n' "$1" "$2" >"$build/$1.row"
}

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

# cuBLASLt: of the toolkit, even where the loader does not look there; else that of PyTorch's wheels.
find_cublas() {
    local toolkit wheels header library
    toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
    header=$(find -L "$toolkit" -maxdepth 5 -name cublasLt.h 2>/dev/null | head -1)
    library=$(find -L "$toolkit" -maxdepth 5 -name 'libcublasLt.so.1?' 2>/dev/null | head -1)
    if [ -z "$header" ] || [ -z "$library" ]; then
        wheels=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null) || return 0
        header=$(find -L "$wheels" -name cublasLt.h 2>/dev/null | head -1)
        library=$(find -L "$wheels" -name 'libcublasLt.so.1?' 2>/dev/null | head -1)
        [ -n "$header" ] && [ -n "$library" ] || return 0
        mkdir -p "$build/cublas"
        ln -sfn "$library" "$build/cublas/libcublasLt.so"
        header=$(dirname "$header")
        export CPATH=$header${CPATH:+:$CPATH} CMAKE_LIBRARY_PATH=$PWD/$build/cublas
    fi
    library=$(dirname "$library")
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$library
}

[ $# -eq 0 ] || unpack "$1"
find_cublas
if pkg-config --exists libmicrohttpd jansson gnutls libpng freetype2 zlib libpcre2-8 hiredis sqlite3 sndfile samplerate vorbis ogg libedit kissfft-float cmocka 2>/dev/null; then server=ON; fi

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
export server

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

# The time of each kernel, for one stream, a small batch and a large one, and its part of the roofline.
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
small+=",scan_matches_oracle"
small+=",linear_of_many_has_the_bytes_of_few,a_list_changes_no_draw,bonus_matches_oracle,rotary_matches_oracle"
# golden NAME MODEL FIXTURES: where the model was brought along.
golden() {
    if [ -e "$2/model.safetensors" ]; then
        beside "golden-$1" 60 "$build/golden" "$2" "$3" cuda
    else
        left_out "golden-$1" "no $2"
    fi
}

# measure NAME SECONDS COMMAND...: its lines come into the table, and a target that is missed is no failure of a check.
measure() {
    local name=$1 start=$SECONDS
    names+=("$name")
    run "$@"
    case $? in
        0) row "$name" ok "$start" "" ;;
        1) row "$name" missed "$start" "(a target, or see $build/$name.log)" ;;
        *) row "$name" missed "$start" "failed or took longer than $2 s: $build/$name.log" ;;
    esac
    mapfile -t -O ${#times[@]} times <"$build/$name.log"
}

# The whole model with either product, one line per number of streams.
bench_products() {
    local products
    for products in cublas own; do
        "$build/linnet" bench --device cuda --cuda-products $products --model weights/mnist --batch 1,2,8,16,64,256,1000,4096,10000 --steps 64 || return
    done
    for model in weights/poem weights/copy/softmax; do
        [ ! -e "$model/model.safetensors" ] || "$build/linnet" bench --device cuda --model "$model" --batch 1,64,1000 --steps 64 || return
    done
}
export -f bench_products

rm -f "$build"/*.row
if check build 120 configure_and_build || { [ $server = ON ] && server=OFF && rm -f "$build/CMakeCache.txt" && check build-kernels 60 configure_and_build; }; then
    # Checks that need no other check and measure nothing run at once; then times, alone on the GPU; then the
    # sanitizers. A check that fails keeps no other from running.
    beside rows-independent 30 on_gpu "$build/conformance" --backend cuda --test linear_rows_are_independent,linear_matches_oracle
    beside graphs 60 "$build/gpu_graphs"
    beside conformance 90 on_gpu "$build/conformance" --backend cuda
    beside equal-bytes 60 on_gpu "$build/conformance" --threads 1 \
        --test every_cpu_gives_equal_bytes,mixture_has_equal_bytes_on_every_cpu
    if [ $server = ON ]; then
        for model in mnist poem cifar10 mnist-softmax couplet; do golden $model weights/$model tests/golden/$model; done
        golden mixture tests/golden/mixture tests/golden/mixture
        beside golden-copies 60 on_gpu golden_copies
        beside mixers 90 on_gpu "$build/test_mixers" all cuda
    else
        left_out golden "built without the server's packages"
    fi
    ended
    ! check kernel-times 60 kernel_times || mapfile -t -O ${#times[@]} times <"$build/kernel-times.log"
    if [ $server = ON ]; then
        measure products 60 bench_products
        if python3 -c 'import numpy' 2>/dev/null; then
            measure benchmark 120 python3 tests/bench/gpu.py --build "$build" --out "$build/benchmark.json"
        else
            left_out benchmark "python3 has no numpy"
        fi
        measure http 60 python3 tests/bench/http_load.py --build "$build" --device cuda --threads 4 --clients 1000 --units rows --seconds 6
    else
        measure copy 20 "$build/gpu_copy"
    fi
    if [ -x "$sanitizer" ]; then
        # Our kernels alone: every one of them takes a structure of that name. The runtime's errors are the program's to report.
        ours=(--report-api-errors no)
        ! "$sanitizer" --help | grep -q -e --kernel-name || ours+=(--kernel-name kns=lx_cuda_)
        for tool in memcheck racecheck synccheck; do
            beside $tool 100 on_gpu "$sanitizer" --tool $tool "${ours[@]}" --error-exitcode 9 \
                "$build/conformance" --backend cuda --test "$small"
        done
        # All kernels: bytes that the library wrote count as written only where its kernels are tracked.
        beside initcheck 100 on_gpu "$sanitizer" --tool initcheck --report-api-errors no --error-exitcode 9 \
            "$build/conformance" --backend cuda --test "$small"
        ended
    else
        left_out compute-sanitizer "not installed"
    fi
fi

failed=0
printf '\n%s\n' "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"
printf '%s\n' "${times[@]}" ''
for name in "${names[@]}"; do
    cat "$build/$name.row" || echo "$name FAILED: no row"
    if [ ! -e "$build/$name.row" ] || grep -q ' FAILED ' "$build/$name.row"; then failed=$((failed + 1)); fi
done
printf '%d failed, %d s\n' "$failed" "$SECONDS"
[ "$failed" -eq 0 ]
