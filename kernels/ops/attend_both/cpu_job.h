/* What the inner loop of `attend_both` is given (cpu.h); included by cpu/isa.h. */

typedef lx_cpu_attend_linear lx_cpu_attend_both; /* `next` and `later` are not looked at */

typedef void lx_cpu_attend_both_loop(const lx_cpu_attend_both *job);
