"""The handlers that benchmarks run."""

from jobyard import App

app = App()


@app.job
async def noop(x: str) -> None:
    """Does nothing."""
