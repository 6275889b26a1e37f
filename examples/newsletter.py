"""A job that submits others: one for the issue, one for each reader. Each reader's job knows its parent.

Run the agent with `jobyard agent run examples.newsletter:app`. In it, JOBYARD_SUBMIT_VIA=kafka: agents need no database.
"""

from uuid import UUID

from jobyard import App, Retry

app = App()


class Sender:
    """Sends at most `quota` mails, then asks to be called later."""

    def __init__(self, quota: int) -> None:
        self.quota = quota
        self.sent: list[str] = []

    def send(self, reader: str, issue: int) -> int:
        """A bound method is a handler, too."""
        if len(self.sent) >= self.quota:
            raise Retry(delay=3600, reason="the quota of this hour is used up")
        self.sent.append(f"{reader} gets issue {issue}")
        return len(self.sent)


sender = Sender(quota=1000)
send_to_reader = app.job(kind="newsletter.send", priority="low")(sender.send)


@app.job(kind="newsletter.publish")
async def publish(issue: int, readers: list[str]) -> int:
    """Submits a job for each reader. Run again after a crash it may submit them again: a reader's job must bear that."""
    result = await app.submit_many_async(send_to_reader.request(reader, issue) for reader in readers)
    return result.accepted


def publish_now(issue: int, readers: list[str]) -> UUID:
    """Submits the issue; returns the job's id."""
    return publish.options(tags={"issue": str(issue)}).submit(issue, readers).id
