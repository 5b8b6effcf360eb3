"""PNG files in a few lines, so that other code judges the server's reading and writing."""

import struct
import zlib
from dataclasses import dataclass

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, RGB, PALETTE, GREY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
SAMPLES = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGB_ALPHA: 4}


@dataclass
class Picture:
    width: int
    height: int
    channels: int
    values: bytes

    def row(self, y):
        n = self.width * self.channels
        return self.values[y * n : (y + 1) * n]

    def part(self, x, y, width, height):
        """The values of a rectangle."""
        c = self.channels
        rows = (self.row(y + k)[x * c : (x + width) * c] for k in range(height))
        return b"".join(rows)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def header(width, height, depth, colour, interlace=0):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace))


def write(width, height, values, colour=GREY, depth=8, extra=b"", interlace=0):
    """A file; `values` are the samples' bytes, row by row, `extra` chunks go before the data."""
    stride = len(values) // height
    assert stride * height == len(values)
    raw = b"".join(b"\0" + values[y * stride : (y + 1) * stride] for y in range(height))
    return assemble(header(width, height, depth, colour, interlace), extra, zlib.compress(raw, 9))


def assemble(head, extra, data):
    return SIGNATURE + head + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def with_alpha(values, alpha):
    """Grey and alpha, pixel by pixel."""
    return bytes(x for pair in zip(values, alpha, strict=True) for x in pair)


# Adam7: first column and row, steps between them.
PASSES = [
    (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)
]  # fmt: skip


def write_interlaced(width, height, values):
    """A grey file in Adam7 order."""
    raw = b""
    for x0, y0, dx, dy in PASSES:
        for y in range(y0, height, dy):
            row = values[y * width + x0 : (y + 1) * width : dx]
            if row:
                raw += b"\0" + row
    return assemble(header(width, height, 8, GREY, 1), b"", zlib.compress(raw))


def nearest(a, b, c):
    p = a + b - c
    return min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]


def unfilter(kind, row, above, step):
    if kind == 0:
        return row
    if kind == 2:
        return bytes([(x + b) & 255 for x, b in zip(row, above, strict=True)])
    out = bytearray()
    for i, x in enumerate(row):
        a = out[i - step] if i >= step else 0
        c = above[i - step] if i >= step else 0
        b = above[i]
        predicted = [0, a, b, (a + b) // 2, nearest(a, b, c)][kind]
        out.append((x + predicted) & 255)
    return bytes(out)


def read(data):
    """A Picture of an 8-bit grey or RGB file without interlacing; checks every checksum."""
    assert data[:8] == SIGNATURE, data[:16]
    position, chunks = 8, []
    while position < len(data):
        (size,) = struct.unpack_from(">I", data, position)
        kind, body = data[position + 4 : position + 8], data[position + 8 : position + 8 + size]
        assert chunk(kind, body) == data[position : position + 12 + size], kind
        chunks.append((kind, body))
        position += 12 + size
    assert chunks[0][0] == b"IHDR" and chunks[-1] == (b"IEND", b"")
    width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    assert depth == 8 and colour in (GREY, RGB) and interlace == 0
    raw = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    step, values = SAMPLES[colour], b""
    stride = width * step
    above = bytes(stride)
    assert len(raw) == height * (stride + 1)
    for y in range(height):
        line = raw[y * (stride + 1) : (y + 1) * (stride + 1)]
        above = unfilter(line[0], line[1:], above, step)
        values += above
    return Picture(width, height, step, values)
