"""Which sections a cubin may hold: those of an optimised build by NVRTC 13.0 to 13.3.

What is not listed is refused by name, above all PTX text (`.nv_debug_ptx_txt`): a driver could
compile it into other machine code than was measured. Debug and relocatable builds hold sections
that are not listed either.

Source: the sections of cubins that NVRTC 13.0.88, 13.1.115, 13.2.86 and 13.3.33 made for sm_90a
and sm_100a from kernels with and without constants, globals, tables, calls and spills.
"""

from collections.abc import Collection

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOTE, SHT_NOBITS = 1, 2, 3, 4, 7, 8
SHT_CUDA_INFO = 0x70000000
SHT_CUDA_CALLGRAPH = 0x70000001
SHT_CUDA_GLOBAL_INIT = 0x70000008
SHT_CUDA_RESERVED_SHARED = 0x70000015
SHT_CUDA_CAPMERC = 0x70000016
SHT_MERCURY_CONSTANT_USER = 0x7000007C
SHT_MERCURY_CONSTANT_PIC = 0x7000007D
SHT_MERCURY_RELA = 0x70000082
SHT_MERCURY_INFO = 0x70000083
SHT_MERCURY_CONSTANT_OPTIMIZER = 0x70000084
SHT_MERCURY_SYMTAB = 0x70000085
SHT_CUDA_COMPAT = 0x70000086
SYMBOL_TABLES = (SHT_SYMTAB, SHT_MERCURY_SYMTAB)
MERCURY = ".nv.merc."  # begins the names of a second form of the program, for a GPU's family

# A trailing "*" stands for the name of a kernel of the file.
ALLOWED: dict[str, int] = {
    "": 0,
    ".shstrtab": SHT_STRTAB,
    ".strtab": SHT_STRTAB,
    ".symtab": SHT_SYMTAB,
    ".debug_frame": SHT_PROGBITS,
    ".note.nv.tkinfo": SHT_NOTE,
    ".note.nv.cuinfo": SHT_NOTE,
    ".nv.info": SHT_CUDA_INFO,
    ".nv.info.*": SHT_CUDA_INFO,
    ".nv.compat": SHT_CUDA_COMPAT,
    ".nv.callgraph": SHT_CUDA_CALLGRAPH,
    ".rela.debug_frame": SHT_RELA,
    ".rela.text.*": SHT_RELA,
    ".rela.nv.constant2.*": SHT_RELA,
    ".rela.nv.constant4": SHT_RELA,
    ".nv.constant0.*": SHT_PROGBITS,
    ".nv.constant2.*": SHT_PROGBITS,
    ".nv.constant3": SHT_PROGBITS,
    ".nv.constant4": SHT_PROGBITS,
    ".text.*": SHT_PROGBITS,
    ".nv.global": SHT_NOBITS,
    ".nv.global.init": SHT_PROGBITS,
    ".nv.shared.*": SHT_NOBITS,
    ".nv.shared.reserved.0": SHT_NOBITS,
    ".nv.capmerc.text.*": SHT_CUDA_CAPMERC,
    f"{MERCURY}debug_frame": SHT_PROGBITS,
    f"{MERCURY}nv.info": SHT_MERCURY_INFO,
    f"{MERCURY}nv.info.*": SHT_MERCURY_INFO,
    f"{MERCURY}rela.debug_frame": SHT_MERCURY_RELA,
    f"{MERCURY}rela.text.*": SHT_MERCURY_RELA,
    f"{MERCURY}rela.nv.constant.optimizer.*": SHT_MERCURY_RELA,
    f"{MERCURY}rela.nv.constant.pic": SHT_MERCURY_RELA,
    f"{MERCURY}nv.constant.user": SHT_MERCURY_CONSTANT_USER,
    f"{MERCURY}nv.constant.pic": SHT_MERCURY_CONSTANT_PIC,
    f"{MERCURY}nv.constant.optimizer.*": SHT_MERCURY_CONSTANT_OPTIMIZER,
    f"{MERCURY}nv.global.init": SHT_CUDA_GLOBAL_INIT,
    f"{MERCURY}nv.shared.reserved.0": SHT_CUDA_RESERVED_SHARED,
    f"{MERCURY}symtab": SHT_MERCURY_SYMTAB,
}


def is_known(name: str, kind: int, kernels: Collection[str]) -> bool:
    """Say whether a section of this name and type belongs in a cubin that holds `kernels`."""
    if name in ALLOWED:
        return kind == ALLOWED[name]
    return any(
        pattern.endswith("*")
        and kind == allowed
        and name.startswith(pattern[:-1])
        and name[len(pattern) - 1 :] in kernels
        for pattern, allowed in ALLOWED.items()
    )
