"""What is installed: every package, every file that the code reads, and names that no user's folder hides."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOMS = {
    "smlab.hw_bench": "hw_bench",
    "smlab.models": "models",
    "smlab.sim": "sim",
    "smlab.validation": "validation",
}
NOT_SHIPPED = {".py", ".pyc", ".nbi", ".nbc"}


@pytest.fixture(scope="module")
def setuptools_table(repository: Path) -> dict:
    return tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["setuptools"]


def packages_in(repository: Path) -> dict[str, Path]:
    """Every package by name, with its folder."""
    found = {}
    for name, folder in {"smlab": "smlab", **ROOMS}.items():
        for init in (repository / folder).rglob("__init__.py"):
            below = init.parent.relative_to(repository / folder).parts
            found[".".join((name, *below))] = init.parent
    return found


def test_every_package_is_listed_and_every_listed_one_exists(
    setuptools_table: dict, repository: Path
) -> None:
    listed = setuptools_table["packages"]
    assert len(set(listed)) == len(listed)
    assert set(listed) == set(packages_in(repository))
    assert setuptools_table["package-dir"] == {"smlab": "smlab", **ROOMS}


def test_no_folder_with_code_is_without_a_package(repository: Path) -> None:
    folders = {p.parent for room in ("smlab", *ROOMS.values()) for p in (repository / room).rglob("*.py")}
    assert folders == set(packages_in(repository).values())


def test_every_file_beside_the_code_is_shipped(setuptools_table: dict, repository: Path) -> None:
    packages = packages_in(repository)
    shipped = set()
    for name, patterns in setuptools_table["package-data"].items():
        for pattern in patterns:
            matched = {p for p in packages[name].glob(pattern) if p.is_file()}
            assert matched, f"{name}: {pattern} names no file"
            shipped |= matched
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "smlab", *ROOMS.values()], cwd=repository, capture_output=True, check=True
    ).stdout.decode()
    data = {repository / name for name in tracked.split("\0") if name and Path(name).suffix != ".py"}
    assert {p for p in data if p.suffix not in NOT_SHIPPED} == shipped
    assert repository / "smlab" / "py.typed" in shipped


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A user's folder with modules of our rooms' names."""
    for name in ("models", "hw_bench"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('{name} of the user')")
    for name in ("sim", "validation"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the user')")
    return tmp_path


def test_a_users_own_modules_do_not_shadow_ours(hostile: Path) -> None:
    script = "import smlab; r = smlab.simulate('atomics', 'v100'); print(r.cycles, r.seconds)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=hostile, capture_output=True, text=True, check=True
    )
    cycles, seconds = done.stdout.split()
    assert int(cycles) > 0
    assert float(seconds) == pytest.approx(int(cycles) / 1.38e9)


@pytest.mark.parametrize(
    "arguments",
    [
        ("utilization", "--example"),
        ("whatif", "--example"),
        ("claims", "--only", "dp-spread"),
        ("bench", "list"),
        pytest.param(("validate", "--quick"), marks=pytest.mark.thorough),
    ],
    ids=" ".join,
)
def test_commands_run_beside_a_users_own_modules(
    arguments: tuple[str, ...], hostile: Path, smlab_command
) -> None:
    ended = smlab_command(*arguments, cwd=hostile, timeout_s=540)
    assert ended.status == 0, ended
    assert ended.out


def test_import_smlab_is_lazy_and_every_name_is_there() -> None:
    script = (
        "import sys, smlab; heavy = {'numpy', 'pandas', 'typer', 'numba', 'smlab.sim'} & set(sys.modules);"
        "assert not heavy, heavy;"
        "missing = [n for n in smlab.__all__ if not hasattr(smlab, n)]; assert not missing, missing;"
        "assert set(smlab.__all__) <= set(dir(smlab))"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_functions_are_no_modules() -> None:
    import smlab

    for name in ("simulate", "utilization", "roofline", "project", "whatif", "claims", "validate"):
        assert callable(getattr(smlab, name))
        assert f"smlab.{name}" not in sys.modules
    with pytest.raises(AttributeError, match="nothing"):
        smlab.nothing  # noqa: B018
