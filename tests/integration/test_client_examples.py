"""The examples submit what they say, on real Postgres."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from examples import media, newsletter, shop
from jobyard import Fail, Retry, Snooze, settings


@pytest.fixture(autouse=True)
def database_of_the_settings(monkeypatch: pytest.MonkeyPatch, database_url: str) -> Iterator[None]:
    """The examples take their settings from the environment, as programs do."""
    monkeypatch.setenv("JOBYARD_DATABASE_URL", database_url)
    settings.client_settings.cache_clear()
    yield
    for app in (shop.app, media.app, newsletter.app):
        app.close()  # what is opened next asks the settings again
    settings.client_settings.cache_clear()


def run(handler: Any, args: bytes) -> Any:
    """As an agent runs it, without one."""
    spec = handler.spec
    outcome = spec.function(**spec.decode_args(args))
    return spec.encode_result(asyncio.run(outcome) if spec.is_async else outcome)


def test_the_shop(database_url: str) -> None:
    order = shop.Order(1, "ann@example.org", Decimal("9.90"), datetime(2026, 1, 2, tzinfo=UTC))
    with psycopg.connect(database_url) as connection:
        lost = shop.place_order(connection, order)
        connection.rollback()
        kept = shop.place_order(connection, order)
    assert shop.app.handle(kept.id).status().priority == "high"
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select id from jobyard.jobs").fetchall() == [(kept.id,)]
        assert connection.execute("select args::text from jobyard.jobs").fetchone() is not None
    assert lost.id != kept.id


def test_the_media(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("one two\nthree\n" * (number + 1))
    assert media.transcribe_folder(tmp_path).accepted == 3
    request = media.transcribe.request(tmp_path / "0.txt", 1)
    assert b'"words":3' in run(media.transcribe, bytes(request.job.args))
    with pytest.raises(Snooze):
        media.transcribe(tmp_path / "none.txt", 1)


def test_the_newsletter() -> None:
    handle = newsletter.publish.handle(newsletter.publish_now(7, ["ann", "ben"]))
    status = handle.status()
    assert (status.kind, status.tags, status.args) == ("newsletter.publish", {"issue": "7"}, {"issue": 7, "readers": ["ann", "ben"]})
    assert run(newsletter.send_to_reader, b'{"reader":"ann","issue":7}') == b"1"
    empty = newsletter.Sender(quota=0)
    with pytest.raises(Retry, match="quota"):
        empty.send("ben", 7)


def test_no_address_no_confirmation() -> None:
    order = shop.Order(2, "nobody", Decimal(1), datetime(2026, 1, 2, tzinfo=UTC))
    with pytest.raises(Fail, match="no mail address"):
        asyncio.run(confirmed(order))


async def confirmed(order: shop.Order) -> list[tuple[str, str]]:
    async with shop.app.resources():
        await shop.confirm_order(order)
        return shop.mailbox.get().sent


def test_an_order_is_confirmed() -> None:
    order = shop.Order(3, "ann@example.org", Decimal("9.90"), datetime(2026, 1, 2, tzinfo=UTC))
    assert asyncio.run(confirmed(order)) == [("ann@example.org", "Order 3 of 02 January 2026: 9.90 EUR. Thank you!")]
