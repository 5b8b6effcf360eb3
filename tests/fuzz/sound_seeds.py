"""Seeds of the fuzzer of sound files: WAV of every coding, FLAC of the simplest frames, pages of Ogg."""

import math
import struct

RATE, SAMPLES = 8000, 600


def tone(i: int, channel: int = 0) -> float:
    return 0.4 * math.sin(0.3 * i) / (1 + channel)


def wav(coding: int, bits: int, pack, channels: int = 1, rate: int = RATE, extra: bytes = b"", n: int = SAMPLES) -> bytes:
    """coding: 1 whole numbers, 3 floats, 6 A-law, 7 mu-law."""
    data = b"".join(pack(tone(i, c)) for i in range(n) for c in range(channels))
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", coding, channels, rate, rate * block, block, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + extra + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def in_16_bits(x: float) -> bytes:
    return struct.pack("<h", round(x * 32767))


def crc(data: bytes, polynomial: int, bits: int) -> int:
    value, top = 0, 1 << bits - 1
    for byte in data:
        value ^= byte << bits - 8
        for _ in range(8):
            value = (value << 1 ^ polynomial if value & top else value << 1) & (1 << bits) - 1
    return value


def flac(n: int = SAMPLES, claimed: int = SAMPLES, wrong: bool = False) -> bytes:
    """Blocks of 192 samples of 16 bits, each stored unpacked; only the header has the rate."""
    info = struct.pack(">HH", 192, 192) + bytes(6) + struct.pack(">Q", RATE << 44 | 15 << 36 | claimed) + bytes(16)
    out = b"fLaC\x80" + len(info).to_bytes(3, "big") + info
    for number, first in enumerate(range(0, n, 192)):
        count = min(192, n - first)
        code = b"\x10" if count == 192 else b"\x60"
        head = b"\xff\xf8" + code + b"\x08" + bytes([number]) + (b"" if count == 192 else bytes([count - 1]))
        head += bytes([crc(head, 0x07, 8)])
        frame = head + b"\x02" + b"".join(struct.pack(">h", round(32767 * tone(first + i))) for i in range(count))
        out += frame + struct.pack(">H", crc(frame, 0x8005, 16) ^ wrong)
    return out


def page(packet: bytes, number: int, flags: int, granule: int) -> bytes:
    lacing = bytes([255] * (len(packet) // 255) + [len(packet) % 255])
    head = struct.pack("<4sBBqIII", b"OggS", 0, flags, granule, 7, number, 0) + bytes([len(lacing)]) + lacing
    whole = head + packet
    return whole[:22] + struct.pack("<I", crc(whole, 0x04C11DB7, 32)) + whole[26:]


def oggs() -> dict[str, bytes]:
    opus = page(b"OpusHead" + struct.pack("<BBHIhB", 1, 1, 312, RATE, 0, 0), 0, 2, 0)
    tags = page(b"OpusTags" + struct.pack("<I4sI", 4, b"none", 0), 1, 0, 0)
    sound = b"".join(page(b"\xf8" + bytes(40 + i), 2 + i, 4 * (i == 4), 960 * (i + 1)) for i in range(5))
    places = (960, 3_000_000_000, 2880)
    back = b"".join(page(b"\xf8" + bytes(40), 2 + i, 4 * (i == 2), places[i]) for i in range(3))
    vorbis = page(b"\1vorbis" + struct.pack("<IBIIIIBB", 0, 1, RATE, 0, 0, 0, 0xB8, 1), 0, 2, 0)
    hidden = opus[:22] + bytes(4) + opus[26:] + vorbis
    return {
        "opus": opus + tags + sound,
        "opus-head": opus + tags,
        "opus-twice": (opus + tags + sound) * 2,
        "opus-then-damage": opus + tags + sound + opus[:20] + bytes(200),
        "opus-back": opus + tags + back,
        "vorbis-head": vorbis,
        "vorbis-hidden": hidden,
        "vorbis-none": vorbis + page(b"\3vorbis", 1, 0, 0),
    }


def sounds() -> dict[str, bytes]:
    whole = wav(1, 16, in_16_bits)
    return {
        "16-bit": whole,
        "8-bit": wav(1, 8, lambda x: bytes([round(128 + 127 * x)])),
        "24-bit": wav(1, 24, lambda x: struct.pack("<i", round(x * (1 << 23)))[:3]),
        "float": wav(3, 32, lambda x: struct.pack("<f", x)),
        "not-finite": wav(3, 32, lambda x: struct.pack("<f", math.nan)),
        "double": wav(3, 64, lambda x: struct.pack("<d", 3 * x)),
        "a-law": wav(6, 8, lambda x: bytes([round(128 + 127 * x)])),
        "mu-law": wav(7, 8, lambda x: bytes([round(128 + 127 * x)])),
        "stereo": wav(1, 16, in_16_bits, channels=2),
        "44100": wav(1, 16, in_16_bits, rate=44100),
        "eight": wav(1, 16, in_16_bits, channels=8, n=20),
        "listed": wav(1, 16, in_16_bits, extra=b"LIST\4\0\0\0INFO"),
        "empty": wav(1, 16, in_16_bits, n=0),
        "long": wav(1, 16, in_16_bits, n=6000),
        "streamed": whole[:4] + b"\xff" * 4 + whole[8:40] + b"\xff" * 4 + whole[44:],
        "cut": whole[:300],
        "letters": b"OggS",
        "flac": flac(),
        "flac-streamed": flac(claimed=0),
        "flac-claims": flac(claimed=1 << 35),
        "flac-cut": flac()[:900],
        "flac-wrong-sum": flac(wrong=True),
        "flac-claims-less": flac(claimed=200),
        "flac-twice": flac() * 2,
        "wav-twice": whole * 2,
        **oggs(),
    }
