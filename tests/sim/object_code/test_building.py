"""Objects for this machine and for others."""

import io

import pytest
from elftools.elf.elffile import ELFFile

from smlab.sim.compiled.jit import CompiledEntry, entry, helper
from smlab.sim.object_code import building, prebuild
from smlab.sim.object_code.building import CodeTarget, build, build_entries
from smlab.sim.object_code.loading import NEEDS
from smlab.sim.object_code.objects import OBJECTS

C_LIBRARY = {"memset", "memcpy", "memmove", "fesetround", "sin", "cos", "exp2", "log2", "tanh"}
"""What compiled code calls beyond itself."""
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}


@helper
def _third(x: int, table: int) -> int:
    return (7, 8, 9)[x] + table


@entry
def element(x: int, table: int) -> int:
    return _third(x, table)


def test_a_function_of_a_test_is_built_at_its_first_call() -> None:
    assert isinstance(element, CompiledEntry)
    assert element(2, 100) == 109
    assert element(0, -7) == 0


def test_what_would_raise_in_python_is_told() -> None:
    with pytest.raises(RuntimeError, match="smlab_element"):
        element(3, 0)


@pytest.mark.parametrize("processor", NEEDS)
def test_an_object_of_another_processor_is_whole(processor: str) -> None:
    """It cannot be run here: that it is of the machine, has its functions and asks for C's library alone."""
    machine, _ = NEEDS[processor]
    target = CodeTarget(f"{machine}-unknown-linux-gnu", prebuild.CPUS.get(processor, processor))
    elf = ELFFile(io.BytesIO(build("trace", target)))
    assert elf["e_machine"] == MACHINES[machine]
    symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
    defined = {
        s.name for s in symbols if s["st_shndx"] != "SHN_UNDEF" and s["st_info"]["bind"] == "STB_GLOBAL"
    }
    assert defined == {"smlab_step"}
    assert {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name} <= C_LIBRARY


@pytest.mark.thorough
@pytest.mark.parametrize("processor", NEEDS)
@pytest.mark.parametrize("name", OBJECTS)
def test_every_object_asks_for_the_library_of_c_alone(processor: str, name: str) -> None:
    machine, _ = NEEDS[processor]
    target = CodeTarget(f"{machine}-unknown-linux-gnu", prebuild.CPUS.get(processor, processor))
    elf = ELFFile(io.BytesIO(build(name, target)))
    symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
    assert {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name} <= C_LIBRARY


def test_rounding_modes_are_those_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code sets the processor's rounding mode in the numbers of its C library."""
    lowered = []
    real = building._compiled

    def compiled(one: CompiledEntry) -> object:
        from smlab.sim.compiled import jit

        lowered.append(jit.is_for_arm())
        return real(one)

    monkeypatch.setattr(building, "_compiled", compiled)
    for machine in ("aarch64", "x86_64"):
        build_entries(
            [element], CodeTarget(f"{machine}-unknown-linux-gnu", "generic" if machine == "aarch64" else "")
        )
    assert lowered == [True, False]
