#!/usr/bin/env bash
# Runs the build for 64-bit ARM by qemu: conformance of the kernels on every instruction set of NEON, and golden logits.
# Bytes of couplets and pictures must equal the bytes of this machine's program.
#
#   tests/arm.sh [--all|--few] NATIVE ARM    NATIVE: folder with a linnet for this machine
#                                            ARM: folder with linnet, conformance and golden for the other (scripts/test arm)
#
# Runs as many at once as there are processors. --all, for the night, adds f32 and bf16 tests of minutes, and further
# instruction sets with bits of a tested one. --few, for `scripts/test all`, compares only neon with the oracle, without the
# operations that take qemu longest and that golden logits contain; of the other sets it compares bytes.
# shellcheck disable=SC2317,SC2030,SC2031 # functions are called by name, through ok, which gives each a folder of its own
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
all="" few=""
case "${1:-}" in
    --all) all=yes; shift ;;
    --few) few=yes; shift ;;
esac
[ $# -eq 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
native=$1/linnet arm=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names=()

# ok TEXT COMMAND...: begins the command, as soon as a processor is free, in a folder of its own.
ok() {
    local n=${#names[@]}
    names+=("$1")
    mkdir "$work/$n"
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    (
        work=$work/$n
        "${@:2}" >"$work/output" 2>&1
        echo $? >"$work/status"
    ) &
}
# Prints the results of all of them; status 1 where one failed.
came_of() {
    local n failed=0
    wait
    for n in "${!names[@]}"; do
        if [ "$(cat "$work/$n/status")" = 0 ]; then
            echo "ok    ${names[n]}"
        else
            echo "FAIL  ${names[n]}"
            tail -30 "$work/$n/output"
            failed=1
        fi
    done
    return $failed
}
emulated() { qemu-aarch64-static "$arm/$1" "${@:2}"; }

# Not plain C, which takes qemu three times as long.
has_golden_logits() {
    local kind
    for kind in weights/copy/*/; do
        emulated golden "$kind" tests/golden/copy cpu neon || return
    done
    emulated golden tests/golden/mixture tests/golden/mixture cpu neon &&
        emulated golden weights/poem tests/golden/poem cpu neon || return
    for kind in tests/golden/hearing/*/; do
        emulated golden "$kind" "$kind" cpu neon || return
    done
}

# same HERE THERE FILE OPTIONS...: `linnet generate` writes equal FILEs (- for its output) with the instruction set HERE
# on this machine and THERE on the other one.
same() {
    local here=$1 there=$2 file=$3
    shift 3
    "$native" generate -s 7 "$@" --isa "$here" >"$work/-" && [ -s "$work/$file" ] && mv "$work/$file" "$work/here" &&
        emulated linnet generate -s 7 -t 1 "$@" --isa "$there" >"$work/-" && cmp "$work/here" "$work/$file"
}
same_couplets() { same "$1" "$2" - -m weights/couplet --prompt 海上明月共潮生 -n 20 --precision "$3"; }
same_pictures() { same "$1" "$2" picture.png -m "$4" -n 2 --precision "$3" -o "$work/picture.png"; }

if [ -n "$all" ]; then
    ok "2 pictures of neon in f32 have the bytes of auto on this machine" same_pictures auto neon f32 weights/mnist
    ok "golden logits of couplets, with plain C" emulated golden weights/couplet tests/golden/couplet cpu
    ok "conformance of neondot --threads 1" emulated conformance --backend cpu --isa neondot --threads 1
    # Not pictures in bf16, whose products qemu takes minutes for.
    ok "20 couplets of neonbf16 have the bytes of neonbf16plain on this machine" same_couplets neonbf16plain auto auto
    for isa in neon neonbf16; do
        ok "20 couplets of $isa in int8 have the bytes of auto on this machine" same_couplets auto $isa int8
        ok "2 pictures of $isa in int8, too" same_pictures auto $isa int8 weights/mnist
    done
fi
# All operations of neon, and of neonbf16 those that round as it does, in one run, so that the oracle's results are
# computed once. Of neondot the products; the night has the others.
by_oracle=recurrence_matches_oracle,attend_matches_oracle,whole_attention_matches_oracle,both_match_oracle,lstm_matches_oracle
if [ -n "$few" ]; then
    ok "conformance of neon, without the longest" emulated conformance --backend cpu --isa neon --threads 3 --but $by_oracle
else
    for tests in --but --test; do
        ok "conformance of neon and neonbf16, $tests the longest" emulated conformance --backend cpu --isa neon,neonbf16 \
            --threads 3 $tests $by_oracle
    done
    ok "conformance of neondot" emulated conformance --backend cpu --isa neondot --threads 2
    ok "2 pictures of neondot in int8 have the bytes of auto on this machine" same_pictures auto neondot int8 weights/mnist
    ok "2 pictures of a small model with neon in f32, too" same_pictures auto neon f32 tests/golden/mixture
fi
# In one run, so that they are compared.
ok "every set has the bytes of its kind" emulated conformance --backend cpu --threads 1 \
    --test linear_has_equal_bytes_on_every_cpu,linear_has_equal_bytes_of_extreme_values,every_cpu_gives_equal_bytes,blocks_have_equal_bytes_on_every_cpu
ok "golden logits of a model of every kind, a small one of pictures, poems, and one that hears" has_golden_logits
ok "20 couplets of neon in f32 have the bytes of auto on this machine" same_couplets auto neon f32
ok "20 couplets of neondot in int8, too" same_couplets auto neondot int8
ok "20 couplets of neondot in int4, too" same_couplets auto neondot int4
came_of
