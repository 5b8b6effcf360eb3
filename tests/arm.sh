#!/usr/bin/env bash
# Runs what was built for 64-bit ARM by qemu: conformance of the kernels on every instruction set of NEON, golden logits,
# and couplets and pictures that must have the bytes of this machine's program.
#
#   tests/arm.sh [--all] NATIVE ARM    NATIVE: folder with a linnet for this machine
#                                      ARM: folder with linnet, conformance and golden for the other (scripts/test arm)
#
# --all: golden logits in plain C too, of the largest model too, and every set where one of the same bits stands for it.
# shellcheck disable=SC2317 # functions are called by name, through ok
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
all=""
[ "${1:-}" != --all ] || { all=yes; shift; }
[ $# -eq 2 ] || { sed -n '2,/^#   t/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
native=$1/linnet arm=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

ok() {
    local text=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        echo "ok    $text"
    else
        echo "FAIL  $text"
        tail -30 "$work/output"
        failed=1
    fi
}
emulated() { qemu-aarch64-static "$arm/$1" "${@:2}"; }

is_conformant() { emulated conformance --backend cpu --isa "$1" --threads 2; }

# Not plain C, which takes qemu three times as long.
has_golden_logits() {
    local kind
    for kind in weights/copy/*/; do
        emulated golden "$kind" tests/golden/copy cpu neon || return
    done
    emulated golden tests/golden/mixture tests/golden/mixture cpu neon
}

# same HERE THERE FILE OPTIONS...: `linnet generate` writes the same FILE (- for what it prints) with the instruction set
# HERE on this machine and THERE on that.
same() {
    local here=$1 there=$2 file=$3
    shift 3
    "$native" generate -s 7 "$@" --isa "$here" >"$work/-" && [ -s "$work/$file" ] && mv "$work/$file" "$work/here" &&
        emulated linnet generate -s 7 -t 1 "$@" --isa "$there" >"$work/-" && cmp "$work/here" "$work/$file"
}
same_couplets() { same "$1" "$2" - -m weights/couplet --prompt 海上明月共潮生 -n 20 --precision "$3"; }
same_pictures() { same "$1" "$2" picture.png -m weights/mnist -n 2 --precision "$3" -o "$work/picture.png"; }

for isa in neon neondot neonbf16; do
    ok "conformance of $isa" is_conformant $isa
done
# In one run, so that they are compared.
ok "every set has the bytes of its kind" emulated conformance --backend cpu --threads 1 \
    --test linear_has_equal_bytes_on_every_cpu,linear_has_equal_bytes_of_extreme_values,every_cpu_gives_equal_bytes
ok "golden logits of small models of every kind" has_golden_logits
sets=("auto neon f32" "auto neondot int8" "neonbf16plain auto auto")
if [ -n "$all" ]; then
    ok "golden logits of couplets, with plain C" emulated golden weights/couplet tests/golden/couplet cpu
    sets+=("auto neon int8" "auto neonbf16 int8")
fi
for set in "${sets[@]}"; do
    read -r here there precision <<<"$set"
    ok "20 couplets of $there in $precision have the bytes of $here on this machine" same_couplets "$here" "$there" "$precision"
    [ "$precision" != auto ] || continue # qemu takes minutes for the products in bf16 of a picture
    ok "2 pictures, too" same_pictures "$here" "$there" "$precision"
done
exit $failed
