// Operation definitions and invocations across the language border.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "orlop/operation/operation_definition.hpp"
#include "support.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

/// The one Python object of a definition.
nb::object from_definition(const OperationDefinition& definition);
/// An OperationDefinition, or TypeError.
const OperationDefinition& to_definition(nb::handle value, std::string_view what, std::string_view field);
/// The Python object behind the handle: the same one for the same invocation.
nb::object from_invocation(const ResolvedInvocation& invocation);
/// A ResolvedInvocation, or TypeError.
ResolvedInvocation to_invocation(nb::handle value, std::string_view what, std::string_view field);

nb::tuple tensors_tuple(std::span<const Tensor> tensors);
/// The Tensors of a tuple; TypeError for another entry.
std::vector<Tensor> to_tensors(const nb::tuple& entries, std::string_view what, std::string_view field);
/// The same where an entry may be None.
std::vector<std::optional<Tensor>> to_optional_tensors(const nb::tuple& entries, std::string_view what,
                                                       std::string_view field);

/// One Tensor as it is, several as a tuple (X25).
nb::object from_results(std::span<const Tensor> results);

}  // namespace orlop::bindings
