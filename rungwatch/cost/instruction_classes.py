"""What kind of work each machine instruction does, for sm_90a and sm_100a.

One table; an opcode that is not in it is an error, so that a new instruction is never counted as
nothing. To add one, write its name (without the modifiers behind the first dot) into the class
where the documentation puts it.

Source: NVIDIA, "CUDA Binary Utilities", instruction sets of Hopper and Blackwell; ARRIVES (cp.async
with an mbarrier) is what nvdisasm prints. Generic loads, stores and atomics (LD, ST, ATOM, RED)
count as global: which memory they reach is known at run time only.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from rungwatch.cost.disassembly import DisassemblyError, Instruction


class UnknownOpcodeError(DisassemblyError):
    """An instruction that the table of classes does not know."""


class InstructionCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Machine instructions of a kernel by class: how often each stands in the code.

    Places, not executions: an MMA in a loop counts once. `tensor_core`: MMAs of any kind. `tma`:
    bulk and tensor copies, their prefetch and control. `tensor_memory`: loads, stores, copies and
    allocation of TMEM. `shared`, `global_`, `local`, `constant`: accesses to that memory.
    `synchronisation`: barriers, waits, arrivals, fences. `arithmetic`: integer, floating point,
    conversion, predicates. `uniform`: the same once a warp. `move`: registers, shuffles, votes,
    special registers. `control`: branches, calls, convergence. `padding`: NOP.
    """

    tensor_core: int = 0
    tma: int = 0
    tensor_memory: int = 0
    shared: int = 0
    global_: int = 0
    local: int = 0
    constant: int = 0
    synchronisation: int = 0
    arithmetic: int = 0
    uniform: int = 0
    move: int = 0
    control: int = 0
    padding: int = 0

    @property
    def total(self) -> int:
        """Instructions that do something: all but NOPs, which fill up the end of the code."""
        return sum(getattr(self, name) for name in CLASSES if name != "padding")


CLASSES = InstructionCounts.__struct_fields__

_OPCODES = {
    "tensor_core": """
        HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA
        UTCHMMA UTCIMMA UTCQMMA UTCOMMA""",
    "tma": """
        UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH UBLKCP UBLKPF UBLKRED""",
    "tensor_memory": """
        LDT LDTM STT STTM UTCCP UTCSHIFT UTCATOMSWS UVIRTCOUNT""",
    "shared": """
        LDS LDSM STS STSM STAS ATOMS REDAS UMEMSETS""",
    "global_": """
        LD LDG LDGMC LDGSTS ST STG USTGR ATOM ATOMG RED REDG UREDGR CCTL CCTLL CCTLT QSPC
        TEX TLD TLD4 TMML TXD TXQ SUATOM SULD SURED SUST""",
    "local": """
        LDL STL""",
    "constant": """
        LDC LDCU ULDC""",
    "synchronisation": """
        BAR SYNCS ARRIVES UTCBAR UCGABAR_ARV UCGABAR_WAIT WARPSYNC WARPGROUP WARPGROUPSET
        MEMBAR FENCE ERRBAR CGAERRBAR DEPBAR LDGDEPBAR ACQBULK PREEXIT NANOSLEEP""",
    "arithmetic": """
        FADD FADD2 FADD32I FCHK FFMA FFMA2 FFMA32I FHADD FHFMA FMNMX FMNMX3 FMUL FMUL2 FMUL32I
        FSEL FSET FSETP FSWZADD MUFU
        HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2
        DADD DFMA DMUL DSETP
        BMSK BREV FLO IABS IADD IADD3 IADD32I IDP IDP4A IMAD IMNMX IMUL IMUL32I ISCADD ISCADD32I
        ISETP LEA LOP LOP3 LOP32I POPC SHF SHL SHR VABSDIFF VABSDIFF4 VHMNMX VIADD VIADDMNMX
        VIMNMX VIMNMX3
        F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP
        PLOP3 PSETP P2R R2P""",
    "uniform": """
        UBMSK UBREV UCLEA UFLO UIABS UIADD3 UIMAD UIMNMX UISETP ULEA ULOP ULOP3 ULOP32I UMOV UP2UR
        UPLOP3 UPOPC UPRMT UPSETP UR2UP USEL USGXT USHF USHL USHR UVIADD UVIMNMX
        UF2F UF2FP UF2I UF2IP UFADD UFFMA UFMNMX UFMUL UFRND UFSEL UFSET UFSETP
        UI2F UI2FP UI2I UI2IP""",
    "move": """
        MOV MOV32I MOVM PRMT SEL SGXT SHFL MATCH VOTE VOTEU REDUX CREDUX
        S2R S2UR CS2R CS2UR R2UR B2R R2B LEPC GETLMEMBASE SETLMEMBASE SETCTAID""",
    "control": """
        BRA BRX BRXU JMP JMX JMXU CALL RET EXIT KILL BPT RTT RPCMOV BSSY BSYNC BREAK BMOV
        ELECT ENDCOLLECTIVE YIELD USETMAXREG USETSHMSZ UGETNEXTWORKID PMTRIG""",
    "padding": """
        NOP""",
}
CLASS_OF = {opcode: name for name, opcodes in _OPCODES.items() for opcode in opcodes.split()}


def class_of(opcode: str) -> str:
    """Return the class of an opcode, with or without its modifiers: "UTCHMMA.2CTA".

    Raises:
        UnknownOpcodeError: the table does not know it.
    """
    found = CLASS_OF.get(opcode.partition(".")[0])
    if found is None:
        raise UnknownOpcodeError(
            f"unknown instruction {opcode!r}: add it to rungwatch/cost/instruction_classes.py"
        )
    return found


def count(instructions: Iterable[Instruction]) -> InstructionCounts:
    """Count the instructions of each class.

    Raises:
        UnknownOpcodeError: as for `class_of`.
    """
    return InstructionCounts(**Counter(class_of(each.opcode) for each in instructions))
