"""MODULE:APP: the application that a command is about."""

import importlib
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

import jobyard
from jobyard.contracts.errors import ConfigurationError, JobyardError

if TYPE_CHECKING:
    from jobyard.api.app import App

Target = Annotated[
    str | None, typer.Argument(metavar="MODULE:APP", help="The application, shop.jobs:app for example; JOBYARD_APP where it is left out.")
]


_OURS: Final = (Path(__file__).resolve().parent, Path(jobyard.__file__).resolve().parent)
"""Where the program lies: its folders may be links into one package."""


def load(target: str | None, default: str | None) -> "App":
    """The application with all its handlers, its modules imported. The current folder is searched first, as by `python -m`.

    Raises ConfigurationError that says what is missing: the module, the attribute, or that it is no App. An error in the module's own code is
    shown with its traceback.
    """
    from jobyard.api.app import App

    named = target or default
    if named is None:
        raise ConfigurationError("which application? Give MODULE:APP (shop.jobs:app for example), or set JOBYARD_APP")
    module_name, colon, attribute = named.partition(":")
    if not (module_name and colon and attribute):
        raise ConfigurationError(f"{named!r} names no application: write MODULE:APP, shop.jobs:app for example")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise ConfigurationError(f"there is no module {error.name!r} (looked in {folder} and in the installed packages)") from None
        raise _broken(f"module {module_name} can't be imported", error) from error
    except JobyardError:
        raise
    except Exception as error:
        raise _broken(f"module {module_name} can't be imported", error) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"module {module_name!r} has no {attribute!r}{_apps_in(sys.modules[module_name])}")
        found = getattr(found, part)
    if not isinstance(found, App):
        raise ConfigurationError(f"{named} is a {type(found).__name__}, not a jobyard.App{_apps_in(sys.modules[module_name])}")
    try:
        found.load()
    except JobyardError:
        raise
    except Exception as error:
        raise _broken(f"application {named} can't be loaded", error) from error
    return found


def _broken(what: str, error: Exception) -> ConfigurationError:
    # neither the frames of importlib nor those of this program say anything to who wrote the module
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename and not _is_ours(frame.filename)
    ]
    where = "".join(traceback.format_list(frames[-5:])).rstrip()
    return ConfigurationError(f"{what}: {type(error).__name__}: {error}" + (f"\n{where}" if where else ""))


def _is_ours(filename: str) -> bool:
    path = Path(filename).resolve()
    return any(path.is_relative_to(folder) for folder in _OURS)


def _apps_in(module: object) -> str:
    from jobyard.api.app import App

    names = [name for name, value in vars(module).items() if isinstance(value, App)]
    return f"; did you mean {', '.join(names)}?" if names else ""
