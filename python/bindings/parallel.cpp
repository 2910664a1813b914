// How many threads kernels use.
#include "orlop/base/parallel.hpp"

#include "support.hpp"

namespace orlop::bindings {

void bind_parallel(nb::module_& module) {
  module.def("thread_count", &thread_count,
             R"(How many threads a kernel may use: what set_thread_count said last, or else the environment
variable ORLOP_NUM_THREADS, or else the processors that this process may run on.

>>> orlop.thread_count() >= 1
True)");
  module.def(
      "set_thread_count",
      [](nb::handle count) { set_thread_count(to_index<ValueError>(count, "set_thread_count", "count")); },
      nb::sig("def set_thread_count(count: int) -> None"), "count"_a.none(),
      R"(Applies to the operations that begin later, on every thread. A `count` outside 1 to 1024 is a
ValueError.

>>> before = orlop.thread_count()
>>> orlop.set_thread_count(1)
>>> orlop.thread_count()
1
>>> orlop.set_thread_count(before))");
}

}  // namespace orlop::bindings
