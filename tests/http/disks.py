"""A small disk of its own for a test: an ext4 file system in a file, which fills up, or becomes read-only."""

import contextlib
import subprocess


def run(*args):
    return subprocess.run([str(arg) for arg in args], capture_output=True, text=True, timeout=60)


class Disk:
    """A mounted file system in the folder `place`."""

    def __init__(self, folder, size):
        self.image, self.place, self.filler = folder / "image", folder / "disk", folder / "disk" / "filler"
        self.place.mkdir()
        with self.image.open("wb") as file:
            file.truncate(size)

    def make(self):
        """False where this process has no right or no program for it."""
        try:
            return run("mkfs.ext4", "-q", "-m", "0", self.image).returncode == 0 and self.mount()
        except FileNotFoundError:
            return False

    def mount(self, options="rw"):
        return run("mount", "-o", f"loop,{options}", self.image, self.place).returncode == 0

    def unmount(self):
        run("umount", self.place)

    def remount(self, options="rw"):
        self.unmount()
        assert self.mount(options)

    def fill(self):
        """Takes the rest of the room."""
        with self.filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(512))

    def free(self):
        self.filler.unlink()

    def protect(self, protected=True):
        """Files and folders become read-only, open files too; False takes it back. The kernel's own way, `remount,abort`,
        would lose the last confirmed write: fsync of a file system that became read-only returns 0."""
        assert run("chattr", "-R", "+i" if protected else "-i", self.place).returncode == 0


@contextlib.contextmanager
def small_disk(folder, size=16 << 20):
    """A disk in a folder; None where it cannot be mounted."""
    disk = Disk(folder, size)
    try:
        yield disk if disk.make() else None
    finally:
        disk.unmount()
