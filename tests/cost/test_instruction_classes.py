"""Every opcode has one class, and an unknown one is an error."""

import pytest

from rungwatch.cost.disassembly import Instruction
from rungwatch.cost.instruction_classes import (
    _OPCODES,
    CLASS_OF,
    CLASSES,
    InstructionCounts,
    UnknownOpcodeError,
    class_of,
    count,
)


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("HGMMA.64x256x16.F32", "tensor_core"),
        ("UTCHMMA.2CTA", "tensor_core"),
        ("UTMALDG.2D.MULTICAST", "tma"),
        ("UBLKCP.S.G", "tma"),
        ("LDTM.x128", "tensor_memory"),
        ("UTCATOMSWS.FIND_AND_SET.ALIGN", "tensor_memory"),
        ("STSM.16.M88.4", "shared"),
        ("LDG.E.128", "global_"),
        ("STL.64", "local"),
        ("LDCU.64", "constant"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT", "synchronisation"),
        ("UTCBAR.2CTA.MULTICAST", "synchronisation"),
        ("UCGABAR_ARV", "synchronisation"),
        ("F2FP.F16.F32.PACK_AB", "arithmetic"),
        ("UIADD3.64", "uniform"),
        ("SHFL.IDX", "move"),
        ("BRA.U", "control"),
        ("NOP", "padding"),
    ],
)
def test_the_class_of_an_opcode(opcode: str, expected: str) -> None:
    assert class_of(opcode) == expected


@pytest.mark.parametrize("opcode", ["", "UTCXMMA", "UTCXMMA.2CTA", "hmma", "HMMA2", ".HMMA"])
def test_an_unknown_opcode_is_named(opcode: str) -> None:
    with pytest.raises(UnknownOpcodeError, match=f"unknown instruction '{opcode}'"):
        class_of(opcode)


def test_every_opcode_stands_in_one_class_only() -> None:
    written = [opcode for opcodes in _OPCODES.values() for opcode in opcodes.split()]
    assert len(written) == len(CLASS_OF)
    assert tuple(_OPCODES) == CLASSES


def test_instructions_are_counted_and_padding_is_not_in_the_total() -> None:
    code = [Instruction(opcode) for opcode in ("LDS", "LDS.64", "STS", "UTCHMMA", "EXIT", "NOP")]
    found = count(code)
    assert found == InstructionCounts(shared=3, tensor_core=1, control=1, padding=1)
    assert found.total == 5
