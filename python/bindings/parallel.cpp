// How many threads kernels use.
#include "orlop/base/parallel.hpp"

#include "support.hpp"

namespace orlop::bindings {

void bind_parallel(nb::module_& module) {
  module.def("thread_count", &thread_count,
             "How many threads a kernel may use: what set_thread_count said last, or else the environment\n"
             "variable ORLOP_NUM_THREADS, or else the processors that this process may run on.");
  module.def(
      "set_thread_count",
      [](nb::handle count) { set_thread_count(to_index<ValueError>(count, "set_thread_count", "count")); },
      "count"_a.none(),
      "Applies to the operations that begin later, on every thread. A `count` outside 1 to 1024 is a\n"
      "ValueError.");
}

}  // namespace orlop::bindings
