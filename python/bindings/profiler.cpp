// The profiler in Python (P95–P100).
#include "orlop/operation/profiler.hpp"

#include <limits>

#include "carrier.hpp"
#include "carrier_class.hpp"
#include "layout.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/interop/chrome_trace.hpp"
#include "orlop/operation/operation.hpp"
#include "plans.hpp"

namespace orlop::bindings {

namespace {

constexpr const char* home = "orlop.profiler";

// --- How the core sees Python's classes

std::shared_ptr<void> python_type_of(const Object& operation) {
  if (operation.python_object() == nullptr) return nullptr;
  const InterpreterLock lock;
  PyObject* type = nb::handle(operation.python_object()).type().inc_ref().ptr();
  return {type, [](void* held) {
            if (Py_IsInitialized() == 0) return;
            const InterpreterLock release_lock;
            Py_DECREF(static_cast<PyObject*>(held));
          }};
}

std::string sort_text_of(CarrierClass carrier_class) {
  const InterpreterLock lock;
  const nb::object type = python_class(carrier_class);
  if (!PyType_Check(type.ptr())) return std::string(carrier_class.name());
  return to_text(type.attr("__module__")) + '\n' + to_text(type.attr("__qualname__"));
}

// --- Conversions

nb::object from_shapes(const std::optional<InputShapes>& shapes) {
  if (!shapes) return nb::none();
  return tuple_of(*shapes, [](const std::optional<Shape>& shape) {
    return shape ? from_coordinate(shape->top_level()) : nb::none();
  });
}

nb::object from_implementation(const ImplementationType& implementation) {
  if (PyObject* type = implementation.python_type()) return nb::borrow(type);
  const nb::handle bound = NB_CALL(nb_type_lookup)(NB_CTX, &implementation.native_type());
  return nb::borrow(bound.is_valid() ? bound : nb::handle(nb::type<Operation>()));
}

nb::object from_optional(const std::optional<std::int64_t>& value) {
  return value ? nb::object(nb::int_(*value)) : nb::none();
}

nb::tuple events(const Profiler& self) {
  const nb::object record = nb::module_::import_(home).attr("ProfilerEvent");
  return tuple_of(self.events(), [&](const ProfilerEvent& event) {
    return record(event.id, from_optional(event.parent_id), event.name, python_class(event.carrier_type),
                  from_implementation(event.implementation_type), from_shapes(event.input_shapes),
                  event.start_time_ns, event.duration_ns, event.self_time_ns, event.thread_id,
                  event.succeeded);
  });
}

nb::tuple key_averages(const Profiler& self, nb::handle group_by_input_shape) {
  const bool grouped = to_bool(group_by_input_shape, "Profiler.key_averages", "group_by_input_shape");
  const std::vector<ProfilerAggregate> averages = self.key_averages({.group_by_input_shape = grouped});
  const nb::object record = nb::module_::import_(home).attr("ProfilerAggregate");
  return tuple_of(averages, [&](const ProfilerAggregate& each) {
    return record(each.name, python_class(each.carrier_type), from_shapes(each.input_shapes), each.count,
                  each.total_time_ns, each.self_total_time_ns, each.mean_time_ns, each.min_time_ns,
                  each.max_time_ns);
  });
}

void export_trace(const Profiler& self, nb::handle path) {
  const std::filesystem::path target = to_path(path, "Profiler.export_chrome_trace");
  const BlockingScope unlocked;
  export_chrome_trace(self, target);
}

// --- Arguments

std::string to_sort_field(nb::handle sort_by) {
  constexpr std::string_view what = "Profiler.table";
  if (PyObject_Hash(sort_by.ptr()) == -1) throw_python_error();  // unhashable: TypeError
  if (PyUnicode_Check(sort_by.ptr())) return to_text(sort_by, what, "sort_by");
  raise<ValueError>(what, "sort_by must name a field of ProfilerAggregate: got ", python_type_name(sort_by));
}

std::optional<Index> to_row_limit(nb::handle row_limit) {
  constexpr std::string_view what = "Profiler.table";
  if (row_limit.is_none()) return std::nullopt;
  if (PyBool_Check(row_limit.ptr()) || PyIndex_Check(row_limit.ptr()) == 0)
    raise<ValueError>(what, "row_limit must be a non-negative integer or None: got ",
                      python_type_name(row_limit));
  const nb::object number = nb::steal(PyNumber_Index(row_limit.ptr()));
  if (!number.is_valid()) throw_python_error();
  int overflow = 0;
  const long long limit = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) return overflow < 0 ? -1 : std::numeric_limits<Index>::max();
  return limit;
}

std::string table(const Profiler& self, nb::handle sort_by, nb::handle descending,
                  nb::handle group_by_input_shape, nb::handle row_limit) {
  constexpr std::string_view what = "Profiler.table";
  ProfilerTableOptions options;
  options.sort_by = to_sort_field(sort_by);
  options.descending = to_bool(descending, what, "descending");
  options.group_by_input_shape = to_bool(group_by_input_shape, what, "group_by_input_shape");
  options.row_limit = to_row_limit(row_limit);
  return self.table(options);
}

ProfilerOptions to_options(nb::handle carriers, nb::handle record_shapes) {
  constexpr std::string_view what = "Profiler";
  ProfilerOptions options;
  options.record_shapes = to_bool(record_shapes, what, "record_shapes");
  if (carriers.is_none()) return options;
  options.carriers.emplace();
  for (const nb::handle entry : to_finite_tuple(carriers, what, "carriers")) {
    const CarrierClass carrier_class =
        PyType_Check(entry.ptr()) ? carrier_class_of_type(entry) : CarrierClass();
    if (!carrier_class)
      raise<TypeError>(what, "every entry of carriers must be a Carrier class: got ",
                       to_text(nb::repr(entry)));
    options.carriers->push_back(carrier_class);
  }
  return options;
}

}  // namespace

void bind_profiler(nb::module_& parent) {
  orlop::detail::install_profiler_class_naming({python_type_of, sort_text_of});
  nb::module_ module = parent.def_submodule("_profiler");
  nb::class_<Profiler> type(
      module, "Profiler", nb::is_final(), nb::is_weak_referenceable(),
      R"(Records the dispatched operations that this thread runs inside a `with` block (P95, P96).

`carriers` selects exact carrier classes (None: all); `record_shapes` keeps the extents of
the Tensor arguments. Host time only. A profiler is used once; results are there afterwards.

>>> from orlop import friendly
>>> with orlop.Profiler(record_shapes=True) as profiler:
...     _ = orlop.relu(friendly.ones(2))
>>> profiler.events()[0].input_shapes, profiler.key_averages()[0].count
(((2,),), 1)
>>> print(profiler.table(row_limit=0).partition(" ")[0])
Name)");
  nb::setattr(type, "__module__", nb::str(home));
  type.def(
          "__init__",
          [](Profiler* self, nb::handle carriers, nb::handle record_shapes) {
            std::construct_at(self, to_options(carriers, record_shapes));
          },
          nb::kw_only(), "carriers"_a.none() = nb::none(), "record_shapes"_a.none() = false)
      .def("__enter__",
           [](nb::handle self) {
             nb::inst_ptr<Profiler>(self)->enter();
             return nb::borrow(self);
           })
      .def(
          "__exit__",
          [](Profiler& self, const nb::args&) {
            self.exit();
            return false;
          },
          "exception"_a)
      .def("events", events, "The recorded calls in start order: a tuple of ProfilerEvent.")
      .def("key_averages", key_averages, nb::kw_only(), "group_by_input_shape"_a.none() = false,
           "The calls summed up by name and carrier class, and by shapes if asked: a tuple of "
           "ProfilerAggregate.")
      .def("table", table, nb::kw_only(), "sort_by"_a.none() = "self_total_time_ns",
           "descending"_a.none() = true, "group_by_input_shape"_a.none() = false,
           "row_limit"_a.none() = nb::none(),
           "The averages as aligned text, sorted by a field of ProfilerAggregate.\n\n"
           "Errors: ValueError for another `sort_by`, or a `row_limit` that is no non-negative integer.")
      .def("export_chrome_trace", export_trace, "path"_a.none(),
           R"(Writes the recording as JSON that chrome://tracing and Perfetto draw.

Operations are one track of nested bars; moves, and evictions and promotions, are tracks
beside it. Errors: RuntimeError before the end of the `with` block, OSError.

>>> import json, os, tempfile
>>> from orlop import friendly
>>> with orlop.profile() as profiler:
...     _ = orlop.relu(friendly.ones(2))
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "trace.json")
...     profiler.export_chrome_trace(path)
...     with open(path) as file:
...         sorted({"traceEvents"} & set(json.load(file)))
['traceEvents'])");
}

}  // namespace orlop::bindings
