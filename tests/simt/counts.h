/* Objects that the fake runtime (fake/runtime.c) has given out and not got back, and its counts of
   graphs. */
#ifndef LINNET_TESTS_SIMT_COUNTS_H
#define LINNET_TESTS_SIMT_COUNTS_H

typedef struct simt_counts {
    long memory, streams, events, graphs; /* that exist now */
    long captured, replayed;              /* graphs so far */
    long nodes;                           /* of the graph that was captured last */
    long meetings; /* so far: of a thread of a kernel with others, at barriers and in exchanges */
    /* so far: of the matrix library's products as it estimates, and of the quickest */
    long product_time, least_product_time;
    long products;    /* so far: calls that multiply */
    long allocations; /* so far: of the runtime, and malloc and the like of the whole library */
} simt_counts;

/* Exported by the library of the tests, found by dlsym. */
typedef void (*simt_count_fn)(simt_counts *out);
typedef long (*simt_fail_at_fn)(long n, int error); /* see fake/runtime.c */
/* Functions that the fake runtime calls: in the next capture, in the next wait for an event, and in
   every thread that waits for its turn or searches algorithms. NULL for none. See fake/cublaslt.c.
 */
typedef void (*simt_listen_fn)(void (*in_capture)(void), void (*in_wait)(void), void (*asks)(void));

#endif
