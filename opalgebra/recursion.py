"""Recursion without the interpreter's stack: a recursive function is a generator that yields the calls it needs."""

from collections.abc import Generator
from typing import Any, TypeVar

Answer = TypeVar("Answer")
Steps = Generator[Any, Any, Answer]


def without_recursion(call: Steps[Answer]) -> Answer:
    """Runs a generator whose `yield other_call` evaluates to the value that `other_call` returns, to any depth."""
    running: list[Steps[Any]] = [call]
    answer: Any = None
    while running:
        try:
            running.append(running[-1].send(answer))
            answer = None
        except StopIteration as finished:
            running.pop()
            answer = finished.value
    return answer  # type: ignore[no-any-return]
