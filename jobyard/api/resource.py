"""Resources: what handlers share in one process, opened once before the first job and closed in reverse order."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar, cast

from jobyard.contracts.errors import WrongPlace

T = TypeVar("T")


class Resource(Generic[T]):
    """What `@app.resource` gives. `get()` gives what the function yielded."""

    def __init__(self, function: Callable[[], AsyncIterator[T]] | Callable[[], Iterator[T]]) -> None:
        """TypeError if the function is no generator, or needs arguments."""
        self.name: str = getattr(function, "__qualname__", repr(function))
        if not (inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)):
            raise TypeError(f"resource {self.name} must be a function that yields what it opened, once")
        needed = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty and p.kind not in (2, 4)]
        if needed:
            raise TypeError(f"resource {self.name} must need no argument; it needs {', '.join(needed)}")
        self._function = function
        self._values: list[T] = []

    def __repr__(self) -> str:
        return f"Resource({self.name})"

    def get(self) -> T:
        """What is open now. WrongPlace outside an agent (and of `with app.resources()`)."""
        if not self._values:
            raise WrongPlace(f"resource {self.name} is not open: it is opened by an agent, or by `async with app.resources()`")
        return self._values[-1]

    async def open_in(self, stack: AsyncExitStack) -> None:
        """Open it, to be closed by `stack`."""
        if inspect.isasyncgenfunction(self._function):
            opener = asynccontextmanager(cast("Callable[[], AsyncGenerator[T]]", self._function))
            value: T = await stack.enter_async_context(opener())
        else:
            value = stack.enter_context(contextmanager(cast("Callable[[], Generator[T]]", self._function))())
        self._values.append(value)
        stack.callback(self._values.remove, value)


AnyResource = Resource[Any]
