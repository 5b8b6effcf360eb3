/*
 * Linear attention in which every token sees its whole sequence (Katharopoulos et al. 2020, eq. 5
 * and 6). A batch has whole sequences. For every sequence and every head first
 *     s = sum over all tokens of phi(k) v^T      s: D x M
 *     z = sum over all tokens of phi(k)          z: D
 * and then for every token
 *     y = phi(q)^T s / (phi(q)^T z + eps)
 * The operation leaves the sums of head h at offset + h * (D * M + D) floats of the sequence's
 * slot, s row-major, then z, and ignores the slot's earlier content.
 */
typedef lx_attend_linear_args lx_attend_both_args;
