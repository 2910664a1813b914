// Operations and their options across the language border.
#pragma once

#include "orlop/operation/operation.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// Positional Python arguments for `operation`: as the built-in operations understand them, or as they are for an
/// operation written in Python.
std::vector<Argument> to_arguments(const Operation& operation, nb::handle args);

/// A version token as Python shows it: ((id of the carrier, version), …).
nb::tuple token_tuple(const VersionToken& token);

}  // namespace orlop::bindings
