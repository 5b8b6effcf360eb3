# scripts/test repeat FILE N: runs one test N times, next to a busy loop on every processor.
# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # variables of scripts/test

# repeat FILE N: other than a check of a stage, a run counts as one, however many tests are in it.
repeat() {
    local file=$1 runs=$2 i start
    built release || return
    if [[ $file == *.py || $file == *.py::* ]]; then
        check "Python packages" python_env || return
        [[ $file != tests/browser/* ]] || check "browser packages" scripts/deps page || return
        set -- run_pytest build "$file" --numprocesses 0
    else
        set -- run_ctest release -R "^$(basename "$file" .c)\$"
    fi
    passed=0 failed=0
    start_load
    for ((i = 1; i <= runs; i++)); do
        start=$SECONDS
        if "$@" >"$logs/output" 2>&1; then
            passed=$((passed + 1))
            printf 'run %d of %d: passed, %d s\n' "$i" "$runs" $((SECONDS - start))
        else
            failed=$((failed + 1))
            cat "$logs/output"
            printf 'run %d of %d: failed, %d s\n' "$i" "$runs" $((SECONDS - start))
        fi
    done
    end_load
}

# A busy loop on every processor, for an hour at most, also if this script is killed.
start_load() {
    local i
    for ((i = 0; i < jobs; i++)); do
        timeout 3600 bash -c 'while :; do :; done' &
        loops+=($!)
    done
}
end_load() {
    [ ${#loops[@]} -gt 0 ] || return 0
    kill "${loops[@]}" 2>/dev/null
    wait "${loops[@]}" 2>/dev/null
    loops=()
}

