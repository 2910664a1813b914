// Predicates: Bool results without gradients (P61, P62).
#include "operation/definitions/elementwise.hpp"

namespace orlop::inline v0 {

DefinitionList comparison_definitions() {
  static const std::array<ElementwiseDefinition, 5> definitions{
      {{"eq", 2}, {"ne", 2}, {"lt", 2}, {"le", 2}, {"logical_not", 1}}};
  static const auto pointers = pointers_to(definitions);
  return pointers;
}

}  // namespace orlop::inline v0
