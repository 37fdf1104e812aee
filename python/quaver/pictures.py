"""Pictures that come with a prompt, as the engine takes them: from files, PIL and numpy."""
from __future__ import annotations

import os
from typing import Any

import PIL.Image
import PIL.ImageOps

from . import _quaver

# 16 bits a sample; PIL's own conversion would cut them off at 255.
_WIDE_MODES = ("I", "I;16", "I;16B", "I;16L", "I;16N")


def check_picture(value: Any, name: str) -> Any:
    """The one picture that is meant; TypeError when it is none."""
    if isinstance(value, (list, tuple)):
        if len(value) != 1:
            raise NotImplementedError(f"{name} holds {len(value)} pictures; one is supported")
        value = value[0]
    if not (isinstance(value, (str, os.PathLike, PIL.Image.Image)) or is_array(value)):
        raise TypeError(f"{name} is {type(value).__name__}, expected a PIL image, a numpy array or the path of a file")
    return value


def picture_of(value: Any, name: str) -> _quaver.Picture:
    """Upright, transparency laid on white. QuaverError or OSError for what can't be read."""
    if isinstance(value, (str, os.PathLike)):
        return _quaver.Picture.decode(_file(value), f"{name} {os.fspath(value)}")
    image = _rgb(value, name)
    return _quaver.Picture(image.width, image.height, image.tobytes())


def mask_of(value: Any, name: str) -> _quaver.Mask:
    """White is drawn anew; the luma of what `picture_of` sees."""
    if isinstance(value, (str, os.PathLike)):
        return _quaver.Mask.decode(_file(value), f"{name} {os.fspath(value)}")
    image = _rgb(value, name).convert("L")
    return _quaver.Mask(image.width, image.height, image.tobytes())


def is_array(value: Any) -> bool:
    return hasattr(value, "__array_interface__") and hasattr(value, "dtype")


def _file(path: Any) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _rgb(value: Any, name: str) -> PIL.Image.Image:
    image = _from_array(value, name) if is_array(value) else PIL.ImageOps.exif_transpose(value)
    if image.mode in _WIDE_MODES:
        return image.convert("I").point(lambda v: v * (1 / 257) + 0.5).convert("L").convert("RGB")
    if image.mode == "F":
        raise ValueError(f"{name} has mode F, whose range is unknown; give 8 or 16 bits a sample")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = PIL.Image.new("RGBA", image.size, "white")
        image = PIL.Image.alpha_composite(white, image)
    return image.convert("RGB")


def _from_array(array: Any, name: str) -> PIL.Image.Image:
    """[height, width] or [height, width, 1, 3 or 4], as bytes, booleans or floats of 0 to 1."""
    import numpy

    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or array.ndim == 3 and array.shape[2] in (3, 4)) or 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape}, expected [height, width] or [height, width, 1, 3 or 4]")
    if array.dtype == numpy.bool_:
        array = array.astype(numpy.uint8) * 255
    elif numpy.issubdtype(array.dtype, numpy.floating):
        if not bool(((array >= 0) & (array <= 1)).all()):
            raise ValueError(f"{name} has floats outside of 0 to 1")
        array = numpy.rint(array * 255).astype(numpy.uint8)
    elif array.dtype != numpy.uint8:
        raise ValueError(f"{name} has {array.dtype} samples, expected uint8, bool or floats of 0 to 1")
    return PIL.Image.fromarray(numpy.ascontiguousarray(array))
