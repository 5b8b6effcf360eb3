/* The end of what target_begin.h begins. */
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
