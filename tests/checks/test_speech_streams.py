"""weights/train/speech_streams.py: sounds and a list of their words, of the requested recordings."""

import itertools
import pathlib
import subprocess
import sys
import wave

import pytest

numpy = pytest.importorskip("numpy")

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "weights/train/speech_streams.py"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Of each the loudness says speaker, digit and index."""
    folder = tmp_path_factory.mktemp("recordings")
    for s, digit, index in itertools.product(range(2), range(10), range(9)):
        level = 1 + s * 100 + digit * 10 + index
        with wave.open(str(folder / f"{digit}_{'ann bob'.split()[s]}_{index}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(numpy.full(300, level, "<i2").tobytes())
    return folder


def run(recordings, out, *flags):
    return subprocess.run([sys.executable, SCRIPT, "--data", recordings, "--out", out, "--unseen", "bob", *map(str, flags)],
                          capture_output=True, text=True, timeout=120)


def read(out):
    """The words of every stream, and speaker, digit and index of its recordings."""
    for line in (out / "list.tsv").read_text().splitlines():
        name, text = line.split("\t")
        with wave.open(str(out / name)) as file:
            samples = numpy.frombuffer(file.readframes(file.getnframes()), "<i2")
        starts = numpy.flatnonzero(numpy.diff(samples, prepend=0, append=0))
        levels = [int(samples[i]) for i in starts if i < len(samples) and samples[i]]
        yield text, [((level - 1) // 100, (level - 1) // 10 % 10, (level - 1) % 10) for level in levels]


@pytest.mark.parametrize("part, speaker, indexes", [("test", 0, range(5)), ("held_out", 0, range(5, 8)), ("unseen", 1, range(9))])
def test_streams_are_of_their_part(recordings, tmp_path, part, speaker, indexes):
    made = run(recordings, tmp_path, "--part", part, "--n", 12, "--most", 4)
    assert made.returncode == 0 and made.stdout.startswith("12 sounds"), made.stderr
    streams = list(read(tmp_path))
    assert len(streams) == 12 and {len(text) for text, _ in streams} <= set(range(1, 5))
    for text, found in streams:
        assert {(s, i in indexes) for s, _, i in found} == {(speaker, True)}
        distinct = [d for _, d, _ in found]
        assert set(map(str, distinct)) == set(text)
    again = tmp_path / "again"
    run(recordings, again, "--part", part, "--n", 12, "--most", 4)
    assert (again / "list.tsv").read_text() == (tmp_path / "list.tsv").read_text()


def test_single_recordings(recordings, tmp_path):
    run(recordings, tmp_path, "--part", "single")
    streams = list(read(tmp_path))
    assert len(streams) == 50 and all(text == str(found[0][1]) for text, found in streams)


def test_data_that_does_not_fit(recordings, tmp_path):
    made = run(recordings, tmp_path, "--unseen", "eve")
    assert made.returncode == 1 and "speech_streams.py: --unseen eve is none of the speakers ann, bob" in made.stderr
    made = run(tmp_path, tmp_path / "out")
    assert made.returncode == 1 and "has no recordings" in made.stderr
