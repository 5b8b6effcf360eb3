"""Files of safetensors, as (name, dtype, shape, bytes) in the order of the file. The caller knows the meaning of the bytes."""

import json
import pathlib
import struct
from collections.abc import Iterable


def write(path: pathlib.Path, tensors: Iterable[tuple[str, str, list[int], bytes]], made_as: str):
    """Data begins at a multiple of 64 bytes. made_as: the file's metadata field `format`."""
    tensors, header, offset = list(tensors), {"__metadata__": {"format": made_as}}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 64)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for *_, data in tensors:
            file.write(data)


def read(path: pathlib.Path) -> list[tuple[str, str, list[int], memoryview]]:
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = memoryview(data)[8 + length :]
    return [(name, entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])]) for name, entry in header.items()]
