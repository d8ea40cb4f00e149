#!/usr/bin/env python3
"""check_layers.py [ROOT]: the rules of the house that a compiler does not check.

  include direction   autograd -> core;  nn, optim, dist -> core, autograd;  apps, tests -> anything
  libraries           MPI, NCCL, CUDA, cuBLAS, BLAS and oneDNN headers stay in .cpp and .cu files and in
                      private headers; a public header must not reach one through others either;
                      within core, only core/cuda/ sees CUDA
  one switch          no preprocessor conditional; core/config.h.in is where a build differs
  headers             no `using namespace`
  sizes               a line has at most 100 characters (clang-format leaves comments alone), a file has
                      at most 350 lines, a folder's README.md at most 40; each folder with sources has one

Prints file:line: message for each violation and exits with 1 if there is any.
"""

import argparse
import re
import sys
from pathlib import Path

from common import ROOT

MAY_INCLUDE = {
    "core": {"core"},
    "autograd": {"core", "autograd"},
    "nn": {"core", "autograd", "nn"},
    "optim": {"core", "autograd", "optim"},
    "dist": {"core", "autograd", "dist"},
    "apps": {"core", "autograd", "nn", "optim", "dist", "apps"},
    "tests": {"core", "autograd", "nn", "optim", "dist", "apps", "tests"},
}
HEADERS = {".h", ".cuh"}
SOURCES = {".cpp", ".cu"}
MAX_FILE_LINES = 350
MAX_COLUMNS = 100
MAX_README_LINES = 40

INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
CONDITIONAL = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif)\b")
USING_NAMESPACE = re.compile(r"\s*using\s+namespace\b")
LIBRARY = re.compile(r"(mpi|nccl\w*|cblas|cublas\w*|cuda\w*|cuda/.*|cub/.*|curand\w*|dnnl\w*)\.(h|hpp|cuh)")
CUDA_LIBRARY = re.compile(r"(nccl|cublas|cuda|cub/|curand)")
PRIVATE = re.compile(r".*_private\.h|core/cuda/.*\.cuh?|core/cuda/.*\.h|dist/(comm/mpi|gpu/nccl)_check\.h")


class Source:
    """One file: its lines and what they include, as [(line number, name)]."""

    def __init__(self, path, name):
        self.name = name
        self.room = name.split("/")[0]
        self.is_header = path.suffix in HEADERS
        self.lines = path.read_text(encoding="utf-8").splitlines()
        matches = ((number, INCLUDE.match(line)) for number, line in enumerate(self.lines, 1))
        self.includes = [(number, match[1]) for number, match in matches if match]


def read_sources(root):
    sources = {}
    for room in MAY_INCLUDE:
        for path in sorted((root / room).rglob("*")):
            if path.suffix in HEADERS | SOURCES:
                name = path.relative_to(root).as_posix()
                sources[name] = Source(path, name)
    return sources


def is_private(name):
    return PRIVATE.fullmatch(name) is not None


def check_direction(source):
    for number, included in source.includes:
        room = included.split("/")[0]
        if room in MAY_INCLUDE and "/" in included:
            if room not in MAY_INCLUDE[source.room]:
                allowed = ", ".join(sorted(MAY_INCLUDE[source.room]))
                yield number, f"{source.room} must not include {included} (only {allowed})"
        elif f'"{included}"' in source.lines[number - 1]:
            yield number, f'write "{included}" from the root of the project, or in <> if it is a library'


def check_libraries(source):
    for number, included in source.includes:
        if not LIBRARY.fullmatch(included) or is_private(source.name):
            continue
        if source.is_header:
            yield number, f"{included} belongs in a .cpp, .cu or private header, not in a public one"
        elif source.room == "core" and CUDA_LIBRARY.match(included):
            if not source.name.startswith("core/cuda/"):
                yield number, f"{included} belongs in core/cuda/, the only folder of core that knows CUDA"


def route_to(library, name, sources, seen):
    """The chain of includes from a project header to a header that matches `library`, or None."""
    seen.add(name)
    for _, included in sources[name].includes:
        if LIBRARY.fullmatch(included) and library.match(included):
            return [name, included]
        if included in sources and included not in seen:
            rest = route_to(library, included, sources, seen)
            if rest:
                return [name, *rest]
    return None


def check_reach(source, sources):
    """A header that reaches a library header brings it to everybody who includes it."""
    if source.is_header and not is_private(source.name) and source.room != "tests":
        library = LIBRARY
    elif source.room == "core" and not source.name.startswith("core/cuda/"):
        library = CUDA_LIBRARY
    else:
        return
    for number, included in source.includes:
        route = included in sources and route_to(library, included, sources, set())
        if route:
            yield number, "reaches a library header that it may not see: " + " -> ".join(route)


def check_text(source):
    for number, line in enumerate(source.lines, 1):
        if CONDITIONAL.match(line):
            yield number, "preprocessor conditional; use `if constexpr` with core/config.h, or a no_x.cpp"
        if len(line) > MAX_COLUMNS:
            yield number, f"{len(line)} characters; a line has at most {MAX_COLUMNS}"
        if source.is_header and USING_NAMESPACE.match(line):
            yield number, "`using namespace` in a header"
    if len(source.lines) > MAX_FILE_LINES:
        yield MAX_FILE_LINES + 1, f"{len(source.lines)} lines; a file has at most {MAX_FILE_LINES}"


def check_readmes(root, sources):
    """The README of a lab also explains its exercise/ and solution/."""
    folders = {Path(name).parent for name in sources} | {Path(room) for room in [*MAY_INCLUDE, "scripts"]}
    folders = {folder.parent if folder.name in ("exercise", "solution") else folder for folder in folders}
    for folder in sorted(folders):
        if (root / folder).is_dir() and not (root / folder / "README.md").is_file():
            yield f"{folder.as_posix()}/README.md:1: missing; each folder with sources explains itself"
    for room in [*MAY_INCLUDE, "scripts"]:
        for path in sorted((root / room).rglob("README.md")):
            count = len(path.read_text(encoding="utf-8").splitlines())
            if count > MAX_README_LINES:
                name = path.relative_to(root).as_posix()
                yield f"{name}:{MAX_README_LINES + 1}: {count} lines; at most {MAX_README_LINES}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", metavar="ROOT", nargs="?", type=Path, default=ROOT)
    root = parser.parse_args().root
    sources = read_sources(root)
    violations = []
    for source in sources.values():
        found = [*check_direction(source), *check_libraries(source), *check_text(source)]
        found += check_reach(source, sources)
        violations += [f"{source.name}:{number}: {message}" for number, message in sorted(found)]
    violations += check_readmes(root, sources)
    for violation in violations:
        print(violation)
    print(f"layers: {len(sources)} files, {len(violations)} violations")
    if not sources:
        sys.exit("layers: no source files found")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
