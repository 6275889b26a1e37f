"""The demo's input: the standard library's source files, as installed with the Python that runs the demo."""

import sysconfig
from pathlib import Path

_BROKEN = {
    "unclosed.py": b"def broken(:\n    return 1\n",
    "nul.py": b"x = 1\x00\n",
    "encoding.py": b"# -*- coding: no-such-encoding -*-\nx = 1\n",
}


def source_files(scratch: Path) -> tuple[list[Path], str]:
    """All source files, and a sentence about what was found.

    Some distributions leave the library's tests out, and with them the files that are broken on purpose: then a few are written to `scratch`.
    """
    library = Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in library.rglob("*.py") if "site-packages" not in path.parts and "dist-packages" not in path.parts)
    if (library / "test" / "tokenizedata").is_dir():
        return files, f"{len(files)} source files in {library}, tests and the files that are broken on purpose included"
    scratch.mkdir(parents=True, exist_ok=True)
    for name, content in _BROKEN.items():
        (scratch / name).write_bytes(content)
    files += [scratch / name for name in _BROKEN]
    return (
        files,
        f"{len(files)} source files in {library}; this distribution left the tests out, so {len(_BROKEN)} broken files were written to {scratch}",
    )
