// The functions of orlop.functional: thin, because every call pays for what stands here.
#include "orlop/operation/functional.hpp"
#include "orlop/carriers/tiled_evictable/tile_sets.hpp"

#include <nanobind/stl/pair.h>

#include <array>
#include <string>
#include <string_view>

#include "dtype.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

namespace {

/// A Tensor or a real number; anything else is for the dispatched operation to refuse, so that a profile
/// shows it.
Argument to_operand(nb::handle value) {
  if (TensorObject* tensor = try_tensor(value)) return Argument(handle_of(*tensor));
  if (const auto scalar = try_scalar(value)) return Argument(*scalar);
  return python_argument(value);
}

/// A docstring with what holds for every operation, and an example: the call of `name` with `arguments`, and
/// the values of its result.
std::string with_example(std::string_view doc, std::string_view name, std::string_view arguments,
                         std::string_view result) {
  return text(
      doc,
      "\n\nComputed by the carrier of the first Tensor; docs/operations.md has dtypes, values at the edges "
      "and\ngradient. Errors: TypeError for other operands, ValueError for shapes that do not broadcast,\n"
      "UnsupportedOperationPlan where the carrier does not compute it.\n\n"
      ">>> from orlop import friendly\n>>> friendly.to_list(orlop.",
      name, "(", arguments, "))\n", result, "\n");
}

using BinaryFunction = Tensor (*)(Argument, Argument);
using UnaryFunction = Tensor (*)(const Tensor&);

template <BinaryFunction function>
void bind_binary(nb::module_& module, const char* name, const char* doc, const char* arguments,
                 const char* result, const char* first = "lhs", const char* second = "rhs") {
  const std::string signature =
      text("def ", name, "(", first, ": Tensor | float, ", second, ": Tensor | float) -> Tensor");
  module.def(
      name, [](nb::handle lhs, nb::handle rhs) { return function(to_operand(lhs), to_operand(rhs)); },
      nb::arg(first).none(), nb::arg(second).none(), nb::sig(signature.c_str()),
      with_example(doc, name, arguments, result).c_str());
}

/// Of two Tensors.
template <Tensor (*function)(const Tensor&, const Tensor&)>
void bind_tensors(nb::module_& module, const char* name, const char* doc, const char* arguments,
                  const char* result) {
  const std::string signature = text("def ", name, "(lhs: Tensor, rhs: Tensor) -> Tensor");
  module.def(
      name,
      [name](nb::handle lhs, nb::handle rhs) {
        return function(to_tensor(lhs, name, "lhs"), to_tensor(rhs, name, "rhs"));
      },
      "lhs"_a.none(), "rhs"_a.none(), nb::sig(signature.c_str()),
      with_example(doc, name, arguments, result).c_str());
}

template <UnaryFunction function>
void bind_unary(nb::module_& module, const char* name, const char* doc, std::string_view values,
                std::string_view result) {
  const std::string signature = text("def ", name, "(tensor: Tensor) -> Tensor");
  module.def(
      name, [name](nb::handle tensor) { return function(to_tensor(tensor, name, "tensor")); },
      "tensor"_a.none(), nb::sig(signature.c_str()),
      with_example(doc, name, text("friendly.tensor([", values, "])"), result).c_str());
}

template <Tensor (*function)(const Tensor&, const Tensor&, const Tensor&, Index)>
void bind_scatter(nb::module_& module, const char* name, const char* doc) {
  const std::string signature =
      text("def ", name, "(base: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor");
  module.def(
      name,
      [name](nb::handle base, nb::handle indices, nb::handle updates, nb::handle axis) {
        // The scatter of tiles (X59) has the same name.
        if (nb::isinstance<TileSelection>(updates)) throw nb::next_overload();
        return function(to_tensor(base, name, "base"), to_tensor(indices, name, "indices"),
                        to_tensor(updates, name, "updates"), to_index<ValueError>(axis, name, "axis"));
      },
      "base"_a.none(), "indices"_a.none(), "updates"_a.none(), "axis"_a.none(), nb::sig(signature.c_str()),
      doc);
}

/// An argument of conv_general; any sequence that is no text counts as a tuple.
Argument to_convolution_argument(nb::handle value) {
  const bool is_text =
      PyUnicode_Check(value.ptr()) || PyBytes_Check(value.ptr()) || PyByteArray_Check(value.ptr());
  if (is_text || try_tensor(value) != nullptr || PySequence_Check(value.ptr()) == 0)
    return to_argument(value);
  const nb::object entries = nb::steal(PySequence_Tuple(value.ptr()));
  if (!entries.is_valid()) throw_python_error();
  return to_argument(entries);
}

Tensor bound_conv_general(nb::handle lhs, nb::handle kernel, nb::handle strides, nb::handle padding,
                          nb::handle lhs_dilation, nb::handle kernel_dilation, nb::handle feature_groups,
                          nb::handle lhs_dims, nb::handle kernel_dims, nb::handle output_dims) {
  std::vector<Argument> arguments{to_tensor(lhs, "conv_general", "lhs"),
                                  to_tensor(kernel, "conv_general", "kernel")};
  for (const nb::handle value :
       {strides, padding, lhs_dilation, kernel_dilation, feature_groups, lhs_dims, kernel_dims, output_dims})
    arguments.push_back(to_convolution_argument(value));
  return conv_general(arguments);
}

void bind_binary_operations(nb::module_& module) {
  bind_binary<&add>(module, "add", "lhs + rhs, element by element; either side may be a number.",
                    "friendly.tensor([1, 2]), 10", "[11.0, 12.0]");
  bind_binary<&sub>(module, "sub", "lhs - rhs, element by element; either side may be a number.",
                    "friendly.tensor([1, 2]), 10", "[-9.0, -8.0]");
  bind_binary<&mul>(module, "mul", "lhs * rhs, element by element; either side may be a number.",
                    "friendly.tensor([1, 2]), 10", "[10.0, 20.0]");
  bind_binary<&div>(module, "div", "lhs / rhs as Float32; either side may be a number.",
                    "friendly.tensor([1, 2]), 4", "[0.25, 0.5]");
  bind_binary<&pow>(module, "pow", "base ** exponent; either side may be a number.",
                    "friendly.tensor([2, 3]), 2", "[4.0, 9.0]", "base", "exponent");
  bind_binary<&maximum>(module, "maximum", "The greater of both; a NaN wins.", "friendly.tensor([1, 5]), 3",
                        "[3.0, 5.0]");
  bind_binary<&minimum>(module, "minimum", "The lesser of both; a NaN wins.", "friendly.tensor([1, 5]), 3",
                        "[1.0, 3.0]");
  bind_binary<&eq>(module, "eq", "lhs == rhs as Bool.", "friendly.tensor([1, 5]), 5", "[False, True]");
  bind_binary<&ne>(module, "ne", "lhs != rhs as Bool.", "friendly.tensor([1, 5]), 5", "[True, False]");
  bind_binary<&lt>(module, "lt", "lhs < rhs as Bool.", "friendly.tensor([1, 5]), 5", "[True, False]");
  bind_binary<&le>(module, "le", "lhs <= rhs as Bool.", "friendly.tensor([1, 5]), 5", "[True, True]");
  bind_binary<&gt>(module, "gt", "lhs > rhs as Bool: lt with the operands swapped.",
                   "friendly.tensor([1, 5]), 3", "[False, True]");
  bind_binary<&ge>(module, "ge", "lhs >= rhs as Bool: le with the operands swapped.",
                   "friendly.tensor([1, 5]), 5", "[False, True]");
  bind_tensors<&elementwise_mul>(module, "elementwise_mul", "lhs * rhs of two Tensors, element by element.",
                                 "friendly.tensor([1, 2]), friendly.tensor([3, 4])", "[3.0, 8.0]");
  bind_tensors<&rem>(module, "rem",
                     "The remainder of lhs / rhs truncated, exact and of the sign of lhs: C's fmod (P62).\n"
                     "ValueError where an Int32 divisor is 0.",
                     "friendly.tensor([7, -7]), friendly.tensor([4, 4])", "[3.0, -3.0]");
}

void bind_unary_operations(nb::module_& module) {
  bind_unary<&neg>(module, "neg", "-tensor.", "1, -2", "[-1.0, 2.0]");
  bind_unary<&abs>(module, "abs", "The size of each element.", "1, -2", "[1.0, 2.0]");
  bind_unary<&sign>(module, "sign", "-1, 0 or 1 as each element is below, at or above 0; NaN stays.",
                    "3, 0, -2", "[1.0, 0.0, -1.0]");
  bind_unary<&recip>(module, "recip", "1 / tensor, for Float32.", "2, 4", "[0.5, 0.25]");
  bind_unary<&sqrt>(module, "sqrt", "The square root of each element, NaN below 0.", "4, 9", "[2.0, 3.0]");
  bind_unary<&rsqrt>(module, "rsqrt", "1 / sqrt(tensor), in two roundings.", "4, 16", "[0.5, 0.25]");
  bind_unary<&exp>(module, "exp", "e to the power of each element, as Float32.", "0, -200", "[1.0, 0.0]");
  bind_unary<&exp2>(module, "exp2", "2 to the power of each element.", "3, -1", "[8.0, 0.5]");
  bind_unary<&log>(module, "log", "The natural logarithm of each element.", "1, 0", "[0.0, -inf]");
  bind_unary<&log2>(module, "log2", "The logarithm to base 2 of each element.", "8, 0.5", "[3.0, -1.0]");
  bind_unary<&sin>(module, "sin", "The sine of each element, in radians.", "0", "[0.0]");
  bind_unary<&cos>(module, "cos", "The cosine of each element, in radians.", "0", "[1.0]");
  bind_unary<&erf>(module, "erf", "The error function of each element.", "0, 9", "[0.0, 1.0]");
  bind_unary<&floor>(module, "floor", "The greatest integer that is not above each element.", "1.5, -1.5",
                     "[1.0, -2.0]");
  bind_unary<&ceil>(module, "ceil", "The least integer that is not below each element.", "1.5, -1.5",
                    "[2.0, -1.0]");
  bind_unary<&round>(module, "round", "The nearest integer, ties to even.", "0.5, 1.5, -2.6",
                     "[0.0, 2.0, -3.0]");
  bind_unary<&logical_not>(module, "logical_not", "As Bool: True at 0 and at False, otherwise False.", "0, 2",
                           "[True, False]");
  bind_unary<&relu>(module, "relu", "Each element where it is positive, otherwise 0; NaN stays.", "3, -2",
                    "[3.0, 0.0]");
  bind_unary<&tanh>(module, "tanh", "The hyperbolic tangent of each element, as Float32.", "0, 20",
                    "[0.0, 1.0]");
  bind_unary<&gelu>(module, "gelu", "x / 2 * (1 + erf(x / sqrt(2))) of each element, as Float32.", "0, 10",
                    "[0.0, 10.0]");
  bind_unary<&silu>(module, "silu", "x * sigmoid(x) of each element, as Float32.", "0, 100", "[0.0, 100.0]");
  bind_unary<&softplus>(module, "softplus", "log(1 + exp(x)) of each element, as Float32; no overflow.",
                        "-200, 200", "[0.0, 200.0]");
  bind_unary<&elu>(module, "elu", "Each element where it is positive, otherwise exp(x) - 1, as Float32.",
                   "2, -200", "[2.0, -1.0]");
  bind_unary<&sigmoid>(module, "sigmoid", "1 / (1 + exp(-x)) of each element, as Float32.", "0, 100",
                       "[0.5, 1.0]");
  bind_unary<&leaky_relu>(module, "leaky_relu",
                          "Each element from 0 on, otherwise 0.01 times it, as Float32.", "3, -100",
                          "[3.0, -1.0]");
}

void bind_ternary_operations(nb::module_& module) {
  module.def(
      "clamp",
      [](nb::handle tensor, nb::handle lower, nb::handle upper) {
        return clamp(to_tensor(tensor, "clamp", "tensor"), to_operand(lower), to_operand(upper));
      },
      nb::sig("def clamp(tensor: Tensor, lower: Tensor | float, upper: Tensor | float) -> Tensor"),
      "tensor"_a.none(), "lower"_a.none(), "upper"_a.none(),
      R"(minimum(maximum(tensor, lower), upper); each bound is a Tensor or a number (P63).
Nothing asks that lower is below upper. NaN anywhere gives NaN.

>>> from orlop import friendly
>>> friendly.to_list(orlop.clamp(friendly.tensor([-3, 0.5, 7]), 0, 1))
[0.0, 0.5, 1.0])");
  module.def(
      "select",
      [](nb::handle condition, nb::handle on_true, nb::handle on_false) {
        return select(to_tensor(condition, "select", "condition"), to_tensor(on_true, "select", "on_true"),
                      to_tensor(on_false, "select", "on_false"));
      },
      nb::sig("def select(condition: Tensor, on_true: Tensor, on_false: Tensor) -> Tensor"),
      "condition"_a.none(), "on_true"_a.none(), "on_false"_a.none(),
      R"(on_true where the Bool condition holds, otherwise on_false.

Errors: TypeError for a condition that is not Bool or branches of two dtypes.

>>> from orlop import friendly
>>> a = friendly.tensor([1, 5])
>>> friendly.to_list(orlop.select(a > 2, a, -a))
[-1.0, 5.0])");
}

void bind_contractions(nb::module_& module) {
  module.def(
      "matmul",
      [](nb::handle lhs, nb::handle rhs, nb::handle accumulator_dtype) {
        const Tensor left = to_tensor(lhs, "matmul", "lhs");
        const Tensor right = to_tensor(rhs, "matmul", "rhs");
        if (accumulator_dtype.is_none()) return matmul(left, right);
        return matmul(left, right, {.accumulator_dtype = to_dtype(accumulator_dtype, "accumulator")});
      },
      nb::sig("def matmul(lhs: Tensor, rhs: Tensor, *, accumulator_dtype: DType | None = None) -> Tensor"),
      "lhs"_a.none(), "rhs"_a.none(), nb::kw_only(), "accumulator_dtype"_a = nb::none(),
      R"(y[i, j] = sum over k of lhs[i, k] * rhs[j, k]: the second modes of both are contracted.

Both have two modes. Sums of Float32 are carried in accumulator_dtype, Float32 by default or Float64; those of
Int32 are exact. Errors: ValueError where the modes do not fit, OverflowError where a sum leaves Int32.

>>> from orlop import friendly
>>> a = friendly.tensor([[1, 2], [3, 4]])
>>> friendly.to_list(orlop.matmul(a, friendly.tensor([[1, 0]])))
[1.0, 3.0])");
  module.def(
      "conv_general", &bound_conv_general,
      nb::sig(
          "def conv_general(lhs: Tensor, kernel: Tensor, strides: Sequence[int], padding: "
          "Sequence[Sequence[int]], *, lhs_dilation: Sequence[int] | None = None, kernel_dilation: "
          "Sequence[int] | None = None, feature_groups: int = 1, lhs_dims: Sequence[int] | None = None, "
          "kernel_dims: Sequence[int] | None = None, output_dims: Sequence[int] | None = None) -> Tensor"),
      "lhs"_a.none(), "kernel"_a.none(), "strides"_a.none(), "padding"_a.none(), nb::kw_only(),
      "lhs_dilation"_a = nb::none(), "kernel_dilation"_a = nb::none(), "feature_groups"_a.none() = 1,
      "lhs_dims"_a = nb::none(), "kernel_dims"_a = nb::none(), "output_dims"_a = nb::none(),
      R"(Cross-correlation of lhs [batch, feature, spatial...] with kernel [out feature, in feature, spatial...],
both Float32, as [batch, out feature, spatial...] (P67).

strides, lhs_dilation and kernel_dilation are one positive integer per spatial mode, padding one
(low, high). feature_groups divides the features of lhs and result. lhs_dims and kernel_dims name the
source's mode in each role, output_dims permutes the result. Padding and the holes of lhs_dilation
count as zeros. TypeError and ValueError name the parameter.

>>> from orlop import friendly
>>> lhs = orlop.reshape(friendly.tensor([1, 2, 4]), orlop.Shape(1, 1, 3))
>>> kernel = orlop.reshape(friendly.tensor([3, -1]), orlop.Shape(1, 1, 2))
>>> friendly.to_list(orlop.conv_general(lhs, kernel, (1,), ((0, 0),)))
[1.0, 2.0])");
}

void bind_indexing(nb::module_& module) {
  module.def(
      "gather",
      [](nb::handle tensor, nb::handle indices, nb::handle axis) {
        return gather(to_tensor(tensor, "gather", "tensor"), to_tensor(indices, "gather", "indices"),
                      to_index<ValueError>(axis, "gather", "axis"));
      },
      nb::sig("def gather(tensor: Tensor, indices: Tensor, axis: int) -> Tensor"), "tensor"_a.none(),
      "indices"_a.none(), "axis"_a.none(),
      R"(The entries of a mode at Int32 indices, whose modes take its place. IndexError outside [0, extent) (P68).

>>> from orlop import friendly
>>> indices = friendly.tensor([2, 0], dtype=orlop.DType.Int32)
>>> friendly.to_list(orlop.gather(friendly.tensor([5, 6, 7]), indices, 0))
[7.0, 5.0])");
  bind_scatter<&scatter>(
      module, "scatter",
      R"(A copy of base in which updates, of the shape that gather gives, replace the entries at the indices.
ValueError where an index is repeated, IndexError outside [0, extent) (P68).

>>> from orlop import friendly
>>> indices = friendly.tensor([2, 0], dtype=orlop.DType.Int32)
>>> updates = friendly.tensor([8, 9])
>>> friendly.to_list(orlop.scatter(friendly.tensor([5, 6, 7]), indices, updates, 0))
[9.0, 6.0, 8.0])");
  bind_scatter<&scatter_add>(
      module, "scatter_add",
      R"(A copy of base to which updates, of the shape that gather gives, are added at the indices (P68).

>>> from orlop import friendly
>>> indices = friendly.tensor([2, 2], dtype=orlop.DType.Int32)
>>> updates = friendly.tensor([8, 9])
>>> friendly.to_list(orlop.scatter_add(friendly.tensor([5, 6, 7]), indices, updates, 0))
[5.0, 6.0, 24.0])");
}

void bind_scan_and_ordering(nb::module_& module) {
  module.def(
      "cumsum",
      [](nb::handle tensor, nb::handle dimension) {
        return cumsum(to_tensor(tensor, "cumsum", "tensor"),
                      to_index<ValueError>(dimension, "cumsum", "dimension"));
      },
      nb::sig("def cumsum(tensor: Tensor, dimension: int) -> Tensor"), "tensor"_a.none(),
      "dimension"_a.none(),
      R"(The sum of the elements up to and including each one along the ordinals of a mode, in the shape of the
Tensor (P64). Float32 is carried in binary64 and rounded once for each element. Int32 is exact;
OverflowError where a sum leaves it. ValueError for a mode that there is not.

>>> from orlop import friendly
>>> friendly.to_list(orlop.cumsum(friendly.tensor([1, 2, 3]), 0))
[1.0, 3.0, 6.0])");
  module.def(
      "_sort",
      [](nb::handle tensor, nb::handle axis, nb::handle descending) {
        SortResult result =
            sort(to_tensor(tensor, "sort", "tensor"), to_index<ValueError>(axis, "sort", "axis"),
                 to_bool(descending, "sort", "descending"));
        return std::pair(std::move(result.values), std::move(result.indices));
      },
      "tensor"_a.none(), "axis"_a.none(), "descending"_a.none());
  module.def(
      "_topk",
      [](nb::handle tensor, nb::handle k, nb::handle axis, nb::handle largest) {
        TopKResult result =
            topk(to_tensor(tensor, "topk", "tensor"), to_index<ValueError>(k, "topk", "k"),
                 to_index<ValueError>(axis, "topk", "axis"), to_bool(largest, "topk", "largest"));
        return std::pair(std::move(result.values), std::move(result.indices));
      },
      "tensor"_a.none(), "k"_a.none(), "axis"_a.none(), "largest"_a.none());
}

}  // namespace

void bind_functional(nb::module_& module) {
  bind_binary_operations(module);
  bind_unary_operations(module);
  bind_ternary_operations(module);
  bind_contractions(module);
  bind_indexing(module);
  bind_scan_and_ordering(module);
}

}  // namespace orlop::bindings
