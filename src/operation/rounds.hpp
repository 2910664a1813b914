// Long loops over strided elements on the caller alone.
#pragma once

#include "orlop/base/parallel.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

/// for_each_run() for all ordinals of `loop`, each of which is the work of `elements` of a cheap loop, in the
/// rounds of serial_for(): they may cut a run.
template <class Body>
void for_each_run_in_rounds(const StridedLoop& loop, Index elements, Body body) {
  serial_for(loop.size, elements, [&](Index first, Index last) { for_each_run(loop, first, last, body); });
}

}  // namespace orlop::inline v0
