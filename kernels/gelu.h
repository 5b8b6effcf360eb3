/*
 * The numbers of GELU, x Phi(x) = max(x, 0) - |x| Phi(-|x|). Every back end that sums in f32 takes
 * the same steps over these numbers, so all give the same bits.
 *
 * Let a = min(|x|, LX_GELU_END) and i the whole number nearest to a / LX_GELU_WIDTH. The tail
 * Phi(-a) is a polynomial of a - i LX_GELU_WIDTH with coefficients LX_GELU_TAIL[n][i]. From
 * LX_GELU_END on it is 0, as it is below 1e-8. The fits are minimax; docs/numerics.md has the
 * errors. Without exp and division, which took a tenth of a step of many streams.
 */
#ifndef LINNET_KERNELS_GELU_H
#define LINNET_KERNELS_GELU_H

#define LX_GELU_WIDTH 0.375f
#define LX_GELU_END 5.625f
#define LX_GELU_DEGREE 6

#define LX_GELU_TAIL                                                                               \
    {                                                                                              \
        {0x1p-1f,         0x1.6a527ap-2f,  0x1.d022p-3f,    0x1.0ad7dap-3f,                        \
         0x1.11a46ep-4f,  0x1.f20394p-6f,  0x1.90925p-7f,   0x1.1bee6cp-8f,                        \
         0x1.61de2p-10f,  0x1.8301bep-12f, 0x1.72d958p-14f, 0x1.36feb2p-16f,                       \
         0x1.c80734p-19f, 0x1.2414aap-21f, 0x1.46a192p-24f, 0x0p+0f},                              \
            {-0x1.988454p-2f,  -0x1.7cc794p-2f,  -0x1.345d6p-2f,   -0x1.b1ec62p-3f,                \
             -0x1.094086p-3f,  -0x1.19bfa4p-4f,  -0x1.0402ep-5f,   -0x1.a0f22ap-7f,                \
             -0x1.227212p-8f,  -0x1.5f90f8p-10f, -0x1.71b93ap-12f, -0x1.51cfc4p-14f,               \
             -0x1.0c29d8p-16f, -0x1.71e5fap-19f, -0x1.bb4b98p-22f, -0x1.1d52a2p-19f},              \
            {0x1.80ffaap-21f, 0x1.1d929p-4f,   0x1.ce8c9cp-4f,  0x1.e82ap-4f,                      \
             0x1.8de06cp-4f,  0x1.0823dap-4f,  0x1.24831ap-5f,  0x1.119ef6p-6f,                    \
             0x1.b3ab12p-8f,  0x1.28a254p-9f,  0x1.5a9d52p-11f, 0x1.5c5d78p-13f,                   \
             0x1.2dad98p-15f, 0x1.c2cc06p-18f, 0x1.22e4c6p-20f, -0x1.c4ed7cp-14f},                 \
            {0x1.1047a4p-4f,   0x1.b44bf8p-5f,   0x1.67c88cp-6f,   -0x1.33579p-7f,                 \
             -0x1.ba12f6p-6f,  -0x1.d88322p-6f,  -0x1.6019ecp-6f,  -0x1.995a74p-7f,                \
             -0x1.834476p-8f,  -0x1.306a26p-9f,  -0x1.9270ccp-11f, -0x1.c2cd94p-13f,               \
             -0x1.ae1622p-15f, -0x1.5ec022p-17f, -0x1.ea5da2p-20f, -0x1.24e334p-9f},               \
            {0x1.5175fap-13f, -0x1.0da9c6p-6f, -0x1.7845f8p-6f, -0x1.1a4348p-6f,                   \
             -0x1.8cba88p-8f, 0x1.69e864p-9f,  0x1.9261aep-8f,  0x1.62cfa6p-8f,                    \
             0x1.b3aefep-9f,  0x1.9ed2f8p-10f, 0x1.3f9bf4p-11f, 0x1.970dfap-13f,                   \
             0x1.b1fe1p-15f,  0x1.868572p-17f, 0x1.2a40d6p-19f, -0x1.609b36p-6f},                  \
            {-0x1.610d3p-7f,   -0x1.b61bf6p-8f,  0x1.b6c9aap-14f,  0x1.57214p-8f,                  \
             0x1.7e1f4cp-8f,   0x1.ae2e08p-9f,   0x1.f31aaep-12f,  -0x1.f48f14p-11f,               \
             -0x1.21041ap-10f, -0x1.79a35ep-11f, -0x1.689902p-12f, -0x1.0ee5fp-13f,                \
             -0x1.4ae63ep-15f, -0x1.4e9716p-17f, -0x1.1b360ap-19f, -0x1.8d7a72p-4f},               \
        {                                                                                          \
            0x1.d33104p-10f, 0x1.2d12d2p-12f, 0x1.c44c8p-9f, 0x1.5e883p-10f, -0x1.dedd2cp-11f,     \
                -0x1.44f6dp-10f, -0x1.0ccad4p-10f, -0x1.2e7fc6p-12f, 0x1.c3d546p-14f,              \
                0x1.94bf98p-13f, 0x1.10ce96p-13f, 0x1.fda09ep-15f, 0x1.6bca36p-16f,                \
                0x1.9fce24p-18f, 0x1.85778ep-20f, -0x1.5317dap-3f                                  \
        }                                                                                          \
    }

#endif
