/*
 * CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as iSCSI, ext4 and gRPC use it.
 * Thread: any.
 */
#ifndef LINNET_COMMON_CRC32C_H
#define LINNET_COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of bytes[n]; crc is 0, or the result of the call on the bytes before. */
uint32_t lx_crc32c(uint32_t crc, const void *bytes, size_t n);

#endif
