"""A name, a folder, a hub id or a model object becomes one record: the network, its tokenizer and a name."""

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from opalgebra.display import Tabulated
from opalgebra.errors import InputError, ModelError
from opalgebra.models.packages import KNOWN, NEEDS_MODELS, quiet, weights_folder
from opalgebra.render.table import Table, table
from opalgebra.scalar import is_natural


@dataclass(frozen=True, eq=False, repr=False)
class Model(Tabulated):
    """A network with the tokenizer that belongs to it, or None where the caller gives token ids."""

    network: torch.nn.Module
    tokenizer: object | None
    name: str

    def __repr__(self) -> str:
        first = next(self.network.parameters())
        count = sum(parameter.numel() for parameter in self.network.parameters())
        dtype = str(first.dtype).removeprefix("torch.")
        return f"Model({self.name}: {type(self.network).__name__}, {count:,} parameters, {dtype}, {self.devices})"

    @property
    def devices(self) -> str:
        """Where the parameters are."""
        return ", ".join(dict.fromkeys(str(parameter.device) for parameter in self.network.parameters()))

    def token_ids(self, text: str) -> list[int]:
        """The ids of a text as the tokenizer gives them by default. InputError without a tokenizer."""
        if self.tokenizer is None:
            raise InputError(f"{self.name} has no tokenizer to read a text; pass token ids, or tokenizer= to load")
        return list(self.tokenizer(text)["input_ids"])  # type: ignore[operator]

    def token_id(self, token: str | int) -> int:
        """The id of a text that is exactly one token, special tokens apart; an id is returned as it is. InputError."""
        vocabulary = self.network.config.vocab_size
        if not isinstance(token, str):
            if not is_natural(token) or token >= vocabulary:
                raise InputError(f"token id {token} was asked; ids of {self.name} run from 0 to {vocabulary - 1:,}")
            return token
        if self.tokenizer is None:
            raise InputError(f"{self.name} has no tokenizer to read {token!r}; pass a token id")
        ids = list(self.tokenizer(token, add_special_tokens=False)["input_ids"])  # type: ignore[operator]
        if len(ids) != 1:
            raise InputError(f"{token!r} is {len(ids)} tokens of {self.name}; give a text that is one token, or an id")
        return int(ids[0])

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """What the reader sees of each token; the ids themselves without a tokenizer."""
        if self.tokenizer is None:
            return [str(index) for index in ids]
        return [self.tokenizer.decode([index]) for index in ids]  # type: ignore[attr-defined]


def load(
    name: str | os.PathLike | torch.nn.Module,
    *,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str | None = None,
    device_map: Any = None,
    tokenizer: object | None = None,
) -> Model:
    """The model of a known name, a local folder, a hub id, or a model object, ready to be bound.

    name: "smollm2" or "minilm" (weights from a package, converted once under `cache_folder()`); a folder written by
    save_pretrained ("./smollm2" if it has a known name); a hub id; or a torch module. Only safetensors are read, and
    no code of a repository is run.
    dtype, device: float64 and "cpu" by default for what is loaded here. A model object keeps its own unless one is
    given; a different one gives a converted copy, and the object itself is never changed.
    device_map: in place of device, how the modules of what is loaded here are spread over devices, as from_pretrained takes it
    ("auto", or a mapping of module names); it needs accelerate. Every stage is computed where its weights are.
    tokenizer: for a model object, which has none else; replaces the one found for a name.

    What is loaded here is in evaluation mode, with eager attention and without gradients. Raises ModelError (unknown
    name, missing package, weights that cannot be read) and InputError (dtype or device).

    >>> load(torch.nn.Linear(2, 3))
    Model(Linear: Linear, 9 parameters, float32, cpu)
    """
    if not isinstance(name, str | os.PathLike | torch.nn.Module):
        raise InputError(f"a {type(name).__name__} is no model; give a known name, a folder, a hub id or a model object")
    if device_map is not None and (device is not None or isinstance(name, torch.nn.Module)):
        other = "device= was given too" if device is not None else "a model object is where it is"
        raise InputError(f"device_map= says where modules of a model are loaded, and {other}; leave one of the two out")
    if isinstance(name, torch.nn.Module):
        return Model(_converted(name, dtype, device), tokenizer, type(name).__name__)
    dtype = _dtype(dtype or torch.float64)
    place = _device(device or "cpu", dtype)
    text = os.fspath(name)
    network, found = _read(text, dtype, device_map)
    network.eval().requires_grad_(False)
    if device_map is None:
        network = network.to(place)
    return Model(network, found if tokenizer is None else tokenizer, text)


def _converted(network: torch.nn.Module, dtype, device) -> torch.nn.Module:
    first = next(network.parameters(), None)
    if first is None:
        raise ModelError(f"cannot use {type(network).__name__}: it has no parameters; give a Transformer's model object")
    wished_dtype = first.dtype if dtype is None else _dtype(dtype)
    wished_device = first.device if device is None else _device(device, wished_dtype)
    floating = [value for value in network.parameters() if value.is_floating_point()]
    if dtype is not None and any(value.dtype != wished_dtype for value in floating):
        network = copy.deepcopy(network).to(wished_dtype)
    if device is not None and any(value.device != wished_device for value in network.parameters()):
        network = copy.deepcopy(network).to(wished_device)
    return network


def _read(name: str, dtype: torch.dtype, device_map: Any) -> tuple[torch.nn.Module, object | None]:
    try:
        import transformers
        from huggingface_hub.errors import StrictDataclassError
        from safetensors import SafetensorError
    except ImportError as error:
        raise ModelError(f"cannot load {name!r}: this {NEEDS_MODELS}") from error
    known = any(name == entry.name for entry in KNOWN)
    source = str(weights_folder(name)) if known else name
    if os.path.isdir(source) and not (Path(source) / "config.json").is_file():
        raise ModelError(f"cannot load {name!r}: the folder has no config.json; give a folder written by save_pretrained")
    try:
        with quiet():
            config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)
    except OSError as error:
        raise ModelError(_unknown(name, source if known else None)) from error
    except StrictDataclassError as error:
        raise ModelError(f"cannot load {name!r}: its configuration contradicts itself ({_one_line(error)})") from error
    except ValueError as error:
        raise ModelError(
            f"cannot load {name!r}: transformers {transformers.__version__} does not know its architecture "
            f"({_one_line(error)}); save it from a model class of transformers, or upgrade transformers"
        ) from error
    architecture = (config.architectures or ["AutoModel"])[0]
    kind = getattr(transformers, architecture, None)
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel | transformers.AutoModel)):
        raise ModelError(
            f"cannot load {name!r}: its class {architecture} is not part of transformers {transformers.__version__}, "
            "and code of a repository is never run; load it yourself and give the model object"
        )
    try:
        with quiet():
            network, found = kind.from_pretrained(
                source, config=config, dtype=dtype, attn_implementation="eager", use_safetensors=True,
                ignore_mismatched_sizes=True, output_loading_info=True, device_map=device_map,
            )  # fmt: skip
    except (OSError, ValueError, SafetensorError) as error:
        if device_map is not None and isinstance(error, ValueError):
            raise ModelError(_not_spread(name, device_map, error)) from error
        raise ModelError(
            f"cannot load {name!r}: the weights in {source} cannot be read ({_one_line(error)}); "
            + ("delete this folder and load again" if known else "only safetensors files are read")
        ) from error
    except Exception as error:
        if device_map is not None:
            raise ModelError(_not_spread(name, device_map, error)) from error
        raise ModelError(
            f"cannot load {name!r}: transformers cannot build {architecture} from its configuration "
            f"({type(error).__name__}: {_one_line(error)}); mend config.json"
        ) from error
    _check_complete(name, source, found)
    try:
        with quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError):
        tokenizer = None
    return network, tokenizer


def _check_complete(name: str, source: str, found: Mapping[str, Any]) -> None:
    """Refuses a weight that the files do not have, which would be left random."""
    shapes = {key: f" as {tuple(wished)}, only as {tuple(stored)}" for key, stored, wished in found["mismatched_keys"]}
    lacking = dict.fromkeys(found["missing_keys"], "") | shapes
    if lacking:
        key = min(lacking)
        others = f", nor {len(lacking) - 1} others" if len(lacking) > 1 else ""
        raise ModelError(
            f"cannot load {name!r}: the files in {source} do not have the weight {key}{lacking[key]}{others}; the "
            "configuration and the weights do not belong together"
        )


def _unknown(name: str, folder: str | None) -> str:
    if folder is not None:
        return f"cannot load {name!r}: the folder {folder} cannot be read; delete it and load again"
    names = ", ".join(repr(entry.name) for entry in KNOWN)
    if os.path.isdir(name):
        return f"cannot load {name!r}: its config.json cannot be read; give a folder written by save_pretrained"
    return (
        f"cannot load {name!r}: it is not a known name ({names}) nor a local folder, and the Hugging Face hub has no "
        "such model or cannot be reached; give one of these names, a folder written by save_pretrained, a hub id, or a "
        "model object"
    )


def _not_spread(name: str, device_map: Any, error: Exception) -> str:
    return (
        f"cannot load {name!r} spread by device_map={device_map!r} ({_one_line(error)}); give 'auto', or a mapping of its "
        "modules to devices that are here, with accelerate installed"
    )


def _one_line(error: Exception) -> str:
    """The first line of an error's text, and the second where the first only announces it."""
    first, *others = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
    return " ".join([first, *others[: first.endswith(":")]]).rstrip(".")


def _dtype(wished: torch.dtype | str) -> torch.dtype:
    allowed = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    dtype = allowed.get(wished, wished) if isinstance(wished, str) else wished
    if dtype not in allowed.values():
        raise InputError(f"dtype {str(wished)!r} is not a floating dtype of a model; give one of {', '.join(allowed)}")
    return dtype


def _device(wished: torch.device | str, dtype: torch.dtype) -> torch.device:
    try:
        device = torch.device(wished)
        device = torch.empty(0, dtype=dtype, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InputError(
            f"device {str(wished)!r} cannot hold {str(dtype).removeprefix('torch.')} here ({_one_line(error)}); give "
            "device='cpu', or a dtype that this device has"
        ) from error
    return device


@table.register
def _(value: Model) -> Table:
    first = next(value.network.parameters())
    rows = [
        ("class", type(value.network).__name__),
        ("parameters", f"{sum(parameter.numel() for parameter in value.network.parameters()):,}"),
        ("dtype, device", f"{str(first.dtype).removeprefix('torch.')}, {value.devices}"),
        ("reads", "ids" if value.tokenizer is None else "texts and ids"),
    ]
    return Table(["model", value.name], rows)
