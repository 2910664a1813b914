// The Python face of Evictable and its operation adapter.
#include "orlop/carriers/evictable/evictable.hpp"

#include "call_arguments.hpp"
#include "carrier.hpp"
#include "carrier_class.hpp"
#include "operation.hpp"

namespace orlop::bindings {

namespace {

Ref<Evictable> make_evictable(const nb::args& args, const nb::kwargs& kwargs) {
  const CallArguments call("Evictable", args, kwargs, {"primary", "secondary"}, 2, {});
  const Ref<Carrier> primary = to_carrier(call.get("primary"), "Evictable", "primary");
  return Evictable::make(primary, to_carrier(call.get("secondary"), "Evictable", "secondary"));
}

void construct_adapter(nb::pointer_and_handle<EvictableOperation> self, nb::handle primary_operation) {
  new (self.p) EvictableOperation(Ref<Operation>(try_native<Operation>(primary_operation)));
}

}  // namespace

void bind_evictable(nb::module_& module) {
  nb::class_<Evictable, DependentCarrier> evictable(module, "Evictable", counted<Evictable>(),
                                                    nb::type_slots(collector_slots), nb::is_final(),
                                                    R"(Evictable(primary, secondary)

A two-tier hierarchy: the values live in `primary`, or, evicted, in `secondary`. It owns both tiers, two live
unowned carriers of one dtype; the secondary must be mutable, the primary hold at least one slot (S301).
Errors: TypeError for tiers of other kinds or of two dtypes; ValueError for one object twice or an empty primary;
RuntimeError for tiers that are released, owned or immutable.

>>> from orlop import CPU, DType, Evictable, FileBacked
>>> carrier = Evictable(CPU(3), FileBacked(dtype=DType.Float32))
>>> carrier.evict()
>>> carrier.is_evicted(), carrier.primary.size(), carrier.secondary.size()
(True, 0, 3)
>>> carrier.promote()
>>> carrier.is_evicted(), carrier[2]
(False, 0.0))");
  evictable.def(nb::new_(&make_evictable))
      .def_prop_ro(
          "primary", [](Evictable& self) { return self.primary(); }, "The primary tier as it is now.")
      .def_prop_ro(
          "secondary", [](Evictable& self) { return self.secondary(); }, "The secondary tier as it is now.")
      .def("is_evicted", &Evictable::is_evicted, "Whether the values are in the secondary.")
      .def(
          "evict", &Evictable::evict,
          "Moves the values to the secondary and releases the primary; nothing where they are there already.")
      .def("promote", &Evictable::promote, "Moves the values back to the primary.")
      .def(
          "scatter",
          [](Evictable& self, nb::handle to_scatter, nb::handle scatter_onto, nb::handle mapping,
             nb::handle mapping_offset) {
            self.require_live();
            self.require_mutable();
            self.require_promoted();
            scatter(self, to_scatter, scatter_onto, mapping, mapping_offset);
          },
          "to_scatter"_a.none(), "scatter_onto"_a.none(), "mapping"_a.none(), "mapping_offset"_a.none() = 0,
          R"(Writes the logical values of a Tensor through a mapping into the promoted primary.

>>> from orlop import CPU, Evictable, Tensor, friendly
>>> onto = Tensor(Evictable(CPU(2), CPU(0)), 0, friendly.column_major(2))
>>> values = Tensor(Evictable(friendly.ones(2).carrier, CPU(0)), 0, friendly.column_major(2))
>>> onto.carrier.scatter(values, onto, onto.layout)
>>> friendly.to_list(onto)
[1.0, 1.0])");
  reject_subclasses(evictable, "Evictable");
  name_carrier_class<Evictable>(evictable);

  nb::class_<EvictableOperation, Operation> adapter(module, "EvictableOperation",
                                                    counted<EvictableOperation>(),
                                                    nb::type_slots(operation_slots), nb::is_final(),
                                                    R"(EvictableOperation(primary_operation)

Runs the operation that a promoted primary dispatched on Evictable Tensors, once, and restores the result and
the gradients to hierarchies of the same tier classes (S310).

>>> from orlop import CPU, DType, Evictable, FileBacked
>>> carrier = Evictable(CPU(3), FileBacked(dtype=DType.Float32))
>>> type(carrier.dispatch_op("relu")).__name__
'EvictableOperation')");
  adapter.def("__init__", &construct_adapter, "primary_operation"_a.none())
      .def_prop_ro(
          "primary_operation", [](EvictableOperation& self) { return self.primary_operation(); },
          "The nested operation.");
}

}  // namespace orlop::bindings
