// Structures of dtypes and rules across the language border: nested Python tuples.
#pragma once

#include <string_view>

#include "orlop/dtype/structure.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// The author's part of a structure (M111): a tuple of exact str, int, float, bool, None, Whole and tuples.
/// TypeError for another item, ValueError beyond 100,000 items.
Structure to_extension(nb::handle value, std::string_view what);
/// A structure that came back from from_structure, perhaps through a pickle; TypeError for anything else.
Structure to_structure(nb::handle value, std::string_view what);
nb::object from_structure(const Structure& structure);

}  // namespace orlop::bindings
