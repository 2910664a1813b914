// The Python face of the Metal carrier and of the choice of its runtime.
#include "orlop/carriers/metal/metal.hpp"

#include "call_arguments.hpp"
#include "carrier.hpp"
#include "carrier_class.hpp"

namespace orlop::bindings {

namespace {

Ref<Metal> make_metal(const nb::args& args, const nb::kwargs& kwargs) {
  const CallArguments call("Metal", args, kwargs, {"size"}, 1, {"mutable", "dtype", "empty"});
  const Index size = to_size(call.get("size"), "Metal");
  MetalOptions options{.is_mutable = call.flag("mutable", true), .empty = call.flag("empty", false)};
  if (const nb::object dtype = call.get("dtype"); dtype.is_valid()) options.dtype = to_dtype(dtype, "Metal");
  return Metal::make(size, options);
}

nb::object runtime_info() {
  const std::optional<MetalRuntimeInfo> info = metal_runtime_info();
  if (!info) return nb::none();
  nb::dict fields;
  fields["runtime"] = info->runtime;
  fields["device"] = info->device;
  fields["largest_buffer_bytes"] = info->largest_buffer_bytes;
  return fields;
}

void use_runtime(nb::handle name) {
  if (!PyUnicode_Check(name.ptr()))
    raise<TypeError>("Metal", "the name of a runtime must be a str: got ", python_type_name(name),
                     "; \"apple\" and \"emulated\" are allowed");
  use_metal_runtime(to_text(name));
}

/// For tests: the runtime of this name, or none, in the place of the one in use.
void replace_runtime(const std::optional<std::string>& name) {
  static_cast<void>(orlop::detail::replace_metal_runtime(nullptr));
  if (name) use_metal_runtime(*name);
}

}  // namespace

void bind_metal(nb::module_& module) {
  nb::class_<Metal, Carrier> metal(module, "Metal", counted<Metal>(), nb::type_slots(collector_slots),
                                   nb::is_final(),
                                   R"(Metal(size, *, mutable=True, dtype=DType.Float32, empty=False)

Typed accelerator storage of `size` slots. Arguments are checked first; where no Metal
runtime is available, construction is a RuntimeError that says what is needed.

>>> from orlop.carriers import metal
>>> metal.use_runtime("emulated")
>>> orlop.Metal(4).size()
4)");
  metal.def(nb::new_(&make_metal));
  reject_subclasses(metal, "Metal");

  module.def("use_metal_runtime", &use_runtime, "name"_a.none(),
             R"(Chooses the runtime of all Metal carriers, "apple" or "emulated", before the first of them.

ValueError for another name; RuntimeError where that runtime does not exist here or
another one is in use.

>>> from orlop.carriers import metal
>>> metal.use_runtime("cuda")
Traceback (most recent call last):
    ...
ValueError: [Metal] no runtime has the name cuda; "apple" and "emulated" do)");
  module.def("metal_runtime_info", &runtime_info,
             R"(What runs Metal kernels here: a dict with `runtime` ("apple" or "emulated"), `device` and
`largest_buffer_bytes`; None where nothing does.

>>> from orlop.carriers import metal
>>> metal.use_runtime("emulated")
>>> orlop.Metal(0).size(), metal.runtime_info()["runtime"]
(0, 'emulated'))");
  module.def("_replace_metal_runtime", &replace_runtime, "name"_a.none());
}

}  // namespace orlop::bindings
