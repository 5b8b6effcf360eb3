/*
 * The operations of ops/linear/cpu_tiles.h as instructions (AMX: Sapphire Rapids and later). Not
 * the compilers' intrinsics: gcc 12 does not know that these read and write memory. `file` stands
 * for the registers where there are none (tiles_plain.h).
 */
#ifndef LINNET_KERNELS_CPU_TILES_H
#define LINNET_KERNELS_CPU_TILES_H

typedef struct tile_file {
    char none;
} tile_file;

#define TILE_CONFIGURE(file, shapes) __asm__ volatile("ldtilecfg %0" : : "m"(*(shapes)) : "memory")
#define TILE_RELEASE(file) __asm__ volatile("tilerelease" : : : "memory")

/* Rows of 64 bytes, `stride` bytes apart, to or from tile number n. */
#define TILE_LOAD(file, n, from, stride)                                                           \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #n                                               \
                     :                                                                             \
                     : "r"((const void *)(from)), "r"((int64_t)(stride))                           \
                     : "memory")
#define TILE_STORE(file, n, to, stride)                                                            \
    __asm__ volatile("tilestored %%tmm" #n ", (%0,%1,1)"                                           \
                     :                                                                             \
                     : "r"((void *)(to)), "r"((int64_t)(stride))                                   \
                     : "memory")

#define TILE_CLEAR(file, n) __asm__ volatile("tilezero %%tmm" #n : : : "memory")

/* sums += x w, of signed bytes */
#define TILE_ADD_CODES(file, sums, x, w)                                                           \
    __asm__ volatile("tdpbssd %%tmm" #w ", %%tmm" #x ", %%tmm" #sums : : : "memory")

/* sums += x w, of unsigned bytes by signed ones or of pairs of bf16 */
#define TILE_ADD(file, bytes, sums, x, w)                                                          \
    do {                                                                                           \
        if (bytes)                                                                                 \
            __asm__ volatile("tdpbusd %%tmm" #w ", %%tmm" #x ", %%tmm" #sums : : : "memory");      \
        else                                                                                       \
            __asm__ volatile("tdpbf16ps %%tmm" #w ", %%tmm" #x ", %%tmm" #sums : : : "memory");    \
    } while (0)

#endif
