"""What goes in and comes out of one handler: its arguments and its result."""

import inspect
from collections.abc import Callable
from typing import Any

from jobyard.api.arguments import Arguments, Results, hints_of


class Shape:
    """A handler's arguments and result. Made at once; if an annotation names what does not exist yet, at first use."""

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        self._kind = kind
        self.function = function
        self._made: tuple[Arguments, Results] | None = None
        try:
            self._make()
        except NameError:  # a class further down in the module, perhaps; load() asks again
            inspect.signature(function)

    def _make(self) -> tuple[Arguments, Results]:
        if self._made is None:
            hints = hints_of(self.function)
            self._made = Arguments(self._kind, self.function, hints), Results(self._kind, hints)
        return self._made

    def complete(self) -> None:
        """Raise TypeError if an annotation still names what does not exist."""
        try:
            self._make()
        except NameError as error:
            raise TypeError(
                f"{self._kind}: an annotation can't be evaluated: {error}. Import it outside of `if TYPE_CHECKING`, at module level"
            ) from None

    @property
    def arguments(self) -> Arguments:
        """The arguments."""
        self.complete()
        return self._make()[0]

    @property
    def results(self) -> Results:
        """The result."""
        self.complete()
        return self._make()[1]
