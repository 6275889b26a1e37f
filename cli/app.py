"""`jobyard`: the nouns of the command line, joined; errors become exit codes here. `python -m jobyard.cli.app` is the same."""

import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from jobyard.cli import agent, apps, config, coordinator, db, dev, job, kind, lane, output, together, topics
from jobyard.cli.exits import Exit, code_of
from jobyard.contracts.errors import JobyardError
from jobyard.process.logs import masked

_HELP: Final = """Background jobs: run through Kafka, answered for in Postgres.

Exit codes: 0 done (also: nothing matched) · 1 refused, in part too, or the awaited job did not succeed · 2 wrong usage or settings ·
3 not found · 4 a service can't be reached · 5 time ran out · 70 a bug.

Example: jobyard dev up && eval "$(jobyard dev env)" && jobyard job list
"""


class _Group(TyperGroup):
    """Says what is wrong with a value without the words of the library that has read it."""

    def invoke(self, ctx: Any) -> Any:  # of click or of typer, by the version
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


def _version(asked: bool) -> None:
    if asked:
        output.say(f"jobyard {version('jobyard')}")
        raise typer.Exit


app = typer.Typer(cls=_Group, help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
for name, part in (
    ("job", job.app),
    ("lane", lane.app),
    ("kind", kind.app),
    ("agent", agent.app),
    ("coordinator", coordinator.app),
    ("app", apps.app),
    ("db", db.app),
    ("topics", topics.app),
    ("config", config.app),
    ("dev", dev.app),
):
    app.add_typer(part, name=name)
app.command("run")(together.run)


@app.callback()
def program(
    asked: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version, and end.")] = False,
) -> None:
    """Options of the program itself; the help is above."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command (None: that of this process); returns its exit code."""
    try:
        # says itself what is wrong with the command line, and ends with 2; Ctrl-C at a command that answers: 130, as of any program
        app(args=None if arguments is None else list(arguments), prog_name="jobyard")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else Exit.DONE
    except JobyardError as error:
        output.error(str(error))
        return code_of(error)
    except Exception:
        output.note(masked(traceback.format_exc().rstrip()))
        output.error("this is a bug in Jobyard; please report it with the lines above")
        return Exit.BUG
    return Exit.DONE


def main() -> None:
    """The entry point of the program `jobyard`."""
    sys.exit(run())


if __name__ == "__main__":
    main()
