# Work that scripts/test begins before its stage: packages, environments, builds and whole checks of later stages.
# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # variables of scripts/test

# follows STAGE: whether it is asked for, but not first.
follows() { [[ " ${stages[*]:1} " == *" $1 "* ]]; }

# Installs Debian's packages for all requested stages, the most needed first, and then the Python environments: they
# wait for the network, and one processor is enough for them. These checks run again in their place, where little is left
# to do. The rest of the processor time goes to builds and checks of later stages, one after the other (`later`).
begin() {
    local stage name last="" groups=() environments=()
    for stage in "${stages[@]}"; do
        case $stage in
            quick) environments[0]=quick_env ;;
            browser) groups+=(page); environments[0]=python_env ;;
            deploy) groups+=(deploy); environments[0]=python_env ;;
            training) groups+=(training); environments[1]=training_env ;;
            container) groups+=(container deploy) ;;
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
    ! follows asan || later "build asan" build asan
    begun[fuzz]=${begun["build asan"]:-}
    ! follows asan || later "conformance (asan)" run_ctest asan -L conformance ${short:+-LE long}
    ! follows tsan || later "build tsan" build tsan --target threads
    ! follows arm || later "build arm" begin_arm
    { ! follows cuda || [ -z "$(nvcc_here)" ]; } || later "library, registers and spills of the kernels" check_kernels
    ! follows lint || lint later
    set +m
}
begin_installing() {
    [ ${#stages[@]} -eq 1 ] || scripts/deps test
    exec 9>&-
    [ ${#groups[@]} -eq 0 ] || scripts/deps "${groups[@]}"
    for name in "${environments[@]}"; do "$name"; done
    case " ${stages[*]} " in *" http "* | *" quick "*) compile_tests ;; esac
}
# Once, or each of the workers that start together does it. The program is not there yet: a file that asks it is compiled, and
# reports an error, which its stage will report.
compile_tests() { nice -n 19 "$(quick_python)/bin/pytest" --collect-only "${pytest_options[@]}" tests/http >/dev/null 2>&1; }
check_kernels() { ARCHITECTURES=${short:+80 90} scripts/check-kernels; }
begin_arm() { arm_packages && build arm --target linnet conformance golden; }

# later NAME COMMAND...: begins the check when the packages are there and the check before has ended; `check` prints its
# result in its place. No other check than one that only computes: no test's limit of time is then near.
later() {
    {
        renice -n 19 -p "$BASHPID" >/dev/null
        flock "$logs/installing" true
        [ -z "$last" ] || tail --pid="$last" -f /dev/null
        "${@:2}"
        printf '%d' $? >"$logs/status of $1"
        times >"$logs/times of $1"
    } >"$logs/early $1" 2>&1 &
    begun[$1]=$! last=$!
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

