"""Results appear under their name complete or not at all: written beside it, then renamed."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from opalgebra.errors import InputError


def write_whole(path: str | Path, write: Callable[[Path], object]) -> Path:
    """`write` fills a temporary sibling of `path`, which then takes its name; after an exception nothing is left.

    Missing folders are made. InputError when the place cannot be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); choose another place") from error
    os.close(handle)
    beside = Path(name)
    try:
        write(beside)
        beside.chmod(0o644)
        beside.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); choose another place") from error
    finally:
        beside.unlink(missing_ok=True)
    return path


def write_text(path: str | Path, text: str) -> Path:
    """`text` in UTF-8 under `path`, by `write_whole`."""
    return write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))
