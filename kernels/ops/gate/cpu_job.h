/* Some elements of a row; pointers to the first element, NULL for a missing array. */
typedef struct lx_cpu_gate {
    float *y;
    const float *x, *z, *other, *bias, *factor, *offset;
    int32_t n;
    lx_function f;
    bool exponent, towards;
} lx_cpu_gate;

typedef void lx_cpu_gate_loop(const lx_cpu_gate *job);
