/* A row of a mixture head. */
typedef struct lx_cpu_sample_mixture {
    const float *logits, *means, *log_scales; /* [n], all finite */
    int32_t n, levels;
    float largest; /* of the logits */
} lx_cpu_sample_mixture;

#define LX_CPU_MIXTURE LX_MIXTURE_MAX_COMPONENTS

/* log P(v) */
typedef double lx_cpu_sample_mixture_loop(const lx_cpu_sample_mixture *job, int32_t v);
