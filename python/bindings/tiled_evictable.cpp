// The Python face of the carrier TiledEvictable: construction, tiles, residency requests, policies.
#include "tiled_evictable.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>

#include "await.hpp"
#include "call_arguments.hpp"
#include "carrier.hpp"
#include "carrier_class.hpp"
#include "carriers/tiled_evictable/tile_work.hpp"
#include "plans.hpp"
#include "record.hpp"

namespace orlop::bindings {

namespace {

constexpr const char* class_name = "TiledEvictable";
using TiledClass = nb::class_<TiledEvictable, DependentCarrier>;

// --- Policies (X56)

/// A policy written in Python. Each carrier has one of its own, so that the collector sees as many references
/// to the Python object as there are.
class PythonPolicy final : public ResidencyPolicy {
 public:
  explicit PythonPolicy(nb::handle policy) {
    Py_INCREF(policy.ptr());
    anchor_.set_python_object(policy.ptr());
  }
  PythonPolicy(const PythonPolicy&) = delete;
  PythonPolicy& operator=(const PythonPolicy&) = delete;
  ~PythonPolicy() override {
    with_interpreter([this] { Py_DECREF(anchor_.python_object()); });
  }

  [[nodiscard]] nb::handle object() const { return anchor_.python_object(); }

  ResidencyPlan plan(const TileSet& required, Purpose purpose) override {
    const InterpreterLock lock;
    const std::string_view word = to_string(purpose);
    const nb::object answer = object().attr("plan")(required, nb::str(word.data(), word.size()));
    if (const auto* plan = try_native<ResidencyPlan>(answer)) return *plan;
    raise<TypeError>("ResidencyPolicy", "plan() must return a ResidencyPlan: got ", python_type_name(answer));
  }
  void visit_references(ReferenceVisitor& visitor) const override { visitor.visit(&anchor_); }
  [[nodiscard]] std::shared_ptr<ResidencyPolicy> held_again() const override {
    const InterpreterLock lock;
    return std::make_shared<PythonPolicy>(object());
  }

 private:
  Object anchor_;  // stands for the Python object where counted objects are visited
};

std::shared_ptr<ResidencyPolicy> to_policy(nb::handle value) {
  if (value.is_none()) return nullptr;
  if (nb::isinstance<ResidencyPolicy>(value)) return nb::cast<std::shared_ptr<ResidencyPolicy>>(value);
  const nb::object plan = nb::steal(PyObject_GetAttrString(value.ptr(), "plan"));
  if (!plan.is_valid()) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw_python_error();
    PyErr_Clear();
    raise<TypeError>(class_name, "residency_policy must be a ResidencyPolicy or None: got ",
                     python_type_name(value), "; a policy has a callable plan(required, purpose)");
  }
  if (PyCallable_Check(plan.ptr()) == 0)
    raise<TypeError>(class_name, "residency_policy.plan must be callable: got ", python_type_name(plan));
  return std::make_shared<PythonPolicy>(value);
}

nb::object from_policy(const std::shared_ptr<ResidencyPolicy>& policy) {
  if (const auto* python = dynamic_cast<const PythonPolicy*>(policy.get()))
    return nb::borrow(python->object());
  return nb::cast(policy);
}

Purpose to_purpose(nb::handle value) {
  if (PyUnicode_Check(value.ptr())) {
    const auto word = to_text(value);
    for (const Purpose purpose :
         {Purpose::operation, Purpose::projection, Purpose::scatter, Purpose::backward})
      if (to_string(purpose) == word) return purpose;
    raise<ValueError>(class_name, "unknown purpose: ", word,
                      "; use \"operation\", \"projection\", \"scatter\" or \"backward\"");
  }
  raise<TypeError>(class_name, "purpose must be a str: got ", python_type_name(value));
}

// --- Construction (X40)

std::vector<Index> to_extents(nb::handle value, const char* name) {
  const nb::tuple items = to_finite_tuple(value, class_name, name);
  std::vector<Index> extents;
  if (items.size() == 0) TileGrid::check_shape({}, name);
  for (std::size_t i = 0; i < items.size(); ++i)
    extents.push_back(to_exact_int<ValueError>(items[i], class_name, text(name, '[', i, ']')));
  TileGrid::check_shape(extents, name);
  return extents;
}

Ref<TiledEvictable> make_tiled(const nb::args& args, const nb::kwargs& kwargs) {
  const CallArguments call(class_name, args, kwargs, {"primary", "secondary", "grid_shape", "tile_shape"}, 4,
                           {"residency_policy", "primary_budget_bytes"});
  const Ref<Carrier> primary = to_carrier(call.get("primary"), class_name, "primary");
  const Ref<Carrier> secondary = to_carrier(call.get("secondary"), class_name, "secondary");
  TiledEvictable::check_tiers(primary, secondary);
  TiledOptions options;
  options.grid_shape = to_extents(call.get("grid_shape"), "grid_shape");
  options.tile_shape = to_extents(call.get("tile_shape"), "tile_shape");
  TiledEvictable::check_sizes(*primary, *secondary, TileGrid(options.grid_shape, options.tile_shape));
  if (call.has("residency_policy")) options.residency_policy = to_policy(call.get("residency_policy"));
  if (const nb::object budget = call.get("primary_budget_bytes"); budget.is_valid() && !budget.is_none())
    options.primary_budget_bytes = to_exact_int<ValueError>(budget, class_name, "primary_budget_bytes");
  return TiledEvictable::make(primary, secondary, options);
}

// --- Residency (X51)

/// The exact class, as a facet's first argument.
TiledEvictable& to_tiled(nb::handle value) {
  if (auto* carrier = try_native<TiledEvictable>(value)) return *carrier;
  raise<TypeError>("TiledResidencyFacet", "carrier must be a TiledEvictable: got ", python_type_name(value));
}

using Request = AwaitResidency (TiledEvictable::*)(const TileSet&);

template <Request request>
Ref<ResidencyTask> submit(nb::handle carrier, nb::handle tiles) {
  TiledEvictable& self = to_tiled(carrier);
  self.require_live();
  return (self.*request)(to_tile_set(tiles, class_name, "tiles")).task();
}

/// A request as methods of the carrier, and as functions of the module for the facet.
template <Request request>
void bind_requests(TiledClass& carrier, nb::module_& module, const std::string& name, const char* doc) {
  const std::string async_name = name + "_async";
  const std::string tiles = "tiles: TileSet | TileSelection) -> ";
  const std::string signature = text("def ", name, "(self, ", tiles, "None");
  const std::string async_signature = text("def ", async_name, "(self, ", tiles, "AwaitResidency");
  const std::string async_doc =
      text(doc, "\n\nThe work goes on in the background; the handle's wait() gives its end.");
  const auto wait = [](nb::handle self, nb::handle tiles) {
    return await_result(*submit<request>(self, tiles));
  };
  carrier.def(name.c_str(), wait, nb::sig(signature.c_str()), "tiles"_a.none(), doc)
      .def(async_name.c_str(), &submit<request>, nb::sig(async_signature.c_str()), "tiles"_a.none(),
           async_doc.c_str());
  module.def(name.c_str(), wait, "carrier"_a.none(), "tiles"_a.none(), doc);
  module.def(async_name.c_str(), &submit<request>, "carrier"_a.none(), "tiles"_a.none(), async_doc.c_str());
}

/// `_pin_tiles_for_work`: the pins of some work, and nothing else of it.
class Pins {
 public:
  Pins(Ref<TiledEvictable> carrier, TileSet required, Purpose purpose)
      : carrier_(std::move(carrier)), required_(std::move(required)), purpose_(purpose) {}
  ResidencyPlan enter() {
    if (work_) raise<RuntimeError>(class_name, "the tiles are pinned already; leave the block first");
    work_.emplace(
        std::vector<TileWork::Source>{{.carrier = carrier_, .required = required_, .has_steps = false}},
        purpose_);
    work_->enter_step({}, {});
    return work_->plan(0);
  }
  void exit() {
    if (!work_) return;
    work_->finish();
    work_.reset();
  }

 private:
  Ref<TiledEvictable> carrier_;
  TileSet required_;
  Purpose purpose_;
  std::optional<TileWork> work_;
};

nb::object from_budget(const TiledEvictable& self) {
  const std::optional<std::int64_t> budget = self.primary_budget_bytes();
  return budget ? nb::object(nb::int_(*budget)) : nb::none();
}

/// As many members as there are requests that have not ended.
nb::object pending_requests(const TiledEvictable& self) {
  nb::list numbers;
  for (Index i = 0; i < self.pending_requests(); ++i) numbers.append(nb::int_(i));
  return nb::steal(PyFrozenSet_New(numbers.ptr()));
}

TileLocation to_location(nb::handle value) {
  if (PyUnicode_Check(value.ptr())) {
    const auto word = to_text(value);
    for (const TileLocation location :
         {TileLocation::primary, TileLocation::secondary, TileLocation::implicit, TileLocation::invalid})
      if (to_string(location) == word) return location;
    raise<ValueError>("TileState", "unknown location: ", word,
                      "; use \"primary\", \"secondary\", \"implicit\" or \"invalid\"");
  }
  raise<TypeError>("TileState", "location must be a str: got ", python_type_name(value));
}

void bind_state(nb::module_& module) {
  nb::class_<TileState> type(module, "TileState", nb::is_final(),
                             "Where one tile is (X44): `location` \"primary\", \"secondary\", \"implicit\" "
                             "(zero, without storage) or\n\"invalid\"; whether it is `valid`, that is not "
                             "invalid; and `dirty`, written since it became primary.");
  type.def(
          "__init__",
          [](TileState* self, nb::handle location, nb::handle valid, nb::handle dirty) {
            const TileLocation place = to_location(location);
            const bool is_valid = to_bool(valid, "TileState", "valid");
            new (self) TileState{place, is_valid, to_bool(dirty, "TileState", "dirty")};
          },
          "location"_a.none(), "valid"_a.none(), "dirty"_a.none())
      .def_prop_ro("location",
                   [](const TileState& self) {
                     const std::string_view word = to_string(self.location);
                     return nb::str(word.data(), word.size());
                   })
      .def_prop_ro("valid", [](const TileState& self) { return self.valid; })
      .def_prop_ro("dirty", [](const TileState& self) { return self.dirty; });
  make_record(type, tiled_home, {"location", "valid", "dirty"});
}

void bind_state_of(TiledClass& carrier) {
  carrier
      .def(
          "tile_state",
          [](const TiledEvictable& self, nb::handle coordinate) {
            return self.tile_state(to_tile(coordinate)[0]);
          },
          "coordinate"_a.none(),
          "Where a tile is: a TileState. Errors: TypeError for what is no iterable of int; ValueError "
          "outside "
          "the grid.")
      .def_prop_ro("primary_tiles", &TiledEvictable::primary_tiles, "The tiles in the primary tier.")
      .def_prop_ro("secondary_tiles", &TiledEvictable::secondary_tiles, "The tiles in the secondary tier.")
      .def_prop_ro("valid_tiles", &TiledEvictable::valid_tiles, "The tiles that have a value.")
      .def_prop_ro("dirty_tiles", &TiledEvictable::dirty_tiles,
                   "The tiles written since they became primary.")
      .def("residency_stats", &TiledEvictable::residency_stats,
           "What moved and what was found primary since the last reset: a streaming.ResidencyStats (X115).")
      .def("reset_residency_stats", &TiledEvictable::reset_residency_stats,
           "Counts from 0 again; the peak restarts at what is primary now.")
      .def_prop_ro("_pending_requests", &pending_requests, "One member for each request that has not ended.")
      .def("_tile_symbols", &TiledEvictable::tile_symbols, "A symbol for each tile; orlop.view draws them.")
      .def_prop_ro("_primary_bytes", &TiledEvictable::primary_bytes, "Bytes of primary storage now (X101).")
      .def(
          "_implicit_zero_like", [](const TiledEvictable& self) { return self.make_like(true); },
          "A fresh carrier like this one whose tiles are all implicit.")
      .def(
          "_pin_tiles_for_work",
          [](TiledEvictable& self, nb::handle required, nb::handle purpose) {
            TileSet tiles = to_tile_set(required, class_name, "required");
            return std::make_unique<Pins>(Ref<TiledEvictable>(&self), std::move(tiles), to_purpose(purpose));
          },
          "required"_a.none(), "purpose"_a.none(),
          "A context manager that pins tiles as work of that purpose does and gives the policy's plan.");
}

}  // namespace

void bind_tiled_carrier(nb::module_& module) {
  bind_state(module);
  nb::class_<ResidencyPolicy>(module, "_NativeResidencyPolicy", "A residency policy written in C++.")
      .def(
          "plan",
          [](ResidencyPolicy& self, nb::handle required, nb::handle purpose) {
            return self.plan(to_tile_set(required, "ResidencyPolicy", "required"), to_purpose(purpose));
          },
          "required"_a.none(), "purpose"_a.none());
  nb::class_<Pins>(module, "_Pins")
      .def("__enter__", &Pins::enter)
      .def("__exit__", [](Pins& self, const nb::args&) { self.exit(); });
  bind_await_kind<ResidencyTask>(module, "AwaitResidency", "def wait(self) -> None",
                                 R"(The handle of a residency request: wait() returns once it has ended (X52).

>>> from orlop import CPU, TileSet, TiledEvictable, friendly
>>> carrier = TiledEvictable(friendly.arange(4).carrier, CPU(0), (2,), (2,))
>>> carrier.evict_async(TileSet([(1,)])).wait()
>>> carrier.secondary_tiles
TileSet(coordinates=((1,),)))");

  TiledClass carrier(
      module, class_name, counted<TiledEvictable>(), nb::type_slots(collector_slots), nb::is_final(),
      R"(TiledEvictable(primary, secondary, grid_shape, tile_shape, *, residency_policy=None, primary_budget_bytes=None)

A Tensor's storage cut into a grid of equal tiles, each in the primary tier, in the secondary one, an
implicit zero, or invalid. It owns both tiers, two live unowned carriers of one dtype, each empty or of the
full extent: a full one is the seed. `residency_policy` is a ResidencyPolicy; `primary_budget_bytes` limits what
the primary tier holds at any instant (X40, X100).

Errors in this order: TypeError for tiers that are no independent carriers; ValueError for one object twice;
RuntimeError for released or owned tiers; TypeError for different dtypes; then the shapes, the tiers' sizes, the
policy and the budget. A failure leaves both tiers as they were.

>>> from orlop import CPU, TileSet, TiledEvictable, friendly
>>> carrier = TiledEvictable(friendly.arange(8).carrier, CPU(0), (2, 1), (2, 2), primary_budget_bytes=32)
>>> carrier.evict(TileSet([(0, 0)]))
>>> carrier.tile_state((0, 0)).location, carrier.primary_tiles, carrier.residency_stats().evictions
('secondary', TileSet(coordinates=((1, 0),)), 1)
>>> carrier.promote(TileSet([(0, 0)]))
>>> carrier.evict_async(TileSet([(1, 0)])).wait()
>>> carrier.promote_async(TileSet([(1, 0)])).wait()
>>> carrier.reset_residency_stats()
>>> carrier.tile_state((2, 0))
Traceback (most recent call last):
    ...
ValueError: [TileSet] tile coordinate 2 on axis 0 is outside the grid (2, 1); use 0 to 1)");
  carrier.def(nb::new_(&make_tiled))
      .def_prop_ro(
          "primary", [](const TiledEvictable& self) { return self.primary(); }, "The primary tier's seed.")
      .def_prop_ro(
          "secondary", [](const TiledEvictable& self) { return self.secondary(); },
          "The secondary tier's seed.")
      .def_prop_ro(
          "grid_shape", [](const TiledEvictable& self) { return from_indices(self.grid().grid_shape()); },
          "Tiles along each axis.")
      .def_prop_ro(
          "tile_shape", [](const TiledEvictable& self) { return from_indices(self.grid().tile_shape()); },
          "Elements of a tile along each axis.")
      .def_prop_ro(
          "logical_shape",
          [](const TiledEvictable& self) { return from_indices(self.grid().logical_shape()); },
          "Elements along each axis.")
      .def_prop_ro(
          "residency_policy", [](const TiledEvictable& self) { return from_policy(self.residency_policy()); },
          "The policy, or None.")
      .def_prop_ro("primary_budget_bytes", &from_budget, "The budget, or None where it is unlimited (X100).");
  bind_state_of(carrier);

  bind_requests<&TiledEvictable::promote_async>(
      carrier, module, "promote",
      "Makes tiles primary, all of them or none: implicit ones become zeros. Nothing for those that are.\n\n"
      "Errors: RuntimeError for a released carrier, ‹pending› or ‹pinned› tiles, ‹invalid› ones, or where "
      "the "
      "budget has\nno room now; ValueError for tiles outside the grid, or more than the budget holds.");
  bind_requests<&TiledEvictable::evict_async>(
      carrier, module, "evict",
      "Moves primary tiles to the secondary tier, all of them or none. Nothing for the others.\n\n"
      "Errors: RuntimeError for a released carrier, ‹pending› or ‹pinned› tiles; ValueError for tiles "
      "outside "
      "the grid.");
  reject_subclasses(carrier, class_name);
  name_carrier_class<TiledEvictable>(carrier);
}

}  // namespace orlop::bindings
