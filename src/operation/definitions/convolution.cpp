// conv_general: its checks, its result's shape, and its gradient by the two adjoint sums (P67).
#include <algorithm>
#include <limits>
#include <numeric>

#include "layout/nest.hpp"
#include "operation/convolution.hpp"
#include "operation/definition.hpp"
#include "operation/exact_integer.hpp"
#include "operation/gradient.hpp"
#include "operation/modes.hpp"

namespace orlop::inline v0 {

namespace {

constexpr std::string_view convolution_name = "conv_general";

using Integers = std::vector<Index>;

/// `(1, 2)`; a long list is cut short.
std::string list_text(const Integers& integers) {
  constexpr std::size_t most = 16;
  std::string words;
  for (std::size_t i = 0; i < std::min(integers.size(), most); ++i)
    words += text(i == 0 ? "" : ", ", integers[i]);
  return text('(', words, integers.size() > most ? ", …)" : ")");
}

/// The argument as integers, or TypeError.
Integers to_integers(const Argument& argument, std::string_view parameter) {
  if (const auto* integers = argument.get<Integers>()) return *integers;
  raise<TypeError>(convolution_name, parameter, " must be a sequence of integers: got ",
                   argument.type_name());
}

/// The source mode in each role; None is the identity.
std::vector<std::size_t> to_roles(const Argument& argument, std::string_view parameter, std::size_t rank) {
  std::vector<std::size_t> roles(rank);
  std::iota(roles.begin(), roles.end(), std::size_t{0});
  if (argument.get<std::nullptr_t>() != nullptr) return roles;
  const Integers dims = to_integers(argument, parameter);
  if (!is_permutation_of_modes(dims, rank))
    raise<ValueError>(convolution_name, parameter, " must name each of the ", rank,
                      " modes once, from 0: got ", list_text(dims));
  std::transform(dims.begin(), dims.end(), roles.begin(),
                 [](Index mode) { return static_cast<std::size_t>(mode); });
  return roles;
}

std::size_t spatial_rank(const Layout& lhs, const Layout& kernel) {
  if (lhs.rank() != kernel.rank() || lhs.rank() < 3)
    raise<ValueError>(
        convolution_name,
        "lhs and kernel must have two feature modes and as many spatial modes, at least one: got ",
        lhs.shape(), " and ", kernel.shape());
  return lhs.rank() - 2;
}

/// The extents of the spatial modes of a layout in role order.
Integers spatial_extents(const Layout& layout, std::string_view operand) {
  const Shape shape = layout.shape();
  detail::NestCursor cursor(shape.nest());
  cursor.skip();
  cursor.skip();
  Integers extents;
  for (std::size_t role = 2; role < layout.rank(); ++role) {
    if (!cursor.at_leaf())
      raise<ValueError>(convolution_name, "the spatial modes of ", operand, " must be leaves: spatial mode ",
                        role - 2, " is nested in ", shape, "; rearrange it first");
    extents.push_back(cursor.take_leaf());
  }
  return extents;
}

/// One positive integer per spatial mode; None, where it is allowed, is ones.
Integers to_steps(const Argument& argument, std::string_view parameter, std::size_t count, bool is_optional) {
  if (is_optional && argument.get<std::nullptr_t>() != nullptr) return Integers(count, 1);
  Integers steps = to_integers(argument, parameter);
  if (steps.size() != count || std::any_of(steps.begin(), steps.end(), [](Index step) { return step < 1; }))
    raise<ValueError>(convolution_name, parameter, " must be one positive integer for each of the ", count,
                      " spatial modes: got ", list_text(steps));
  return steps;
}

using Pairs = std::vector<Integers>;

/// One non-negative (low, high) per spatial mode.
Pairs to_padding(const Argument& argument, std::size_t count) {
  Pairs padding;
  if (const auto* pairs = argument.get<Pairs>())
    padding = *pairs;
  else if (const auto* integers = argument.get<Integers>(); integers == nullptr || !integers->empty())
    raise<TypeError>(convolution_name, "padding must be a sequence of (low, high) pairs of integers");
  const auto wrong = std::find_if(padding.begin(), padding.end(),
                                  [](auto& pair) { return pair.size() != 2 || pair[0] < 0 || pair[1] < 0; });
  if (padding.size() == count && wrong == padding.end()) return padding;
  raise<ValueError>(convolution_name, "padding must be one non-negative (low, high) for each of the ", count,
                    " spatial modes: got ", padding.size(), " entries",
                    wrong == padding.end() ? "" : text(", one of them ", list_text(*wrong)));
}

Index feature_groups(const Argument& argument, Index lhs_features, Index in_features, Index out_features) {
  const Scalar* number = argument.scalar();
  if (number == nullptr || !number->is_integer())
    raise<TypeError>(convolution_name, "feature_groups must be an integer: got ", argument.type_name());
  const std::optional<Index> groups = number->as_integer();
  if (!groups || *groups < 1 || lhs_features % *groups != 0 || out_features % *groups != 0)
    raise<ValueError>(convolution_name, "feature_groups must be at least 1 and divide ", lhs_features,
                      " lhs features and ", out_features, " out features: got ", *number);
  if (in_features != lhs_features / *groups)
    raise<ValueError>(convolution_name, "the kernel must have ", lhs_features / *groups,
                      " in features, those of the lhs (", lhs_features, ") by group (", *groups, "): got ",
                      in_features);
  return *groups;
}

/// floor((low + (n-1)·ld + 1 + high - ((m-1)·kd + 1)) / stride) + 1
Index result_extent(const ConvolutionMode& mode, Index high, std::size_t spatial) {
  const Int128 padded = Int128{mode.lhs - 1} * mode.lhs_dilation + 1 + mode.low + high;
  const Int128 reach = Int128{mode.kernel - 1} * mode.kernel_dilation + 1;
  if (padded > std::numeric_limits<Index>::max())
    raise<OverflowError>(convolution_name, "spatial mode ", spatial,
                         " of the lhs leaves 64 bits with padding (", mode.low, ", ", high, ") and dilation ",
                         mode.lhs_dilation, "; use a smaller size");
  if (reach > padded)
    raise<ValueError>(convolution_name, "the result has no position in spatial mode ", spatial, ": ",
                      to_string(padded), " lhs positions with padding and dilation, ", to_string(reach),
                      " of the kernel; pad more or use a smaller kernel");
  return static_cast<Index>(padded - reach) / mode.stride + 1;
}

/// What the arguments of a call say, all checked in P67's order.
struct Geometry {
  Convolution convolution;
  Shape lhs, kernel;  ///< in role order
};

Geometry geometry_of(std::span<const Argument> arguments) {
  using namespace convolution_arguments;
  const Layout& given_lhs = arguments[lhs].tensor()->layout();
  const Layout& given_kernel = arguments[kernel].tensor()->layout();
  const std::size_t count = spatial_rank(given_lhs, given_kernel);
  Convolution convolution;
  convolution.roles = {to_roles(arguments[lhs_dims], "lhs_dims", given_lhs.rank()),
                       to_roles(arguments[kernel_dims], "kernel_dims", given_kernel.rank())};
  static_cast<void>(to_roles(arguments[output_dims], "output_dims", given_lhs.rank()));
  const Layout left = given_lhs.select(convolution.roles[0]);
  const Layout right = given_kernel.select(convolution.roles[1]);
  const Integers lhs_extents = spatial_extents(left, "the lhs");
  const Integers kernel_extents = spatial_extents(right, "the kernel");
  const Integers stride = to_steps(arguments[strides], "strides", count, false);
  const Integers spread = to_steps(arguments[lhs_dilation], "lhs_dilation", count, true);
  const Integers reach = to_steps(arguments[kernel_dilation], "kernel_dilation", count, true);
  const Pairs pads = to_padding(arguments[padding], count);
  convolution.feature_groups =
      feature_groups(arguments[groups], leaves_of_modes(left, 1, 2).size(),
                     leaves_of_modes(right, 1, 2).size(), leaves_of_modes(right, 0, 1).size());
  for (std::size_t i = 0; i < count; ++i) {
    ConvolutionMode mode{lhs_extents[i], kernel_extents[i], 1, stride[i], pads[i][0], spread[i], reach[i]};
    mode.result = result_extent(mode, pads[i][1], i);
    convolution.modes.push_back(mode);
  }
  return {std::move(convolution), left.shape(), right.shape()};
}

/// [batch, out feature, spatial…]
Shape result_shape(const Geometry& geometry) {
  constexpr std::size_t first[] = {0};
  Integers extents;
  for (const ConvolutionMode& mode : geometry.convolution.modes) extents.push_back(mode.result);
  return Shape::concat(Shape::concat(geometry.lhs.select(first), geometry.kernel.select(first)),
                       Shape::flat(extents));
}

Resolution resolution_of(Convolution convolution, const Shape& shape) {
  return {Layout::canonical(shape),
          {.convolution = std::make_shared<const Convolution>(std::move(convolution))}};
}

/// One adjoint sum: (first operand, second operand, Resolution).
class ConvolutionGradient final : public Definition {
 public:
  ConvolutionGradient() : Definition(convolution_name) {}
  void check_arguments(std::span<const Argument>) const override {}
  [[nodiscard]] Resolution resolve(std::span<const Argument> arguments, const OperationPlan&) const override {
    return *arguments[2].get<Resolution>();
  }
};

class ConvGeneral final : public Definition {
 public:
  ConvGeneral() : Definition(convolution_name) {}

  void check_arguments(std::span<const Argument> arguments) const override {
    if (arguments.size() != convolution_arguments::count)
      raise<TypeError>(name(), "takes ", convolution_arguments::count, " arguments: got ", arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const bool is_operand = i == convolution_arguments::lhs || i == convolution_arguments::kernel;
      if (is_operand && arguments[i].tensor() == nullptr)
        raise<TypeError>(name(), "lhs and kernel must be Tensors: got ", arguments[i].type_name());
      if (!is_operand && arguments[i].tensor() != nullptr)
        raise<TypeError>(name(), "only lhs and kernel may be Tensors: argument ", i, " is one too");
    }
  }

  [[nodiscard]] Resolution resolve(std::span<const Argument> arguments, const OperationPlan&) const override {
    Geometry geometry = geometry_of(arguments);
    const Shape shape = result_shape(geometry);
    return resolution_of(std::move(geometry.convolution), shape);
  }

  [[nodiscard]] Gradients gradients(const GradientContext& context) const override {
    const Geometry geometry = geometry_of(context.arguments());
    return context.per_tensor([&](std::size_t position) {
      static const ConvolutionGradient adjoint;
      const bool is_lhs = position == 0;
      Convolution convolution = geometry.convolution;
      convolution.sum = is_lhs ? ConvolutionSum::lhs_gradient : ConvolutionSum::kernel_gradient;
      std::vector<std::size_t>& roles = convolution.roles[position];  // here stands the cotangent
      const std::vector<std::size_t> source = roles;
      std::iota(roles.begin(), roles.end(), std::size_t{0});
      const std::array<Argument, 3> arguments{
          is_lhs ? context.cotangent() : context.tensor(0), is_lhs ? context.tensor(1) : context.cotangent(),
          Argument::of(resolution_of(std::move(convolution), is_lhs ? geometry.lhs : geometry.kernel))};
      const Tensor sum = run_definition(adjoint, arguments, nullptr, context.carrier_class(), false);
      std::vector<std::size_t> inverse(source.size());
      for (std::size_t role = 0; role < source.size(); ++role) inverse[source[role]] = role;
      return context.fit(position, Tensor::trusted(sum.carrier(), 0, sum.layout().select(inverse)));
    });
  }
};

}  // namespace

DefinitionList convolution_definitions() {
  static const ConvGeneral conv_general;
  static const Definition* const list[] = {&conv_general};
  return list;
}

}  // namespace orlop::inline v0
