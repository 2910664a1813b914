// The view functions of orlop.functional.
#include "orlop/operation/views.hpp"

#include "einops.hpp"
#include "layout.hpp"
#include "orlop/operation/command.hpp"
#include "orlop/operation/functional.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

namespace {

const Stride& to_stride(nb::handle value, std::string_view what) {
  if (nb::isinstance<Stride>(value)) return *nb::inst_ptr<Stride>(value);
  raise<TypeError>(what, "stride must be a Stride: got ", python_type_name(value));
}

/// The integers of an iterable; TypeError. One beyond 64 bits is a ValueError: it is out of every range.
std::vector<Index> to_positions(nb::handle value, std::string_view what, const char* name) {
  std::vector<Index> positions;
  for_each_item(value, what, name, [&](nb::handle entry) {
    positions.push_back(to_index<ValueError>(entry, what, "a position"));
  });
  return positions;
}

Tree to_rearrange_tree(nb::handle value, const char* name) {
  if (!is_tree(value)) raise<TypeError>("rearrange", name, " must be a Tree: got ", python_type_name(value));
  return to_tree(value, "rearrange", name);
}

Tensor bound_rearrange(nb::handle tensor, nb::handle output, nb::handle selection) {
  if (PyUnicode_Check(output.ptr())) {
    if (!selection.is_none()) raise<TypeError>("rearrange", "a command says its selection itself: got both");
    const std::string command = to_command(output, "output");
    static_cast<void>(parse_rearrange(command));  // its errors come before the operand's
    return rearrange(to_tensor(tensor, "rearrange", "tensor"), command);
  }
  const Tensor source = to_tensor(tensor, "rearrange", "tensor");
  const Tree tree = to_rearrange_tree(output, "output");
  if (selection.is_none()) return rearrange(source, tree);
  return rearrange(source, tree, to_rearrange_tree(selection, "selection"));
}

template <Tensor (*function)(const Tensor&, const Shape&)>
void bind_with_shape(nb::module_& module, const char* name, const char* parameter, const char* doc) {
  const std::string signature = text("def ", name, "(tensor: Tensor, ", parameter, ": Shape) -> Tensor");
  module.def(
      name,
      [name, parameter](nb::handle tensor, nb::handle shape) {
        const Tensor source = to_tensor(tensor, name, "tensor");
        return function(source, to_shape(shape, name, parameter));
      },
      "tensor"_a.none(), nb::arg(parameter).none(), nb::sig(signature.c_str()), doc);
}

template <Tensor (*function)(const Tensor&, Index)>
void bind_with_dim(nb::module_& module, const char* name, const char* doc) {
  const std::string signature = text("def ", name, "(tensor: Tensor, dim: int) -> Tensor");
  module.def(
      name,
      [name](nb::handle tensor, nb::handle dim) {
        const Tensor source = to_tensor(tensor, name, "tensor");
        return function(source, to_index<ValueError>(dim, name, "dim"));
      },
      "tensor"_a.none(), "dim"_a.none(), nb::sig(signature.c_str()), doc);
}

}  // namespace

void bind_views(nb::module_& module) {
  module.def(
      "as_strided",
      [](nb::handle tensor, nb::handle shape, nb::handle stride) {
        const Tensor source = to_tensor(tensor, "as_strided", "tensor");
        return as_strided(source, to_shape(shape, "as_strided", "shape"), to_stride(stride, "as_strided"));
      },
      nb::sig("def as_strided(tensor: Tensor, shape: Shape, stride: Stride) -> Tensor"), "tensor"_a.none(),
      "shape"_a.none(), "stride"_a.none(),
      R"(A view whose element at q is the tensor's at ordinal Layout(shape, stride)(q).

TypeError for other types; ValueError where the selection is not injective, leaves the tensor or cannot be
written as strides (M501, M503).

>>> from orlop import Shape, Stride, friendly
>>> friendly.to_list(orlop.as_strided(friendly.arange(6), Shape(2, 2), Stride(1, 4)))
[0.0, 1.0, 4.0, 5.0]
>>> orlop.as_strided(friendly.arange(6), Shape(4), Stride(2))
Traceback (most recent call last):
    ...
ValueError: [as_strided] the mapping exceeds the input: it reaches ordinal 6, the input has 6 elements)");
  bind_with_shape<&broadcast_to>(
      module, "broadcast_to", "target",
      R"(A view of shape `target`: leaves of extent 1 widen with stride 0. ValueError where another leaf differs or the
profiles do (M308).

>>> from orlop import Shape, friendly
>>> friendly.to_list(orlop.broadcast_to(friendly.tensor([[1], [2]]), Shape(2, 3)))
[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]
>>> orlop.broadcast_to(friendly.tensor([[1], [2]]), Shape(3, 3))
Traceback (most recent call last):
    ...
ValueError: [broadcast_to] broadcasting can only widen an extent-1 leaf: leaf 0 has extent 2, the ...)");
  module.def(
      "broadcast_in_dim",
      [](nb::handle tensor, nb::handle target, nb::handle broadcast_dimensions) {
        const Tensor source = to_tensor(tensor, "broadcast_in_dim", "tensor");
        const Shape& shape = to_shape(target, "broadcast_in_dim", "target");
        return broadcast_in_dim(
            source, shape, to_positions(broadcast_dimensions, "broadcast_in_dim", "broadcast_dimensions"));
      },
      nb::sig("def broadcast_in_dim(tensor: Tensor, target: Shape, broadcast_dimensions: Sequence[int]) -> "
              "Tensor"),
      "tensor"_a.none(), "target"_a.none(), "broadcast_dimensions"_a.none(),
      R"(A view of shape `target` in which mode i of the tensor is mode broadcast_dimensions[i], strictly increasing;
the other modes are repeated. TypeError for other types; ValueError where the dimensions are not one for each mode,
in order, or an extent neither fits nor is 1 (M501).

>>> from orlop import Shape, friendly
>>> friendly.to_list(orlop.broadcast_in_dim(friendly.tensor([1, 2]), Shape(3, 2), [1]))
[1.0, 1.0, 1.0, 2.0, 2.0, 2.0])");
  module.def(
      "permute",
      [](nb::handle tensor, const nb::args& order) {
        const Tensor source = to_tensor(tensor, "permute", "tensor");
        return permute(source, to_order(order, "permute"));
      },
      nb::sig("def permute(tensor: Tensor, *order: int | Sequence[int]) -> Tensor"), "tensor"_a.none(),
      "order"_a,
      R"(A view with the top-level modes in another order: integers or one iterable, each mode once (M313).
TypeError for other entries, ValueError where a mode is left out or named twice.

>>> from orlop import friendly
>>> orlop.permute(friendly.zeros(2, 3, 4), 2, 0, 1).shape
(4, 2, 3))");
  bind_with_shape<&reshape>(
      module, "reshape", "shape",
      R"(A view of the same ordinal sequence in another shape. ValueError where the sizes differ or the layout has no
one step that all ordinals share (M501).

>>> from orlop import Shape, friendly
>>> t = friendly.arange(6)
>>> orlop.reshape(t, Shape(2, 3))[0, 1]
2.0
>>> orlop.reshape(t, Shape(2, 2))
Traceback (most recent call last):
    ...
ValueError: [reshape] both shapes must have the same logical size: Shape<(6,)> and Shape<(2, 2)>)");
  bind_with_dim<&squeeze>(
      module, "squeeze",
      R"(A view without the top-level leaf `dim` of extent 1; negative dims count from the end (M501).
TypeError for no integer, ValueError for another mode.

>>> from orlop import friendly
>>> orlop.squeeze(friendly.zeros(2, 1), -1).shape
(2,)
>>> orlop.squeeze(friendly.zeros(2, 1), 0)
Traceback (most recent call last):
    ...
ValueError: [squeeze] mode 0 has extent 2; only a leaf of extent 1 can go)");
  bind_with_dim<&unsqueeze>(
      module, "unsqueeze",
      R"(A view with a new leaf of extent 1 as top-level mode `dim`, in [-n-1, n] (M501).
TypeError for no integer, ValueError outside.

>>> from orlop import friendly
>>> orlop.unsqueeze(friendly.zeros(2, 3), 1).shape
(2, 1, 3))");
  module.def(
      "rearrange", &bound_rearrange,
      nb::sig("def rearrange(tensor: Tensor, output: Tree | str, selection: Tree | None = None) -> Tensor"),
      "tensor"_a.none(), "output"_a.none(), "selection"_a = nb::none(),
      R"(A view that places every leaf, or every mode that `selection` names, as the Tree `output` says (M312). A command
is taken too: `rearrange(t, "b (h w) -> h w b")` (M708). TypeError for other types, ValueError for what does not fit.

>>> from orlop import Node, Tree, friendly
>>> orlop.rearrange(friendly.zeros(2, 3), Tree(Node.id(1), Node.id(0))).shape
(3, 2)
>>> orlop.rearrange(friendly.zeros(2, 3, 4), "b h w -> (h w) b").shape
((3, 4), 2))");
}

}  // namespace orlop::bindings
