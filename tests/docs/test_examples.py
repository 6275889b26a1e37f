"""What the documentation shows is so: Python compiles and stands in the examples, commands can be parsed, links and settings exist."""

import ast
import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest
import typer.core
import typer.main

from jobyard import App, InvalidArgs
from jobyard.cli.app import app as command_line
from jobyard.settings import known_names

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE: Final = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
SOURCES: Final = [
    path
    for folder in ("jobyard", "agent", "cli", "coordinator", "master_db", "migrations", "examples", "bench")
    for ending in ("*.py", "*.sql")
    for path in sorted((ROOT / folder).rglob(ending))
]
_MENTIONED: Final = re.compile(r"""["`]jobyard ([a-z]+)(?: ([a-z]+))?[^"`\n]*["`]""")
_INLINE: Final = re.compile(r"`jobyard ([^`]+)`")
_SEPARATORS: Final = {"&&", "||", "|", ";", ">", "<"}


class Block(NamedTuple):
    """A fenced block. `line`: where it begins."""

    page: Path
    line: int
    language: str
    text: str


def blocks(language: str) -> list[Block]:
    found: list[Block] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            if match[2] == language:
                line = text.count("\n", 0, match.start()) + 1
                found.append(Block(page, line, language, re.sub(f"^{match[1]}", "", match[3], flags=re.MULTILINE)))
    return found


def name_of(block: Block) -> str:
    return f"{block.page.relative_to(ROOT)}:{block.line}"


PYTHON: Final = blocks("python")
EXAMPLES: Final = [block for block in PYTHON if block.text.startswith("# examples/")]
PROGRAMS: Final = [block for block in PYTHON if re.match(r"# \w+\.py\n", block.text)]


def commands(text: str) -> Iterator[list[str]]:
    """The command lines of a console block, one program each; what stands in $(…) is one of its own."""
    for line in text.splitlines():
        if not line.startswith("$ "):
            continue
        inner = re.findall(r"\$\(([^)]*)\)", line)
        lexer = shlex.shlex(re.sub(r"\$\([^)]*\)", "…", line[2:]), posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word in _SEPARATORS:
                if words:
                    yield words
                words = []
            else:
                words.append(word)
        yield from (shlex.split(part) for part in inner)


CONSOLE: Final = [(name_of(block), command) for block in blocks("console") for command in commands(block.text)]
JOBYARD: Final = [(where, command[1:]) for where, command in CONSOLE if command[0] == "jobyard"]


def parse(arguments: list[str]) -> dict[str, Any]:
    """The values of a command of `jobyard`, without running it. Raises what typer raises for wrong usage."""
    command: Any = typer.main.get_command(command_line)
    context = command.context_class(command, info_name="jobyard")
    rest = arguments
    while isinstance(command, typer.core.TyperGroup):
        name, command, rest = command.resolve_command(context, rest)
        context = command.context_class(command, parent=context, info_name=name)
    values: dict[str, Any] = command.make_context(context.info_name, rest, parent=context.parent).params
    return values


@pytest.mark.parametrize("block", PYTHON, ids=name_of)
def test_python_compiles(block: Block) -> None:
    compile(block.text, name_of(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("block", EXAMPLES, ids=name_of)
def test_what_is_shown_of_an_example_stands_in_it(block: Block) -> None:
    heading, _, shown = block.text.partition("\n")
    source = (ROOT / heading.removeprefix("# ")).read_text(encoding="utf-8")
    there = {ast.dump(statement) for statement in ast.parse(source).body}
    imported = {(node.module, each.name) for node in ast.parse(source).body if isinstance(node, ast.ImportFrom) for each in node.names}
    for statement in ast.parse(shown).body:
        if isinstance(statement, ast.ImportFrom):
            assert {(statement.module, each.name) for each in statement.names} <= imported
        else:
            assert ast.dump(statement) in there, f"not so in {heading}: {ast.unparse(statement)[:200]}"


@pytest.mark.parametrize("block", PROGRAMS, ids=name_of)
def test_a_whole_program_can_be_imported_and_takes_the_jobs_that_its_page_submits(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = block.text.splitlines()[0].removeprefix("# ").removesuffix(".py")
    file = tmp_path / f"{name}.py"
    file.write_text(block.text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    app = module.app
    assert isinstance(app, App)
    app.load()
    submitted = 0
    for where, command in JOBYARD:
        if where.startswith(f"{block.page.relative_to(ROOT)}:") and command[:2] == ["job", "submit"]:
            given = parse(command)
            app.handlers[given["kind"]].decode_args(given["args"].encode())
            submitted += 1
    assert submitted
    with pytest.raises(InvalidArgs):
        next(iter(app.handlers.values())).decode_args(b'{"no such": 1}')


@pytest.mark.parametrize(("where", "command"), JOBYARD, ids=[where for where, _ in JOBYARD])
def test_a_command_that_is_shown_can_be_parsed(where: str, command: list[str]) -> None:
    try:
        parse(command)
    except Exception as error:  # of typer's own sort
        pytest.fail(f"{where}: jobyard {shlex.join(command)}: {error}")


def test_parsing_finds_what_is_wrong() -> None:
    for wrong in (["job", "divine", "x"], ["job", "list", "--slow"], ["agent", "run", "a:b", "c:d"], ["limit", "list"]):
        with pytest.raises(Exception, match=r"No such|unexpected"):
            parse(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_named_in_the_text_exist(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    for match in _INLINE.finditer(text):
        words = shlex.split(match[1])
        group: Any = typer.main.get_command(command_line)
        for word in words:
            if not isinstance(group, typer.core.TyperGroup):
                break
            group = group.commands.get(word)
            assert group is not None, f"jobyard {match[1]}: there is no {word}"
        for option in (word for word in words if word.startswith("--")):
            known = {name for parameter in group.params for name in parameter.opts}
            assert option in known | {"--help"}, f"jobyard {match[1]}: there is no {option}"


def test_commands_that_messages_and_hints_name_exist() -> None:
    nouns: dict[str, Any] = vars(typer.main.get_command(command_line))["commands"]
    for path in SOURCES:
        for match in _MENTIONED.finditer(path.read_text(encoding="utf-8")):
            noun, verb = match.groups()
            assert noun in nouns, f"{path}: {match[0]}"
            assert verb is None or verb in nouns[noun].commands, f"{path}: {match[0]}"


@pytest.mark.parametrize(("where", "command"), CONSOLE, ids=[where for where, _ in CONSOLE])
def test_other_commands_exist_too(where: str, command: list[str]) -> None:
    program, *arguments = command
    if program == "make":
        rules = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        assert {word for word in arguments if "=" not in word} <= rules  # the others are variables
    elif program.endswith("python") and arguments[0] == "-m":
        assert importlib.util.find_spec(arguments[1]) is not None
    elif program.endswith("python"):
        assert (ROOT / arguments[0]).is_file()
    elif program == "docker":
        assert arguments[0] == "compose"
        services = set(re.findall(r"^  ([a-z]+):", (ROOT / "compose.yaml").read_text(encoding="utf-8"), re.MULTILINE))
        named = {word.partition("=")[0] for word in arguments[2:] if word in services or re.fullmatch(r"[a-z]+=\d+", word)}
        assert named <= services
    elif "/" in program:
        assert (ROOT / program).is_file()
    else:
        assert program in ("jobyard", "eval", "export", "pip"), f"{where}: {program}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path).resolve()
        assert target.exists(), f"{link}: there is no {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{link}: there is no such heading; there are {sorted(anchors)}"


def test_all_settings_are_documented_and_no_other() -> None:
    operations = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert set(known_names()) <= set(re.findall(r"^\| `(JOBYARD_[A-Z_]+)` \|", operations, re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"JOBYARD_[A-Z_]+(?<!_)\b", page.read_text(encoding="utf-8")))
        assert named <= {*known_names(), "JOBYARD_CACHE_DIR"} | {"JOBYARD_SERVICE", "JOBYARD_PORT"}, page.name


@pytest.mark.parametrize("block", blocks("json"), ids=name_of)
def test_json_is_a_job(block: Block) -> None:
    from jobyard.contracts.job import NewJob, problem_of
    from jobyard.contracts.rules import RULES

    assert problem_of(msgspec.json.decode(block.text, type=NewJob), RULES) is None
