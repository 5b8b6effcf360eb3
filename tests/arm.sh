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

# same HERE THERE FILE OPTIONS...: `linnet generate` writes the same FILE (- for what it prints) with the instruction set
# HERE on this machine and THERE on that.
same() {
    local here=$1 there=$2 file=$3
    shift 3
    "$native" generate -s 7 "$@" --isa "$here" >"$work/-" && mv "$work/$file" "$work/here" &&
        emulated linnet generate -s 7 -t 1 "$@" --isa "$there" >"$work/-" && cmp "$work/here" "$work/$file"
}

[ -x "$native" ] || { echo "tests/arm.sh: no $native" >&2; exit 2; }
ok "it is built" built
[ $failed -eq 0 ] || exit 1
for isa in neon neondot neonbf16; do
    ok "conformance of $isa" emulated conformance --backend cpu --isa $isa --threads 2
done
# In one run, so that they are compared.
ok "every set has the bytes of its kind" emulated conformance --backend cpu --threads 1 \
    --test linear_has_equal_bytes_on_every_cpu,linear_has_equal_bytes_of_extreme_values,every_cpu_gives_equal_bytes
ok "golden logits of couplets" emulated golden weights/couplet tests/golden/couplet cpu
for set in "auto neon f32" "auto neon int8" "auto neondot int8" "auto neonbf16 int8" "neonbf16plain auto auto"; do
    read -r here there precision <<<"$set"
    ok "20 couplets of $there in $precision have the bytes of $here on this machine" \
        same "$here" "$there" - -m weights/couplet --prompt 海上明月共潮生 -n 20 --precision "$precision"
    [ "$precision" != auto ] || continue # qemu takes minutes for the products in bf16 of a picture
    ok "2 pictures, too" same "$here" "$there" picture.png \
        -m weights/mnist -n 2 --precision "$precision" -o "$work/picture.png"
done
exit $failed
