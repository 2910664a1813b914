// The Python face of the Generic carrier.
#include "orlop/carriers/generic/generic.hpp"

#include "call_arguments.hpp"
#include "carrier.hpp"
#include "carrier_class.hpp"

namespace orlop::bindings {

namespace {

Ref<Carrier> make_generic(const nb::args& args, const nb::kwargs& kwargs) {
  const CallArguments call("Generic", args, kwargs, {"values"}, 1, {"mutable", "dtype"});
  const DType& dtype = to_dtype(call.require_keyword("dtype"), "Generic");
  const bool is_mutable = call.flag("mutable", true);
  // An empty carrier of the dtype checks it before any value is consumed, and is the prototype.
  return new_like(*Generic::zeros(0, {.dtype = dtype}), call.get("values"), is_mutable, dtype);
}

}  // namespace

void bind_generic(nb::module_& module) {
  nb::class_<Generic, Carrier> generic(module, "Generic", counted<Generic>(), nb::type_slots(collector_slots),
                                       nb::is_final(),
                                       R"(Generic(values, *, mutable=True, dtype)

The reference store: normalized copies of `values`.
Errors: TypeError for values that are no real numbers, OverflowError for one that leaves Int32, ValueError for a dtype
other than Float32, Int32 and Bool.

>>> carrier = orlop.Generic([1, 2.7], dtype=orlop.DType.Float32)
>>> carrier[0], carrier.size()
(1.0, 2))");
  generic.def(nb::new_(&make_generic));
  reject_subclasses(generic, "Generic");
  name_carrier_class<Generic>(generic);
}

}  // namespace orlop::bindings
