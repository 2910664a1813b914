// Keys of Tensors: elements, and slices that make views (M404, M502).
#pragma once

#include "tensor.hpp"

namespace orlop::bindings {

/// `tensor[key]`: a view where the key holds a slice, otherwise the element.
nb::object tensor_getitem(const Tensor& tensor, nb::handle key);
/// `tensor[key] = value` for one element.
void tensor_setitem(const Tensor& tensor, nb::handle key, nb::handle value);

}  // namespace orlop::bindings
