"""What an object depends on: all that is compiled in, and little else."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from smlab.hw_bench.sources import digest_of
from smlab.sim.object_code import building
from smlab.sim.object_code.objects import OBJECTS, _file_of, sources_of

SIM = Path(building.__file__).parents[1]
LOADED = """
import importlib, json, sys, types
from pathlib import Path
sim = Path(sys.argv[1])
names = "compiled execution traces object_code isa isa.asynchronous isa.memory isa.meanings"
names += " isa.vectors isa.vectors.products"
for package in ("", *(f".{name}" for name in names.split())):
    module = types.ModuleType("smlab.sim" + package)  # its __init__ imports what is not compiled
    module.__path__ = [str(sim.joinpath(*package.split(".")[1:]))]
    sys.modules[module.__name__] = module
for name in sys.argv[2:]:
    importlib.import_module(name)
loaded = [m for name, m in sys.modules.items() if name.startswith("smlab.")]
print(json.dumps([m.__file__ for m in loaded if hasattr(m, "__file__")]))
"""


@pytest.mark.parametrize("name", OBJECTS)
def test_all_that_is_loaded_to_build_an_object_is_in_its_key(name: str) -> None:
    """In a process that imports nothing but what it builds: constants and writers of LLVM code too."""
    modules = [building.__name__, *OBJECTS[name]]
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOADED, str(SIM), *modules], capture_output=True, text=True, check=True
    )
    loaded = {Path(path) for path in json.loads(done.stdout)}
    ours = {path for path in loaded if SIM in path.parents}
    assert ours <= set(sources_of(name))
    assert {path.name for path in loaded - ours} <= {"__init__.py", "errors.py", "sources.py"}


@pytest.mark.parametrize("name", OBJECTS)
def test_nothing_is_loaded_later(name: str) -> None:
    """While an object is built, no function imports a module of ours. So the test above sees them all. (What
    loads an object is imported by a function, and is no part of it.)"""
    for path in set(sources_of(name)) - {Path(building.__file__)}:
        text = path.read_text()
        assert re.search(r"import_module|__import__", text) is None, path
        tree = ast.parse(text)
        later = [
            node.lineno
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.Lambda)
            for node in ast.walk(function)
            if isinstance(node, ast.ImportFrom | ast.Import) and "smlab" in ast.unparse(node)
            if "object_code.loading" not in ast.unparse(node)
        ]
        assert later == [], path


@pytest.mark.parametrize("name", OBJECTS)
def test_imports_are_read_as_python_reads_them(name: str) -> None:
    for path in sources_of(name):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("smlab.sim"):
                for alias in node.names:
                    file = _file_of(f"{node.module}.{alias.name}") or _file_of(str(node.module))
                    assert file in sources_of(name), (path, alias.name)


@pytest.mark.parametrize("name", OBJECTS)
def test_what_only_python_runs_is_in_no_key(name: str) -> None:
    parts = {path.relative_to(SIM).as_posix() for path in sources_of(name)}
    assert not parts & {
        "isa/launch/printf.py",
        "isa/launch/launch.py",
        "execution/source.py",
        "compiled/engine.py",
    }
    assert not parts & {
        "isa/launch/faults.py",
        "execution/run.py",
        "object_code/loading.py",
        "traces/reading.py",
    }


def test_the_vector_operations_are_in_the_key() -> None:
    """A file that registers how an operation is built is imported for its effect alone."""
    names = {path.relative_to(SIM).as_posix() for path in sources_of("machine_code")}
    assert {f"isa/vectors/{name}.py" for name in ("integers", "floats", "halves", "special")} <= names


def test_the_key_is_of_the_text_wherever_it_lies(tmp_path: Path) -> None:
    for path in sources_of("engine"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    moved = [tmp_path / path.name for path in sources_of("engine")]
    assert digest_of(*moved) == digest_of(*sources_of("engine"))
    moved[0].write_text(moved[0].read_text() + "\n")
    assert digest_of(*moved) != digest_of(*sources_of("engine"))
