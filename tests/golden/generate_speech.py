#!/usr/bin/env python3
"""Writes tests/golden/speech: sounds and their features, computed in float64 as weights/train/speech_data.py reads them.

    python3 tests/golden/generate_speech.py tests/golden/speech

A file is, in little-endian order: samples, rows and width as int32, the settings as seven int32 (lx_mel_config), then the
samples and the rows as float32.
"""

import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "weights/train"))

import speech_data  # noqa: E402

CASES = {  # settings, seconds
    "digits": ({}, 0.5),
    "one-frame": ({}, 0.025),
    "wide-band": ({"sample_rate": 16000, "frame": 512, "hop": 160, "bands": 23, "lowest": 80, "stride": 1, "context": 0}, 0.4),
    "silence": ({"context": 1}, 0.1),
}


def sound(rate: int, seconds: float) -> np.ndarray:
    """A voice of a kind: harmonics whose pitch glides and whose loudness comes and goes, over noise."""
    t = np.arange(round(rate * seconds)) / rate
    glide = np.cumsum(110 + 60 * np.sin(5 * t)) / rate
    voice = sum(np.sin(2 * np.pi * k * glide) / k for k in range(1, 20)) * np.sin(9 * t) ** 2
    return (0.15 * voice + 0.002 * np.random.default_rng(7).standard_normal(len(t))).clip(-1, 1).astype(np.float32)


def main(out: pathlib.Path):
    out.mkdir(parents=True, exist_ok=True)
    for name, (changed, seconds) in CASES.items():
        c = speech_data.make_config(8000) | changed
        samples = sound(c["sample_rate"], seconds) * (name != "silence")
        rows = speech_data.features(samples.astype(np.float64), c).astype("<f4")
        settings = [c[k] for k in ("sample_rate", "frame", "hop", "bands", "lowest", "stride", "context")]
        head = np.array([len(samples), *rows.shape, *settings], "<i4")
        (out / f"{name}.bin").write_bytes(head.tobytes() + samples.astype("<f4").tobytes() + rows.tobytes())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
