// The values that describe block-scaled dtypes: Level and SymbolicBits (M203).
#include "dtype_values.hpp"

#include "dtype_model.hpp"
#include "record.hpp"

namespace orlop::bindings {

namespace {

void bind_level(nb::module_& module) {
  nb::class_<Level> level(
      module, "Level",
      R"(One level of scales: each `scale` covers `block` coordinates of the level below (M203).

>>> from orlop import DType, Level, Whole
>>> Level(DType.E8M0, 32), Level(DType.Float32, Whole).is_whole()
(Level(scale=SimpleDType('E8M0'), block=32), True))");
  level
      .def(
          "__init__",
          [](Level* self, nb::handle scale, nb::handle block) {
            const SimpleRef scale_dtype = to_simple(scale, "Level", "scale");
            new (self) Level(scale_dtype, to_extent(block, "Level", "block", false));
          },
          "scale"_a.none(), "block"_a.none(),
          "scale: a SimpleDType (TypeError). block: Whole or an int (TypeError) of at least 1 (ValueError).")
      .def_prop_ro(
          "scale", [](const Level& self) { return self.scale; }, "The SimpleDType of the scales.")
      .def_prop_ro(
          "block", [](const Level& self) { return from_extent(self.block); }, "An int, or Whole.")
      .def("is_whole", &Level::is_whole, "Whether one scale covers everything below.");
  make_record(level, "orlop.carriers.dtype", {"scale", "block"});
}

void bind_symbolic_bits(nb::module_& module) {
  nb::class_<SymbolicBits> bits(
      module, "SymbolicBits",
      R"(Bits per element where one scale serves a whole tensor: constant + whole_scale_bits / element count (M203).

>>> from orlop import SymbolicBits
>>> SymbolicBits(4.5, 32).evaluate(1024)
4.53125)");
  bits.def(
          "__init__",
          [](SymbolicBits* self, nb::handle constant, nb::handle whole_scale_bits) {
            const double exact = to_scalar(constant, "SymbolicBits", "constant").to_binary64();
            new (self) SymbolicBits{exact, to_index(whole_scale_bits, "SymbolicBits", "whole_scale_bits")};
          },
          "constant"_a.none(), "whole_scale_bits"_a.none())
      .def_ro("constant", &SymbolicBits::constant, "Bits that do not depend on the element count.")
      .def_ro("whole_scale_bits", &SymbolicBits::whole_scale_bits, "Bits of the one scale.")
      .def(
          "evaluate",
          [](const SymbolicBits& self, nb::handle element_count) {
            return self.evaluate(to_index(element_count, "SymbolicBits.evaluate", "element_count"));
          },
          "element_count"_a.none(),
          "Bits per element of a tensor of `element_count` elements, an int (TypeError) of at least 1 "
          "(ValueError).");
  make_record(bits, "orlop.carriers.dtype", {"constant", "whole_scale_bits"});
}

}  // namespace

void bind_dtype_values(nb::module_& native) {
  bind_level(native);
  bind_symbolic_bits(native);
}

}  // namespace orlop::bindings
