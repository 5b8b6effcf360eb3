# check NAME COMMAND: runs the command of a stage, and counts its tests, its seconds and its processor time.
# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # variables of scripts/test

# used FILE...: the seconds of processor in files with the output of `times`: processes that ended. A subshell has a count of
# its own.
used() {
    awk 'FNR == 2 { split($1 "m" $2, t, /[ms]+/); sum += (t[1] + t[3]) * 60 + t[2] + t[4] } END { printf "%d", sum }' "$@" /dev/null
}
# The seconds of processor of all processes that ended, without the checks that began early.
cpu_seconds() {
    shopt -s nullglob
    echo $(($(used "$logs/times") - $(used "$logs/times of "*)))
}

# check NAME COMMAND...: runs the command and counts its tests, or itself as one.
check() {
    local name=$1 start=$SECONDS before early=0 status good bad
    shift
    times >"$logs/times"
    before=$(cpu_seconds)
    [ -z "${begun[$name]:-}" ] || wait "${begun[$name]}"
    printf '\n--- %s\n' "$name"
    if [ -e "$logs/status of $name" ]; then
        set -- came_of "$name"
        early=$(used "$logs/times of $name")
    fi
    "$@" 2>&1 | tee "$logs/output"
    status=${PIPESTATUS[0]}
    if [ "$status" -eq 77 ]; then # what the tests of other projects say, too
        left_out+=("$stage: $name")
        printf -- '--- %s: left out\n' "$name"
        return "$status"
    fi
    read -r good bad < <(reported "$logs/output")
    [ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
    [ "$status" -ne 0 ] || [ $((good + bad)) -gt 0 ] || good=1
    passed=$((passed + good)) failed=$((failed + bad))
    [ "$bad" -eq 0 ] || failures+=("$stage: $name ($bad)")
    times >"$logs/times"
    printf -- '--- %s: %d passed, %d failed, %d s, %d s of CPU\n' "$name" "$good" "$bad" $((SECONDS - start)) \
        $(($(cpu_seconds) - before + early))
    return "$status"
}

# The passed and failed tests that CTest's or pytest's closing line in a file reports.
reported() {
    awk '/tests passed, [0-9]+ tests failed out of [0-9]+/ { bad += $4; good += $NF - $4 }
         / in [0-9.]+s/ { for (i = 2; i <= NF; i++) {
             if ($i ~ /^passed/) good += $(i - 1)
             if ($i ~ /^(failed|errors?)/) bad += $(i - 1) } }
         END { print good + 0, bad + 0 }' "$1"
}

