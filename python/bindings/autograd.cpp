// Autograd in Python: gradients and nodes of a Tensor, recording of graphs, and grad.
#include "orlop/operation/autograd.hpp"

#include <utility>

#include "operation.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

namespace {

std::optional<Tensor> optional_tensor(nb::handle value, std::string_view what, std::string_view name) {
  if (value.is_none()) return std::nullopt;
  return to_tensor(value, what, name);
}

void bind_methods(nb::class_<TensorObject>& tensor) {
  tensor
      .def(
          "backward",
          [](TensorObject& self, nb::handle gradient, nb::handle retain_graph) {
            backward(handle_of(self), optional_tensor(gradient, "backward", "gradient"),
                     {.retain_graph = to_bool(retain_graph, "backward", "retain_graph")});
          },
          "gradient"_a = nb::none(), "retain_graph"_a = false,
          R"(Adds gradients to `.grad` of every leaf below this Tensor, all or nothing (P83-P88).

`gradient` has its dtype and layout and may be left out for one element. The graph is released unless retain_graph.
Errors: RuntimeError for a dtype without gradients, a released graph, or a saved input that was written since;
TypeError and ValueError for a gradient that does not fit.

>>> from orlop import friendly
>>> x = friendly.tensor([1, 2])
>>> (x * x).backward(friendly.ones(2))
>>> friendly.to_list(x.grad)
[2.0, 4.0]
>>> (x * x).backward()
Traceback (most recent call last):
    ...
ValueError: [backward] only a Tensor of shape (1,) can start without a gradient: its shape is ...)")
      .def_static(
          "backwards_traversal",
          [](nb::handle gradient, nb::handle operation, nb::handle retain_graph) {
            if (operation.is_none()) return;
            if (!nb::isinstance<Operation>(operation))
              raise<AttributeError>("backwards_traversal", "operation must be an autograd node or None: got ",
                                    python_type_name(operation));
            backwards_traversal(
                to_tensor(gradient, "backwards_traversal", "gradient"), nb::cast<Ref<Operation>>(operation),
                {.retain_graph = to_bool(retain_graph, "backwards_traversal", "retain_graph")});
          },
          "gradient"_a.none(), "operation"_a.none(), "retain_graph"_a = false,
          R"(backward, started at a node; nothing where it is None. Errors as there, and AttributeError for what is no node (P89).

>>> from orlop import Tensor, friendly
>>> x = friendly.tensor([1, 2])
>>> y = x * x
>>> Tensor.backwards_traversal(friendly.ones(2), y.autograd_ctx)
>>> friendly.to_list(x.grad)
[2.0, 4.0])")
      .def_prop_rw(
          "grad",
          [](TensorObject& self) -> nb::object {
            const Tensor gradient = gradient_of(handle_of(self));
            return gradient ? nb::cast(gradient) : nb::none();
          },
          [](TensorObject& self, nb::handle value) {
            const auto gradient = optional_tensor(value, "grad", "grad");
            set_gradient(handle_of(self), gradient ? *gradient : Tensor());
          },
          nb::for_getter(nb::sig("def grad(self, /) -> Tensor | None")), nb::for_setter("value"_a.none()),
          nb::for_setter(nb::sig("def grad(self, value: Tensor | None, /) -> None")),
          "The accumulated gradient, or None.")
      .def_prop_rw(
          "autograd_ctx", [](TensorObject& self) { return autograd_node(handle_of(self)); },
          [](TensorObject& self, nb::handle node) {
            if (!node.is_none() && !nb::isinstance<Operation>(node))
              raise<TypeError>("autograd_ctx", "must be an Operation or None: got ", python_type_name(node));
            set_autograd_node(handle_of(self),
                              node.is_none() ? Ref<Operation>() : nb::cast<Ref<Operation>>(node));
          },
          nb::for_setter("value"_a.none()),
          nb::for_setter(nb::sig("def autograd_ctx(self, value: Operation | None, /) -> None")),
          "The operation that produced this Tensor, or None for a leaf.")
      .def(
          "retain_grad",
          [](TensorObject& self, nb::handle retain) {
            retain_grad(handle_of(self), to_bool(retain, "retain_grad", "retain"));
          },
          "retain"_a = true,
          R"(Whether a Tensor that is no leaf keeps its gradient too. TypeError for no bool, RuntimeError for a dtype without
gradients.

>>> from orlop import friendly
>>> y = friendly.ones(2) * 3.0
>>> y.retain_grad()
>>> friendly.sum(y).backward()
>>> friendly.to_list(y.grad)
[1.0, 1.0])");
}

nb::tuple bound_grad(nb::handle output, nb::handle inputs, nb::handle cotangents, nb::handle batched,
                     nb::handle retain_graph) {
  if (try_tensor(inputs) != nullptr)
    raise<TypeError>("grad", "inputs must be an iterable of Tensors: got one Tensor; put it into a tuple");
  std::vector<nb::object> listed;
  for_each_item(inputs, "grad", "inputs", [&](nb::object input) { listed.push_back(std::move(input)); });
  const Tensor root = to_tensor(output, "grad", "output");
  root.require_single_subtensor("grad");
  if (!root.is_differentiable())
    raise<RuntimeError>("grad", "output is not differentiable: its dtype is ", root.dtype().name());
  std::vector<Tensor> targets;
  for (const nb::object& input : listed) targets.push_back(to_tensor(input, "grad", "an input"));
  for (const Tensor& target : targets)
    if (!target.is_differentiable())  // before anything is asked of the cotangents
      raise<ValueError>("grad", "every input must be differentiable: one has dtype ", target.dtype().name());
  const auto gradients = grad(root, targets, to_tensor(cotangents, "grad", "cotangents"),
                              {.batched = to_bool(batched, "grad", "batched"),
                               .retain_graph = to_bool(retain_graph, "grad", "retain_graph")});
  return gradients_tuple(gradients);
}

void bind_functions(nb::module_& module) {
  module.def("is_grad_enabled", &is_grad_enabled, R"(Whether this thread records graphs.

>>> orlop.is_grad_enabled()
True)");
  module.def(
      "set_grad_enabled",
      [](nb::handle enabled) { set_grad_enabled(to_bool(enabled, "set_grad_enabled", "enabled")); },
      nb::sig("def set_grad_enabled(enabled: bool) -> None"), "enabled"_a.none(),
      R"(Switches recording on or off for this thread (P82). TypeError for what is no bool.

>>> orlop.set_grad_enabled(False)
>>> orlop.is_grad_enabled()
False
>>> orlop.set_grad_enabled(True))");
  module.def(
      "grad", &bound_grad,
      nb::sig(
          "def grad(output: Tensor, inputs: Iterable[Tensor], cotangents: Tensor, *, batched: bool = False, "
          "retain_graph: bool = False) -> tuple[Tensor | None, ...]"),
      "output"_a.none(), "inputs"_a.none(), "cotangents"_a.none(), nb::kw_only(), "batched"_a = false,
      "retain_graph"_a = false,
      R"(One gradient for each input, in its layout and without a graph, None where it is not reached; touches no `.grad`.

`cotangents` has the layout of output. With batched=True it has a first mode more, of extent K, and so has each
gradient (P91). Errors (P90): TypeError for other types, RuntimeError for an output without gradients, a released
graph or a saved input that was written since; ValueError for inputs without gradients and cotangents that do not fit.

>>> from orlop import friendly
>>> x = friendly.tensor([2, 3])
>>> dx, = orlop.grad(friendly.sum(x * x), [x], friendly.ones(1))
>>> friendly.to_list(dx), x.grad
([4.0, 6.0], None))");
}

}  // namespace

void bind_autograd(nb::module_& module, nb::class_<TensorObject>& tensor) {
  bind_methods(tensor);
  bind_functions(module);
}

}  // namespace orlop::bindings
