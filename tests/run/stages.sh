# The stages of scripts/test except quick, unit, lint and http, which that file has. Each returns at once when one of
# its requirements has failed.
# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # variables of scripts/test

stage_browser() {
    built release || return
    check "Python packages" python_env || return
    check "browser packages" scripts/deps page || return
    check "browser" run_pytest build tests/browser --dist load ${short:+--calm -m "not long"}
}

stage_deploy() {
    built release || return
    check "Python packages" python_env || return
    check "compose" scripts/deps deploy || return
    # In this order: by itself xdist ends with the file of the fewest tests, and test_repeat.py is the longest.
    check "deploy, checkers" run_pytest build tests/checks tests/deploy --no-loadscope-reorder -m "$(not_repeated)"
}

# Every feature that can be left out is left out. The release chooses instruction sets as this build must.
stage_minimal() {
    built release || return
    built minimal --target linnet units || return
    check "unit (minimal)" run_ctest minimal -L unit -L quick -E '^mixer_'
    check "Python packages" python_env || return
    check "http (minimal)" run_pytest build-minimal tests/http/test_left_out.py
}

stage_training() {
    built release || return
    check "training packages" scripts/deps training || return
    check "training environment" training_env || return
    local files
    mapfile -t files < <(marked training)
    # Of more processes than processors the threads would wait for one another.
    OMP_NUM_THREADS=1 venv=build/training check "training" run_pytest build "${files[@]}" -m training
}

stage_container() {
    check "container" tests/container.sh here
}

stage_package() {
    check "package" tests/package.sh
    check "package for 64-bit ARM" env ARCH=arm64 tests/package.sh
}

stage_asan() {
    built asan || return
    check "conformance (asan)" run_ctest asan -L conformance ${short:+-LE long}
    check "unit (asan)" run_ctest asan -L unit ${short:+-LE long}
    check "Python packages" python_env || return
    local files
    mapfile -t files < <(marked asan)
    check "http (asan)" run_pytest build-asan "${files[@]}" -m "asan and not heavy${short:+ and not long}"
}

nvcc_here() { type -P nvcc /usr/local/cuda/bin/nvcc; }

# Compiled and linked for every architecture, and run where a GPU is; says which it did.
stage_cuda() {
    if ! nvcc_here >/dev/null; then
        left_out+=("cuda: no nvcc here, the CUDA back end is not compiled")
        return
    fi
    check "library, registers and spills of the kernels" check_kernels
    if ! nvidia-smi -L >/dev/null 2>&1; then
        # The programs are those of the release.
        left_out+=("cuda: no GPU here, the CUDA back end is compiled and linked; its kernels run on the CPU (tests/simt)")
        return
    fi
    built cuda || return
    check "conformance on the GPU" build-cuda/conformance --backend cuda
    check "the laws of every kind on the GPU" build-cuda/test_mixers all cuda
    for model in weights/{cifar10,couplet,mnist,mnist-softmax,poem} weights/copy/*/; do
        case $model in
            */lsh/ | */memory_compressed/) echo "cuda: golden $model: its kind is not on the GPU" ;;
            weights/copy/*) check "golden $model on the GPU" build-cuda/golden "$model" tests/golden/copy cuda ;;
            *) check "golden $model on the GPU" build-cuda/golden "$model" "tests/golden/${model#weights/}" cuda ;;
        esac
    done
}

stage_fuzz() {
    local seconds=4
    [ -z "$short" ] || seconds=2
    check "fuzz" tests/fuzz/run "$seconds"
}

stage_tsan() {
    built tsan --target threads || return
    check "unit (tsan)" run_ctest tsan -L threads
    check "Python packages" python_env || return
    local files
    mapfile -t files < <(marked tsan)
    check "http (tsan)" run_pytest build-tsan "${files[@]}" -m "tsan and not heavy"
}

stage_arm() {
    built release || return
    check "packages for 64-bit ARM" arm_packages || return
    built arm --target linnet conformance golden || return
    check "64-bit ARM" tests/arm.sh ${short:+--few} build build-arm
}

# Many packages, in an environment of their own: some tolerate only one version of a common package.
stage_clients() {
    built release || return
    check "clients" clients_env || return
    LINNET="build/linnet" check "clients of others" build/clients/bin/pytest -q -rs -p no:cacheprovider --timeout 600 tests/clients
}

stage_nightly() {
    built release && check "Python packages" python_env &&
        TEXTS_PART=1 check "all lines of the test set, all texts for each tokenizer" run_pytest build tests/http/test_{answers,tokenize}.py &&
        VARIATIONS=200 check "values of all keys of config.json" run_pytest build tests/http/test_hf_variations.py &&
        LARGE_FOLDER_MB=3000 check "a folder of 3 GB" run_pytest build tests/http/test_large_folder.py &&
        check "quality of couplets, answers of 300 schemas" run_pytest build tests/quality
    check "races of the CUDA kernels, further orders, whole models" run_ctest release -L nightly
    check "what the tests of the CUDA back end notice" tests/simt/mutate.py --jobs "$jobs" --least 95 --out "$logs/mutants"
    check "training packages" scripts/deps training && check "training environment" training_env &&
        TUTORIAL_MINUTES=2 venv=build/training check "the tutorial with its minutes" run_pytest build tests/http/test_own_docs.py
    check "clang-tidy, as far as it goes" tidy
    built release && check "packages for 64-bit ARM" arm_packages && built arm --target linnet conformance golden &&
        check "64-bit ARM, all" tests/arm.sh --all build build-arm
    check "image for 64-bit ARM" tests/container.sh arm64
    check "fuzz, an hour each" tests/fuzz/run 3600
    fetch_tools prometheus/prometheus
    check "campaigns" tests/campaign/run
}

