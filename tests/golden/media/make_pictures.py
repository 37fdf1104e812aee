"""Writes pictures/ and pictures.safetensors with Pillow 13.0: small pictures of every kind, and what Pillow decodes.

For each file NAME: NAME.rgb [height, width, 3], upright and laid on white; NAME.mask [height, width], its luma; NAME.alpha
[height, width]. 420.jpg is made of
source_23x17.png. Pillow drops the low byte of 16-bit samples, so theirs are round(v / 257) of the samples written.
pictures/text.png holds text of all three kinds. What Pillow can't write (interlaced PNG, grey of 2 and 4 bits, 16-bit
colour) is put together here, and read by Pillow all the same.
"""
import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, PngImagePlugin
from safetensors.numpy import save_file

HERE = Path(__file__).parent
FOLDER = HERE / "pictures"
WIDTH, HEIGHT = 24, 16
expected: dict[str, np.ndarray] = {}


def gradient(width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 // (width - 1), y * 255 // (height - 1), 255 - (x + y) * 255 // (width + height - 2)],
                    axis=2).astype(np.uint8)


def alpha_plane() -> np.ndarray:
    """Every tenth opacity or so, and a block of 0 whose colour says something else."""
    plane = (np.arange(WIDTH * HEIGHT) * 11 % 256).astype(np.uint8).reshape(HEIGHT, WIDTH)
    plane[4:12, 6:18] = 0
    return plane


def with_hidden_text() -> np.ndarray:
    pixels = np.dstack([gradient(), alpha_plane()])
    pixels[5:11:2, 7:17, :3] = 0  # black strokes under opacity 0
    return pixels


def flattened(image: Image.Image) -> tuple[np.ndarray, np.ndarray]:
    image = ImageOps.exif_transpose(image)
    if image.mode == "CMYK":
        image = image.convert("RGB")
    image = image.convert("RGBA")
    white = Image.new("RGB", image.size, (255, 255, 255))
    white.paste(image, mask=image.getchannel("A"))
    return np.array(white), np.array(image.getchannel("A"))


def note(name: str, rgb: np.ndarray, alpha: np.ndarray) -> None:
    mask = np.array(Image.fromarray(rgb).convert("L"))
    for kind, values in (("rgb", rgb), ("mask", mask), ("alpha", alpha)):
        expected[f"{name}.{kind}"] = np.ascontiguousarray(values)


def keep(name: str, data: bytes) -> None:
    (FOLDER / name).write_bytes(data)
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        note(name, *flattened(image))


def save(name: str, image: Image.Image, **options) -> None:
    out = io.BytesIO()
    image.save(out, format={"jpg": "JPEG"}.get(name.rsplit(".")[-1], name.rsplit(".")[-1]), **options)
    keep(name, out.getvalue())


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, depth: int, color: int, rows: list[bytes], extra: bytes = b"", interlaced=0) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def adam7(pixels: np.ndarray) -> list[bytes]:
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    return [row.tobytes() for top, left, down, right in passes for row in pixels[top::down, left::right] if row.size]


def packed(samples: np.ndarray, bits: int) -> list[bytes]:
    digits = (samples[:, :, None] >> np.arange(bits - 1, -1, -1)) & 1
    return [np.packbits(row.reshape(-1)).tobytes() for row in digits]


def make_png() -> None:
    rgb, rgba = Image.fromarray(gradient()), Image.fromarray(with_hidden_text())
    save("rgb.png", rgb)
    save("rgba.png", rgba)
    save("gray.png", rgb.convert("L"))
    save("gray_alpha.png", rgba.convert("LA"))
    save("gray_transparent_colour.png", rgb.convert("L"), transparency=int(gradient()[:, :, 0][0, 5]))
    save("rgb_transparent_colour.png", rgb, transparency=tuple(int(v) for v in gradient()[3, 7]))
    save("one_bit.png", rgb.convert("1"))
    palette = rgb.quantize(16)
    save("palette.png", palette)
    save("palette_2_bits.png", rgb.quantize(4), bits=2)
    save("palette_transparent.png", palette, transparency=bytes(range(0, 256, 17)))
    exif = Image.Exif()
    exif[0x0112] = 6
    save("turned.png", rgb, exif=exif)
    for bits in (2, 4):
        samples = gradient()[:, :, 0] >> (8 - bits)
        keep(f"gray_{bits}_bits.png", png(WIDTH, HEIGHT, bits, 0, packed(samples, bits)))
    keep("interlaced.png", png(WIDTH, HEIGHT, 8, 6, adam7(with_hidden_text()), interlaced=1))
    keep("interlaced_3x2.png", png(3, 2, 8, 2, adam7(gradient()[:2, :3]), interlaced=1))
    make_16_bit_png()


def make_16_bit_png() -> None:
    """Values on both sides of where rounding changes among them."""
    values = (np.arange(WIDTH * HEIGHT) * 171).astype(np.uint16).reshape(HEIGHT, WIDTH)
    values[0, :6] = [0, 128, 129, 65406, 65407, 65535]
    opaque = np.full((HEIGHT, WIDTH), 255, np.uint8)

    def rounded(v):
        return np.floor(v / 257 + 0.5).astype(np.uint8)

    gray = png(WIDTH, HEIGHT, 16, 0, [row.astype(">u2").tobytes() for row in values])
    (FOLDER / "gray_16_bits.png").write_bytes(gray)
    note("gray_16_bits.png", np.dstack([rounded(values)] * 3), opaque)
    # Two samples that round alike, of which the transparent colour is one.
    keyed = png(WIDTH, HEIGHT, 16, 0, [row.astype(">u2").tobytes() for row in values],
                chunk(b"tRNS", struct.pack(">H", 129)))
    (FOLDER / "gray_16_bits_transparent_colour.png").write_bytes(keyed)
    alpha = np.where(values == 129, 0, 255).astype(np.uint8)
    note("gray_16_bits_transparent_colour.png",
         np.where(alpha[:, :, None] == 0, 255, np.dstack([rounded(values)] * 3)).astype(np.uint8), alpha)
    color = np.dstack([values, values[::-1], values[:, ::-1]])
    (FOLDER / "rgb_16_bits.png").write_bytes(png(WIDTH, HEIGHT, 16, 2, [r.astype(">u2").tobytes() for r in color]))
    note("rgb_16_bits.png", rounded(color), opaque)


def make_jpeg() -> None:
    rgb = Image.fromarray(gradient())
    save("source_23x17.png", Image.fromarray(gradient(23, 17)))
    save("420.jpg", Image.fromarray(gradient(23, 17)), quality=85)
    save("444.jpg", rgb, quality=90, subsampling=0)
    save("422.jpg", rgb, quality=70, subsampling=1)
    save("progressive.jpg", Image.fromarray(gradient(40, 30)), quality=80, progressive=True)
    save("restarts.jpg", Image.fromarray(gradient(40, 30)), quality=80, restart_marker_blocks=2)
    save("gray.jpg", rgb.convert("L"), quality=90)
    save("rgb_stored.jpg", rgb, quality=90, keep_rgb=True)
    ink = Image.fromarray(np.dstack([gradient(), gradient()[::-1, ::-1, 0] // 2]), mode="CMYK")
    save("cmyk.jpg", ink, quality=90)
    data = (FOLDER / "cmyk.jpg").read_bytes()
    at = data.index(b"Adobe") + 11  # the transform: 0 says CMYK, 2 YCCK
    keep("ycck.jpg", data[:at] + b"\x02" + data[at + 1:])
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        save(f"orientation_{orientation}.jpg", rgb, quality=90, exif=exif)
    big = Image.Exif()
    big.endian = ">"
    big[0x010F], big[0x0112] = "Maker", 8
    save("orientation_8_big_endian.jpg", rgb, quality=90, exif=big)


def make_webp() -> None:
    rgb, rgba = Image.fromarray(gradient()), Image.fromarray(with_hidden_text())
    save("lossy.webp", Image.fromarray(gradient(23, 17)), quality=80)
    save("lossless.webp", rgb, lossless=True)
    save("lossy_alpha.webp", rgba, quality=80)
    save("lossless_alpha.webp", rgba, lossless=True, exact=True)
    exif = Image.Exif()
    exif[0x0112] = 5
    save("turned.webp", rgb, lossless=True, exif=exif)
    frames = [rgba, rgba.rotate(180), rgba.rotate(90, expand=True).resize((WIDTH, HEIGHT))]
    save("animated.webp", frames[0], save_all=True, append_images=frames[1:], lossless=True, exact=True)


def make_gif() -> None:
    palette = Image.fromarray(gradient()).quantize(32)
    save("plain.gif", palette, interlace=0)
    save("interlaced.gif", palette, interlace=1)
    save("transparent.gif", palette, interlace=0, transparency=3)
    others = [Image.fromarray(gradient()[::-1]).quantize(32), Image.fromarray(gradient()[:, ::-1]).quantize(32)]
    save("animated.gif", palette, save_all=True, append_images=others, transparency=5)
    # On a wider screen the same frame stands at 3, 2. Pillow paints the rest in a colour, viewers leave it open.
    data = bytearray((FOLDER / "plain.gif").read_bytes())
    struct.pack_into("<HH", data, 6, WIDTH + 8, HEIGHT + 4)
    at = data.index(b",\0\0\0\0" + struct.pack("<HH", WIDTH, HEIGHT))
    struct.pack_into("<HH", data, at + 1, 3, 2)
    (FOLDER / "on_a_larger_screen.gif").write_bytes(data)
    rgb = np.full((HEIGHT + 4, WIDTH + 8, 3), 255, np.uint8)
    alpha = np.zeros((HEIGHT + 4, WIDTH + 8), np.uint8)
    rgb[2:2 + HEIGHT, 3:3 + WIDTH], alpha[2:2 + HEIGHT, 3:3 + WIDTH] = np.array(palette.convert("RGB")), 255
    note("on_a_larger_screen.gif", rgb, alpha)


def make_text() -> None:
    text = PngImagePlugin.PngInfo()
    text.add_text("Title", "caf\u00e9")  # tEXt, Latin-1
    text.add_text("parameters", "a cat, steps: 4\n" * 20, zip=True)  # zTXt
    text.add_itxt("Comment", "\u732b \U0001f408", "ja", "Comment")
    text.add_itxt("prompt", "{\"3\": \"\u00fc\"}" * 9, zip=True)
    save("text.png", Image.fromarray(gradient()[:2, :2]), pnginfo=text)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for make in (make_png, make_jpeg, make_webp, make_gif, make_text):
        make()
    save_file(expected, HERE / "pictures.safetensors")


if __name__ == "__main__":
    main()
