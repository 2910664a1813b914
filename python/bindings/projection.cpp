// The Python faces of project and scatter, their handles and their autograd nodes (X57-X60).
#include "orlop/carriers/tiled_evictable/projection.hpp"

#include "await.hpp"
#include "carrier.hpp"
#include "operation.hpp"
#include "tensor.hpp"
#include "tiled_evictable.hpp"

namespace orlop::bindings {

namespace {

/// The checks of X57 and X59 up to the selection, in order.
const TileSelection& check_selection(std::string_view what, std::string_view name, const Tensor& tensor,
                                     nb::handle selection) {
  const Ref<TiledEvictable> tiled = require_tiled(what, name, tensor);
  const TileSelection& chosen = to_selection(selection, what);
  chosen.require_grid(tiled->grid().grid_shape());
  return chosen;
}

Ref<ProjectionTask> bound_project(nb::handle tensor, nb::handle selection, nb::handle destination) {
  constexpr std::string_view what = "project";
  const Tensor source = to_tensor(tensor, what, "tensor");
  const TileSelection& chosen = check_selection(what, "tensor", source, selection);
  auto* carrier = destination.is_none() ? nullptr : try_native<Carrier>(destination);
  if (carrier == nullptr && !destination.is_none())
    raise<TypeError>(what, "destination must be a Carrier or None: got ", python_type_name(destination));
  return project(source, chosen, Ref<Carrier>(carrier)).projection_task();
}

Reduction to_reduction(nb::handle value) {
  if (PyUnicode_Check(value.ptr())) {
    const auto word = to_text(value);
    if (word == "replace") return Reduction::replace;
    if (word == "add") return Reduction::add;
  }
  raise<ValueError>("scatter", "reduction must be \"replace\" or \"add\": got ", to_text(nb::repr(value)));
}

Ref<MoveTask> bound_scatter(nb::handle compact, nb::handle template_tensor, nb::handle selection,
                            nb::handle reduction) {
  constexpr std::string_view what = "scatter";
  const Reduction wanted = to_reduction(reduction);
  const Tensor full = to_tensor(template_tensor, what, "template");
  const TileSelection& chosen = check_selection(what, "template", full, selection);
  return scatter(to_tensor(compact, what, "compact"), full, chosen, wanted).move_task();
}

template <class Node>
void bind_node(nb::module_& module, const char* name, const char* doc) {
  nb::class_<Node, Operation>(module, name, counted<Node>(), nb::type_slots(operation_slots), nb::is_final(),
                              doc);
}

}  // namespace

void bind_projection(nb::module_& module, nb::module_& parent) {
  bind_await_kind<ProjectionTask>(
      module, "AwaitProjection", "def wait(self) -> Tensor",
      R"(The handle of a projection: wait() gives the compact Tensor. Until then its destination is owned
by the projection (X57).

>>> from orlop import CPU, Tensor, TileSelection, TiledEvictable, friendly
>>> tensor = Tensor(TiledEvictable(friendly.arange(4).carrier, CPU(0), (2,), (2,)), 0, friendly.column_major(4))
>>> handle = orlop.project(tensor, TileSelection([[1]]))
>>> friendly.to_list(handle.wait())
[2.0, 3.0])");
  bind_node<ProjectionOperation>(module, "_ProjectionOperation", "The autograd node of a projection (X58).");
  bind_node<ScatterOperation>(module, "_ScatterOperation", "The autograd node of a scatter (X60).");
  module.def(
      "project", &bound_project,
      nb::sig("def project(tensor: Tensor, selection: TileSelection, destination: Carrier | None = "
              "None) -> AwaitProjection"),
      "tensor"_a.none(), "selection"_a.none(), "destination"_a.none() = nb::none(),
      R"(Gathers the chosen tiles of a full tiled Tensor into an ordinary dense one, of shape count · tile_shape, on
`destination`: a live, unowned, mutable carrier of exactly the primary's class and dtype, large enough or empty
and able to grow; None makes one. Returns the handle; primary tiles are gathered at once, others when they
have come (X57).

Errors: TypeError, ValueError and RuntimeError in the order of X57, before anything has changed.

>>> from orlop import CPU, Tensor, TileSelection, TiledEvictable, friendly
>>> tensor = Tensor(TiledEvictable(friendly.arange(4).carrier, CPU(0), (2,), (2,)), 0, friendly.column_major(4))
>>> friendly.to_list(orlop.project(tensor, TileSelection([[1]])).wait())
[2.0, 3.0])");
  for (nb::module_* home : {&module, &parent})
    home->def(
        "scatter", &bound_scatter,
        nb::sig("def scatter(compact: Tensor, template: Tensor, selection: TileSelection, reduction: str = "
                "'replace') -> AwaitMove"),
        "compact"_a.none(), "template"_a.none(), "selection"_a.none(), "reduction"_a.none() = "replace",
        "A new full Tensor like `template` whose chosen tiles hold `compact`, laid out as project() gives "
        "it:\n\"replace\" alone, \"add\" on top of the template's values. The other tiles are invalid, the "
        "inputs unchanged.\nReturns the handle; until its end `compact` is owned (X59).\n\n"
        "Errors: ValueError, TypeError and RuntimeError in the order of X59, before anything has changed.");
}

}  // namespace orlop::bindings
