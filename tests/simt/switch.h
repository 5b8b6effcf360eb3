/* The stacks of fibers, and the switch from one to another. */
#ifndef LINNET_TESTS_SIMT_SWITCH_H
#define LINNET_TESTS_SIMT_SWITCH_H

#if defined(__x86_64__)
struct simt_stack {
    void *pointer;
};

/* Neither a call nor a `ret`: a processor then predicts that the next fiber returns to the place of
   the former call, which is the same place. */
static inline __attribute__((always_inline)) void simt_switch(simt_stack *from, simt_stack *to)
{
    asm volatile("leaq -128(%%rsp), %%rsp\n\t" /* the bytes below may be in use */
                 "pushq %%rbp\n\tleaq 1f(%%rip), %%rax\n\tpushq %%rax\n\t"
                 "movq %%rsp, (%%rdi)\n\tmovq (%%rsi), %%rsp\n\t"
                 "popq %%rax\n\tjmpq *%%rax\n"
                 "1:\tpopq %%rbp\n\tleaq 128(%%rsp), %%rsp"
                 : "+D"(from), "+S"(to)
                 :
                 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
                   "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                   "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
}

/* run() will be called, and must not return, in these bytes, whose end is a multiple of 16. */
static inline void simt_begin(simt_stack *s, unsigned char *bytes, size_t n_bytes, void (*run)())
{
    void **top = reinterpret_cast<void **>(bytes + n_bytes) - 1; /* as after a call */
    top[0] = nullptr;
    *--top = reinterpret_cast<void *>(run);
    s->pointer = top;
}
#else
#include <ucontext.h>

struct simt_stack {
    ucontext_t context;
};

static inline void simt_switch(simt_stack *from, simt_stack *to)
{
    (void)swapcontext(&from->context, &to->context);
}

static inline void simt_begin(simt_stack *s, unsigned char *bytes, size_t n_bytes, void (*run)())
{
    (void)getcontext(&s->context);
    s->context.uc_stack.ss_sp = bytes;
    s->context.uc_stack.ss_size = n_bytes;
    s->context.uc_link = nullptr;
    makecontext(&s->context, run, 0);
}
#endif

#endif
