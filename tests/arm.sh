#!/usr/bin/env bash
# Builds Linnet for 64-bit ARM and runs it by qemu, whatever machine this is: conformance of the kernels on every
# instruction set of NEON, golden logits, and couplets and pictures that must have the bytes of BUILD's program.
#
#   tests/arm.sh [BUILD]    BUILD: folder with a linnet for this machine [build]
# shellcheck disable=SC2317 # functions are called by name, through ok
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
native=${1:-build}/linnet
arm=build-arm
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

built() {
    cmake -S . -B "$arm" --toolchain cmake/aarch64.cmake -DCMAKE_BUILD_TYPE=Release -DLINNET_CUDA=OFF -DLINNET_TESTS=ON \
        -DLINNET_WERROR=ON &&
        cmake --build "$arm" --parallel "$(nproc)" --target linnet conformance golden
}

# same ISA FILE OPTIONS...: `linnet generate` writes the same FILE (- for what it prints) here and there.
same() {
    local isa=$1 file=$2
    shift 2
    "$native" generate -s 7 "$@" >"$work/-" && mv "$work/$file" "$work/here" &&
        emulated linnet generate -s 7 "$@" --isa "$isa" >"$work/-" && cmp "$work/here" "$work/$file"
}

[ -x "$native" ] || { echo "tests/arm.sh: no $native" >&2; exit 2; }
ok "it is built" built
[ $failed -eq 0 ] || exit 1
for isa in neon neondot; do
    ok "conformance of $isa" emulated conformance --backend cpu --isa $isa --threads 2
done
ok "golden logits of couplets" emulated golden weights/couplet tests/golden/couplet cpu
for pair in "neon f32" "neon int8" "neondot int8"; do
    read -r isa precision <<<"$pair"
    ok "20 couplets of $isa in $precision have the bytes of this machine" \
        same "$isa" - -m weights/couplet -p 海上明月共潮生 -n 20 --precision "$precision"
    ok "2 pictures of $isa in $precision, too" same "$isa" picture.png \
        -m weights/mnist -n 2 --precision "$precision" -o "$work/picture.png"
done
exit $failed
