"""Writes golden.json: blocks of random but fixed bytes of every storage type, and what the gguf Python package makes of them.

    pip install gguf==0.19.0 numpy==2.4.6 && python make_golden.py > golden.json

Scales are drawn as finite halves, subnormal ones among them, so that no NaN's payload depends on the machine. "values" are the bits of the float32
results, little-endian, in base64. "quantised" are float32 rows and the bytes that gguf quantises them to.
"""
import base64
import hashlib
import json

import gguf
import numpy as np

Q = gguf.GGMLQuantizationType
BLOCKS = 12
# Offsets of the halves within a block.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def b64(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def finite_halves(rng, n):
    bits = rng.integers(0, 1 << 16, n, dtype=np.uint16)
    return np.where(bits & 0x7C00 == 0x7C00, bits & np.uint16(0x83FF), bits)


def main():
    rng = np.random.default_rng(20261201)
    out = {"dequantised": {}, "quantised": {}}
    for name in ["F32", "F16", "BF16", *HALVES]:
        kind = Q[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        if name == "F32":
            raw = rng.standard_normal(64).astype(np.float32).view(np.uint8)
        elif name == "F16":
            raw = finite_halves(rng, 64).view(np.uint8)
        elif name == "BF16":
            raw = (rng.standard_normal(64).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        else:
            raw = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
            for offset in HALVES[name]:
                raw[:, offset:offset + 2] = finite_halves(rng, BLOCKS).view(np.uint8).reshape(BLOCKS, 2)
            raw = raw.reshape(-1)
        values = gguf.dequantize(raw, kind).astype(np.float32)
        out["dequantised"][name] = {"raw": b64(raw), "values": b64(values)}
    rows = rng.standard_normal((8, 64)).astype(np.float32)
    rows[1] = 0
    rows[2, :32] = np.arange(32) / 2 - 8
    rows[3] *= 1e-6
    rows[4] *= 1000
    for name in ["Q8_0", "Q4_0", "Q4_1", "F16", "BF16"]:
        stored = gguf.quantize(rows, Q[name])
        out["quantised"][name] = {"rows": b64(rows), "raw": b64(stored)}
    halves = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    finite = halves[(halves & 0x7C00) != 0x7C00]
    out["all_finite_halves_sha256"] = hashlib.sha256(finite.view(np.float16).astype(np.float32).tobytes()).hexdigest()
    print(json.dumps(out, indent=1))


main()
