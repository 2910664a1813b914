// The Python face of streaming: statistics and progress (X115, X116).
#include "orlop/carriers/tiled_evictable/streaming.hpp"

#include <memory>
#include <new>

#include "plans.hpp"
#include "record.hpp"
#include "tiled_evictable.hpp"

namespace orlop::bindings {

namespace {

using streaming::ProgressScope;
using streaming::ResidencyStats;
using streaming::TiledProgress;

constexpr const char* streaming_home = "orlop.carriers.tiled_evictable.streaming";

void bind_stats(nb::module_& module) {
  constexpr const char* name = "ResidencyStats";
  nb::class_<ResidencyStats> type(
      module, name, nb::is_final(),
      R"(What moved, and what was found primary: `promotions` and `evictions` count tiles that entered or left
primary, `bytes_read` and `bytes_written` what came from and went to the secondary tier, `hits` and
`misses` tiles of steps that were primary already or had to come, `peak_primary_bytes` the most that the
primary tier held.

>>> from orlop import CPU, TileSet, TiledEvictable, friendly
>>> carrier = TiledEvictable(friendly.arange(4).carrier, CPU(0), (2,), (2,))
>>> carrier.evict(TileSet([(1,)]))
>>> stats = carrier.residency_stats()
>>> stats.evictions, stats.bytes_written, stats.promotions
(1, 8, 0))");
  const auto field = [](nb::handle value, const char* which) {
    return to_exact_int<ValueError>(value, name, which);
  };
  type.def(
      "__init__",
      [field](ResidencyStats* self, nb::handle promotions, nb::handle evictions, nb::handle bytes_read,
              nb::handle bytes_written, nb::handle hits, nb::handle misses, nb::handle peak_primary_bytes) {
        new (self) ResidencyStats{field(promotions, "promotions"),
                                  field(evictions, "evictions"),
                                  field(bytes_read, "bytes_read"),
                                  field(bytes_written, "bytes_written"),
                                  field(hits, "hits"),
                                  field(misses, "misses"),
                                  field(peak_primary_bytes, "peak_primary_bytes")};
      },
      "promotions"_a, "evictions"_a, "bytes_read"_a, "bytes_written"_a, "hits"_a, "misses"_a,
      "peak_primary_bytes"_a);
  type.def_ro("promotions", &ResidencyStats::promotions)
      .def_ro("evictions", &ResidencyStats::evictions)
      .def_ro("bytes_read", &ResidencyStats::bytes_read)
      .def_ro("bytes_written", &ResidencyStats::bytes_written)
      .def_ro("hits", &ResidencyStats::hits)
      .def_ro("misses", &ResidencyStats::misses)
      .def_ro("peak_primary_bytes", &ResidencyStats::peak_primary_bytes);
  make_record(
      type, streaming_home,
      {"promotions", "evictions", "bytes_read", "bytes_written", "hits", "misses", "peak_primary_bytes"});
}

void bind_progress(nb::module_& module) {
  constexpr const char* name = "TiledProgress";
  nb::class_<TiledProgress> type(
      module, name, nb::is_final(),
      R"(How far a direct operation is: after `step` of `steps` steps of its `phase`, "forward" or "backward"; step 0
comes before any kernel. `primary_bytes` is what the primary tiers hold now.

>>> from orlop import CPU, Tensor, TiledEvictable, friendly
>>> from orlop.carriers.tiled_evictable import streaming
>>> tensor = Tensor(TiledEvictable(friendly.arange(4).carrier, CPU(0), (2,), (2,)), 0, friendly.column_major(4))
>>> seen = []
>>> with streaming.progress(seen.append):
...     _ = orlop.relu(tensor)
>>> seen[-1].phase, seen[-1].step == seen[-1].steps
('forward', True))");
  type.def(
          "__init__",
          [](TiledProgress* self, nb::handle operation, nb::handle phase, nb::handle step, nb::handle steps,
             nb::handle primary_bytes) {
            std::string operation_name = to_text(operation, name, "operation");
            std::string phase_name = to_text(phase, name, "phase");
            const Index done = to_exact_int<ValueError>(step, name, "step");
            const Index all = to_exact_int<ValueError>(steps, name, "steps");
            new (self) TiledProgress{std::move(operation_name), std::move(phase_name), done, all,
                                     to_exact_int<ValueError>(primary_bytes, name, "primary_bytes")};
          },
          "operation"_a, "phase"_a, "step"_a, "steps"_a, "primary_bytes"_a)
      .def_ro("operation", &TiledProgress::operation)
      .def_ro("phase", &TiledProgress::phase)
      .def_ro("step", &TiledProgress::step)
      .def_ro("steps", &TiledProgress::steps)
      .def_ro("primary_bytes", &TiledProgress::primary_bytes);
  make_record(type, streaming_home, {"operation", "phase", "step", "steps", "primary_bytes"});
}

/// `progress(callback)`: the scope from __enter__ to __exit__.
class ProgressContext {
 public:
  explicit ProgressContext(nb::object callback)
      : callback_(callback.release().ptr(),
                  [](PyObject* held) { with_interpreter([held] { Py_DECREF(held); }); }) {}

  void enter() {
    if (scope_ != nullptr)
      raise<RuntimeError>("progress", "the block is entered already; make another progress(callback)");
    scope_ = std::make_unique<ProgressScope>([callback = callback_](const TiledProgress& progress) {
      const InterpreterLock lock;
      nb::handle(callback.get())(progress);
    });
  }
  void exit() { scope_.reset(); }

  [[nodiscard]] PyObject* callback() const noexcept {
    return callback_.use_count() == 1 ? callback_.get() : nullptr;
  }

 private:
  std::shared_ptr<PyObject> callback_;
  std::unique_ptr<ProgressScope> scope_;
};

int traverse_progress(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<ProgressContext>(self)->callback());
  return 0;
}

PyType_Slot progress_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_progress)}, {0, nullptr}};

}  // namespace

void bind_streaming(nb::module_& module) {
  bind_stats(module);
  bind_progress(module);
  nb::class_<ProgressContext> context(module, "progress", nb::type_slots(progress_slots), nb::is_final(),
                                      R"(progress(callback)

While the block runs, `callback` is called with a TiledProgress by the direct operations and backwards of
this thread: before the first step and after each. The innermost block wins. An exception of the callback ends
the operation, which then has no effect. It may read statistics, but neither move tiles of the carriers that
take part nor release them (X116).

Errors: TypeError for what cannot be called.

>>> from orlop import CPU, Tensor, TiledEvictable, friendly
>>> from orlop.carriers.tiled_evictable import streaming
>>> tensor = Tensor(TiledEvictable(friendly.arange(4).carrier, CPU(0), (2,), (2,)), 0, friendly.column_major(4))
>>> with streaming.progress(lambda progress: print(progress.step, "of", progress.steps)):
...     _ = orlop.relu(tensor)
0 of 2
1 of 2
2 of 2)");
  nb::setattr(context, "__module__", nb::str(streaming_home));
  context
      .def(
          "__init__",
          [](ProgressContext* self, nb::handle callback) {
            if (PyCallable_Check(callback.ptr()) == 0)
              raise<TypeError>("progress", "callback must be callable: got ", python_type_name(callback));
            new (self) ProgressContext(nb::borrow(callback));
          },
          "callback"_a.none())
      .def("__enter__",
           [](nb::handle self) {
             nb::inst_ptr<ProgressContext>(self)->enter();
             return nb::borrow(self);
           })
      .def("__exit__", [](ProgressContext& self, const nb::args&) { self.exit(); });
}

}  // namespace orlop::bindings
