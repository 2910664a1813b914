// Paths of block devices across the language border.
#pragma once

#include <string>

#include "support.hpp"

namespace orlop::bindings {

/// `os.fspath(value)`, a str, in the file system's encoding; its exceptions pass. TypeError for bytes.
std::string to_device_path(nb::handle value);

}  // namespace orlop::bindings
