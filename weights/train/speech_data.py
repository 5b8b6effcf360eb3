"""Spoken digits: recordings, streams of several of them, and the rows that a model sees (model/mel.h of the server).

A recording is DIGIT_SPEAKER_INDEX.wav, 16 bits, mono, as the Free Spoken Digit Dataset has them. The features of a
stream are log energies of mel bands. Each band has mean 0 and deviation 1 over the stream. A row is every `stride`-th
frame with its neighbours.
"""

import pathlib
import re
import wave

import numpy as np

from unfit import Unfit

QUIET = 1e-6       # energy that is added before the logarithm
STEADY = 0.01      # deviation that is added before a band is divided by its own
TEST_INDEXES = 5   # recordings 0 .. 4 of a digit and speaker are the data set's test set
HELD_OUT = 3       # and the next ones are looked at while a model learns


def make_config(rate: int) -> dict:
    """Frames of 25 ms, a new one every 10 ms, a row every 30 ms that sees 70 ms to either side."""
    return {"sample_rate": rate, "frame": rate // 40, "hop": rate // 100, "bands": 40, "lowest": 20, "stride": 3, "context": 7}


def row_width(c: dict) -> int:
    return c["bands"] * (2 * c["context"] + 1)


def fft_size(c: dict) -> int:
    return 1 << (c["frame"] - 1).bit_length()


def mel(hertz):
    return 1127 * np.log1p(np.asarray(hertz, np.float64) / 700)


def filters(c: dict) -> np.ndarray:
    """[bands, fft / 2 + 1]: triangles whose corners lie at equal distances of the mel scale."""
    size, rate = fft_size(c), c["sample_rate"]
    corners = 700 * np.expm1(np.linspace(mel(c["lowest"]), mel(rate / 2), c["bands"] + 2) / 1127)
    low, middle, high = (corners[i : i + c["bands"], None] for i in range(3))
    bins = np.arange(size // 2 + 1) * rate / size
    return np.maximum(0, np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)))


def log_mel(samples: np.ndarray, c: dict) -> np.ndarray:
    """[n] of -1 .. 1 -> [frames, bands]"""
    if len(samples) < c["frame"]:
        raise Unfit(f"{len(samples)} samples are less than one frame of {c['frame']}")
    frames = np.lib.stride_tricks.sliding_window_view(samples, c["frame"])[:: c["hop"]]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(c["frame"]) / c["frame"])
    spectrum = np.fft.rfft(frames * window.astype(samples.dtype), fft_size(c))
    power = (spectrum.real**2 + spectrum.imag**2).astype(samples.dtype)  # NumPy 1 has it in double
    return np.log(power @ filters(c).T.astype(samples.dtype) + samples.dtype.type(QUIET))


def normalised(bands: np.ndarray) -> np.ndarray:
    return (bands - bands.mean(0)) / (bands.std(0) + bands.dtype.type(STEADY))


def rows_of(bands: np.ndarray, c: dict) -> np.ndarray:
    """[frames, bands] -> [rows, row_width]; the neighbours of the first and the last frame are these themselves."""
    middle = np.arange(0, len(bands), c["stride"])[:, None]
    at = np.clip(middle + np.arange(-c["context"], c["context"] + 1), 0, len(bands) - 1)
    return bands[at].reshape(len(middle), -1)


def features(samples: np.ndarray, c: dict) -> np.ndarray:
    """[n] -> [rows, row_width], in the precision of the samples."""
    return rows_of(normalised(log_mel(samples, c)), c)


class Recordings:
    """All of a folder, by speaker and digit: found[speaker][digit] is a list of (index, samples)."""

    def __init__(self, folder: pathlib.Path):
        self.rate, self.found = 0, {}
        for path in sorted(folder.rglob("*.wav")):
            name = re.fullmatch(r"(\d)_([^_]+)_(\d+)", path.stem)
            if not name:
                raise Unfit(f"{path} is not named DIGIT_SPEAKER_INDEX.wav")
            digits = self.found.setdefault(name[2], [[] for _ in range(10)])
            digits[int(name[1])].append((int(name[3]), self.read(path)))
        if not self.found:
            raise Unfit(f"{folder} has no recordings DIGIT_SPEAKER_INDEX.wav")

    def read(self, path: pathlib.Path) -> np.ndarray:
        try:
            with wave.open(str(path)) as file:
                rate = self.rate or file.getframerate()
                if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, rate):
                    raise Unfit(f"{path} is not mono of 16 bits and {rate} samples per second")
                self.rate = rate
                return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        except (wave.Error, EOFError) as error:
            raise Unfit(f"{path} is no WAV file: {error}") from error

    def part(self, speakers: list[str], first: int, behind: int) -> dict:
        """Of these speakers the recordings first .. behind - 1 of each digit."""
        chosen = {s: [[x for i, x in digit if first <= i < behind] for digit in self.found[s]] for s in speakers}
        if not chosen or not all(digit for digits in chosen.values() for digit in digits):
            raise Unfit(f"recordings {first} to {behind - 1} of a digit are missing for {', '.join(speakers) or 'all speakers'}")
        return chosen


def join(part: dict, rate: int, rng: np.random.Generator, most: int) -> tuple[np.ndarray, list[int]]:
    """1 to `most` digits of one speaker with pauses between, and their text."""
    speaker = part[list(part)[rng.integers(len(part))]]
    digits = rng.integers(10, size=rng.integers(1, most, endpoint=True)).tolist()
    pieces = [np.zeros(int(rng.uniform(0, 0.3) * rate), np.float32)]
    for digit in digits:
        pieces.append(speaker[digit][rng.integers(len(speaker[digit]))])
        pieces.append(np.zeros(int(rng.exponential(0.12) * rate), np.float32))
    return np.concatenate(pieces), digits


def louder_by(rng: np.random.Generator, samples: np.ndarray) -> np.ndarray:
    """Another loudness, and the noise of a room, 15 to 60 dB below the voice."""
    level = np.sqrt(np.mean(samples**2)) + 1e-9
    noise = rng.standard_normal(len(samples), np.float32) * level * 10 ** rng.uniform(-3, -0.75)
    return ((samples + noise) * np.float32(10 ** rng.uniform(-1, 0))).astype(np.float32)


def faster_by(rng: np.random.Generator, samples: np.ndarray) -> np.ndarray:
    """Another speed, and with it another pitch, by up to a sixth."""
    factor = rng.uniform(0.85, 1.17)
    at = np.arange(0, len(samples) - 1, factor)
    return np.interp(at, np.arange(len(samples)), samples).astype(np.float32)


def hide(rng: np.random.Generator, bands: np.ndarray) -> np.ndarray:
    """Two ranges of bands and one of frames become the mean, so that none is relied upon alone."""
    for _ in range(2):
        n, first = rng.integers(8), rng.integers(bands.shape[1])
        bands[:, first : first + n] = 0
    n, first = rng.integers(8), rng.integers(len(bands))
    bands[first : first + n] = 0
    return bands


def errors(said: list[int], heard: list[int]) -> int:
    """The least number of digits to change, add and leave out."""
    row = list(range(len(heard) + 1))
    for i, a in enumerate(said, 1):
        row, above = [i], row
        for j, b in enumerate(heard, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
    return row[-1]
