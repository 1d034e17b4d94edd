"""From a disassembled instruction to a micro-operation: the table of opcodes, by subject."""
