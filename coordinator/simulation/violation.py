"""An invariant that does not hold."""


class Violation(BaseException):
    """Not an Exception: no part of the product may take it for a failure of its own and go on. `rule`: the invariant's name."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule
        self.what = what


class Killed(BaseException):
    """The process whose code runs here has been killed: its frames end without a word."""
