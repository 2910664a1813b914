// Keys of Tensors: elements, slices that make views (M404, M502), and index lists among operation arguments.
#pragma once

#include "orlop/tensor/views.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

/// `tensor[key]`: a view where the key holds a slice anywhere, otherwise the element.
nb::object tensor_getitem(const Tensor& tensor, nb::handle key);
/// `tensor[key] = value` for one element.
void tensor_setitem(const Tensor& tensor, nb::handle key, nb::handle value);

/// A slice, or a tuple or list of integers and slices, as views take it: SliceKeys, or std::vector<Index>
/// where all are integers. Nothing for any other value.
std::optional<Argument> try_index_list(nb::handle value);
/// A tuple or list of tuples or lists of integers, as std::vector<std::vector<Index>>. Nothing for any other
/// value.
std::optional<Argument> try_nested_index_list(nb::handle value);
/// The tuple of integers and slices that `keys` spell.
nb::object from_slice_keys(std::span<const SliceKey> keys);

}  // namespace orlop::bindings
