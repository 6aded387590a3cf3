"""A trace: what a binding needs of one run of a model, in one safetensors file that is bound without the model.

The file holds the states before every stage and after the last, the logits, the tokens, the array functions
of every stage with the weights of the blocks, what they were frozen to (patterns, scales, gates), and what the run was made
with: device, dtype, versions. With `weights="reference"` it holds the name of the model in place of the blocks, and the model
is loaded when the trace is bound. A digest over everything tells a file that was changed.
"""

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from opalgebra.display import Tabulated
from opalgebra.errors import InputError, ModelError
from opalgebra.files import write_whole
from opalgebra.models.family import Parts, Prompt
from opalgebra.models.load import Model
from opalgebra.numeric.faithful import Reference
from opalgebra.numeric.stages import FrozenStage
from opalgebra.numeric.stored import Store, restored
from opalgebra.render.table import Table, table
from opalgebra.scalar import is_natural

FORMAT, VERSION = "opalgebra trace", 1
WEIGHTS = ("blocks", "reference")
_LONGEST_HEADER = 200_000_000


@final
@dataclass(frozen=True)
class Vocabulary:
    """The name of a recorded model and the texts of its tokens, by id; without texts for a model without a tokenizer."""

    name: str
    size: int
    texts: tuple[str, ...] | None

    def token_id(self, token: str | int) -> int:
        """The id of a text that is exactly one token; an id is returned as it is. InputError."""
        if not isinstance(token, str):
            if not is_natural(token) or token >= self.size:
                raise InputError(f"token id {token} was asked; ids of {self.name} run from 0 to {self.size - 1:,}")
            return token
        found = [] if self.texts is None else [index for index, text in enumerate(self.texts) if text == token]
        if len(found) != 1:
            raise InputError(f"{token!r} is {len(found)} tokens of the recorded {self.name}; give an id")
        return found[0]

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """What the reader sees of each token; the ids themselves without texts."""
        return [str(index) if self.texts is None else self.texts[index] for index in ids]


@final
@dataclass(frozen=True, eq=False, repr=False)
class Trace(Tabulated):
    """One run of a model at one input, made by `opalgebra.record` or `Trace.load`; `opalgebra.bind` takes it in place of both.

    parts and frozen are None for `weights="reference"`; `weights` is then the digest of the model's weights. made: device,
    dtype, versions.
    """

    origin: Vocabulary
    prompt: Prompt
    has_batch: bool
    reference: Reference
    parts: Parts | None
    frozen: tuple[FrozenStage, ...] | None
    weights: str | None
    made: Mapping[str, str]

    def __repr__(self) -> str:
        held = "weights of the blocks" if self.parts is not None else "weights by reference"
        shape = tuple(self.prompt.ids.shape)
        return f"Trace({self.origin.name}, {shape} tokens, {held}, {self.made['dtype']}, recorded on {self.made['device']})"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the trace as one safetensors file, complete or not at all. InputError for a place that cannot be written."""
        from safetensors.torch import save_file

        tensors, header = self._written()
        header["digest"] = _digest(tensors, header)
        metadata = {"opalgebra": json.dumps(header)}
        return write_whole(Path(path), lambda beside: save_file(tensors, str(beside), metadata=metadata))

    def _written(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        store = Store()
        header: dict[str, Any] = {
            "format": FORMAT, "version": VERSION, "made": dict(self.made), "has_batch": self.has_batch,
            "model": self.origin.name, "vocabulary": self.origin.size, "texts": self.origin.texts, "weights": self.weights,
        }  # fmt: skip
        if self.parts is not None:
            header |= {
                "maps": store.put(tuple(self.parts.maps)), "readout": store.put(self.parts.readout),
                "frozen": store.put(self.frozen), "layers": self.parts.layers, "heads": self.parts.heads,
                "shape": dict(self.parts.shape),
            }  # fmt: skip
        named = {
            "ids": self.prompt.ids, "mask": self.prompt.mask, "positions": self.prompt.positions,
            "vectors": self.prompt.vectors, "states": self.reference.states, "logits": self.reference.logits,
            "uncapped": self.reference.uncapped,
        }  # fmt: skip
        own = {name: tensor.contiguous() for name, tensor in named.items() if tensor is not None}
        apart = {name: tensor.cpu().clone() for name, tensor in (store.tensors | own).items()}
        return apart, header

    @staticmethod
    def load(path: str | os.PathLike[str], *, device: torch.device | str = "cpu") -> "Trace":
        """The trace of a file, on a device. InputError for a file that is no trace, is not whole, or was changed."""
        tensors, header = _read(Path(path), torch.device(device))
        try:
            return _trace(tensors, header)
        except (InputError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is no trace that is known here ({error}); record it anew") from None


def _read(path: Path, device: torch.device) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"{path} is no file; save a trace there, or name another")
    try:
        with safe_open(str(path), framework="pt", device="cpu") as file:
            header = _header((file.metadata() or {}).get("opalgebra", ""))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is no trace, or not a whole one ({error}); record it anew") from None
    stated = header.pop("digest", None)
    if stated != _digest(tensors, header):
        raise InputError(f"{path} was changed after it was written, for its digest is another; record it anew")
    return {name: tensor.to(device) for name, tensor in tensors.items()}, header


def _header(text: str) -> dict[str, Any]:
    if len(text) > _LONGEST_HEADER:
        raise ValueError("its header is too long")
    header = json.loads(text) if text else None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"it has no header of the format {FORMAT!r}")
    if header.get("version") != VERSION:
        raise ValueError(f"its version is {str(header.get('version'))[:20]}, and {VERSION} is read here")
    return header


def _digest(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> str:
    found = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        _hash_tensor(found, name, tensors[name])
    return found.hexdigest()


def _hash_tensor(found: Any, name: str, tensor: Tensor) -> None:
    whole = tensor.detach().cpu().contiguous()
    found.update(f"{name} {whole.dtype} {tuple(whole.shape)}".encode())
    found.update(whole.view(-1).view(torch.uint8).numpy() if whole.numel() else b"")


def _trace(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Trace:
    parts = frozen = None
    if "maps" in header:
        maps, readout = (restored(header[name], tensors) for name in ("maps", "readout"))
        frozen = restored(header["frozen"], tensors)
        parts = Parts(maps, readout, header["layers"], header["heads"], header["shape"])
    optional = {name: tensors.get(name) for name in ("mask", "positions", "vectors", "logits", "uncapped")}
    return Trace(
        origin=Vocabulary(header["model"], header["vocabulary"], None if header["texts"] is None else tuple(header["texts"])),
        prompt=Prompt(tensors["ids"], optional["mask"], optional["positions"], optional["vectors"]),
        has_batch=header["has_batch"],
        reference=Reference(tensors["states"], optional["logits"], optional["uncapped"]),
        parts=parts,
        frozen=frozen,
        weights=header["weights"],
        made=header["made"],
    )


def vocabulary(model: Model) -> Vocabulary:
    """What a trace keeps of a model's tokenizer."""
    size = getattr(getattr(model.network, "config", None), "vocab_size", 0)
    texts = None if model.tokenizer is None else tuple(model.token_texts(range(size)))
    return Vocabulary(model.name, size, texts)


def weights_digest(model: Model) -> str:
    """A digest of every weight of a model."""
    found = hashlib.sha256()
    for name, weight in sorted(model.network.state_dict().items()):
        _hash_tensor(found, name, weight)
    return found.hexdigest()


def made_with(reference: Reference) -> dict[str, str]:
    """Device, dtype and versions of a run."""
    device = reference.states.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    found = {"device": f"{device.type} {name}".strip(), "dtype": str(reference.states.dtype).removeprefix("torch.")}
    for package in ("opalgebra", "torch", "transformers"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def check_weights(trace: Trace, model: Model) -> None:
    """ModelError unless the model has the weights that a trace refers to."""
    if weights_digest(model) != trace.weights:
        raise ModelError(f"{model.name} has other weights than the run that was recorded; record it anew")


@table.register
def _(value: Trace) -> Table:
    held = "held" if value.parts is not None else f"by reference, {value.weights}"
    rows = [("input", " x ".join(map(str, value.prompt.ids.shape)) + " tokens"), ("weights", held), *value.made.items()]
    return Table(["trace", value.origin.name], rows)
