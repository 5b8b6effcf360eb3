/* A head of a sequence; `next` and `later` are unused. */
typedef lx_cpu_attend_linear lx_cpu_attend_both;

typedef void lx_cpu_attend_both_loop(const lx_cpu_attend_both *job);
