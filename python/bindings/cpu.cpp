// The Python face of the CPU carrier.
#include "orlop/carriers/cpu/cpu.hpp"

#include "call_arguments.hpp"
#include "carrier.hpp"
#include "carrier_class.hpp"

namespace orlop::bindings {

namespace {

Ref<CPU> make_cpu(const nb::args& args, const nb::kwargs& kwargs) {
  const CallArguments call("CPU", args, kwargs, {"size", "pointer"}, 1, {"mutable", "dtype", "empty"});
  const Index size = to_size(call.get("size"), "CPU");
  CPUOptions options{.is_mutable = call.flag("mutable", true), .empty = call.flag("empty", false)};
  if (const nb::object dtype = call.get("dtype"); dtype.is_valid()) options.dtype = to_dtype(dtype, "CPU");
  const nb::object pointer = call.get("pointer");
  if (!pointer.is_valid() || pointer.is_none()) return CPU::make(size, options);
  return CPU::wrap(size, to_index<ValueError>(pointer, "CPU", "pointer"), options);
}

}  // namespace

void bind_cpu(nb::module_& module) {
  nb::class_<CPU, Carrier> cpu(module, "CPU", counted<CPU>(), nb::type_slots(collector_slots), nb::is_final(),
                               R"(CPU(size, pointer=None, *, mutable=True, dtype=DType.Float32, empty=False)

Typed host storage of `size` slots, owned, or wrapped at the address `pointer`.
Errors: TypeError for arguments of other types; ValueError for a negative size, an address that is not positive, or a
dtype other than Float32, Int32 and Bool; MemoryError.

>>> carrier = orlop.CPU(3, dtype=orlop.DType.Int32)
>>> carrier[1] = 7
>>> carrier.size(), carrier[0], carrier[1]
(3, 0, 7))");
  cpu.def(nb::new_(&make_cpu)).def("pointer", &CPU::pointer, R"(The positive address of slot 0.

>>> orlop.CPU(3).pointer() > 0
True)");
  reject_subclasses(cpu, "CPU");
  name_carrier_class<CPU>(cpu);
}

}  // namespace orlop::bindings
