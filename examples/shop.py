"""A shop: an order and its confirmation are stored in one transaction, or neither is.

Run the agent with `jobyard agent run examples.shop:app`.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import psycopg

from jobyard import App, Fail, JobHandle, RetryPolicy, current_job

app = App()


@dataclass
class Order:
    number: int
    customer: str
    total: Decimal
    placed_at: datetime


class Mailbox:
    """Stands for a connection to a mail server: it only remembers."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    async def send(self, to: str, text: str) -> None:
        self.sent.append((to, text))


@app.resource
async def mailbox() -> AsyncIterator[Mailbox]:
    """Opened once in each agent."""
    yield Mailbox()


@app.job(priority="high", timeout=30, retry=RetryPolicy(max_attempts=8, base=1, no_retry_for=(UnicodeError,)))
async def confirm_order(order: Order) -> str:
    """Mails the customer. A mail server that does not answer is tried again; an address that can't be right is not."""
    if "@" not in order.customer:
        raise Fail(f"{order.customer!r} is no mail address")
    await mailbox.get().send(order.customer, f"Order {order.number} of {order.placed_at:%d %B %Y}: {order.total} EUR. Thank you!")
    current_job().log.info("confirmed order %d", order.number)
    return order.customer


def place_order(connection: psycopg.Connection, order: Order) -> JobHandle[str]:
    """Stores the order and submits its confirmation, in the caller's transaction."""
    connection.execute("create table if not exists orders (number int primary key, customer text, total numeric, placed_at timestamptz)")
    connection.execute("insert into orders values (%s, %s, %s, %s)", [order.number, order.customer, order.total, order.placed_at])
    return confirm_order.options(connection=connection, tags={"customer": order.customer}).submit(order)
