// The eight views: one layout rule each, and two gradient rules: scatter into zeros, sum over what was
// widened.
#include <array>
#include <limits>

#include "operation/definition.hpp"
#include "operation/gradient.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/tensor/views.hpp"

namespace orlop::inline v0 {

namespace {

/// The arguments behind the tensor.
using Parameters = std::span<const Argument>;

template <class T>
bool is(const Argument& argument) {
  return argument.get<T>() != nullptr;
}
bool is_integer(const Argument& argument) {
  return argument.scalar() != nullptr && argument.scalar()->is_integer();
}

/// The integer of a parameter; one beyond 64 bits is out of every range anyway.
Index integer(const Argument& argument) {
  return argument.scalar()->as_integer().value_or(std::numeric_limits<Index>::max());
}

/// A Tree, or the null pointer that stands for one left out.
bool is_optional_tree(const Argument& argument) { return is<Tree>(argument) || is<std::nullptr_t>(argument); }

bool is_key(const Argument& argument) {
  return is<SliceKeys>(argument) || is<std::vector<Index>>(argument) || is_integer(argument);
}

SliceKeys keys_of(const Argument& argument) {
  if (const auto* keys = argument.get<SliceKeys>()) return *keys;
  if (const auto* indices = argument.get<std::vector<Index>>()) return {indices->begin(), indices->end()};
  return {integer(argument)};
}

struct ParameterKind {
  std::string_view name;
  std::string_view kind;  // completes "… must be"
  bool (*accepts)(const Argument&);
};

class ViewDefinition final : public Definition {
 public:
  using LayoutRule = LayoutView (*)(const Layout& layout, Parameters parameters);
  struct Traits {
    std::vector<ParameterKind> parameters;
    std::size_t optional = 0;  // of the last parameters
    bool is_variadic = false;  // one kind, any number of times or as one list
    bool takes_compound = true;
    bool sums_gradient = false;       // elements are repeated
    bool requires_injective = false;  // the placement of the result
  };

  ViewDefinition(std::string_view name, LayoutRule rule, Traits traits)
      : Definition(name), rule_(rule), traits_(std::move(traits)) {}

  void check_arguments(std::span<const Argument> arguments) const override;
  [[nodiscard]] bool is_view() const noexcept override { return true; }
  [[nodiscard]] bool accepts_compound() const noexcept override { return traits_.takes_compound; }
  [[nodiscard]] Tensor view(std::span<const Argument> arguments) const override;
  void check_cotangent(const GradientContext& context) const override;
  [[nodiscard]] Gradients gradients(const GradientContext& context) const override;

 private:
  [[nodiscard]] Tensor plane_gradient(const Tensor& cotangent, const Layout& source,
                                      Parameters parameters) const;

  LayoutRule rule_;
  Traits traits_;
};

void ViewDefinition::check_arguments(std::span<const Argument> arguments) const {
  if (arguments.empty() || arguments[0].tensor() == nullptr)
    raise<TypeError>(name(), "tensor must be a Tensor: got ",
                     arguments.empty() ? "none" : arguments[0].type_name());
  const Parameters parameters = arguments.subspan(1);
  const std::size_t most = traits_.parameters.size();
  if (traits_.is_variadic && parameters.size() == 1 && is<std::vector<Index>>(parameters[0])) return;
  if (!traits_.is_variadic && (parameters.size() > most || parameters.size() + traits_.optional < most))
    raise<TypeError>(name(), "takes a Tensor and ", most,
                     most == 1 ? " parameter: got " : " parameters: got ", parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterKind& expected = traits_.parameters[std::min(i, most - 1)];
    if (!expected.accepts(parameters[i])) raise<TypeError>(name(), expected.name, " must be ", expected.kind);
  }
}

Tensor ViewDefinition::view(std::span<const Argument> arguments) const {
  const Tensor& tensor = *arguments[0].tensor();
  const Parameters parameters = arguments.subspan(1);
  LayoutView placed = rule_(tensor.layout(), parameters);
  if (traits_.requires_injective && !placed.layout.is_injective())
    raise<ValueError>(name(), "the composed placement must be injective: ", placed.layout,
                      " meets a slot twice, because the input repeats its elements");
  if (&tensor.dtype() == &tensor.carrier()->dtype())
    return Tensor::trusted(tensor.carrier(), tensor.offset() + placed.offset, std::move(placed.layout));

  if (placed.is_shifted && !tensor.is_single_subtensor())
    raise<NotImplementedError>(name(),
                               "a Multi-subtensor Tensor can only be sliced from normalized start 0 in every "
                               "mode; slice its planes one by one");
  TensorRepresentation representation = tensor.representation();
  Subtensor& plane = representation.subtensors.front();
  plane.offset += placed.offset;
  plane.layout = std::move(placed.layout);
  if (!representation.adjacent_layouts.empty()) {
    Layout& adjacent = representation.adjacent_layouts.front();
    adjacent = rule_(adjacent, parameters).layout;
  }
  return Tensor::from_representation(std::move(representation));
}

void ViewDefinition::check_cotangent(const GradientContext& context) const {
  orlop::check_cotangent(view(context.arguments()), context.cotangent());
  const Layout& source = context.tensor(0).layout();
  if (!source.is_broadcast_aliasing())
    raise<ValueError>(name(), "elements of the source share slots in a way no gradient can follow: ", source,
                      "; only modes of stride 0 may repeat slots");
}

Tensor ViewDefinition::plane_gradient(const Tensor& cotangent, const Layout& source,
                                      Parameters parameters) const {
  const Layout layout = gradient_layout(source);
  if (traits_.sums_gradient) {
    const Tensor sum = sum_to_shape(cotangent, layout.shape());
    return sum == cotangent || !(sum.layout() == layout) ? copy_to_layout(sum, layout) : sum;
  }
  // The view of the gradient is the cotangent; what the view leaves out is zero.
  const LayoutView target = rule_(layout, parameters);
  return Tensor::trusted(scatter_into_zeros(cotangent, target.layout, target.offset, layout.cosize()), 0,
                         layout);
}

Gradients ViewDefinition::gradients(const GradientContext& context) const {
  const Tensor& source = context.tensor(0);
  const Tensor& cotangent = context.cotangent();
  const Parameters parameters = context.arguments().subspan(1);
  // A carrier that only stores fails as it does for any computation (P70).
  if (cotangent.carrier()->kernel_table() == nullptr)
    static_cast<void>(cotangent.carrier()->dispatch_op("add"));
  if (&cotangent.dtype() == &cotangent.carrier()->dtype())
    return {plane_gradient(cotangent, source.layout(), parameters)};

  TensorRepresentation representation = cotangent.representation();
  for (Subtensor& plane : representation.subtensors) {
    const Tensor part = Tensor::trusted(plane.carrier, plane.offset, plane.layout);
    const bool is_first = &plane == &representation.subtensors.front();
    const Tensor copy =
        is_first ? plane_gradient(part, source.layout(), parameters) : copy_to_layout(part, plane.layout);
    plane = {plane.dtype, copy.carrier(), 0, copy.layout()};
  }
  if (!representation.adjacent_layouts.empty())
    representation.adjacent_layouts.front() = source.representation().adjacent_layouts.front();
  return {Tensor::from_representation(std::move(representation))};
}

}  // namespace

DefinitionList view_definitions() {
  static const ViewDefinition as_strided(
      "as_strided",
      [](const Layout& layout, Parameters p) -> LayoutView {
        return {as_strided_layout(layout, *p[0].get<Shape>(), *p[1].get<Stride>())};
      },
      {.parameters = {{"shape", "a Shape", is<Shape>}, {"stride", "a Stride", is<Stride>}},
       .requires_injective = true});
  static const ViewDefinition broadcast_to(
      "broadcast_to",
      [](const Layout& layout, Parameters p) -> LayoutView {
        return {layout.broadcast_to(*p[0].get<Shape>())};
      },
      {.parameters = {{"target", "a Shape", is<Shape>}}, .sums_gradient = true});
  static const ViewDefinition permute(
      "permute",
      [](const Layout& layout, Parameters p) -> LayoutView {
        if (p.size() == 1)
          if (const auto* order = p[0].get<std::vector<Index>>()) return {layout.permute(*order)};
        SmallVector<Index, 8> order;
        for (const Argument& mode : p) order.push_back(integer(mode));
        return {layout.permute(order)};
      },
      {.parameters = {{"order", "integers", is_integer}}, .is_variadic = true});
  static const ViewDefinition rearrange(
      "rearrange",
      [](const Layout& layout, Parameters p) -> LayoutView {
        const Tree& output = *p[0].get<Tree>();
        const Tree* selection = p.size() > 1 ? p[1].get<Tree>() : nullptr;
        return {selection == nullptr ? layout.rearrange(output) : layout.rearrange(output, *selection)};
      },
      {.parameters = {{"output", "a Tree", is<Tree>}, {"selection", "a Tree", is_optional_tree}},
       .optional = 1,
       .takes_compound = false});
  static const ViewDefinition reshape("reshape",
                                      [](const Layout& layout, Parameters p) -> LayoutView {
                                        return {reshape_layout(layout, *p[0].get<Shape>())};
                                      },
                                      {.parameters = {{"shape", "a Shape", is<Shape>}}});
  static const ViewDefinition squeeze("squeeze",
                                      [](const Layout& layout, Parameters p) -> LayoutView {
                                        return {squeeze_layout(layout, integer(p[0]))};
                                      },
                                      {.parameters = {{"dim", "an integer", is_integer}}});
  static const ViewDefinition unsqueeze("unsqueeze",
                                        [](const Layout& layout, Parameters p) -> LayoutView {
                                          return {unsqueeze_layout(layout, integer(p[0]))};
                                        },
                                        {.parameters = {{"dim", "an integer", is_integer}}});
  static const ViewDefinition view(
      "view", [](const Layout& layout, Parameters p) { return slice_layout(layout, keys_of(p[0])); },
      {.parameters = {{"key", "one integer or slice per mode", is_key}}});
  static const std::array<const Definition*, 8> all{&as_strided, &broadcast_to, &permute,   &rearrange,
                                                    &reshape,    &squeeze,      &unsqueeze, &view};
  return all;
}

}  // namespace orlop::inline v0
