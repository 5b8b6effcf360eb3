# shellcheck shell=bash
# Sourced by tests/container.sh and tests/package.sh: lets this machine start programs for another processor, by qemu.

formats=/proc/sys/fs/binfmt_misc
formats_mounted="" format_added=""

# emulate ARCH: whether programs for it can be started, also in other root directories; as root it asks the kernel for it,
# until `end_emulation`. Debian's package does so too where systemd runs.
emulate() {
    [ "$1" != "$(dpkg --print-architecture)" ] || return 0
    [ "$1" = arm64 ] || return
    if [ ! -e $formats/register ]; then
        mount -t binfmt_misc binfmt_misc $formats && formats_mounted=yes || return
    fi
    grep -qsx enabled $formats/qemu-aarch64 && return
    cat /usr/lib/binfmt.d/qemu-aarch64.conf >$formats/register && format_added=yes
}
end_emulation() {
    [ -z "$format_added" ] || echo -1 >$formats/qemu-aarch64
    [ -z "$formats_mounted" ] || umount $formats
    formats_mounted="" format_added=""
}
