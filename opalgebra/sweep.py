"""One function over many prompts, through any executor: results in one file, complete or not at all, and resumed when stopped.

While a sweep runs, each result goes into a journal beside its file as soon as it is there. A sweep that was stopped, by an
exception or by the death of its process, is resumed by the same call: what the journal has is not computed again. The file is
the same to the last bit whatever the executor, the order in which results came, and how often the sweep was resumed.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from opalgebra.errors import InputError
from opalgebra.files import write_text

Function = Callable[[Any], object]


def sweep(
    function: Function,
    prompts: Iterable[Any],
    executor: Executor | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> list[Any]:
    """The results of a function of one prompt, in the order of the prompts, as plain values.

    prompts: texts, token ids, or anything else that JSON holds; a prompt that is there twice is computed twice. executor: any
    of `concurrent.futures` or alike, such as `dask.distributed.Client(...).get_executor()`; in this process for None. A result
    is what JSON holds exactly: numbers, texts, None, lists and mappings of them; arrays become nested lists, and what has
    `to_dict` is taken by it. progress: None shows a bar on a terminal.

    path: a file of JSON lines, the first with the function's name and a digest of the prompts, then a line for each prompt.
    It is written at once when all results are there; if it is there already the results are read from it. The code of the
    function is not part of what identifies a sweep: choose another path, or delete the file, when the code has changed.

    InputError for no prompts, a result that JSON does not hold, NaN or infinity with their place, another sweep's file, and
    where the function fails for a prompt, which it names; what had been computed is kept in the journal.

    >>> sweep(len, ["Mary", "John and Mary"])
    [4, 13]
    """
    given = list(prompts)
    if not given:
        raise InputError("a sweep needs at least one prompt")
    if executor is not None and not hasattr(executor, "submit"):
        raise InputError(
            f"a {type(executor).__name__} is no executor; give one of concurrent.futures, or a dask client's get_executor()"
        )
    kept = [plain(prompt, f"prompt {number}") for number, prompt in enumerate(given)]
    if path is None:
        return _ordered(dict(_computed(function, given, range(len(given)), executor, progress)))
    file = _File(Path(path), _name(function), kept)
    if file.path.exists():
        return file.results()
    with file.journal() as (known, note):
        missing = [number for number in range(len(given)) if number not in known]
        for number, result in _computed(function, given, missing, executor, progress):
            note(number, result)
            known[number] = result
        file.write(_ordered(known))
    return _ordered(known)


def plain(value: object, place: str) -> Any:
    """A value as JSON holds it exactly. InputError for one that it does not hold, with its place."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{place} is {value}; a sweep keeps finite numbers (put None where there is none)")
        return float(value)
    if isinstance(value, Mapping):
        wrong = next((key for key in value if not isinstance(key, str)), None)
        if wrong is not None:
            raise InputError(f"{place} has the key {wrong!r}, which is no text")
        return {key: plain(part, f"{place}, {key}") for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part, f"{place}, item {index}") for index, part in enumerate(value)]
    for method in ("to_dict", "tolist"):
        if hasattr(value, method):
            return plain(getattr(value, method)(), place)
    raise InputError(f"{place} is a {type(value).__name__}, which JSON does not hold; give numbers, texts, lists and mappings")


def _ordered(results: Mapping[int, Any]) -> list[Any]:
    return [results[number] for number in range(len(results))]


def _apply(function: Function, prompt: Any, number: int) -> Any:
    """The result for a prompt, made plain where it was computed."""
    return plain(function(prompt), f"the result of prompt {number}")


def _computed(
    function: Function, prompts: list[Any], numbers: Iterable[int], executor: Executor | None, progress: bool | None
) -> Iterator[tuple[int, Any]]:
    """Numbers of prompts with their results, in the order in which these are there."""
    from tqdm import tqdm

    numbers = list(numbers)
    with tqdm(desc="sweep", unit="prompt", total=len(prompts), initial=len(prompts) - len(numbers),
              disable=None if progress is None else not progress) as bar:  # fmt: skip
        if executor is None:
            for number in numbers:
                yield number, _result(partial(_apply, function, prompts[number], number), number, prompts)
                bar.update()
            return
        futures: dict[Future[Any], int] = {}
        try:
            for number in numbers:
                futures[executor.submit(_apply, function, prompts[number], number)] = number
            for future in as_completed(list(futures)):
                number = futures.pop(future)
                yield number, _result(future.result, number, prompts)
                bar.update()
        except BrokenExecutor as error:
            raise InputError(
                "a worker was lost, and with it the executor; the same call with another executor resumes a sweep with a path"
            ) from error
        finally:
            for future in futures:
                future.cancel()


def _result(compute: Callable[[], Any], number: int, prompts: list[Any]) -> Any:
    try:
        return compute()
    except BrokenExecutor:
        raise
    except Exception as error:
        text = repr(prompts[number])
        short = text if len(text) <= 60 else text[:57] + "..."
        raise InputError(f"the sweep stopped at prompt {number}, {short}: {type(error).__name__}: {error}") from error


def _name(function: Function) -> str:
    """The qualified name of a function, with what a partial one was given."""
    if isinstance(function, partial):
        given = plain([list(function.args), function.keywords], "what the function was given")
        return f"{_name(function.func)} of {json.dumps(given, sort_keys=True)}"
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


@dataclass(frozen=True)
class _File:
    """The file of a sweep and the journal beside it."""

    path: Path
    function: str
    prompts: list[Any]

    @property
    def header(self) -> str:
        digest = hashlib.sha256(json.dumps(self.prompts, sort_keys=True).encode()).hexdigest()
        return json.dumps({"sweep": self.function, "prompts": len(self.prompts), "sha256": digest})

    def results(self) -> list[Any]:
        """The results of the finished file."""
        lines = self._lines(self.path)
        found = [self._entry(line, self.path) for line in lines]
        if [number for number, _ in found] != list(range(len(self.prompts))):
            raise InputError(f"{self.path} is damaged: it does not have each prompt once; delete it to begin anew")
        return [result for _, result in found]

    def write(self, results: list[Any]) -> None:
        lines = [
            json.dumps({"number": number, "prompt": prompt, "result": result}, sort_keys=True)
            for number, (prompt, result) in enumerate(zip(self.prompts, results, strict=True))
        ]
        write_text(self.path, "\n".join([self.header, *lines, ""]))

    def journal(self) -> "_Journal":
        return _Journal(self)

    def _lines(self, path: Path) -> list[str]:
        """The complete lines of a file of this sweep after its header."""
        first, *others = path.read_text(encoding="utf-8").split("\n")[:-1] or [""]
        if first != self.header:
            raise InputError(
                f"{path} is not of this sweep, of {self.function} over {len(self.prompts):,} prompts; choose another path, or "
                "delete it"
            )
        return others

    def _entry(self, line: str, path: Path) -> tuple[int, Any]:
        try:
            found = json.loads(line)
            return int(found["number"]), found["result"]
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path} is damaged at {line[:60]!r}; delete it to begin anew") from error


class _Journal:
    """The results so far, and a function that adds one; removed when the sweep is complete."""

    def __init__(self, file: _File) -> None:
        self.file = file
        self.path = file.path.with_name(f".{file.path.name}.journal")

    def __enter__(self) -> tuple[dict[int, Any], Callable[[int, Any], None]]:
        known = self._known()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.stream: TextIO = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{self.path} cannot be written ({error.strerror}); choose another place") from error
        return known, self._note

    def _known(self) -> dict[int, Any]:
        """What an earlier run left; a line that it did not finish is taken away."""
        if not self.path.exists() or "\n" not in self.path.read_text(encoding="utf-8"):
            write_text(self.path, self.file.header + "\n")
        known: dict[int, Any] = {}
        for line in self.file._lines(self.path):
            number, result = self.file._entry(line, self.path)
            if number in known or not 0 <= number < len(self.file.prompts):
                raise InputError(f"{self.path} is damaged: prompt {number} is there twice or not asked; delete it")
            known[number] = result
        whole = self.path.read_bytes()
        os.truncate(self.path, whole.rindex(b"\n") + 1)
        return known

    def _note(self, number: int, result: Any) -> None:
        self.stream.write(json.dumps({"number": number, "result": result}) + "\n")
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.stream.close()
        if kind is None:
            self.path.unlink()
