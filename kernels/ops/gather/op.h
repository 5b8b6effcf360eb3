/* Collects the rows that go through the head: y[i][column .. column + d - 1] = x[output_row[i]],
   x [T, d], y [n_outputs, width]. Other columns of y keep their values. */
typedef struct lx_gather_args {
    lx_array *y;
    const lx_array *x;
    int32_t d, width, column;
} lx_gather_args;
