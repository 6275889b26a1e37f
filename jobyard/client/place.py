"""Calls that block must not be made on an event loop."""

import asyncio

from jobyard.contracts.errors import WrongPlace


def refuse_on_loop(method: str) -> None:
    """Raise WrongPlace if an event loop runs in this thread. `method` has a twin whose name ends in _async."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise WrongPlace(f"{method}() would block the running event loop: use `await {method}_async()`")
