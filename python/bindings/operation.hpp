// Operations and their options across the language border.
#pragma once

#include "orlop/operation/operation.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// Positional Python arguments for `operation`: as the built-in operations understand them, or as they are
/// for an operation written in Python.
std::vector<Argument> to_arguments(const Operation& operation, nb::handle args);

/// Calls `_forward` of the Python object behind an operation; TypeError where it returns no Tensor.
Tensor call_python_forward(nb::handle operation, std::span<const Argument> inputs);
/// Calls its `backward`; TypeError where it returns no tuple of Tensors and None.
Gradients call_python_backward(const Operation& operation, const Tensor& gradient);
nb::tuple gradients_tuple(const Gradients& gradients);

/// The collector's slots of an operation: those of counted objects, and the dict in its context.
extern PyType_Slot operation_slots[];

/// A version token as Python shows it: ((id of the carrier, version), …).
nb::tuple token_tuple(const VersionToken& token);

}  // namespace orlop::bindings
