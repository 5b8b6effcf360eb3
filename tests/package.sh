#!/usr/bin/env bash
# The Debian package as an operator meets it. It is built twice (equal files) and checked by lintian. Then it is installed,
# started by hand as its user, asked, upgraded and purged in a bare system under chroot. That system is of this machine's
# release, because a package depends on the libraries of the release that built it. No systemd runs there; systemd-analyze
# judges the unit where it is installed.
#
#   tests/package.sh             all of it; installs the Debian packages that are missing; needs root
#   ARCH=arm64 tests/package.sh  the package for 64-bit ARM, in a system for it, by qemu
#   PACKAGE=FILE tests/package.sh    tests an existing package, and builds nothing
#   BASE=DIR                     a debootstrap (minbase) of this release to copy instead of a new one
#
# Exit status 1 if a check failed, 77 if nothing could be built or run.
# shellcheck disable=SC2317 # functions are called by name, through ok
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tests/emulation.sh
. tests/emulation.sh

readonly WORST_EXPOSURE=20 LIMIT_S=60
export ARCH=${ARCH:-$(dpkg --print-architecture)}
# shellcheck source=/dev/null
. /etc/os-release
readonly release="$NAME $VERSION_ID" suite=$VERSION_CODENAME
components="main"
[ "$ID" != ubuntu ] || components="main,universe"
work=$(mktemp -d -p /var/tmp linnet-package.XXXXXX)
root=$work/root failed=0 server=""

say() { printf '%s\n' "$*"; }
ok() {
    local text=$1
    shift
    if "$@" >>"$work/log" 2>&1; then
        say "ok    $text"
    else
        say "FAIL  $text"
        failed=1
        return 1
    fi
}
clean() {
    [ -z "$server" ] || kill "$server" 2>/dev/null
    umount "$root/proc" 2>/dev/null
    end_emulation
    rm -rf --one-file-system "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1 # check-tests: between two looks
    done
}

# --- the file

# The same sources in two folders of other names, as two machines would have them.
build_twice() {
    local copy commit time
    commit=$(git describe --always --dirty --abbrev=12 --exclude='*') time=$(git log -1 --format=%ct)
    for copy in "$work/one" "$work/another/folder"; do
        mkdir -p "$copy"
        git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
            [ ! -f "$file" ] || printf '%s\0' "$file"
        done | tar -c --null -T - | tar -x -C "$copy" || return
        COMMIT=$commit SOURCE_DATE_EPOCH=$time "$copy/scripts/package" "$copy/out" || return
        touch "$copy/out" # the second is built later
    done
    package=$(ls "$work"/one/out/linnet_*.deb)
}
is_the_same_file() { cmp "$package" "$work/another/folder/out/$(basename "$package")"; }

its_bill_is_right() { scripts/sbom package "$package" >"$work/sbom" && scripts/sbom check "$work/sbom"; }
# As of an image: every file that the system with the package has.
the_systems_bill_is_right() {
    tar -C "$root" -c --exclude=./proc . | scripts/sbom image - >"$work/sbom" && scripts/sbom check "$work/sbom" &&
        grep -qE '"name": "libmicrohttpd12(t64)?"' "$work/sbom"
}

# Errors and warnings; deploy/debian/linnet.lintian-overrides lists the allowed ones.
lintian_is_silent() { lintian --fail-on error,warning --allow-root "$package"; }

has_what_it_should() {
    local files field
    files=$(dpkg-deb -c "$package" | awk '{ print $6 }') || return
    for file in ./usr/bin/linnet ./etc/linnet/linnet.conf ./usr/lib/systemd/system/linnet.service \
        ./usr/share/linnet/models/{couplet,mnist,poem,digits-spoken,strip,race-linear,race-softmax}/{config.json,model.safetensors} \
        ./usr/share/doc/linnet/{copyright,changelog.gz,CHANGELOG.md.gz,operations.md} \
        ./usr/share/doc/linnet/examples/{haproxy.cfg,alertmanager.yml,prometheus/{alerts,slo}.yml,grafana/linnet.json} \
        ./usr/share/man/man1/linnet{,-serve,-generate,-chat,-eval,-bench,-inspect,-tokenize,-transcribe,-health}.1.gz \
        ./usr/share/bash-completion/completions/linnet ./usr/share/zsh/vendor-completions/_linnet; do
        grep -qxF "$file" <<<"$files" || { echo "no $file"; return 1; }
    done
    for field in "Package: linnet" "Version: $(sed -n 's/.*LX_VERSION "\(.*\)"/\1/p' common/version.h)" \
        "Architecture: $ARCH"; do
        dpkg-deb -f "$package" | grep -qxF "$field" || { echo "no $field"; return 1; }
    done
    # Every library of scripts/deps' list that the program is linked with, found by dpkg-shlibdeps.
    for library in adduser 'libmicrohttpd12(t64)?' 'libgnutls30(t64)?' libjansson4 'libpng16-16(t64)?' zlib1g 'libhiredis[0-9.]+' \
        libsqlite3-0 libpcre2-8-0 'libunistring[25]' libedit2 libfreetype6 libsndfile1 libvorbis0a libogg0 libsamplerate0 \
        libkissfft-float131 libc6; do
        dpkg-deb -f "$package" Depends | tr ',' '\n' | grep -qE "^ *$library( |\$)" || { echo "no $library"; return 1; }
    done
    dpkg-deb -f "$package" Recommends | grep -qw fonts-wqy-microhei || { echo "no font"; return 1; }
    [ "$(dpkg-deb -I "$package" conffiles)" = /etc/linnet/linnet.conf ]
}

is_hardened() { systemd-analyze security --offline=true --threshold="$WORST_EXPOSURE" deploy/debian/linnet.service; }

# --- where it is installed

make_root() {
    if [ -n "${BASE:-}" ]; then
        cp -a "$BASE" "$root" || return
    else
        debootstrap --arch="$ARCH" --variant=minbase --components="$components" "$suite" "$root" || return
    fi
    cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    mount -t proc proc "$root/proc" && inside apt-get update -qq
}
inside=(chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8)
inside() { "${inside[@]}" "$@"; }

install_it() {
    cp "$package" "$root/tmp/" && inside apt-get install -y --no-install-recommends "/tmp/$(basename "$package")"
}
answers() { inside linnet health --port "$port" --timeout 1; }
serve() {
    "${inside[@]}" setpriv --reuid=linnet --regid=linnet --init-groups env LINNET_PORT="$port" /usr/bin/linnet serve \
        --config /etc/linnet/linnet.conf 2>>"$work/log" &
    server=$!
    wait_for 60 answers
}
couplet_is_answered() {
    curl -sf "http://127.0.0.1:$port/v1/completions" -H 'Content-Type: application/json' \
        -d '{"model": "couplet", "prompt": "海上明月", "seed": 1}' | grep -q '"text"'
}
runs_as_its_user() { [ "$(stat -c %u "/proc/$server")" = "$(inside id -u linnet)" ]; }
stops() {
    kill "$server" && wait "$server"
    local status=$?
    server=""
    return "$status"
}
is_quick() { [ "$took" -lt "$LIMIT_S" ]; }
configuration_is_private() { [ "$(inside stat -c '%U:%G %a' /etc/linnet/linnet.conf)" = "root:linnet 640" ]; }
works_from_anywhere() { inside sh -c 'cd /tmp && linnet generate 海上明月 --seed 1'; }

# The same package under a later version, after the administrator changed the configuration.
upgrade() {
    echo "threads = 1" >>"$root/etc/linnet/linnet.conf"
    dpkg-deb -R "$package" "$work/later" && sed -i 's/^Version: .*/&+later/' "$work/later/DEBIAN/control" &&
        dpkg-deb -Zgzip --root-owner-group -b "$work/later" "$root/tmp/later.deb" &&
        inside apt-get install -y /tmp/later.deb && inside dpkg -s linnet | grep -q '^Version: .*+later'
}
configuration_is_kept() { grep -qx "threads = 1" "$root/etc/linnet/linnet.conf" && configuration_is_private; }

# Only the locked user stays, because no new user may get its number.
leaves_nothing() {
    inside dpkg -L linnet >"$work/files" && inside apt-get purge -y linnet || return
    local file left=0
    while read -r file; do
        [ -d "$root$file" ] || [ ! -e "$root$file" ] || { echo "left: $file"; left=1; }
    done <"$work/files"
    for file in /etc/linnet /usr/share/linnet /usr/share/doc/linnet /var/lib/linnet /var/log/linnet \
        /etc/systemd/system/multi-user.target.wants/linnet.service; do
        if [ -e "$root$file" ] || [ -L "$root$file" ]; then
            echo "left: $file"
            left=1
        fi
    done
    find "$root/var/lib/systemd" -name '*linnet*' | grep . && left=1
    [ "$left" -eq 0 ] && inside getent shadow linnet | grep -q '^linnet:[!*]'
}
removal_keeps_configuration() {
    inside apt-get remove -y linnet && [ -e "$root/etc/linnet/linnet.conf" ] && [ ! -e "$root/usr/bin/linnet" ] &&
        inside apt-get install -y /tmp/later.deb
}

[ "$(id -u)" -eq 0 ] || { say "package: not root; nothing was built or run"; exit 77; }
scripts/deps install || { say "package: what it needs cannot be installed; nothing was built or run"; exit 77; }
if [ -n "${PACKAGE:-}" ]; then
    package=$PACKAGE
else
    ok "it is built, twice" build_twice || { tail -30 "$work/log"; exit 1; }
    ok "both times it is the same file" is_the_same_file
fi
say "      $(basename "$package"), $(stat -c %s "$package") bytes"
ok "files, fields and dependencies are right" has_what_it_should
ok "its SPDX document is right" its_bill_is_right
ok "lintian has nothing to say" lintian_is_silent
if type -P systemd-analyze >/dev/null; then
    ok "the unit's exposure is below $((WORST_EXPOSURE / 10)).0" is_hardened
else
    say "package: no systemd-analyze here; the unit was not judged"
fi
emulate "$ARCH" 2>>"$work/log" || { say "package: this kernel starts no program for $ARCH (binfmt_misc); nothing was installed"; exit 77; }
make_root >>"$work/log" 2>&1 || { tail -5 "$work/log"; say "package: debootstrap made no base here; nothing was installed"; exit 77; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
start=$SECONDS
ok "a bare $release installs it" install_it || { tail -30 "$work/log"; exit 1; }
ok "it is started by hand, as its user" serve
ok "a request is answered" couplet_is_answered
took=$((SECONDS - start))
say "      installed, started and asked in $took s"
[ "$ARCH" != "$(dpkg --print-architecture)" ] || ok "that took less than $LIMIT_S s" is_quick
ok "the process is the user's" runs_as_its_user
ok "the configuration is not for all to read" configuration_is_private
ok "SIGTERM: status 0" stops
ok "the whole system's SPDX document is right" the_systems_bill_is_right
ok "linnet generate works from any folder" works_from_anywhere
ok "an upgrade is installed" upgrade
ok "it keeps the changed configuration" configuration_is_kept
ok "the upgraded one starts" serve
ok "and stops" stops
ok "removing it keeps the configuration" removal_keeps_configuration
ok "purging it leaves nothing but the locked user" leaves_nothing
[ $failed -eq 0 ] || tail -40 "$work/log"
say "package: $SECONDS s"
exit $failed
