/* Single numbers of a weights file, for the oracles of tests. */
#ifndef LINNET_TESTS_TENSOR_VALUES_H
#define LINNET_TESTS_TENSOR_VALUES_H

#include "model/formats/safetensors.h"

/* Number i of a tensor of `f`; ends the test when the file cannot be read. One thread. */
float tensor_value(const lx_safetensors *f, const lx_tensor *t, int64_t i);

#endif
