# The parts that the stages of scripts/test are made of: builds, runners, environments.
# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # variables of scripts/test

# built PRESET [OPTIONS...]: builds it, once.
built() {
    [ -z "${built[$*]:-}" ] || return 0
    check "build $1" build "$@" && built[$*]=yes
}

# build PRESET [OPTIONS...]: prints only the output of a build that fails. The configuration stays, or every target
# would look for its headers again. Printing the names of built files would cost a process per file. The release and the
# build of stage minimal compile nearly all files with equal flags, so ccache compiles each of them once if one build follows the
# other; so does the image (tests/container.sh), in a folder of another name. The package, which is
# built twice to compare, has no cache.
build() {
    local in=build-$1
    local -x CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    local -x CCACHE_DIR=${CCACHE_DIR:-$PWD/build/ccache} CCACHE_DEPEND=1 CCACHE_BASEDIR=$PWD CCACHE_SLOPPINESS=locale
    in=${in%-release}
    {
        { { [ -e "$in/Makefile" ] && [ "$in/CMakeCache.txt" -nt CMakePresets.json ] &&
            [ "$(grep -cE '^LINNET_(TESTS|WERROR):[A-Z]*=ON$' "$in/CMakeCache.txt")" = 2 ]; } ||
            cmake --preset "$1" -DLINNET_TESTS=ON -DLINNET_WERROR=ON -DCMAKE_RULE_MESSAGES=OFF -DCMAKE_TARGET_MESSAGES=OFF; } &&
            cmake --build --preset "$1" --parallel "$jobs" "${@:2}"
    } >"$logs/build-$1" 2>&1 || { cat "$logs/build-$1"; return 1; }
}

# The kernels alone are for machines that have only a compiler: they are configured that way, and every file is compiled
# up to semantic analysis. The other builds make and link these files, without further libraries.
build_kernels() {
    {
        cmake -B build-kernels -DCMAKE_BUILD_TYPE=None -DLINNET_WERROR=ON -DLINNET_CUDA=OFF -DLINNET_SERVER=OFF &&
            sed -n 's/^ *"command": "\(.*CMakeFiles\/\(common\|kernels\|conformance\)\.dir\/.*\)",$/\1 -fsyntax-only/p' \
                build-kernels/compile_commands.json | sed 's/\\\(.\)/\1/g' >"$logs/commands" &&
            [ "$(wc -l <"$logs/commands")" -gt 100 ] && xargs -P "$jobs" -d '\n' -n 1 sh -c <"$logs/commands"
    } >"$logs/build" 2>&1 || { cat "$logs/build"; return 1; }
}

run_ctest() {
    ctest --preset "$1" --no-tests=error --parallel "$jobs" "${@:2}"
}

pytest_options=(-q -p no:cacheprovider -p no:schemathesis -p no:hypothesispytest)
# run_pytest BUILD ARGUMENTS...: the tests start BUILD/linnet. Files side by side, two on a processor: most of a
# test's time is waiting, and none depends on how fast the machine is.
run_pytest() {
    local workers=$((2 * jobs))
    [ "$workers" -le 16 ] || workers=16
    local python=${venv:-.venv}/bin
    LINNET="$1/linnet" PATH="$PWD/$python:$PATH" \
        "$python/pytest" "${pytest_options[@]}" -rs --durations=5 --durations-min=5 --timeout 900 \
        --numprocesses "$workers" --dist loadfile "${@:2}"
}

# Pytest's expression for the tests that no later stage repeats word for word, as with the unit tests, nor, for `scripts/test all`,
# take long: empty for all of them.
not_repeated() {
    local tests=""
    ! follows asan || tests="(not asan or heavy or tsan)"
    ! follows training || tests="${tests:+$tests and }not training"
    [ -z "$short" ] || tests="${tests:+$tests and }not long"
    echo "$tests"
}

# marked NAME: the HTTP test files with a test of this marker (tests/pytest.ini).
marked() { tests/run/list.py --marked "$1" tests/http tests/checks; }

# on_files [-v] PATTERN COMMAND...: runs the command on the files of the tree that match, or with -v do not.
on_files() {
    local options=(-E)
    [ "$1" != -v ] || { options+=(-v); shift; }
    git ls-files -z --cached --others --exclude-standard --deduplicate |
        grep -z "${options[@]}" "$1" | existing | xargs -0 -r "${@:2}"
}

# Versions of clang-format disagree; the tree follows that of Debian 12.
formatted() {
    clang-format --version | grep -q 'version 14\.' || { echo "not version 14: $(clang-format --version)"; return 77; }
    on_files '\.[ch]$' clang-format --dry-run -Werror
}

# Prints the names on standard input that exist: git also lists files just deleted.
existing() {
    local name
    while IFS= read -r -d '' name; do
        [ ! -f "$name" ] || printf '%s\0' "$name"
    done
}

# tidy [NODES]: 16 files per process, whose start takes a fifth of the time of a file. Counts of suppressed warnings and names of
# files without a finding are noise. NODES bounds how far the static analyzer follows a function. 10,000 take a tenth of the
# time of the default, 225,000, which the stage nightly has. kernels/cuda is left out: it is compiled with CUDA's headers or
# with their twins, and a checker that finds both reads neither. Instruction sets of other processors are left out too,
# because this build does not compile them.
tidy() {
    cmake --preset asan -B build-tidy >"$logs/build-tidy" 2>&1 || { cat "$logs/build-tidy"; return 1; }
    on_files '^((common|model|server)/.*|kernels/[^/]*|kernels/(cpu|reference)/[^/]*|kernels/ops/[a-z_]+/(cpu|op|reference)[a-z_]*)\.c$' printf '%s\n' |
        while read -r file; do
            [[ $file != kernels/cpu/isa_* ]] || grep -qF "/$file\"" build-tidy/compile_commands.json || continue
            printf '%s\n' "$file"
        done |
        xargs -P "$jobs" -n 16 clang-tidy -quiet -p build-tidy --extra-arg=-UNDEBUG --extra-arg=-Xclang \
            --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=max-nodes="${1:-225000}" \
            2> >(grep -vE 'warnings? generated|^\[[0-9]+/[0-9]+\] Processing file' >&2)
}

# Where they are not to be had, the stage is left out.
arm_packages() {
    scripts/deps arm && type -P aarch64-linux-gnu-gcc qemu-aarch64-static >/dev/null && return
    echo "arm: no compiler for 64-bit ARM, or no qemu, can be installed here; nothing was built or run"
    return 77
}

# environment FOLDER FILE PATTERN [OPTIONS...]: a virtual environment with the packages of a file whose lines match, made anew
# when they change.
environment() {
    ! grep -E "$3" "$2" | cmp -s - "$1/made" || return 0
    rm -rf "$1" && /usr/bin/python3 -m venv "${@:4}" "$1" && grep -E "$3" "$2" >"$logs/wanted" &&
        PIP_ROOT_USER_ACTION=ignore "$1/bin/pip" install -q --disable-pip-version-check -r "$logs/wanted" && cp "$logs/wanted" "$1/made"
}
python_env() { environment .venv tests/requirements.txt . && { [ -e .venv/tools ] || fetch_tools; }; }
# The packages that the HTTP tests with the marker quick need, unless all are there.
quick_env() {
    if [ -e .venv/made ]; then python_env; else environment build/quick tests/requirements.txt '^(pytest|openai|tokenizers|numpy|jsonschema)'; fi
}
quick_python() { if [ -e .venv/made ]; then echo .venv; else echo build/quick; fi; }
# For the tests that train: Debian's PyTorch and its numpy.
training_env() { environment build/training tests/requirements.txt '^(pytest|PyYAML|tensorboard|tokenizers|openai)' --system-site-packages; }
# Many packages, in an environment of their own: some tolerate only one version of a common package.
clients_env() { environment build/clients tests/clients/requirements.txt .; }

# promtool and amtool alone, out of Debian's packages, which would also install and start the servers. With arguments: these
# programs, PACKAGE/PROGRAM.
fetch_tools() {
    local package tool
    [ $# -gt 0 ] || set -- prometheus/promtool prometheus-alertmanager/amtool
    for package in "$@"; do
        tool=${package#*/} package=${package%/*}
        type -P "$tool" >/dev/null && continue
        (cd "$logs" && apt-get download -qq -o APT::Sandbox::User="$(id -un)" "$package" &&
            dpkg-deb --fsys-tarfile "$package"_*.deb | tar -xO "./usr/bin/$tool" >"$tool" &&
            install "$tool" "$OLDPWD/.venv/bin/$tool") ||
            echo "$tool could not be fetched; the test that uses it will say so"
    done
    touch .venv/tools # once, whatever came of it
}

