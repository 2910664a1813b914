// Representations: their Python records checked and turned into native ones, and back.
#include "representation.hpp"

#include "dtype.hpp"
#include "layout.hpp"
#include "operation.hpp"
#include "representation_rule.hpp"

namespace orlop::bindings {

namespace {

constexpr const char* what = "TensorRepresentation";

nb::object representation_class() {
  return nb::module_::import_("orlop.core._representation").attr("TensorRepresentation");
}

/// A level's subtensor, each field checked when its turn comes (M407).
Subtensor to_subtensor(nb::handle entry, std::size_t level, const RepresentationCheck& check) {
  const DType& dtype = to_dtype(nb::object(entry.attr("dtype")), "subtensor");
  check.check_dtype(level, dtype);
  const nb::object carrier = entry.attr("carrier");
  if (!nb::isinstance<Carrier>(carrier))
    raise<TypeError>(what, "carrier of subtensor ", level, " must be a Carrier: got ",
                     python_type_name(carrier));
  auto storage = nb::cast<Ref<Carrier>>(carrier);
  check.check_carrier(level, *storage);
  const Index offset = to_index<ValueError>(nb::object(entry.attr("offset")), what, "offset");
  if (offset < 0)
    raise<ValueError>(what, "Tensor offset must be non-negative: got ", offset, " for subtensor ", level);
  const nb::object layout = entry.attr("layout");
  return {&dtype, std::move(storage), offset, to_layout(layout, what, "placement")};
}

TensorRepresentation to_representation(nb::handle logical_dtype, const nb::tuple& subtensors,
                                       const nb::tuple& adjacent_layouts) {
  const DType& logical = to_dtype(logical_dtype, "logical");
  const RepresentationCheck check(logical, subtensors.size(), adjacent_layouts.size());
  TensorRepresentation representation{&logical, {}, {}};
  auto& planes = representation.subtensors;
  for (std::size_t level = 0; level < subtensors.size(); ++level) {
    planes.push_back(to_subtensor(subtensors[level], level, check));
    check.check_placement(level, planes.back(), planes.front());
  }
  for (std::size_t edge = 0; edge < adjacent_layouts.size(); ++edge) {
    const Layout& adjacent = to_layout(adjacent_layouts[edge], what, "an adjacent layout");
    check.check_adjacent(edge, adjacent, planes[edge].layout, planes[edge + 1].layout);
    representation.adjacent_layouts.push_back(adjacent);
  }
  RepresentationCheck::check_rules(representation);
  return representation;
}

nb::object from_representation(const TensorRepresentation& representation) {
  const nb::object subtensor = nb::module_::import_("orlop.core._representation").attr("Subtensor");
  const nb::tuple subtensors = tuple_of(representation.subtensors, [&](const Subtensor& plane) {
    return subtensor(from_dtype(*plane.dtype), plane.carrier, plane.offset, plane.layout);
  });
  return representation_class().attr("_checked_before")(from_dtype(*representation.logical_dtype), subtensors,
                                                        tuple_of(representation.adjacent_layouts));
}

nb::object from_context(const RepresentationValidationContext& context) {
  const auto* native = dynamic_cast<const RepresentationContext*>(&context);
  if (native == nullptr)
    raise<RuntimeError>(what, "a rule written in Python cannot see a context of another kind");
  const TensorRepresentation& representation = native->representation();
  const auto& planes = representation.subtensors;
  return make_validation_context(
      context.logical_dtype(), context.storage_dtypes(),
      tuple_of(planes, [](const Subtensor& plane) { return nb::cast(plane.layout); }),
      tuple_of(representation.adjacent_layouts),
      tuple_of(planes, [](const Subtensor& plane) { return nb::cast(plane.layout.shape()); }));
}

}  // namespace

void bind_representation(nb::module_& module, nb::class_<TensorObject>& tensor) {
  install_context_conversion(from_context);
  tensor
      .def_static(
          "_from_representation",
          [](nb::handle representation) {
            if (!nb::isinstance(representation, representation_class()))
              raise<TypeError>("Tensor", "representation must be a TensorRepresentation: got ",
                               python_type_name(representation));
            return Tensor::from_representation(
                to_representation(nb::object(representation.attr("logical_dtype")),
                                  nb::cast<nb::tuple>(representation.attr("subtensors")),
                                  nb::cast<nb::tuple>(representation.attr("adjacent_layouts"))));
          },
          "representation"_a)
      .def_prop_ro("_representation",
                   [](TensorObject& self) { return from_representation(handle_of(self).representation()); });
  module.def(
      "check_representation",
      [](nb::handle logical_dtype, const nb::tuple& subtensors, const nb::tuple& adjacent_layouts) {
        static_cast<void>(to_representation(logical_dtype, subtensors, adjacent_layouts));
      },
      "logical_dtype"_a, "subtensors"_a, "adjacent_layouts"_a, "All checks of M407 from the schema on.");
  module.def(
      "carriers_token",
      [](const nb::tuple& carriers) {
        VersionToken token;
        for (const nb::handle carrier : carriers) {
          const auto storage = nb::cast<Ref<Carrier>>(carrier);
          token.add({storage.get(), storage->version()});
        }
        return token_tuple(token);
      },
      "carriers"_a, "(carrier identity, version) of each carrier once, by first occurrence (M408).");
}

}  // namespace orlop::bindings
