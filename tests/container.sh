#!/usr/bin/env bash
# Builds the image of Dockerfile's target cpu and runs it as an operator would, without a Docker daemon. The tools are
# buildah, podman and runc; debootstrap makes the base under the name in the Dockerfile. On another machine than
# 64-bit ARM, it then builds the image for 64-bit ARM from that Dockerfile, and qemu runs it. All files are in a folder
# of their own that is removed at the end. Containers use the host's network, or one of the test's own
# (tests/compose.sh), so that no entry stays in its tables.
#
#   tests/container.sh            all of it; installs the Debian packages that are missing
#   tests/container.sh here       only the image for this machine; arm64: only that for 64-bit ARM
#   KEEP=DIR tests/container.sh   keeps base, layers and image in DIR for the next run
#   BASE=NAME ARCHIVE=FILE        a base image of your own (podman load) instead of debootstrap's
#
# The script reports features that a sandbox forbids, and the substitute. Exit status 1 if a check failed, 77 if nothing
# could be built or run.
# shellcheck disable=SC2317 # functions are called by name, through ok
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tests/emulation.sh
. tests/emulation.sh

readonly LIMIT_MB=160 MEMORY_MB=192 GRACE_S=45
base=${BASE:-debian:bookworm-slim}
work=${KEEP:-$(mktemp -d -p /var/tmp linnet-container.XXXXXX)}
image=localhost/linnet:under-test arm_image=localhost/linnet:under-test-arm64
here=$(dpkg --print-architecture) arm="" # arm: what builds the second
failed=0 mounted="" loaders=() others=()
within=() # what curl and the load are run with
mkdir -p "$work" && : >"$work/log" && rm -f "$work/failed"

say() { printf '%s\n' "$*"; }
# ok TEXT COMMAND...: runs the command and says how it went.
ok() {
    local text=$1
    shift
    if "$@"; then
        say "ok    $text"
    else
        say "FAIL  $text"
        [ -e "$work/failed" ] || cp "$work/answer" "$work/failed" 2>/dev/null # it may say why
        failed=1
        return 1
    fi
}
instead() { say "container: $1; $2"; }

buildah_() { buildah --root "$work/root" --runroot "$work/run" --storage-driver "$driver" "$@"; }
podman_() { podman --root "$work/root" --runroot "$work/run" --storage-driver "$driver" "$@"; }

clean() {
    [ -z "$arm" ] || kill -- "-$arm" 2>/dev/null
    end_emulation
    [ $((${#loaders[@]} + ${#others[@]})) -eq 0 ] || kill "${loaders[@]}" "${others[@]}" 2>/dev/null
    [ -z "${driver:-}" ] || podman_ rm -f -t 1 -a >/dev/null 2>&1
    [ -z "$mounted" ] || buildah_ rm "$mounted" >/dev/null 2>&1
    [ -z "${driver:-}" ] || podman_ volume prune -f >/dev/null 2>&1
    [ -n "${KEEP:-}" ] || { umount "$work"/root/overlay 2>/dev/null; rm -rf --one-file-system "$work"; }
}
trap clean EXIT
trap 'exit 1' INT TERM

# --- features of this machine

tools() {
    [ "$(id -u)" -eq 0 ] || { instead "not root" "nothing was built or run"; return 1; }
    awk '$5 == "/" { found = 1 } END { exit !found }' /proc/self/mountinfo || {
        instead "/ is no mount here (a plain chroot), so podman unpacks no image" "nothing was built or run"
        return 1
    }
    scripts/deps container deploy || {
        instead "buildah, podman, runc and debootstrap cannot be installed" "nothing was built or run"
        return 1
    }
}

# As much as is allowed here: a sandbox may forbid raising limits, and has control groups of version 1.
configure() {
    local files
    files=$(ulimit -Hn)
    [ "$files" != unlimited ] && [ "$files" -le 20000 ] || files=20000
    cat >"$work/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=$files:$files", "nproc=4096:4096"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
compat_api_enforce_docker_hub = false
[network]
network_config_dir = "$work/networks"
CONF
    export CONTAINERS_CONF=$work/containers.conf
    driver=overlay
    podman_ info >/dev/null 2>>"$work/log" || driver=vfs
}

# --- base and image

# make_base ARCH: a minimal Debian without the packages that slim images leave out. One name stands for all processors,
# as in a registry.
make_base() {
    podman_ image exists "localhost/base:$1" && return
    if [ -n "${ARCHIVE:-}" ]; then
        podman_ load -i "$ARCHIVE"
        return
    fi
    debootstrap --arch="$1" --variant=minbase bookworm "$work/rootfs" >>"$work/log" 2>&1 || return
    rm -rf "$work"/rootfs/var/cache/apt/archives/*.deb "$work"/rootfs/var/lib/apt/lists/* \
        "$work"/rootfs/usr/share/{doc,man,locale,info}/*
    tar -C "$work/rootfs" -c . | podman_ import --os linux --arch "$1" - "localhost/base:$1" >>"$work/log" 2>&1 || return
    rm -rf "$work/rootfs"
    podman_ manifest exists "localhost/$base" || podman_ manifest create "localhost/$base" >>"$work/log" 2>&1 || return
    podman_ manifest add "localhost/$base" "containers-storage:localhost/base:$1" >>"$work/log" 2>&1
}

# build_image ARCH. The machine's own way to its package mirror, if it has one in files. The image for this machine has its
# instruction sets alone: compiling all of them is the work of the other builds. On the base's own Debian it compiles through
# the ccache of scripts/test: the release has most of its files.
build_image() {
    local sets=all options=() cache=${CCACHE_DIR:-$PWD/build/ccache} debian
    debian=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    if [ "$1" = "$here" ]; then
        sets=native
        if [ "$debian" = bookworm ] && [ -z "${ARCHIVE:-}" ] && [ -d "$cache" ]; then
            options=(--volume "$(type -P ccache):/usr/local/bin/ccache:ro" --volume "$cache:/ccache"
                --build-arg "CMAKE_OPTIONS=-DLINNET_WERROR=ON -DCMAKE_C_COMPILER_LAUNCHER=env;CCACHE_DIR=/ccache;CCACHE_DEPEND=1;CCACHE_BASEDIR=/source;CCACHE_SLOPPINESS=locale;ccache")
        fi
    fi
    buildah_ bud ${KEEP:+--layers} --isolation chroot --pull=never --format docker --platform "linux/$1" "${options[@]}" \
        --build-arg "BASE=$base" --build-arg "INSTRUCTION_SETS=$sets" --volume /etc/apt/apt.conf.d:/etc/apt/apt.conf.d:ro -t "$image" . >>"$work/log" 2>&1
}

image_is_small() {
    local mb
    mb=$(($(podman_ image inspect --format '{{.Size}}' "$image") / 1000000))
    say "      image $mb MB, $(git ls-files -z weights | xargs -0 du -cb | tail -1 | cut -f1) bytes of it weights"
    [ "$mb" -gt 0 ] && [ "$mb" -lt "$LIMIT_MB" ]
}

has_healthcheck() {
    podman_ image inspect --format '{{.HealthCheck.Test}} {{.Config.User}}' "$image" |
        grep -qx '\[CMD linnet health\] 10001:10001'
}

# As docs/operations.md writes it: every file and every Debian package of the image.
its_bill_is_right() {
    local name=bill
    podman_ create --name "$name" --no-healthcheck "$image" >>"$work/log" 2>&1 &&
        podman_ export "$name" | scripts/sbom image - >"$work/sbom" && podman_ rm "$name" >>"$work/log" &&
        scripts/sbom check "$work/sbom" >>"$work/log" 2>&1 && grep -q '"name": "libmicrohttpd12"' "$work/sbom" &&
        grep -qF '"fileName": "./models/poem/model.safetensors"' "$work/sbom"
}

# --- one container

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1 # check-tests: between two looks
    done
}

# start NAME PORT OPTIONS...: the container, closed as tightly as it goes; the shell is covered up.
start() {
    local name=$1 port=$2
    shift 2
    podman_ run -d --name "$name" --no-healthcheck --network host --read-only --cap-drop=all \
        --security-opt no-new-privileges --pids-limit 64 --volume /dev/null:/usr/bin/dash:ro \
        --env LINNET_HOST=127.0.0.1 --env LINNET_PORT="$port" \
        --env LINNET_TIMEOUT=120 --env LINNET_DRAIN_TIMEOUT=40 "$@" "$image" >>"$work/log" 2>&1
}

healthy() { podman_ exec "$1" linnet health >/dev/null 2>&1; }
pid_of() { podman_ inspect --format '{{.State.Pid}}' "$1"; }
state_of() { podman_ inspect --format '{{.State.Status}} {{.State.ExitCode}} {{.State.OOMKilled}}' "$1"; }
status_line() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$(pid_of "$1")/status"; }

# answer ARGUMENTS...: writes curl's output, an error's body too, into a file: a reader that stops early would break the
# pipe.
answer() { "${within[@]}" curl --fail-with-body -sS "$@" >"$work/answer"; }
post() { answer "$url$1" -H 'Content-Type: application/json' -d "$2"; }
page_answers() { answer "$url/" && grep -q '<html' "$work/answer"; }
couplet_answers() {
    post /v1/completions '{"model": "couplet", "prompt": "海上明月", "seed": 1}' && grep -q '"text"' "$work/answer"
}
image_answers() {
    post /v1/images/generations '{"model": "mnist", "seed": 1}' && grep -q '"b64_json"' "$work/answer"
}
# Not the page's own picture: the font of the image wrote it.
link_is_drawn() {
    answer "$url/link.png?line=%E6%B5%B7%E4%B8%8A%E6%98%8E%E6%9C%88&seed=1" &&
        [ "$(head -c 4 "$work/answer" | tail -c 3)" = PNG ] &&
        ! cmp -s "$work/answer" web/card.png
}
is_not_root() { [ "$(status_line "$1" Uid | tr -s '\t ' '\n' | sort -u)" = 10001 ]; }
has_no_rights() {
    local set
    for set in CapInh CapPrm CapEff CapBnd CapAmb; do
        [ "$(status_line "$1" "$set")" = 0000000000000000 ] || return 1
    done
    [ "$(status_line "$1" NoNewPrivs)" = 1 ]
}
root_is_read_only() { awk '$5 == "/" { print $6 }' "/proc/$(pid_of "$1")/mountinfo" | grep -qE '^ro(,|$)'; }
has_no_shell() { ! podman_ exec "$1" sh -c true 2>/dev/null; }

# group_file NAME FILE...: the first of the files in the container's memory group, of either version.
group_file() {
    local pid path file
    pid=$(pid_of "$1")
    path=$(sed -n 's/^[0-9]*:memory://p' "/proc/$pid/cgroup")
    path=${path:+memory$path}
    path=/sys/fs/cgroup/${path:-$(sed -n 's/^0:://p' "/proc/$pid/cgroup")}
    for file in "${@:2}"; do
        [ ! -e "$path/$file" ] || { echo "$path/$file"; return; }
    done
    return 1
}

fits_its_limits() {
    podman_ logs "$1" >"$work/words" 2>&1
    grep -q "1 thread" "$work/words" && ! grep -q " 256 slots" "$work/words"
}

# Many long answers at once, more than there are slots; every one of them has to be whole. Each stream reserves 0.5 MB
# of the memory for answers, and the server refuses a stream that finds none. So there are as many streams as three
# quarters of that memory hold, which the weights and the limit leave.
answer_bytes() { answer "$url/metrics" && sed -n "s/^linnet_answer_bytes${1:-} //p" "$work/answer"; }
none_is_reserved() { [ "$(answer_bytes)" = 0 ]; }
under_load() {
    local streams
    streams=$(($(answer_bytes _limit) * 3 / 4 >> 19))
    say "      $streams streams of 16 answers"
    [ "$streams" -ge 8 ] || return
    seq "$streams" | xargs -P "$streams" -I{} curl -fsSN "$url/v1/completions" -H 'Content-Type: application/json' \
        -d '{"model": "couplet", "prompt": "海上明月海上明月海上明月", "n": 16, "seed": {}, "stream": true}' |
        grep -c '^data: \[DONE\]' >"$work/done"
    wait_for 10 none_is_reserved || return # a client may see its answer's end before the server has freed it
    seq 6 | xargs -P 6 -I{} curl -fsS -o /dev/null "$url/v1/images/generations" \
        -H 'Content-Type: application/json' -d '{"model": "mnist", "n": 8, "seed": {}}' &&
        [ "$(cat "$work/done")" -eq "$streams" ]
}
# As many states, of as many prompts, as it takes until it says that no more can be kept.
fills_what_it_keeps() {
    local first second
    for first in 天 地 玄 黄 宇 宙 洪 荒 日 月 盈 昃 辰 宿; do
        for second in 寒 来 暑 往 秋 收 冬 藏 闰 余 成 岁 律 吕; do
            printf '{"model": "couplet", "prompt": "%s"}\0' "$first$second"
        done
    done | xargs -0 -P 8 -n 1 curl -sS -o /dev/null -w '%{http_code}\n' "$url/v1/states" \
        -H 'Content-Type: application/json' -d >"$work/codes"
    say "      $(grep -c 201 "$work/codes") states kept, $(grep -c 429 "$work/codes") refused"
    [ "$(grep -cE '^(201|429)$' "$work/codes")" -eq 196 ] && grep -q 201 "$work/codes" && grep -q 429 "$work/codes"
}
kept_its_memory() {
    local limit peak
    limit=$(cat "$(group_file "$1" memory.limit_in_bytes memory.max)")
    peak=$(cat "$(group_file "$1" memory.max_usage_in_bytes memory.peak memory.current)")
    say "      limit $((limit >> 20)) MiB, most used $((peak >> 20)) MiB (page cache included), $(status_line "$1" VmRSS) resident"
    [ "$limit" -eq $((MEMORY_MB << 20)) ] && [ "$peak" -le "$limit" ] &&
        [ "$(state_of "$1")" = "running 0 false" ]
}

# SIGTERM while pictures stream: all of them arrive, then the process ends with 0.
stops_after_its_stream() {
    local start whole
    : >"$work/stream"
    "${within[@]}" curl -fsSN "$url/v1/images/generations" -H 'Content-Type: application/json' \
        -d '{"model": "mnist", "n": 48, "seed": 1, "stream": true, "partial_images": 3}' >"$work/stream" &
    loaders=($!)
    wait_for 60 test -s "$work/stream" || return
    start=$SECONDS
    podman_ stop -t "$GRACE_S" "$1" >>"$work/log" 2>&1 || return
    wait "${loaders[0]}" || return
    loaders=()
    whole=$(grep -c '^data: .*completed' "$work/stream")
    say "      ended after $((SECONDS - start)) s of $GRACE_S, $whole of 48 pictures whole"
    [ $((SECONDS - start)) -lt "$GRACE_S" ] && [ "$(state_of "$1")" = "exited 0 false" ] && [ "$whole" -eq 48 ] &&
        ok "      it was still at it when it was stopped" drained "$1"
}
# By its log, the pictures were done after the signal.
drained() {
    podman_ logs "$1" 2>&1 | awk '/ draining: / { told = 1 }
        told && /images\/generations 200/ { found = 1 } END { exit !found }'
}

serves_a_volume() {
    mkdir -p "$work/models" && cp -r weights/mnist "$work/models/" && chmod -R a+rX "$work/models"
    start "$1" "$2" --volume "$work/models:/models:ro" && wait_for 60 healthy "$1" &&
        answer "$url/v1/models" && [ "$(grep -o '"id": *"[a-z]*"' "$work/answer" | tr -d ' ')" = '"id":"mnist"' ]
}

stops() { podman_ stop -t 5 "$1" >>"$work/log" 2>&1 && [ "$(state_of "$1")" = "exited 0 false" ]; }

finds_models_by_name() {
    podman_ exec "$1" linnet generate 海上明月 -n 1 --seed 1 >>"$work/log" 2>&1 &&
        podman_ exec "$1" linnet inspect poem >>"$work/log" 2>&1
}

answers_everything() {
    ok "the page answers" page_answers
    ok "a couplet is answered" couplet_answers
    ok "a picture is made" image_answers
    ok "a link has a picture" link_is_drawn
}
is_closed() {
    ok "the user is 10001, not root" is_not_root "$1"
    ok "no capabilities, no new privileges" has_no_rights "$1"
    ok "the root file system is read-only" root_is_read_only "$1"
    ok "there is no shell to start" has_no_shell "$1"
}
run_tests() {
    local port
    port=$(free_port) url=http://127.0.0.1:$port
    ok "starts with $MEMORY_MB MiB, one CPU, read-only root, no capabilities, no shell" \
        start one "$port" --memory ${MEMORY_MB}m --memory-swap ${MEMORY_MB}m --cpus 1
    ok "linnet health says ready" wait_for 60 healthy one
    answers_everything
    is_closed one
    ok "commands find its models by name" finds_models_by_name one
    ok "threads and slots fit the limits" fits_its_limits one
    ok "every answer under load is whole" under_load
    ok "kept states and prompts fill what they may have" fills_what_it_keeps
    ok "the memory limit is kept under load" kept_its_memory one
    ok "SIGTERM: the stream is finished, status 0 in time" stops_after_its_stream one
    port=$(free_port) url=http://127.0.0.1:$port
    ok "a volume at /models replaces the models" serves_a_volume two "$port"
    ok "SIGTERM when idle: status 0 at once" stops two
}

# --- two replicas, HAProxy and Redis: every replica is replaced while streams run; where containers have
# no networks, and so compose.yaml cannot be started

# replica NAME PORT: one of the two, as compose starts them.
replica() {
    start "$1" "$2" --memory "${MEMORY_MB}m" --env "LINNET_STATE_STORE=redis://127.0.0.1:$redis_port" &&
        wait_for 60 healthy "$1"
}

start_cluster() {
    redis_port=$(free_port) ports=("$(free_port)" "$(free_port)")
    url=http://127.0.0.1:$(free_port)
    local status
    status=127.0.0.1:$(free_port) figures=http://$status/metrics
    # Debian's redis-tools has the server too, under another name.
    (exec -a redis-server redis-check-rdb --port "$redis_port" --bind 127.0.0.1 --save '' --appendonly no) \
        >>"$work/log" 2>&1 &
    others+=($!)
    replica first "${ports[0]}" && replica second "${ports[1]}" || return
    LINNET_BIND=${url#http://} LINNET_1=127.0.0.1:${ports[0]} LINNET_2=127.0.0.1:${ports[1]} \
        LINNET_STATUS_BIND=$status haproxy -db -f deploy/haproxy.cfg >>"$work/log" 2>&1 &
    others+=($!)
    wait_for 60 answer "$url/readyz" 2>/dev/null
}

# answered_by SERVER: how many requests HAProxy (its metrics: $figures) has had answered by it.
answered_by() {
    answer "$figures" || return
    sed -n "s/^haproxy_server_http_responses_total{proxy=\"linnet\",server=\"$1\",code=\"2xx\"} //p" "$work/answer"
}
answered_more() { [ "$(answered_by "$1")" -gt "$2" ]; }
# HAProxy sends it requests. Until then the second one must not stop, whichever health the container reports.
takes_requests() {
    local before
    before=$(answered_by "$1") && wait_for 60 answered_more "$1" "$before"
}

# replaced SERVER NAME PORT: gets SIGTERM while it answers, ends by itself, its successor answers.
replaced() {
    podman_ stop -t "$GRACE_S" "$2" >>"$work/log" 2>&1 && [ "$(state_of "$2")" = "exited 0 false" ] &&
        podman_ rm "$2" >>"$work/log" && replica "$2" "$3" && takes_requests "$1"
}

takes_both() { takes_requests linnet1 && takes_requests linnet2; }

load_starts() {
    "${within[@]}" python3 tests/deploy/load.py "$url" 8 >"$work/load" 2>&1 &
    load=$!
    others+=("$load")
}
load_ends_well() { kill -TERM "$load" && load_is_over; }
load_is_over() {
    wait "$load"
    local status=$?
    sed 's/^/      /' "$work/load"
    return "$status"
}

run_cluster() {
    ok "two replicas, Redis and HAProxy start" start_cluster || return
    load_starts
    ok "both answer" takes_both
    ok "the first is replaced under load" replaced linnet1 first "${ports[0]}"
    ok "the second is replaced under load" replaced linnet2 second "${ports[1]}"
    ok "the first once more" replaced linnet1 first "${ports[0]}"
    ok "no stream was refused, cut or changed" load_ends_well
}

# The image for 64-bit ARM, where the kernel lets qemu start its programs. It is built during the tests of the first
# image; tests/arm.sh compares its results.
begin_arm() {
    [ "$here" != arm64 ] && [ -z "${ARCHIVE:-}" ] || return 0 # the image above; there is no base for another processor
    emulate arm64 2>>"$work/log" || {
        instead "this kernel starts no programs for 64-bit ARM (binfmt_misc)" "its image was not built"
        return
    }
    set -m # a process group, to be ended together
    (
        renice -n 19 -p "$BASHPID" >>"$work/log"
        make_base arm64 || exit 77
        image=$arm_image build_image arm64
    ) &
    arm=$!
    set +m
}
run_arm() {
    local port status
    [ -n "$arm" ] || return 0
    wait "$arm"
    status=$? arm="" image=$arm_image
    [ "$status" -ne 77 ] || { instead "debootstrap made no base for 64-bit ARM here" "its image was not built"; return; }
    ok "the image for 64-bit ARM is built" test "$status" -eq 0 || return
    ok "it is linux/arm64" is_for arm64
    ok "it has a health check and a user" has_healthcheck
    starts_containers || { run_in_chroot; return; }
    port=$(free_port) url=http://127.0.0.1:$port
    ok "it starts with read-only root, no capabilities, no shell" start arm "$port" --env LINNET_PRECISION=int8
    ok "linnet health says ready" wait_for 120 healthy arm
    answers_everything
    is_closed arm
    ok "qemu runs it" is_emulated arm
    ok "SIGTERM when idle: status 0 at once" stops arm
}
is_for() { [ "$(podman_ image inspect --format '{{.Os}}/{{.Architecture}}' "$image")" = "linux/$1" ]; }
is_emulated() { readlink "/proc/$(pid_of "$1")/exe" | grep -q aarch64; }

# Where no container can be started: the image's files under chroot, as its user.
run_in_chroot() {
    local port root pid
    port=$(free_port) url=http://127.0.0.1:$port
    mounted=$(buildah_ from --pull=never "$image")
    ok "the image can be mounted" buildah_ mount "$mounted" || return
    root=$(buildah_ mount "$mounted")
    LINNET_PORT=$port chroot --userspec=10001:10001 "$root" /usr/local/bin/linnet serve --models /models \
        2>>"$work/log" &
    pid=$! loaders=("$pid")
    ok "linnet health says ready" wait_for 60 env LINNET_PORT="$port" chroot "$root" /usr/local/bin/linnet health
    answers_everything
    kill "$pid" && wait "$pid"
    ok "SIGTERM: status 0" test $? -eq 0
    loaders=()
}

starts_containers() { podman_ run --rm --no-healthcheck --network host --memory 64m "$image" --version >>"$work/log" 2>&1; }

# shellcheck source=tests/compose.sh
. tests/compose.sh

tools || exit 77
configure
SECONDS=0
make_base "$here" || { tail -5 "$work/log"; instead "debootstrap made no base image here" "nothing was built or run"; exit 77; }
say "      base $base after $SECONDS s"
if [ "${1:-}" != arm64 ]; then
    ok "the image is built" build_image "$here"
    [ $failed -eq 0 ] || { tail -30 "$work/log"; exit 1; }
    say "      built after $SECONDS s"
    [ "${1:-}" = here ] || begin_arm
    ok "it is smaller than $LIMIT_MB MB" image_is_small
    ok "it has a health check and a user" has_healthcheck
    ok "its SPDX document is right" its_bill_is_right
    if starts_containers; then
        run_tests
        run_compose || run_cluster
    else
        tail -3 "$work/log"
        instead "this machine starts no containers" "the image's files run under chroot, without limits"
        run_in_chroot
    fi
else
    begin_arm
fi
run_arm
[ $failed -eq 0 ] || {
    say "--- the last answer before the first failure, and the log"
    head -c 500 "$work/failed" 2>/dev/null
    tail -40 "$work/log"
    podman_ logs one 2>&1 | tail -20
}
say "container: $SECONDS s"
exit $failed
