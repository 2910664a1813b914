// The Python face of the Metal carrier.
#include "orlop/carriers/metal/metal.hpp"

#include "carrier.hpp"

namespace orlop::bindings {

namespace {

Ref<Metal> make_metal(const nb::args& args, const nb::kwargs& kwargs) {
  const CallArguments call("Metal", args, kwargs, {"size"}, 1, {"mutable", "dtype", "empty"});
  const Index size = to_index(call.get("size"), "Metal", "size");
  MetalOptions options{.is_mutable = call.flag("mutable", true), .empty = call.flag("empty", false)};
  if (const nb::object dtype = call.get("dtype"); dtype.is_valid()) options.dtype = to_dtype(dtype, "Metal");
  return Metal::make(size, options);
}

}  // namespace

void bind_metal(nb::module_& module) {
  nb::class_<Metal, Carrier> metal(
      module, "Metal", counted<Metal>(), nb::type_slots(collector_slots), nb::is_final(),
      "Metal(size, *, mutable=True, dtype=DType.Float32, empty=False)\n\n"
      "Typed accelerator storage of `size` slots. This build has no Metal runtime: once the\n"
      "arguments are checked, construction is a RuntimeError that says what is needed.");
  metal.def(nb::new_(&make_metal));
  reject_subclasses(metal, "Metal");
}

}  // namespace orlop::bindings
