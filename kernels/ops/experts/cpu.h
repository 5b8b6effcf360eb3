/* An expert's outputs for a row, added with their weight. */

static void experts(float *y, const float *x, float c, int64_t n)
{
    v16 weight = v16_set1(c);
    for (int64_t i = 0; i < n; i += 16) {
        int left = n - i < 16 ? (int)(n - i) : 16;
        body_store(y + i, v16_fma(weight, body_load(x + i, left), body_load(y + i, left)), left);
    }
}
