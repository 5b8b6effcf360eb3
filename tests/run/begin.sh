# Work that scripts/test begins before its stage: packages, environments, builds and whole checks of later stages.
# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # variables of scripts/test

# follows STAGE: whether it is asked for, but not first.
follows() { [[ " ${stages[*]:1} " == *" $1 "* ]]; }

# Installs Debian's packages for all requested stages, the most needed first, and then the Python environments: they
# wait for the network, and one processor is enough for them. The rest of the processor time goes to the builds of later
# stages, and to whole checks of them. A check whose work has begun waits for its end and then runs again: little is
# left to do, and a failure is repeated and printed in its place. A whole check does not run again: see `early`.
begin() {
    local stage name groups=() environments=()
    for stage in "${stages[@]}"; do
        case $stage in
            quick) environments[0]=quick_env ;;
            browser) groups+=(page); environments[0]=python_env ;;
            deploy) groups+=(deploy); environments[0]=python_env ;;
            training) groups+=(training); environments[1]=training_env ;;
            arm) groups+=(arm) ;;
            http | minimal | asan | tsan | nightly) environments[0]=python_env ;;
        esac
    done
    set -m # processes that can be ended together
    exec 9>"$logs/installing"
    flock 9
    begin_installing >"$logs/installed" 2>&1 &
    for name in "other packages" "Python packages" "browser packages" compose "training packages" "training environment" "packages for 64-bit ARM"; do
        begun[$name]=$!
    done
    exec 9>&-
    begin_building >"$logs/builds" 2>&1 &
    for name in "build asan" fuzz "build tsan" clang-tidy "registers and spills of the kernels" "conformance (asan)" "build arm"; do begun[$name]=$!; done
    set +m
}
begin_installing() {
    [ ${#stages[@]} -eq 1 ] || scripts/deps test
    exec 9>&-
    [ ${#groups[@]} -eq 0 ] || scripts/deps "${groups[@]}"
    for name in "${environments[@]}"; do "$name"; done
}
begin_building() {
    renice -n 19 -p "$BASHPID"
    flock "$logs/installing" true
    ! follows asan || build asan
    ! follows tsan || build tsan --target threads
    ! follows lint || early clang-tidy tidy 10000
    ! follows arm || { arm_packages && build arm --target linnet conformance golden; }
    ! follows asan || early "conformance (asan)" run_ctest asan -L conformance
    { ! follows cuda || [ -z "$(nvcc_here)" ]; } || early "registers and spills of the kernels" scripts/check-kernels
}

# early NAME COMMAND...: a whole check, and no other than one that only computes: no test's limit of time is then near.
# `check` prints its result in its place.
early() {
    "${@:2}" >"$logs/early $1" 2>&1
    printf '%d' $? >"$logs/status of $1"
}
came_of() {
    cat "$logs/early $1"
    return "$(cat "$logs/status of $1")"
}

# Its running processes. An installation that is under way ends by itself.
end_begun() {
    local job
    for job in $(jobs -rp); do
        if [ "$job" = "${begun["Python packages"]:-}" ]; then kill "$job"; else kill -- -"$job"; fi
    done 2>/dev/null
    wait
}

