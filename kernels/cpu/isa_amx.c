/*
 * AMX (Sapphire Rapids and later): products on tiles, of bf16 with precision auto and of bytes with
 * int8 (ops/linear/cpu_tiles.h); everything else is of isa_avx512vnni.c. With bf16 the bits are
 * its own, otherwise those of every instruction set. A process must have asked for the tiles
 * (choose.c).
 */
#define BODY_TARGET                                                                                \
    "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,amx-tile,amx-bf16,amx-int8,avx2,"    \
    "fma"
#include "kernels/cpu/target_begin.h"
#include "kernels/cpu/tiles_amx.h"
#define V16_VNNI 1
#include "kernels/cpu/v16_avx512.h"
#include "kernels/cpu/v16_avx512bf16.h"

#define V16_TILES 1

#define BODY_NAME "amx"
#define BODY_TABLE lx_cpu_amx
#define BODY_OTHERS lx_cpu_avx512vnni
#define BODY_BORROWS lx_cpu_avx512vnni_shapes
#include "kernels/cpu/body.h"
