// Element keys.
#include "keys.hpp"

#include "carrier.hpp"
#include "layout.hpp"

namespace orlop::bindings {

nb::object tensor_getitem(const Tensor& tensor, nb::handle key) {
  tensor.require_single_subtensor("indexing");
  const Index slot = tensor.offset() + layout_index(tensor.layout(), key, "Tensor");
  return carrier_item(*tensor.carrier(), slot);
}

void tensor_setitem(const Tensor& tensor, nb::handle key, nb::handle value) {
  tensor.require_single_subtensor("mutation");
  const Index slot = tensor.offset() + layout_index(tensor.layout(), key, "Tensor");
  set_carrier_item(*tensor.carrier(), slot, value);
}

}  // namespace orlop::bindings
