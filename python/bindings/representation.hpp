// Compound tensors across the language border (M406).
#pragma once

#include "tensor.hpp"

namespace orlop::bindings {

/// Adds `_from_representation` and `_representation` to the class Tensor, and what orlop.core._representation
/// needs.
void bind_representation(nb::module_& module, nb::class_<TensorObject>& tensor);

}  // namespace orlop::bindings
