// Counted objects and Python's cycle collector.
#pragma once

#include <nanobind/nanobind.h>

namespace orlop::bindings {

/// tp_traverse and tp_clear for counted types (see Object::visit_references).
extern PyType_Slot collector_slots[];

}  // namespace orlop::bindings
