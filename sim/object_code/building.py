"""An object built by Numba and LLVM: the code of some entries with that of all that they call.

Numba types and lowers each function. All LLVM code is linked, optimised as a whole and made machine code for
a target, which need not be this machine. It calls C's library and nothing of Python.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit, types
from numba.core import codegen
from numba.core.compiler_lock import global_compiler_lock

from smlab.sim.compiled import jit
from smlab.sim.object_code.objects import OBJECTS, version_of

_WORD: Final = ir.IntType(64)
_SHORT_LOOPS: Final = ("engine",)
"""Objects whose loops are too short for vectors: over an SM's few schedulers a gather takes longer than the
loop. The engine is 4 to 18 % faster without."""


@dataclass(frozen=True)
class CodeTarget:
    """What machine code is for, in LLVM's words: ``triple``, ``cpu`` and ``features`` beyond its own."""

    triple: str
    cpu: str
    features: str = ""


def this_machine() -> CodeTarget:
    """The processor that this process runs on."""
    return CodeTarget(llvm.get_process_triple(), llvm.get_host_cpu_name(), codegen.get_host_cpu_features())


def build(name: str, target: CodeTarget | None = None) -> bytes:
    """An object of `OBJECTS`, for this machine or another one."""
    entries = [
        value
        for module in OBJECTS[name]
        for value in vars(import_module(module)).values()
        if isinstance(value, jit.CompiledEntry) and value.function.__module__ == module
    ]
    made: bytes = build_entries(entries, target, vectorize_loops=name not in _SHORT_LOOPS)
    return made


@global_compiler_lock
def build_entries(
    entries: Sequence[jit.CompiledEntry], target: CodeTarget | None = None, *, vectorize_loops: bool = True
) -> bytes:
    """The object of some entries."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = target or this_machine()
    with jit.lowering_for(target.triple.partition("-")[0]):
        module = _linked(entries)
    made = _machine_of(target)
    module.triple, module.data_layout = target.triple, str(made.target_data)
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in {e.symbol for e in entries}:
            value.linkage = "internal"
    _optimise(module, made, vectorize_loops)
    code: bytes = made.emit_object(module)
    return code


def _machine_of(target: CodeTarget) -> Any:
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="default"
    )


def _linked(entries: Sequence[jit.CompiledEntry]) -> Any:
    """The LLVM code of the entries and of all that they call."""
    compiled = [_compiled(entry) for entry in entries]
    context = compiled[0].target_context
    module = context.create_module("smlab")
    for entry, result in zip(entries, compiled, strict=True):
        _write_entry(context, module, entry, result.fndesc)
    linked = llvm.parse_assembly(str(module))
    libraries: dict[Any, None] = {}
    left = [result.library for result in compiled][::-1]
    while left:  # callers before what they call, so that each is asked for when it is linked
        library = left.pop()
        if library not in libraries:
            libraries[library] = None
            linked.link_in(library._get_module_for_linking(), preserve=True)
            left += library._linking_libraries[::-1]
    for dispatcher in jit.CALLED:
        for overload in dispatcher.overloads.values():
            for function in linked.functions:
                if function.name == overload.fndesc.mangled_name:
                    function.add_function_attribute("noinline")
    return linked


def _compiled(entry: jit.CompiledEntry) -> Any:
    """What Numba makes of an entry's function."""
    signature = (types.int64,) * entry.parameters
    dispatcher: Any = njit(**jit.HELPER)(entry.function)
    dispatcher.compile(signature)
    return dispatcher.overloads[signature]


def _write_entry(context: Any, module: Any, entry: jit.CompiledEntry, described: Any) -> None:
    """A function of C that calls an entry's: whole numbers in, one out."""
    shape = ir.FunctionType(_WORD, [_WORD] * entry.parameters)
    function = ir.Function(module, shape, entry.symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    status, result = context.call_conv.call_function(
        builder,
        context.declare_function(module, described),
        described.restype,
        described.argtypes,
        function.args,
    )
    with builder.if_then(status.is_error, likely=False):
        builder.ret(ir.Constant(_WORD, jit.RAISED))
    if described.restype == types.none:
        builder.ret(ir.Constant(_WORD, 0))
    else:
        builder.ret(context.cast(builder, result, described.restype, types.int64))


def _optimise(module: Any, machine: Any, vectorize_loops: bool) -> None:
    """As Numba does: first what inlines at little cost, then all."""
    first, passes = _passes(machine, 0, False)
    first.add_loop_rotate_pass()
    first.add_instruction_combine_pass()
    first.add_jump_threading_pass()
    first.run(module, passes)
    all_passes, passes = _passes(machine, 3, vectorize_loops)
    all_passes.run(module, passes)


def _passes(machine: Any, level: int, vectorize_loops: bool) -> tuple[Any, Any]:
    options = llvm.create_pipeline_tuning_options()
    options.speed_level = level
    options.loop_vectorization = vectorize_loops
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    return builder.getModulePassManager(), builder


def main(name: str, version: str) -> None:
    """What the process does that builds for another one: the object goes to its standard output. Where it has
    other code than that process (another checkout is installed than the one in the current folder), it builds
    nothing: what it built would be kept as that version's."""
    if version_of(name) != version:
        sys.exit(f"{name}: the code of this process is another version")
    sys.stdout.buffer.write(build(name))
