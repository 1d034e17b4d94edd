"""What is installed: every package, every file that the code reads, and names that no user's folder hides."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
            if "campaigns" in below:  # in a checkout alone
                continue
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
    folders = {f for f in folders if not f.is_relative_to(repository / "validation" / "campaigns")}
    assert folders == set(packages_in(repository).values())


def test_every_file_beside_the_code_is_shipped(setuptools_table: dict, repository: Path) -> None:
    packages = packages_in(repository)
    shipped = set()
    for name, patterns in setuptools_table["package-data"].items():
        for pattern in patterns:
            matched = {p for p in packages[name].glob(pattern) if p.is_file()}
            assert matched or name == "smlab.sim.object_code", f"{name}: {pattern} names no file"
            shipped |= matched
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "smlab", *ROOMS.values()], cwd=repository, capture_output=True, check=True
    ).stdout.decode()
    data = {repository / name for name in tracked.split("\0") if name and Path(name).suffix != ".py"}
    # Campaigns and measured data sets stay in the repository.
    sets = [f for f in (repository / "hw_bench" / "datasets" / "measured").iterdir() if f.is_dir()]
    left = [repository / "validation" / "campaigns", *sets]
    data = {p for p in data if not any(p.is_relative_to(folder) for folder in left)}
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


WITHOUT_EDITABLE = (
    "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in f'{f} {type(f)}'.lower()];"
)


def test_python_in_the_checkout_finds_the_rooms_beside_it(repository: Path) -> None:
    """As after ``pip install .``: the checkout's smlab/ comes first, and its rooms are not inside it."""
    script = WITHOUT_EDITABLE + "import smlab.hw_bench.errors as e, smlab.sim; print(e.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=repository, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()) == repository / "hw_bench" / "errors.py"


@pytest.mark.parametrize(("name", "places"), [("smlab", 2), ("another", 1)])
def test_folders_beside_smlab_are_taken_only_from_our_checkout(
    name: str, places: int, repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "smlab").mkdir()
    (tmp_path / "smlab" / "__init__.py").write_text((repository / "smlab" / "__init__.py").read_text())
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    script = WITHOUT_EDITABLE + "import smlab; print(len(smlab.__path__))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == places


def test_import_smlab_is_lazy_and_every_name_is_there() -> None:
    script = (
        "import sys, smlab; heavy = {'numpy', 'pandas', 'typer', 'numba', 'smlab.sim'} & set(sys.modules);"
        "assert not heavy, heavy;"
        "missing = [n for n in smlab.__all__ if not hasattr(smlab, n)]; assert not missing, missing;"
        "assert smlab.__all__ == dir(smlab)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_functions_are_no_modules() -> None:
    import smlab

    for name in ("simulate", "utilization", "roofline", "project", "whatif", "claims", "validate"):
        assert callable(getattr(smlab, name))
        assert f"smlab.{name}" not in sys.modules
    with pytest.raises(AttributeError, match="nothing"):
        smlab.nothing  # noqa: B018


LOCKED = ("run", "dev", "docs", "extras", "toolchain")


def locked(repository: Path, name: str, deep: bool = True) -> dict[str, tuple[str, list[str]]]:
    """Each release of a file of locked requirements, and of those it includes: its version and digests."""
    found: dict[str, tuple[str, list[str]]] = {}
    text = (repository / ".ci" / "locked" / f"{name}.txt").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith("-r ") and deep:
            found |= locked(repository, line[3:].removesuffix(".txt"))
        elif not line.startswith(("#", "-r ")):
            release, *digests = re.split(r"\s+--hash=", line.strip())
            package, _, version = release.partition(";")[0].strip().partition("==")
            package = canonicalize_name(package)  # for all systems, where the file below has one alone
            assert found.get(package, (version, digests)) == (version, digests), package
            found[package] = (version, digests)
    return found


@pytest.mark.parametrize("name", LOCKED)
def test_locked_releases_have_a_version_and_digests_of_their_files(repository: Path, name: str) -> None:
    text = (repository / ".ci" / "locked" / f"{name}.txt").read_text()
    assert "://" not in text, "no host is named"
    releases = locked(repository, name)
    assert releases
    for package, (version, digests) in releases.items():
        assert re.fullmatch(r"\d[\w.+]*", version), package
        assert digests, package
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in digests), package


def pinned(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    pairs = [line.split("==") for line in lines]
    return {canonicalize_name(package): version for package, version in pairs}


def test_locked_releases_are_the_pinned_ones(repository: Path) -> None:
    pins, toolchain = (
        pinned(repository / "constraints.txt"),
        pinned(repository / ".ci" / "toolchain.txt"),
    )
    for name in ("run", "dev", "docs"):
        for package, (version, _) in locked(repository, name).items():
            assert pins[package] == version, (name, package)
    found = {package: version for package, (version, _) in locked(repository, "toolchain").items()}
    assert found == toolchain
    both = pins | toolchain
    for package, (version, _) in locked(repository, "extras").items():
        assert both.get(package, version) == version, package


def test_what_the_project_asks_for_is_locked(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    asked = {
        "run": [*project["project"]["dependencies"], *project["build-system"]["requires"]],
        "dev": [*extras["dev"], *extras["cluster"]],
        "docs": extras["docs"],
        "extras": [r for name in ("ncu", "cuda12", "triton", "cupy", "warp") for r in extras[name]],
    }
    assert set().union(*asked.values()) >= set().union(*extras.values())
    for name, requirements in asked.items():
        releases = locked(repository, name)
        for text in requirements:
            requirement = Requirement(text)
            version, _ = releases[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), text
    assert locked(repository, "toolchain")["triton"] == locked(repository, "extras")["triton"]


def test_nothing_is_installed_without_a_digest(repository: Path) -> None:
    """Each call of pip in the Makefile and in .ci checks digests, or takes what is here and nothing else."""
    calls = re.findall(r"pip (?:install|download|wheel).*", (repository / "Makefile").read_text())
    assert len(calls) == 5
    for call in calls:
        alone = "--no-deps --no-build-isolation --editable ." in call
        assert alone or "--require-hashes --requirement" in call, call
    scripts = {path.name: path.read_text() for path in (repository / ".ci").glob("*.py")}
    assert {name for name, text in scripts.items() if '"pip"' in text} == {
        "lock.py",
        "wheel_build.py",
        "wheel_check.py",
    }
    assert '"--no-deps", "--no-build-isolation"' in scripts["wheel_build.py"]
