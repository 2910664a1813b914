// Representation rules across the language border: native ones, and those whose class is written in Python.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "orlop/dtype/compound.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// The finalized rule in `value`; TypeError for no rule, ValueError for one under construction.
Ref<const RepresentationRule> to_rule(nb::handle value, std::string_view what);
/// The one Python object of a rule.
nb::object from_rule(const Ref<const RepresentationRule>& rule);
/// At interpreter exit: drops the context conversion and every Python object that a registered rule keeps.
void forget_python_rules();

/// A Python RepresentationValidationContext with these fields; the layouts and shapes are Python objects.
nb::object make_validation_context(const DType& logical_dtype, std::span<const DTypeRef> storage_dtypes,
                                   const nb::tuple& placement_layouts, const nb::tuple& adjacent_layouts,
                                   const nb::tuple& level_shapes);
/// How a native context is shown to a rule written in Python; installed by the layer that has the layouts.
using ContextConversion = std::function<nb::object(const RepresentationValidationContext&)>;
void install_context_conversion(ContextConversion conversion);

/// Defines the class of rules and their functions in the module _dtype.
void bind_representation_rules(nb::module_& native);

}  // namespace orlop::bindings
