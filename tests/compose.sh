# shellcheck shell=bash
# Sourced by tests/container.sh: starts deploy/compose.yaml for real, with the image under test, in a network
# namespace of its own. docker-compose speaks to podman's Docker API. No registry is asked: Redis, HAProxy and
# Prometheus are Debian's programs in images of the names that compose.yaml asks for. Debian has no Grafana,
# so that one service is left out; tests/deploy checks its dashboard.
# shellcheck disable=SC2154,SC2034,SC2317 # variables and functions are shared with tests/container.sh

readonly SERVICES=(redis haproxy prometheus)

compose() {
    DOCKER_HOST=unix://$work/podman.sock LINNET_IMAGE=${image#localhost/} COMPOSE_HTTP_TIMEOUT=120 \
        docker-compose --ansi never -p linnet -f deploy/compose.yaml --profile "$@"
}

# --- stand-ins: a program and its libraries only

# Out of Debian's package, which would also start a server.
fetch_prometheus() {
    (cd "$work" && apt-get download -qq -o APT::Sandbox::User="$(id -un)" prometheus &&
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xO ./usr/bin/prometheus >"$1" && chmod +x "$1")
}

# stand_in SERVICE CHANGE...: the files of $work/tree as the image that compose.yaml wants for a service.
stand_in() {
    local name change options=()
    name=$(sed -n "/^  $1:/,/image:/s/.*_IMAGE:-\([^}]*\)}.*/\1/p" deploy/compose.yaml)
    for change in "${@:2}"; do
        options+=(--change "$change")
    done
    [ -n "$name" ] && tar -C "$work/tree" -c . | podman_ import "${options[@]}" - "localhost/$name"
}

make_stand_ins() {
    local bin=$work/tree/usr/local/bin
    {
        mkdir -p "$bin" "$work/tree/prometheus" && chown 65534 "$work/tree/prometheus" &&
            cp "$(type -P haproxy)" "$(type -P redis-cli)" "$bin" &&
            cp "$(type -P redis-check-rdb)" "$bin/redis-server" && fetch_prometheus "$bin/prometheus" &&
            ldd "$bin"/* | grep -o '/lib[^ ]*' | sort -u | xargs cp -L --parents -t "$work/tree" &&
            stand_in redis && stand_in haproxy &&
            stand_in prometheus 'USER 65534' 'ENTRYPOINT ["prometheus"]'
    } >>"$work/log" 2>&1
}

# --- a network and an API

# Its own network namespace, so that bridges, published ports and packet filters end with it.
start_api() {
    unshare --net sh -c 'ip link set lo up && exec "$@"' sh podman --root "$work/root" --runroot "$work/run" \
        --storage-driver "$driver" system service -t 0 "unix://$work/podman.sock" >>"$work/log" 2>&1 &
    api=$!
    others+=("$api")
    within=(nsenter "--net=/proc/$api/ns/net" --)
    wait_for 60 test -S "$work/podman.sock"
}
bridges_work() {
    "${within[@]}" podman --root "$work/root" --runroot "$work/run" --storage-driver "$driver" network create try &&
        "${within[@]}" podman --root "$work/root" --runroot "$work/run" --storage-driver "$driver" run --rm \
            --no-healthcheck --network try "$image" --version && podman_ network rm try
}

# --- the service

up() { compose "$@" "${SERVICES[@]}" >>"$work/log" 2>&1 && wait_for 60 answer "$url/readyz" 2>/dev/null; }

haproxy_has_an_address() {
    local address
    address=$(podman_ inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' linnet_haproxy_1) &&
        figures=http://$address:8405/metrics && answer "$figures"
}

# scraped N: Prometheus reaches N replicas and HAProxy.
scraped() {
    # check-tests: the test has a network of its own
    answer "http://127.0.0.1:9090/api/v1/query?query=sum(up)by(job)" 2>/dev/null &&
        grep -q '"job":"haproxy"},"value":\[[0-9.]*,"1"\]' "$work/answer" &&
        grep -q '"job":"linnet"},"value":\[[0-9.]*,"'"$1"'"\]' "$work/answer"
}

# of_redis COMMAND: asked with the password that Linnet has.
of_redis() {
    local password
    password=$(podman_ exec linnet_linnet1_1 cat /run/secrets/linnet/redis-password) &&
        podman_ exec --env "REDISCLI_AUTH=$password" linnet_redis_1 redis-cli "$@"
}
redis_wants_a_password() { podman_ exec linnet_redis_1 redis-cli dbsize | grep -q NOAUTH; }

begin='{"model": "couplet", "prompt": "海上明月", "seed": 1, "max_tokens": 2, "return_state": true}'
keeps_a_state() {
    post /v1/completions "$begin" || return
    state=$(grep -o '"state-[^"]*"' "$work/answer")
    [ -n "$state" ] && [ "$(of_redis dbsize)" -ge 1 ]
}
goes_on() { post /v1/completions "{\"state\": $state}" && grep -q '"text":"[^"]' "$work/answer"; }
is_healthy() { podman_ healthcheck run "$1" >>"$work/log" 2>&1; }

# is_up NAME 0|1: HAProxy's view of a server.
is_up() { answer "$figures" && grep -q "^haproxy_server_status{.*server=\"$1\",state=\"UP\"} $2\$" "$work/answer"; }

# Its successor has another address. A check that began at the old address may end after the new one is known. HAProxy
# then takes the server for down for half a second, and in this time the second server must not stop. So the test waits
# until it is down first.
recreated() {
    compose several stop "$1" >>"$work/log" 2>&1 && wait_for 60 is_up "$1" 0 &&
        compose several up -d --no-build --no-deps --force-recreate "$1" >>"$work/log" 2>&1 &&
        wait_for 60 healthy "linnet_$1_1" && wait_for 60 is_up "$1" 1 && takes_requests "$1"
}
# HAProxy's view of its servers goes to the log, by the clock.
stops_under_load() {
    printf '%s from here on the load may be refused\n' "$(date -u +%T)" >>"$work/log"
    kill -USR1 "$load" && compose several stop >>"$work/log" 2>&1 &&
        podman_ logs --timestamps linnet_haproxy_1 >>"$work/log" 2>&1
}
ended_well() {
    local name
    for name in linnet1 linnet2 haproxy redis; do
        [ "$(state_of "linnet_${name}_1")" = "exited 0 false" ] || { say "      $name: $(state_of "linnet_${name}_1")"; return 1; }
    done
}
is_gone() { compose several down -v >>"$work/log" 2>&1 && [ -z "$(podman_ ps -aq --filter name=linnet_)" ]; }

checks_of_compose() {
    ok "compose: one replica, Redis, HAProxy and Prometheus start" up one up -d --no-build linnet1 || return
    ok "the page answers through HAProxy" page_answers
    ok "HAProxy has figures" haproxy_has_an_address || return
    ok "a couplet is answered" couplet_answers
    ok "the state of a conversation is in Redis" keeps_a_state
    ok "Redis says nothing to who has no password" redis_wants_a_password
    ok "its health check is run" is_healthy linnet_linnet1_1
    ok "compose: a second replica joins" up several up -d --no-build linnet1 linnet2
    load_starts
    ok "the second answers, too" takes_requests linnet2
    ok "the first is replaced under load" recreated linnet1
    ok "the second is replaced under load" recreated linnet2
    ok "the conversation goes on from Redis" goes_on
    ok "Prometheus scrapes both and HAProxy" wait_for 90 scraped 2
    ok "all of it is stopped under load" stops_under_load
    ok "until then no stream was refused; none was cut or changed" load_is_over
    ok "all of it ended by itself with 0" ended_well
    ok "down leaves nothing" is_gone
}

# Status 1, with nothing said of success or failure, where containers have no networks.
run_compose() {
    local start=$SECONDS
    ok "podman's Docker API answers" start_api || return 0
    bridges_work >>"$work/log" 2>&1 || {
        instead "containers have no networks here" "two replicas on the host's instead of deploy/compose.yaml"
        within=()
        return 1
    }
    url=http://127.0.0.1:8080 # check-tests: the test has a network of its own
    ok "stand-ins for Redis, HAProxy and Prometheus are made" make_stand_ins && checks_of_compose
    within=()
    say "      compose took $((SECONDS - start)) s; Grafana was not started: Debian has no package of it"
}
