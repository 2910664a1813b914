// Commands across the language border.
#pragma once

#include "support.hpp"

namespace orlop::bindings {

/// The characters of a command: each one outside ASCII becomes one byte outside ASCII, so that offsets agree.
/// TypeError ‹<name> must be a str›.
std::string to_command(nb::handle value, std::string_view name);

}  // namespace orlop::bindings
